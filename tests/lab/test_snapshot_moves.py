# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves of real guests with snapshots: live, off, with a drain, there and back, and by runs that
are killed."""

from __future__ import annotations

import json
import re
import time

import pytest
from cells.faults import RESTARTED
from test_evacuate import OFF, SHARED_POOL, die, evacuate, living
from test_fleet import LOCAL, SHARED, said
from test_migration_options import Busy
from test_snapshot import active, has, shown, snapshot, write
from test_storage_safety import act, checked, define, disk, images

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: 4 s; then the guest is paused for its move.
SLOW = {"bandwidth_mib": 4, "timeout_per_gib": 2, "on_timeout": "pause"}
CONSOLE = "<graphics type='vnc' port='-1' autoport='yes' passwd='secret'/>"


def guest(fleet, name="web", folder=SHARED, start=True, more=""):
    """Make a guest with two disks; return the path of the first one."""
    paths = [f"{folder}/{name}.qcow2", f"{folder}/{name}-data.raw"]
    images(
        fleet,
        "kvm1",
        f"qemu-img create -q -f qcow2 {paths[0]} 8M",
        f"qemu-img create -q -f raw {paths[1]} 8M",
    )
    define(fleet, "kvm1", name, disk(paths[0]) + disk(paths[1], "vdb", "raw") + more, start=start)
    return paths


def discover(fleet):
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))


def migrate(fleet, to, name="web", run=None, **variables):
    words = (
        "instance_migrate",
        "-e",
        json.dumps(
            {"drover_instances": [name], "drover_destination": to, **SHARED_POOL, **variables}
        ),
    )
    return (run or fleet.playbook)(*words)


def recorded(fleet, host, name="web"):
    """Return libvirt's records of the snapshots: {name: XML}, and the current one."""
    texts_by_name = {
        each: fleet.run(host, f"virsh snapshot-dumpxml --security-info {name} {each}")
        for each in shown(fleet, name, host)
    }
    return texts_by_name, (
        fleet.run(host, f"virsh snapshot-current --name {name}").strip() if texts_by_name else None
    )


def carries(fleet, host, name="web"):
    return "drover-snapshots" in fleet.run(
        host, f"virsh dumpxml {name}; virsh dumpxml --inactive {name}"
    )


def test_there_and_back_and_what_snapshots_are_for(fleet):
    """The guest continues to write, and its records are identical; at each host a snapshot is made,
    merged and reverted to."""
    base, data = guest(fleet, more=CONSOLE)
    discover(fleet)
    write(fleet, 1, 0)
    snapshot(fleet, "present", "one", description="before the <upgrade> & more")
    write(fleet, 2, 1)
    snapshot(fleet, "present", "two")
    write(fleet, 3, 2)
    before = recorded(fleet, "kvm1")
    assert (
        set(before[0]) == {"one", "two"}
        and before[1] == "two"
        and "passwd='secret'" in before[0]["one"]
    )
    files = fleet.files(SHARED)
    assert checked(fleet, "web") == ""
    migrate(fleet, "kvm2")
    assert fleet.where() == {"web": ("kvm2", "running")}
    assert (
        recorded(fleet, "kvm2") == before
        and not carries(fleet, "kvm2")
        and fleet.files(SHARED) == files
    )
    text = said(fleet.playbook("instance_snapshot", "-e", "drover_instance=web"))
    assert re.search(r"web +one +external .* no +before the <upgrade> & more", text) and re.search(
        r"web +two +external .* yes", text
    )

    # The older one is merged at the destination, while the guest runs.
    write(fleet, 4, 3, host="kvm2")
    snapshot(fleet, "absent", "one")
    assert shown(fleet, host="kvm2") == ["two"] and has(fleet, base, host="kvm2", p0=1, p1=2, p2=0)
    migrate(fleet, "kvm1")
    assert (
        fleet.where() == {"web": ("kvm1", "running")}
        and shown(fleet) == ["two"]
        and not carries(fleet, "kvm1")
    )
    snapshot(fleet, "present", "three")
    write(fleet, 5, 4)

    # Off: the guest moves, is reverted there, and moves back.
    act(fleet, "stop", "web")
    before = recorded(fleet, "kvm1")
    migrate(fleet, "kvm2")
    assert (
        fleet.where() == {"web": ("kvm2", "shutoff")}
        and recorded(fleet, "kvm2") == before
        and not carries(fleet, "kvm2")
    )
    old = active(fleet, host="kvm2")
    snapshot(fleet, "reverted", "three")
    assert has(
        fleet, active(fleet, host="kvm2"), host="kvm2", p0=1, p1=2, p2=3, p3=4, p4=0
    ) and has(fleet, old, host="kvm2", p4=5)
    migrate(fleet, "kvm1")
    fleet.run(
        "kvm1", f"rm {old} $(ls {SHARED}/*-vdb-three-* | grep -v {active(fleet, target='vdb')})"
    )
    snapshot(fleet, "absent", "three")
    snapshot(fleet, "absent", "two")
    assert active(fleet) == base and active(fleet, target="vdb") == data and shown(fleet) == []
    assert has(fleet, base, p0=1, p1=2, p2=3, p3=4, p4=0)
    fleet.run("kvm1", "virsh start web && virsh destroy web")


def test_a_drain_takes_them_along_and_names_those_that_stay(fleet):
    for name, start in (("one", True), ("two", True), ("off", False)):
        guest(fleet, name, start=start)
    guest(fleet, "local", folder=LOCAL)
    images(fleet, "kvm1", f"qemu-img create -q -f qcow2 {SHARED}/inside.qcow2 8M")
    define(fleet, "kvm1", "inside", disk(f"{SHARED}/inside.qcow2"))
    fleet.run("kvm1", "virsh snapshot-create-as inside within")
    discover(fleet)
    for name in ("one", "two", "off", "local"):
        snapshot(fleet, "present", "first", instance=name)
    snapshot(fleet, "present", "second", instance="two")
    discover(fleet)
    text = fleet.refused("drain", "-e", json.dumps({"drover_host": "kvm1", **SHARED_POOL}))
    assert (
        "inside (shutoff): it has snapshots in its image or with memory (within), with which"
        " libvirt moves nothing" in text
    )
    assert (
        "local (running): it has snapshots, and its disks are not known to be on shared storage"
        in text
    )
    assert "drover.compute.instance_snapshot -e drover_instance=local" in text
    text = checked(fleet, "local")
    assert (
        "a copy of it would not have its snapshot first: move the disk to shared storage, or"
        " delete it" in text
    )
    assert {host for host, dummy in fleet.where().values()} == {"kvm1"}
    before = {name: recorded(fleet, "kvm1", name) for name in ("one", "two", "off")}
    fleet.playbook(
        "drain",
        "-e",
        json.dumps({"drover_host": "kvm1", "drover_unmovable": "skip", **SHARED_POOL}),
        check=False,
    )
    where = fleet.where()
    assert {name for name, (host, dummy) in where.items() if host == "kvm1"} == {"local", "inside"}
    assert where["one"][1] == where["two"][1] == "running" and where["off"][1] == "shutoff"
    for name, records in before.items():
        assert recorded(fleet, where[name][0], name) == records and not carries(
            fleet, where[name][0], name
        )


@pytest.mark.parametrize("start", [True, False])
def test_an_evacuation_starts_the_newest_images(fleet, start):
    """No write of the guest and no image is lost; libvirt's records of the snapshots are lost. Then
    the guest is deleted with its newest images."""
    guest(fleet)
    discover(fleet)
    for number, name in enumerate(("one", "two"), 1):
        write(fleet, number, number)
        snapshot(fleet, "present", name)
    write(fleet, 3, 3)
    newest, files = {active(fleet), active(fleet, target="vdb")}, fleet.files(SHARED)
    if not start:
        fleet.run("kvm1", "virsh destroy web")
    discover(fleet)
    die(fleet)
    done = evacuate(fleet, **OFF)
    ((host, state),) = living(fleet).values()
    assert state == ("running" if start else "shutoff") and fleet.files(SHARED, host) == files, (
        said(done)
    )
    assert {active(fleet, host=host), active(fleet, target="vdb", host=host)} == newest and shown(
        fleet, host=host
    ) == []
    assert has(fleet, active(fleet, host=host), host=host, p1=1, p2=2, p3=3)
    if start:
        write(fleet, 4, 4, host=host)

    fleet.lab.command("start", "kvm1")
    discover(fleet)
    assert fleet.settled() == {"web": (host, state)}
    done = fleet.delete("web")
    remaining = {f"{SHARED}/{name}" for name in fleet.files(SHARED)}
    assert fleet.where() == {} and remaining == {f"{SHARED}/{name}" for name in files} - newest, (
        said(done)
    )
    assert [path for path in remaining if path not in said(done)] == [], said(done)


def slow(fleet):
    """Make a guest with two snapshots. Its live move does not end before its time limit: it keeps
    writing to its memory."""
    fleet.make("kvm1", Busy("web"))
    discover(fleet)
    snapshot(fleet, "present", "one")
    snapshot(fleet, "present", "two")
    return recorded(fleet, "kvm1")


def begun(fleet, before):
    """Wait until the move runs, with the records only in the metadata of the domain."""
    for _dummy in range(300):
        if (
            "migration" in fleet.run("kvm1", "virsh domjobinfo web 2> /dev/null | tr A-Z a-z; true")
            and shown(fleet) == []
        ):
            break
        time.sleep(0.1)
    assert shown(fleet) == [] and carries(fleet, "kvm1"), before


def settled(fleet, before):
    """Check that exactly one host has it, with exactly its records."""
    host, word = fleet.settled()["web"]
    assert word == "running" and recorded(fleet, host) == before and not carries(fleet, host)
    return host


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_run_that_was_cut_off_before_its_guest_moved(fleet, taken):
    """The host was lost with the run, so the begin of the move is not known. libvirt lacks the
    given number of the two records."""
    before = slow(fleet)
    fleet.run("kvm1", f"python3 - <<'END'\n{TAKE.format(number=taken)}\nEND")
    assert len(shown(fleet)) == 2 - taken and carries(fleet, "kvm1")
    text = said(fleet.playbook("instance_snapshot", "-e", "drover_instance=web"))
    assert re.search(r"web +one +external", text) and re.search(r"web +two +external", text)
    migrate(fleet, "kvm2")
    assert settled(fleet, before) == "kvm2"


#: The first steps of a move: it writes the records into the metadata, and removes some or all of
#: libvirt's records.
TAKE = """
import libvirt
from xml.sax.saxutils import escape
domain = libvirt.open("qemu:///system").lookupByName("web")
found = domain.listAllSnapshots(0)
current = domain.snapshotCurrent(0).getName()
marks = {{current: " current='yes'"}}
texts = ["<snapshot" + marks.get(each.getName(), "") + ">" + escape(each.getXMLDesc(0)) + "</snapshot>" for each in found]
document = "<snapshots>" + "".join(texts) + "</snapshots>"
domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, document, "drover-snapshots", "https://drover.compute/snapshots/1", 3)
for name in ("two", "one")[:{number}]:
    domain.snapshotLookupByName(name, 0).delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)
"""


@pytest.mark.parametrize("aborted", [False, True])
def test_its_worker_is_killed_in_the_middle(fleet, aborted):
    """The migration continues without it, or ends with the guest on its source; the next run
    restores the records on the host of the guest."""
    before = slow(fleet)
    run = migrate(fleet, "kvm2", run=fleet.start, drover_migration=SLOW)
    begun(fleet, before)
    run.kill()
    fleet.run("kvm1", KILL_WORKER)
    assert shown(fleet) == [] and carries(fleet, "kvm1")
    if aborted:
        fleet.run("kvm1", "virsh domjobabort web")
    migrate(fleet, "kvm2")
    assert settled(fleet, before) == "kvm2"
    assert (
        fleet.query(
            "SELECT status FROM migrations WHERE status NOT IN ('completed', 'failed', 'cancelled')"
        )
        == []
    )


#: Kill the process on a hypervisor that carries the move out.
KILL_WORKER = """
for file in /var/lib/drover/migrations/*.json; do
    kill -9 $(python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['pid'])" $file)
done
"""


def test_libvirt_is_killed_in_the_middle(fleet):
    """libvirt keeps its state of the guest on disk."""
    before = slow(fleet)
    run = migrate(fleet, "kvm2", run=fleet.start, drover_migration=SLOW)
    begun(fleet, before)
    run.kill()
    fleet.run("kvm1", "kill -9 $(cat /run/libvirtd.pid)")
    fleet.run("kvm1", RESTARTED)
    migrate(fleet, "kvm2")
    assert settled(fleet, before) == "kvm2"
