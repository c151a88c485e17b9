# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans beyond a move of everything unchanged: room made on other hosts, policies, limits over
several runs."""

from __future__ import annotations

import json
import re
import time

import pytest
from test_fleet import LOCAL, Domain, changed, eventually, said

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: The copy of a disk of 40 MiB takes some 3 s.
SLOW = {"bandwidth_mib": 14}


def policy(**keys):
    """Return the metadata of a domain with this policy."""
    return "".join(f"<drover:{key}>{value}</drover:{key}>" for key, value in keys.items())


def crowd(fleet, **of_mid):
    """big is on kvm2 and fits on no other host, unless mid moves from kvm3 to kvm1."""
    fleet.make("kvm1", Domain("a", memory_mb=340))
    fleet.make("kvm3", Domain("mid", memory_mb=300, **of_mid))
    fleet.make("kvm2", Domain("big", memory_mb=480), Domain("small", state="shutoff"))
    fleet.playbook("discover")


def moved(fleet):
    return dict(
        fleet.query(
            "SELECT instance_name, count(*) FROM migrations WHERE status = 'completed' GROUP BY"
            " instance_name"
        )
    )


def test_room_is_made_on_another_host(fleet):
    crowd(fleet)
    before = fleet.where()
    done = fleet.drain("kvm2", check=False)
    assert done.returncode == 2
    assert "big: fits on no other host" in said(done)
    assert "Way out: allow 1 more move of others (mid to kvm1)" in said(done)
    assert fleet.where() == before and not fleet.service("kvm2")["disabled"]

    done = fleet.drain("kvm2", "--check", drover_extra_moves=4)
    assert "2 instances to move and 1 elsewhere to make room in" in said(done)
    assert re.search(r"1 mid running .* kvm3 -> kvm1 live, to make room", said(done)), said(done)
    assert fleet.where() == before and changed(done) == 1

    done = fleet.drain("kvm2", drover_extra_moves=4)
    where = fleet.settled()
    assert (where["mid"], where["big"]) == (("kvm1", "running"), ("kvm3", "running"))
    assert where["small"][0] != "kvm2" and where["small"][1] == "shutoff"
    assert moved(fleet) == {"mid": 1, "big": 1, "small": 1}
    assert fleet.service("kvm2")["maintenance"]
    assert fleet.query("SELECT name FROM leases") == []
    assert changed(fleet.drain("kvm2", drover_extra_moves=4)) == 0


def test_killed_while_it_makes_room(fleet):
    crowd(fleet, folder=LOCAL, size="40M", written_mb=8)
    run = fleet.start(
        "drain",
        "-e",
        json.dumps({"drover_host": "kvm2", "drover_extra_moves": 4, "drover_migration": SLOW}),
    )
    try:
        run.until(r"^mid: kvm3 -> kvm1, live, started")
        eventually(
            lambda: "Operation:" in fleet.lab.host("kvm3").run("virsh domjobinfo mid").stdout
        )
    finally:
        run.kill()
    assert dict(fleet.query("SELECT instance_name, status FROM migrations")) == {"mid": "accepted"}
    done = fleet.drain("kvm2", check=False, drover_extra_moves=4)
    assert done.returncode == 0, f"{run.said}\n====\n{done.stdout}{done.stderr}"
    assert "kvm3: an earlier run left 1 migration open, looking after: mid" in done.stdout
    where = fleet.settled()
    assert (where["mid"], where["big"]) == (("kvm1", "running"), ("kvm3", "running"))
    assert moved(fleet) == {"mid": 1, "big": 1, "small": 1}
    assert fleet.service("kvm2")["maintenance"] and fleet.query("SELECT name FROM leases") == []


def test_policies_and_priority(fleet):
    fleet.make(
        "kvm1",
        Domain("pinned", metadata=policy(move="never")),
        Domain("cold", metadata=policy(move="cold"), boots=True),
        Domain("low", metadata=policy(move="live", priority=-5)),
        Domain("usual", memory_mb=96),
        Domain("high", metadata=policy(priority=5, migration='{"bandwidth_mib": 200}')),
        Domain("halts", metadata=policy(on_drain="shutdown"), boots=True),
        Domain("odd", metadata=policy(move="live", on_drain="shutdown")),
    )
    done = fleet.playbook("discover")
    assert "odd: move live says that it must not be stopped, on_drain shutdown stops it" in said(
        done
    )
    before = fleet.where()
    done = fleet.drain("kvm1", check=False)
    assert done.returncode == 2 and fleet.where() == before
    assert "pinned: its migration policy is 'never'" in said(done)
    assert "odd: its policy cannot be read" in said(done)
    assert re.search(r"\d cold running .* cold, shut down and started again", said(done)), said(
        done
    )
    assert "To be shut down by their policy: halts." in said(done)

    done = fleet.drain("kvm1", drover_unmovable="skip", drover_max_migrations=1)
    where = fleet.settled()
    assert {name for name, (host, dummy) in where.items() if host == "kvm1"} == {
        "pinned",
        "odd",
        "halts",
    }
    assert {name: state for name, (dummy, state) in where.items()} == {
        "pinned": "running",
        "odd": "running",
        "halts": "shutoff",
        "cold": "running",
        "low": "running",
        "usual": "running",
        "high": "running",
    }
    begun = re.findall(r"^(\w+): kvm1 -> kvm\d, \w+, started", done.stdout, re.M)
    assert (
        begun[0] == "high"
        and begun[-1] == "low"
        and sorted(begun) == ["cold", "high", "low", "usual"]
    )
    assert re.search(r"^cold: kvm1 -> kvm\d, cold, started, shut down first", done.stdout, re.M)
    # Shut down in order, with the same disks.
    assert fleet.run("kvm1", "virsh domstate --reason halts").split() == [
        "shut",
        "off",
        "(shutdown)",
    ]
    assert changed(fleet.drain("kvm1", drover_unmovable="skip", drover_max_migrations=1)) == 0


def test_killed_between_shutdown_and_start(fleet):
    fleet.make("kvm1", Domain("cold", metadata=policy(move="cold"), boots=True))
    fleet.playbook("discover")
    run = fleet.start("drain", "-e", json.dumps({"drover_host": "kvm1"}))
    try:
        run.until(r"^cold: kvm1 -> kvm\d, cold, started")
        eventually(lambda: "shutoff" in {state for dummy, state in fleet.where().values()})
    finally:
        run.kill()
    assert fleet.query("SELECT status FROM migrations") == [("accepted",)]
    done = fleet.drain("kvm1", check=False)
    assert done.returncode == 0, f"{run.said}\n====\n{done.stdout}{done.stderr}"
    where = fleet.settled()
    assert where["cold"][0] != "kvm1" and where["cold"][1] == "running"
    assert moved(fleet) == {"cold": 1} and fleet.service("kvm1")["maintenance"]


def test_a_cap_holds_for_two_drains_at_once(fleet):
    """Both can go only to kvm2, which takes one at a time."""
    for host, names in (("kvm1", "abc"), ("kvm3", "xyz")):
        fleet.make(host, *(Domain(name, folder=LOCAL, size="40M") for name in names))
    fleet.playbook("discover")
    for host in ("kvm1", "kvm3"):
        fleet.playbook(
            "host_state.yml",
            "-e",
            json.dumps(
                {"service_host": host, "state": "disabled", "reason": "both are to be emptied"}
            ),
        )
    cap = {
        "drover_max_migrations_per_destination": 1,
        "drover_max_migrations": 3,
        "drover_migration": SLOW,
    }
    runs = [
        fleet.start("drain", "-e", json.dumps({"drover_host": host, **cap}))
        for host in ("kvm1", "kvm3")
    ]
    most = 0
    try:
        while any(run.process.poll() is None for run in runs):
            ((count,),) = fleet.query(
                "SELECT count(*) FROM migrations WHERE status IN ('accepted', 'running')"
            )
            most = max(most, count)
            time.sleep(0.1)
    finally:
        for run in runs:
            if run.process.poll() is None:
                run.kill()
    spoken = [run.finish() for run in runs]
    assert [run.process.returncode for run in runs] == [0, 0], "\n====\n".join(spoken)
    assert most == 1
    assert any(
        re.search(
            r"\w waits: 1 migration to kvm2 is open, 1 at a time are allowed: \w from kvm\d to"
            r" kvm2",
            text,
        )
        for text in spoken
    ), spoken
    assert set(fleet.settled().values()) == {("kvm2", "running")}
    assert moved(fleet) == dict.fromkeys("abcxyz", 1)
    assert fleet.service("kvm1")["maintenance"] and fleet.service("kvm3")["maintenance"]
