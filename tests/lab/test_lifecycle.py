# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of instances on real hypervisors: power, resize, migration, deletion; the tests check
them with virsh from outside."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from test_fleet import IMAGE, LOCAL, SHARED, Domain, changed, eventually

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FLAVORS = [
    {"name": "small", "vcpus": 1, "memory_mb": 64, "disk_gb": 1},
    {"name": "big", "vcpus": 2, "memory_mb": 128, "disk_gb": 2},
]
BIG = {"VCPU": 2, "MEMORY_MB": 128, "DISK_GB": 2}
POLICY = "<drover:move>{}</drover:move>"
SMALL = {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}


def act(fleet, what, names, *words, check=True, **variables):
    """Run one of the playbooks on instances."""
    key = "drover_instances" if isinstance(names, list) else "drover_instance"
    return fleet.playbook(
        f"instance_{what}",
        "-e",
        json.dumps({key: names, "drover_instance_timeout": 30, **variables}),
        *words,
        check=check,
    )


def refused(fleet, what, names, **variables):
    """Run a playbook that must fail; return its output in one line."""
    key = "drover_instances" if isinstance(names, list) else "drover_instance"
    return fleet.refused(
        f"instance_{what}",
        "-e",
        json.dumps({key: names, "drover_instance_timeout": 5, **variables}),
    )


def ask(fleet, host, module, arguments):
    """Run one module on a host, as a person does."""
    words = ["ansible", host, "-m", f"drover.compute.{module}", "-a", json.dumps(arguments)]
    subprocess.run(
        words,
        env=fleet.lab.environment(fleet.store_url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )


def flavors(fleet):
    for flavor in FLAVORS:
        fleet.playbook("flavor.yml", "-e", json.dumps({"flavor": flavor}))


def size(fleet, host, name):
    """Return (vCPUs, MiB) as virsh has them."""
    fields = dict(
        line.split(":", 1)
        for line in fleet.run(host, f"virsh dominfo {name}").splitlines()
        if ":" in line
    )
    return int(fields["CPU(s)"]), int(fields["Max memory"].split()[0]) // 1024


def gib(fleet, host, path):
    return (
        json.loads(fleet.run(host, f"qemu-img info -U --output=json {path}"))["virtual-size"]
        // 2**30
    )


def booked(fleet, name):
    """Return the allocations of an instance, and of its migration."""
    return {("it" if key == name else "migration"): value for key, value in fleet.booked().items()}


def leases(fleet):
    return fleet.query("SELECT name FROM leases")


def test_stop_start_reboot(fleet):
    fleet.make("kvm1", Domain("one", boots=True), Domain("two", boots=True), Domain("deaf"))
    fleet.make("kvm2", Domain("three", boots=True))
    fleet.playbook("discover")
    bookings = fleet.booked()
    names = ["one", "two", "three"]

    assert changed(act(fleet, "stop", names, "--check")) == 1
    assert {state for host, state in fleet.where().values()} == {"running"}
    done = act(fleet, "stop", names)
    assert changed(done) == 1, "one task for all"
    assert fleet.run("kvm1", "virsh domstate --reason one").split() == ["shut", "off", "(shutdown)"]
    assert {name: fleet.where()[name] for name in names} == {
        "one": ("kvm1", "shutoff"),
        "two": ("kvm1", "shutoff"),
        "three": ("kvm2", "shutoff"),
    }
    assert fleet.booked() == bookings, "they keep their room"
    assert dict(fleet.query("SELECT name, state FROM domains"))["one"] == "shutoff"
    assert changed(act(fleet, "stop", names)) == 0

    # A guest that ignores the button: the output says so, and the power is cut on request.
    said = refused(fleet, "stop", ["deaf", "three"])
    assert "deaf on kvm1 did not shut down within 5 s" in said
    assert fleet.where()["deaf"] == ("kvm1", "running")
    act(fleet, "stop", "deaf", drover_instance_timeout=1, drover_instance_force=True)
    assert fleet.run("kvm1", "virsh domstate --reason deaf").split() == [
        "shut",
        "off",
        "(destroyed)",
    ]

    act(fleet, "start", [*names, "deaf"])
    assert {state for host, state in fleet.settled().values()} == {"running"}
    assert changed(act(fleet, "start", [*names, "deaf"])) == 0

    # Soft: the same process continues; hard: another one. A guest that its firmware resets at that
    # moment goes off and is started.
    time.sleep(5)
    before = fleet.run("kvm1", "cat /run/libvirt/qemu/one.pid")
    act(fleet, "reboot", "one")
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/one.pid") == before
    assert fleet.where()["one"] == ("kvm1", "running")
    assert "deaf on kvm1 did not reboot within 5 s" in refused(fleet, "reboot", "deaf")
    act(fleet, "reboot", "one", drover_reboot_hard=True)
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/one.pid") != before
    assert leases(fleet) == []
    fleet.settled()


def test_names_that_are_wrong(fleet):
    fleet.make("kvm1", Domain("one"), Domain("two"))
    fleet.playbook("discover")
    (one,) = fleet.query("SELECT uuid FROM instances WHERE name = 'one'")[0]
    assert "No instance web9 is in the store" in refused(fleet, "start", "web9")
    assert "Which instances?" in fleet.refused("instance_stop")
    assert f"{one} is the uuid of one, not of two" in refused(
        fleet, "stop", {"name": "two", "uuid": one}
    )
    # The guest was renamed by hand: its old name changes nothing, its uuid works.
    fleet.run("kvm1", "virsh destroy one && virsh domrename one three")
    said = refused(fleet, "delete", "one")
    assert "belongs to the domain" in said
    assert fleet.where()["three"] == ("kvm1", "shutoff") and "one-0.qcow2" in fleet.files(SHARED)
    act(fleet, "delete", one)
    assert set(fleet.where()) == {"two"} and fleet.files(SHARED) == ["two-0.qcow2"]


def test_resize_on_the_same_host(fleet):
    flavors(fleet)
    fleet.make("kvm1", Domain("vm", boots=True))
    fleet.playbook("discover")
    path = f"{SHARED}/vm-0.qcow2"

    before = fleet.dump()
    assert changed(act(fleet, "resize", "vm", "--check", drover_flavor="big")) == 1
    assert fleet.dump() == before
    act(fleet, "resize", "vm", drover_flavor="big")
    assert fleet.where()["vm"] == ("kvm1", "running") and size(fleet, "kvm1", "vm") == (2, 128)
    assert gib(fleet, "kvm1", path) == 1, "it grows when it is confirmed"
    assert booked(fleet, "vm") == {"it": {"kvm1": BIG}, "migration": {"kvm1": SMALL}}
    assert changed(act(fleet, "resize", "vm", drover_flavor="big")) == 0
    assert "waits to be confirmed" in refused(fleet, "delete", "vm")
    assert "confirm" in refused(fleet, "resize", "vm", drover_flavor="small")

    act(fleet, "resize", "vm", drover_resize="revert")
    assert fleet.where()["vm"] == ("kvm1", "running") and size(fleet, "kvm1", "vm") == (1, 64)
    assert booked(fleet, "vm") == {"it": {"kvm1": SMALL}}
    assert changed(act(fleet, "resize", "vm", drover_resize="revert")) == 0

    # Both steps in one run; the disk of the running guest grows.
    act(fleet, "resize", "vm", drover_flavor="big", drover_resize="confirm")
    assert fleet.where()["vm"] == ("kvm1", "running") and size(fleet, "kvm1", "vm") == (2, 128)
    assert gib(fleet, "kvm1", path) == 2
    assert booked(fleet, "vm") == {"it": {"kvm1": BIG}}
    assert changed(act(fleet, "resize", "vm", drover_flavor="big", drover_resize="confirm")) == 0
    # A disk is never made smaller.
    assert "never made smaller" in refused(fleet, "resize", "vm", drover_flavor="small")
    assert leases(fleet) == []
    assert changed(fleet.playbook("discover")) == 0, "the store is what discovery finds"


def test_resize_to_another_host(fleet):
    flavors(fleet)
    fleet.make("kvm1", Domain("vm", boots=True, folder=LOCAL), Domain("off", state="shutoff"))
    fleet.playbook("discover", "-e", json.dumps({"drover_instances_path": LOCAL}))
    path = f"{LOCAL}/vm-0.qcow2"
    act(fleet, "resize", ["vm", "off"], drover_flavor="big", drover_destination="kvm2")
    where = fleet.where()
    assert where == {"vm": ("kvm2", "running"), "off": ("kvm2", "shutoff")}
    assert size(fleet, "kvm2", "vm") == size(fleet, "kvm2", "off") == (2, 128)
    assert fleet.files(LOCAL, "kvm1") == [] and fleet.files(LOCAL, "kvm2") == ["vm-0.qcow2"]
    assert fleet.booked()["vm"] == {"kvm2": BIG}
    assert (
        changed(act(fleet, "resize", ["vm", "off"], drover_flavor="big", drover_destination="kvm2"))
        == 0
    )

    # The later writes stay on the disk when the resize is reverted.
    fleet.run("kvm2", f"virsh destroy vm && qemu-io -f qcow2 -c 'write -q -P 7 64k 64k' {path}")
    act(fleet, "resize", "vm", drover_resize="revert")
    assert fleet.where()["vm"] == ("kvm1", "running") and size(fleet, "kvm1", "vm") == (1, 64)
    assert "verification failed" not in fleet.run(
        "kvm1", f"qemu-io -U -r -f qcow2 -c 'read -P 7 64k 64k' {path}"
    )
    assert fleet.files(LOCAL, "kvm2") == []
    assert fleet.booked()["vm"] == {"kvm1": SMALL}

    act(fleet, "resize", "off", drover_resize="confirm")
    assert gib(fleet, "kvm2", f"{SHARED}/off-0.qcow2") == 2 and fleet.booked() == {
        "vm": {"kvm1": SMALL},
        "off": {"kvm2": BIG},
    }
    assert leases(fleet) == []
    assert (
        changed(fleet.playbook("discover", "-e", json.dumps({"drover_instances_path": LOCAL}))) == 0
    )


def test_a_resize_that_cannot_be_done_leaves_it_as_it_was(fleet):
    flavors(fleet)
    fleet.make("kvm1", Domain("vm"))
    # The file would block the move at the destination.
    fleet.make("kvm2", Domain("twin", state="shutoff"))
    fleet.playbook("discover")
    fleet.run("kvm2", "virsh domrename twin vm")
    before = fleet.booked()
    # A guest that ignores the button continues to run.
    refusal = refused(fleet, "resize", "vm", drover_flavor="big")
    assert "did not shut down within 5 s" in refusal and "as before" in refusal
    assert size(fleet, "kvm1", "vm") == (1, 64) and fleet.booked() == before
    refusal = refused(
        fleet,
        "resize",
        "vm",
        drover_flavor="big",
        drover_destination="kvm2",
        drover_instance_force=True,
    )
    assert "another domain named 'vm'" in refusal and "as before" in refusal
    assert fleet.look(["kvm1"])["kvm1"][0]["state"] == "running" and size(fleet, "kvm1", "vm") == (
        1,
        64,
    )
    assert fleet.booked() == before and leases(fleet) == []
    assert "Flavor huge is not in the store" in refused(fleet, "resize", "vm", drover_flavor="huge")


def shut_down(fleet, run):
    """Wait until its host has it shut off; nothing of it has moved."""
    eventually(lambda: "shut" in fleet.run("kvm1", "virsh domstate vm || true"))


def moved(fleet, run):
    """Wait until it is at its destination, not started yet."""
    eventually(
        lambda: (
            "vm" in fleet.run("kvm2", "virsh list --all --name").split()
            and "vm" not in fleet.run("kvm1", "virsh list --all --name").split()
        ),
    )


def written_down(fleet, run):
    eventually(lambda: fleet.query("SELECT status FROM migrations") != [])


@pytest.mark.parametrize("moment", [written_down, shut_down, moved])
def test_a_resize_that_is_killed_is_gone_on_with(fleet, moment):
    flavors(fleet)
    fleet.make("kvm1", Domain("vm", boots=True, folder=LOCAL, written_mb=8))
    fleet.playbook("discover", "-e", json.dumps({"drover_instances_path": LOCAL}))
    variables = {
        "drover_instance": "vm",
        "drover_flavor": "big",
        "drover_destination": "kvm2",
        "drover_instance_timeout": 30,
    }
    run = fleet.start("instance_resize", "-e", json.dumps(variables))
    try:
        moment(fleet, run)
    finally:
        run.kill()
    # No other run touches it in this state, and it holds its room at both ends.
    if moment is not moved:
        assert "open resize" in refused(fleet, "start", "vm")
    fleet.playbook("discover", "-e", json.dumps({"drover_instances_path": LOCAL}))
    assert booked(fleet, "vm") == {"it": {"kvm2": BIG}, "migration": {"kvm1": SMALL}}
    act(fleet, "resize", "vm", drover_flavor="big", drover_destination="kvm2")
    assert fleet.where() == {"vm": ("kvm2", "running")} and size(fleet, "kvm2", "vm") == (2, 128)
    assert changed(act(fleet, "resize", "vm", drover_flavor="big", drover_destination="kvm2")) == 0
    act(fleet, "resize", "vm", drover_resize="confirm")
    assert fleet.booked() == {"vm": {"kvm2": BIG}} and fleet.files(LOCAL, "kvm1") == []
    assert gib(fleet, "kvm2", f"{LOCAL}/vm-0.qcow2") == 2


def test_suspected_7_a_resize_whose_move_was_aborted_is_taken_back(fleet):
    """A person aborts it at its hypervisor, during its shutdown: it stays, runs, and has its old
    size."""
    flavors(fleet)
    # It ignores the power button, so its shutdown takes time.
    fleet.make("kvm1", Domain("vm"))
    fleet.playbook("discover")
    variables = {
        "drover_instance": "vm",
        "drover_flavor": "big",
        "drover_destination": "kvm2",
        "drover_instance_timeout": 20,
        "drover_instance_force": True,
    }
    run = fleet.start("instance_resize", "-e", json.dumps(variables))
    try:
        written_down(fleet, run)
        ((migration, instance),) = fleet.query("SELECT uuid, instance_uuid FROM migrations")
        eventually(
            lambda: instance in fleet.run("kvm1", "cat /proc/net/unix")
        )  # the lock of the call that shuts it down
        order = {
            "uuid": instance,
            "migration": migration,
            "destination": "kvm2",
            "destination_uri": "qemu+ssh://root@kvm2/system",
        }
        ask(fleet, "kvm1", "_domain_migration", {"abort": [order], "wait": 0})
        text = " ".join(run.finish().split())
    finally:
        if run.process.poll() is None:
            run.kill()
    assert (
        run.process.returncode == 2
        and "Instance vm did not move from kvm1 to kvm2" in text
        and "it was aborted on request" in text
    ), text
    assert "It is on kvm1 with its old size, as before" in text and "Traceback" not in text
    assert fleet.settled() == {"vm": ("kvm1", "running")} and size(fleet, "kvm1", "vm") == (1, 64)
    assert (
        fleet.query("SELECT status FROM migrations") == [("failed",)]
        and fleet.query("SELECT * FROM leases") == []
    )
    # A second run resizes it after all.
    act(
        fleet,
        "resize",
        "vm",
        drover_flavor="big",
        drover_destination="kvm2",
        drover_instance_force=True,
        drover_instance_timeout=2,
    )
    assert fleet.where() == {"vm": ("kvm2", "running")} and size(fleet, "kvm2", "vm") == (2, 128)


def test_a_revert_that_is_killed_is_gone_on_with(fleet):
    flavors(fleet)
    fleet.make("kvm1", Domain("vm", boots=True))
    fleet.playbook("discover")
    act(fleet, "resize", "vm", drover_flavor="big", drover_destination="kvm2")
    run = fleet.start(
        "instance_resize",
        "-e",
        json.dumps(
            {"drover_instance": "vm", "drover_resize": "revert", "drover_instance_timeout": 30}
        ),
    )
    try:
        eventually(lambda: "vm" in fleet.run("kvm1", "virsh list --all --name").split())
    finally:
        run.kill()
    act(fleet, "resize", "vm", drover_resize="revert")
    assert fleet.where() == {"vm": ("kvm1", "running")} and size(fleet, "kvm1", "vm") == (1, 64)
    assert fleet.booked() == {"vm": {"kvm1": SMALL}}


def test_migrate(fleet):
    fleet.make(
        "kvm1",
        Domain("live", boots=True),
        Domain("off", state="shutoff"),
        Domain("cold", boots=True),
    )
    fleet.playbook("discover")
    done = act(fleet, "migrate", ["live", "off"], drover_destination="kvm2")
    assert fleet.where() == {
        "live": ("kvm2", "running"),
        "off": ("kvm2", "shutoff"),
        "cold": ("kvm1", "running"),
    }
    assert changed(done) == 1, "one task for all"
    assert changed(act(fleet, "migrate", ["live", "off"], drover_destination="kvm2")) == 0

    assert (
        changed(
            act(
                fleet,
                "migrate",
                "cold",
                "--check",
                drover_migrate_cold=True,
                drover_destination="kvm3",
            )
        )
        == 1
    )
    act(fleet, "migrate", "cold", drover_migrate_cold=True, drover_destination="kvm3")
    assert fleet.where()["cold"] == ("kvm3", "running") and fleet.booked()["cold"] == {
        "kvm3": SMALL
    }
    assert (
        changed(act(fleet, "migrate", "cold", drover_migrate_cold=True, drover_destination="kvm3"))
        == 0
    )

    # Without a host the scheduler chooses another one.
    act(fleet, "migrate", "live")
    assert fleet.where()["live"][0] != "kvm2"
    said = refused(fleet, "migrate", "live", drover_destination="kvm9")
    assert "kvm9" in said and "Traceback" not in said
    assert leases(fleet) == []


def test_delete_takes_what_is_its_own_and_nothing_else(fleet, tmp_path):
    definitions = tmp_path / "fleet.yml"
    definitions.write_text(
        "instances:\n  # The first\n  - name: web1\n    memory_mb: 64\n    disks:\n      -"
        f" size_gb: 1\n        image: {IMAGE}\n    cloud_init: {{user_data: {{}}}}\n  - name:"
        f" web2\n    memory_mb: 64\n    disks:\n      - size_gb: 1\n        image: {IMAGE}\n"
    )
    fleet.place(definitions)
    where = fleet.where()
    host = where["web1"][0]
    own = [name for name in fleet.files(SHARED) if name.startswith("web1")]
    assert len(own) == 2, "a disk and a seed"
    fleet.run(host, "virsh managedsave web1")

    told = act(fleet, "delete", "web1", "--check", drover_definitions=str(definitions))
    assert changed(told) == 2 and fleet.where()["web1"][0] == host
    act(fleet, "delete", "web1", drover_definitions=str(definitions), drover_instance_force=True)
    assert set(fleet.where()) == {"web2"}
    left = fleet.files(SHARED)
    assert not [name for name in left if name.startswith("web1")] and len(left) == 1
    fleet.run("kvm1", f"test -f {IMAGE}")
    assert fleet.run(host, "ls /var/lib/libvirt/qemu/save").split() == []
    assert list(fleet.booked()) == ["web2"] and fleet.query("SELECT name FROM instances") == [
        ("web2",)
    ]
    assert fleet.query("SELECT count(*) FROM consumers") == [(1,)]
    fleet.settled()

    # The definition is marked, and not built again; a second request is harmless.
    assert "state: absent" in definitions.read_text() and "# The first" in definitions.read_text()
    assert changed(act(fleet, "delete", "web1", drover_definitions=str(definitions))) == 0
    done = fleet.place(definitions)
    assert changed(done) == 0 and set(fleet.where()) == {"web2"}
    assert "Marked as absent, and not built: web1" in " ".join(done.stdout.split())


def test_delete_keeps_what_others_need(fleet):
    base = Domain("base", state="shutoff")
    fleet.make("kvm1", base)
    clone = f"{SHARED}/clone-0.qcow2"
    # A domain on another host is backed by its disk, as linked clones are.
    fleet.make("kvm2", Domain("clone", state="shutoff"))
    fleet.run(
        "kvm2", f"rm {clone}; qemu-img create -q -f qcow2 -b {base.paths[0]} -F qcow2 {clone}"
    )
    fleet.playbook("discover")
    done = act(fleet, "delete", "base")
    assert f"Kept {base.paths[0]}" in " ".join(done.stdout.split())
    assert sorted(fleet.files(SHARED)) == ["base-0.qcow2", "clone-0.qcow2"]
    assert set(fleet.where()) == {"clone"}


def test_delete_is_refused_where_it_is_on_two_hosts(fleet):
    vm = Domain("vm", state="shutoff")
    fleet.make("kvm1", vm)
    fleet.make("kvm2", Domain("other", state="shutoff"))
    fleet.run(
        "kvm2",
        "virsh dumpxml other | sed 's,other-0,vm-0,; s,<name>other,<name>vm,;"
        f" s,<uuid>.*,<uuid>{vm.uuid}</uuid>,' | virsh define /dev/stdin",
    )
    fleet.playbook("discover")
    said = refused(fleet, "delete", "vm")
    assert "was seen on kvm1 and kvm2 at once" in said
    assert "vm-0.qcow2" in fleet.files(SHARED)
    assert "was seen on kvm1 and kvm2 at once" in refused(fleet, "start", "vm")


def test_one_that_went_elsewhere_is_not_taken_for_deleted(fleet):
    vm = Domain("vm", state="shutoff")
    fleet.make("kvm1", vm)
    fleet.playbook("discover")
    fleet.run("kvm1", "virsh undefine vm")
    assert "it is not on kvm1 any more" in refused(fleet, "delete", "vm")
    fleet.playbook("discover")
    act(fleet, "delete", "vm")
    assert fleet.booked() == {} and fleet.files(SHARED) == ["vm-0.qcow2"]


def test_policies_and_options_of_a_migration(fleet):
    fleet.make(
        "kvm1",
        Domain("pinned", metadata=POLICY.format("never")),
        Domain("usual"),
        Domain("cold", boots=True, metadata=POLICY.format("cold")),
        Domain("live", metadata=POLICY.format("live")),
    )
    fleet.playbook("discover")
    names = ["pinned", "usual", "cold"]
    slow = {"drover_destination": "kvm2", "drover_migration": {"bandwidth_mib": 30}}
    refusal = refused(fleet, "migrate", names, drover_instance_timeout=60, **slow)
    assert "pinned is not moved from kvm1: its migration policy is 'never'" in refusal
    assert "drover_despite_policy=true" in refusal
    # The others have moved; the cold one was shut down, started again, and needs no confirmation.
    assert {name: host for name, (host, dummy) in fleet.where().items()} == {
        "pinned": "kvm1",
        "usual": "kvm2",
        "cold": "kvm2",
        "live": "kvm1",
    }
    assert {state for dummy, state in fleet.where().values()} == {"running"}
    assert fleet.booked()["cold"] == {"kvm2": SMALL}
    assert dict(fleet.query("SELECT instance_name, type FROM migrations")) == {
        "usual": "live-migration",
        "cold": "resize",
    }
    given = fleet.run("kvm1", "grep -ho 'bandwidth_mib\": 30' /var/lib/drover/migrations/*.json")
    assert len(given.splitlines()) == 2, "both ways take the options"

    refusal = refused(fleet, "migrate", "live", drover_migrate_cold=True, drover_destination="kvm2")
    assert "its migration policy is 'live', and it would be shut down for this move" in refusal
    assert fleet.where()["live"] == ("kvm1", "running")
    act(fleet, "migrate", ["pinned", "live"], drover_destination="kvm2", drover_despite_policy=True)
    assert {host for host, dummy in fleet.where().values()} == {"kvm2"} and leases(fleet) == []
    refusal = refused(
        fleet, "migrate", "usual", drover_destination="kvm1", drover_migration={"bandwidth_mib": 0}
    )
    assert "bandwidth_mib is 0" in refusal and fleet.where()["usual"][0] == "kvm2"
