# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves and resizes of pinned guests that are killed in the middle: no CPU belongs to two guests at
any time, and the next run ends them.

virsh shows the state of the hosts; the store is read only at the end.
"""

from __future__ import annotations

import json
import re
import shlex
import time

import pytest
import yaml
from test_fleet import eventually
from test_pinned_guests import OFF, SETS, guest, variables
from watching import Watch

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

#: Seconds from the record of the migration to the kill.
MOMENTS = (0.0, 0.6, 1.2, 1.8, 2.6, 3.5)
FORCE = {"drover_instance_timeout": 1, "drover_instance_force": True}


@pytest.fixture
def pinned(fleet):
    """Make two pinned guests on kvm1, which take its two CPUs, and one on kvm2, which has one CPU
    left."""
    fleet.playbook("discover", *variables(SETS))
    fleet.place(
        [{**guest(name), "requested_destination": {"host": host}} for name, host in AT.items()],
        **SETS,
    )
    with Watch(fleet) as watch:
        yield fleet
        assert watch.doubled("uuid") == []


AT = {"small": "kvm1", "other": "kvm1", "third": "kvm2"}


#: Run on a host: [name, True if it runs, True for its next start, {CPUs of its threads}] of each
#: domain, as far as possible at one time: open operations continue without their run.
LOOK = """
import json, libvirt
import xml.etree.ElementTree as ET
libvirt.registerErrorHandler(lambda context, error: None, None)
found = []
for domain in libvirt.openReadOnly("qemu:///system").listAllDomains():
    for flag in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
        try:
            runs, kept = domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING, domain.isPersistent()
            if (kept if flag else runs):
                pins = ET.fromstring(domain.XMLDesc(flag)).find("cputune")
                found.append([domain.name(), bool(runs), bool(flag), sorted({pin.get("cpuset") for pin in pins})])
        except libvirt.libvirtError as problem:
            if problem.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
print(json.dumps(found))
"""


def check(fleet, when):
    """Check that every guest is on a host, that none runs twice, and that no two guests of a host
    have one CPU, neither now nor at their next start."""

    def all_seen():
        seen = set()
        for host, said in fleet.everywhere(f"/usr/bin/python3 -c {shlex.quote(LOOK)}").items():
            users = {}
            for name, _runs, later, cpus in json.loads(said):
                seen.add(name)
                for cpu in cpus:
                    assert re.fullmatch(r"\d", cpu), f"{when}: {name} of {host} floats over {cpu}"
                    users.setdefault((later, cpu), set()).add(name)
            assert all(len(each) == 1 for each in users.values()), f"{when}: {host} {users}"
        return seen == set(AT)

    eventually(all_seen)


def strike(fleet, moment, playbook, given):
    """Begin, kill after some time, and check the hosts; then run it again."""
    before = (
        fleet.query("SELECT count(*) FROM migrations"),
        fleet.query("SELECT max(updated_at) FROM migrations"),
    )
    run = fleet.start(playbook, *variables({**OFF, **SETS, **given}))
    try:
        eventually(
            lambda: (
                (
                    fleet.query("SELECT count(*) FROM migrations"),
                    fleet.query("SELECT max(updated_at) FROM migrations"),
                )
                != before
                or run.process.poll() is not None
                or "small"
                in {
                    name
                    for name, state in fleet.query("SELECT name, domains.state FROM domains")
                    if state == "shutoff"
                }
            ),
        )
        time.sleep(moment)
    finally:
        ended = run.process.poll()
        run.kill()
    when = (
        f"{playbook} {json.dumps(given)} killed after {moment}"
        f" s{'' if ended is None else ', when it had ended'}"
    )
    print(when, fleet.look())
    check(fleet, when)
    fleet.playbook("discover", *variables(SETS))
    done = fleet.playbook("audit", *variables(SETS), check=False)
    assert done.returncode == 0, f"{when}: {done.stdout}"
    done = fleet.playbook(playbook, *variables({**OFF, **SETS, **given}), check=False)
    assert done.returncode == 0 or (ended == 0 and "has no resize" in done.stdout), (
        f"{when}: {done.stdout}{done.stderr}"
    )
    check(fleet, f"{when}, and run again")


def sound(fleet):
    fleet.playbook("discover", *variables(SETS))
    audit = fleet.playbook("audit", *variables({**SETS, "drover_audit_strict": True}))
    assert "checked: consistent." in audit.stdout, audit.stdout
    where = fleet.where()
    assert {name: state for name, (_host, state) in where.items()} == dict.fromkeys(AT, "running")
    rows = fleet.query(
        "SELECT i.name, n.host FROM numa_allocations a JOIN compute_nodes n ON n.id ="
        " a.compute_node_id JOIN consumers c ON c.id = a.consumer_id LEFT JOIN instances i ON"
        " i.uuid = c.uuid ORDER BY 1"
    )
    assert rows == sorted((name, host) for name, (host, _state) in where.items())
    assert set(fleet.booked()) == set(AT)


@pytest.mark.parametrize("ending", ["confirm", "revert"])
def test_resizes(pinned, ending):
    for number, moment in enumerate(MOMENTS, 1):
        strike(pinned, moment, "instance_resize", {"drover_memory_mb": 64 + 8 * number})
        strike(pinned, moment, "instance_resize", {"drover_resize": ending})
        sound(pinned)


@pytest.mark.parametrize("cold", [False, True], ids=["live", "cold"])
def test_moves(pinned, cold):
    for moment in MOMENTS:
        here = pinned.where()["small"][0]
        # The move needs a free CPU: third has one of the CPUs of kvm2, other the other one of kvm1.
        destination = {"kvm1": "kvm2", "kvm2": "kvm3", "kvm3": "kvm1"}[here]
        strike(
            pinned,
            moment,
            "instance_migrate",
            {"drover_destination": destination, "drover_migrate_cold": cold},
        )
        assert pinned.where()["small"] == (destination, "running")
        sound(pinned)


def test_changes_of_definitions(fleet):
    file = fleet.folder / "fleet.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "instances": [
                    {**guest(name), "requested_destination": {"host": host}}
                    for name, host in AT.items()
                ]
            }
        )
    )
    fleet.playbook("discover", *variables(SETS))
    fleet.place(file, **SETS)
    for number, moment in enumerate(MOMENTS, 1):
        data = yaml.safe_load(file.read_text())
        data["instances"][0]["memory_mb"] = 64 + 8 * number
        data["instances"][0].pop("requested_destination", None)
        data["instances"][0]["labels"] = {"round": f"r{number}"}
        file.write_text(yaml.safe_dump(data))
        strike(
            fleet,
            moment,
            "place",
            {"drover_definitions": str(file), "drover_apply_changes": True, **FORCE},
        )
        fleet.playbook("instance_resize", *variables({**OFF, "drover_resize": "confirm"}))
        sound(fleet)
