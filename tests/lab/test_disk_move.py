# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that move to another storage of their host, on real hypervisors; the tests check them with
virsh and testinfra from outside."""

from __future__ import annotations

import json
import re

import pytest
from test_devices import disks
from test_fleet import LOCAL, SHARED, Domain, changed, eventually, said

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FAST, OLD, BASE = f"{LOCAL}/fast", f"{SHARED}/web-0.qcow2", f"{SHARED}/base.qcow2"
NEW = f"{FAST}/web-0.qcow2"
#: The content of the disk: the boot sector is before it.
WRITTEN_MB = 16


@pytest.fixture
def storage(fleet):
    """Return the fleet with a second pool on kvm1."""
    fleet.run(
        "kvm1",
        f"mkdir -p {FAST} && virsh pool-define-as fast dir --target {FAST} && virsh pool-start"
        " fast",
    )
    yield fleet
    fleet.run(
        "kvm1", f"umount {FAST} 2> /dev/null; virsh pool-destroy fast; virsh pool-undefine fast"
    )


def mount_small(fleet, mb):
    """Mount a file system of this size in MiB; not one in memory, because no disk moves to one."""
    image = "/run/small"
    fleet.run(
        "kvm1",
        f"truncate -s {mb}M {image} && mkfs.ext4 -q -m 0 -O ^has_journal {image} && mount -o loop"
        f" {image} {FAST} && rmdir {FAST}/lost+found",
    )


def web(**given):
    return Domain("web", **{"boots": True, "size": "64M", "written_mb": WRITTEN_MB, **given})


def move(fleet, *words, check=True, **variables):
    given = {"drover_instance": "web", "drover_disk": "vda", "drover_pool": "fast", **variables}
    return fleet.playbook("instance_disk_move", "-e", json.dumps(given), *words, check=check)


def refused(fleet, **variables):
    return fleet.refused(
        "instance_disk_move",
        "-e",
        json.dumps(
            {"drover_instance": "web", "drover_disk": "vda", "drover_pool": "fast", **variables}
        ),
    )


def start(fleet, mib=2):
    """Begin a move that takes seconds, and wait until libvirt copies."""
    variables = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_pool": "fast",
        "drover_migration": {"bandwidth_mib": mib},
    }
    run = fleet.start("instance_disk_move", "-e", json.dumps(variables))
    eventually(lambda: copies(fleet))
    return run


def copies(fleet):
    """Return True if libvirt copies the disk."""
    return "job='copy'" in fleet.run("kvm1", "virsh dumpxml web")


def record(fleet):
    """Return the record of a move in the metadata of the definition."""
    return "disk_move" in fleet.run("kvm1", "virsh dumpxml --inactive web")


def nothing_left(fleet):
    """Check that no order, lease, record or temporary file is left, and that store and hosts
    agree.
    """
    assert (
        fleet.query(
            "SELECT name, task_state FROM instances WHERE order_uuid IS NOT NULL OR task_state IS"
            " NOT NULL"
        )
        == []
    )
    assert fleet.query("SELECT name, purpose FROM leases") == []
    assert not record(fleet) and not copies(fleet)
    assert [
        name
        for folder in (SHARED, LOCAL, FAST)
        for name in fleet.files(folder)
        if ".drover" in name
    ] == []
    fleet.settled()


def digest(fleet, path):
    """Return the first MiB of a disk that no guest changes."""
    return fleet.run("kvm1", f"qemu-io -r -U -f qcow2 -c 'read -P 90 1M {WRITTEN_MB - 1}M' {path}")


def test_live(storage):
    """The guest continues to run; a second run finds nothing to do."""
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    before = fleet.dump()
    assert (
        NEW in said(move(fleet, "--check", "--diff"))
        and disks(fleet) == ({"vda": OLD},) * 2
        and fleet.dump() == before
    )

    done = move(fleet, "--diff")
    assert changed(done) == 1 and disks(fleet) == ({"vda": NEW},) * 2
    assert re.search(rf"-vda: {OLD}.*\+vda: {NEW}", said(done))
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    host = fleet.lab.host("kvm1")
    assert host.file(NEW).exists and not host.file(OLD).exists
    assert "web-0.qcow2" in fleet.run("kvm1", "virsh vol-list fast")
    assert "Pattern verification failed" not in digest(fleet, NEW)
    nothing_left(fleet)
    assert changed(move(fleet)) == 0 and changed(move(fleet, "--check")) == 0
    # And back, to a folder.
    assert changed(move(fleet, drover_pool=SHARED)) == 1 and disks(fleet) == ({"vda": OLD},) * 2
    fleet.playbook("instance_stop", "-e", "drover_instance=web")
    assert disks(fleet) == (None, {"vda": OLD})
    nothing_left(fleet)


def test_cold(storage):
    fleet = storage
    fleet.make("kvm1", web(state="shutoff"))
    fleet.playbook("discover")
    assert changed(move(fleet, "--check")) == 1 and disks(fleet) == (None, {"vda": OLD})
    assert changed(move(fleet)) == 1 and disks(fleet) == (None, {"vda": NEW})
    assert not fleet.lab.host("kvm1").file(
        OLD
    ).exists and "Pattern verification failed" not in digest(fleet, NEW)
    nothing_left(fleet)
    assert changed(move(fleet)) == 0
    fleet.playbook("instance_start", "-e", "drover_instance=web")
    assert disks(fleet) == ({"vda": NEW},) * 2


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_the_image_behind_it_stays(storage, state):
    """Only the layer of the guest is copied, and its backing image is not changed."""
    fleet = storage
    script = (
        web(state=state)
        .script()
        .replace(
            f"qemu-img create -q -f qcow2 {OLD} 64M",
            f"qemu-img create -q -f qcow2 -F qcow2 -b base.qcow2 {OLD}",
        )
    )
    fleet.run(
        "kvm1",
        f"qemu-img create -q -f qcow2 {BASE} 64M && qemu-io -f qcow2 -c 'write -q -P 7 40M 4M'"
        f" {BASE}",
    )
    fleet.run("kvm1", script)
    fleet.playbook("discover")
    assert changed(move(fleet)) == 1
    image = json.loads(fleet.run("kvm1", f"qemu-img info -U --output=json {NEW}"))
    assert image["full-backing-filename"] == BASE and image["actual-size"] < 20 * 2**20
    assert "failed" not in fleet.run("kvm1", f"qemu-io -r -U -f qcow2 -c 'read -P 7 40M 4M' {NEW}")
    assert sorted(fleet.files(SHARED)) == ["base.qcow2"]
    nothing_left(fleet)


@pytest.mark.parametrize("when", ["while it copies", "libvirtd too"])
def test_killed(storage, when):
    """The next run continues with libvirt's job."""
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    start(fleet).kill()
    if when == "libvirtd too":
        fleet.run(
            "kvm1", "kill -9 $(cat /run/libvirtd.pid); sleep 1; /usr/sbin/libvirtd -d && virsh list"
        )
    assert copies(fleet) and record(fleet)
    for name in ("instance_stop", "instance_delete", "instance_migrate"):
        assert "has a disk moved" in fleet.refused(name, "-e", "drover_instance=web")
    assert "disk" in said(fleet.drain("kvm1", check=False))
    fleet.playbook("undrain", "-e", "drover_host=kvm1", check=False)
    done = move(fleet)
    assert changed(done) == 1 and disks(fleet) == ({"vda": NEW},) * 2, said(done)
    assert fleet.files(SHARED) == [] and "Pattern verification failed" not in digest(fleet, NEW)
    nothing_left(fleet)


def test_killed_and_shut_off(storage):
    """The job ends with the guest; the unfinished copy is removed, and the disk is copied again."""
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    start(fleet, mib=1).kill()
    # The abandoned module reads the job until its time limit.
    eventually(lambda: "drover.compute/" not in fleet.run("kvm1", "cat /proc/net/unix"))
    fleet.run("kvm1", "virsh destroy web")
    assert record(fleet) and fleet.lab.host("kvm1").file(NEW).exists
    assert changed(move(fleet)) == 1 and disks(fleet) == (None, {"vda": NEW})
    assert "Pattern verification failed" not in digest(fleet, NEW)
    fleet.playbook("discover")
    nothing_left(fleet)


@pytest.mark.parametrize("alive", [False, True], ids=["of a killed run", "of a run that lives"])
def test_aborted(storage, alive):
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    run = start(fleet)
    if not alive:
        run.kill()
    assert "stays" in said(move(fleet, "--check", drover_abort=True)) and copies(fleet)
    done = move(fleet, drover_abort=True)
    assert changed(done) == 1, said(done)
    if alive:
        assert "withdrawn" in run.finish() and run.process.returncode
    assert disks(fleet) == ({"vda": OLD},) * 2 and fleet.files(FAST) == []
    nothing_left(fleet)
    assert changed(move(fleet, drover_abort=True)) == 0


def test_a_copy_of_a_guest_that_is_off_is_aborted(storage):
    fleet = storage
    fleet.make("kvm1", web(state="shutoff"))
    fleet.playbook("discover")
    variables = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_pool": "fast",
        "drover_migration": {"bandwidth_mib": 1},
    }
    run = fleet.start("instance_disk_move", "-e", json.dumps(variables))
    eventually(lambda: any(".drover" in name for name in fleet.files(FAST)))
    assert fleet.lab.host("kvm1").run("virsh start web").rc != 0, (
        "the lock of qemu-img keeps it off"
    )
    assert changed(move(fleet, drover_abort=True)) <= 1
    assert (
        "it was aborted" in run.finish()
        and disks(fleet) == (None, {"vda": OLD})
        and fleet.files(FAST) == []
    )
    nothing_left(fleet)


def test_refused(storage):
    """An existing file is never overwritten, and a refusal leaves nothing behind."""
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    fleet.run("kvm1", f"echo precious > {NEW}")
    assert (
        f"The file {NEW} exists" in refused(fleet)
        and fleet.run("kvm1", f"cat {NEW}") == "precious\n"
    )
    fleet.run("kvm1", f"rm {NEW}")
    mount_small(fleet, 8)
    assert "MiB free" in refused(fleet) and fleet.files(FAST) == []
    fleet.run("kvm1", f"umount {FAST} && mount -t tmpfs memory {FAST}")
    assert "is in memory (tmpfs)" in refused(fleet)
    fleet.run("kvm1", f"umount {FAST}")
    assert "no storage pool slow" in refused(fleet, drover_pool="slow")
    assert "has no disk vdz" in refused(fleet, drover_disk="vdz")
    assert "drover_pool, such as" in refused(fleet, drover_pool="")
    fleet.run(
        "kvm1",
        "virsh snapshot-create-as web before --diskspec vda,snapshot=no --no-metadata 2> /dev/null;"
        " true",
    )
    fleet.run(
        "kvm1", "virsh snapshot-create-as web before --disk-only --diskspec vda,snapshot=external"
    )
    assert "has snapshots" in refused(fleet)
    fleet.run("kvm1", "virsh snapshot-delete web before --metadata")
    assert disks(fleet)[0] != {"vda": NEW}
    nothing_left(fleet)


def test_the_storage_gets_full(storage):
    """There is room when the move begins; libvirt's job fails, and the guest stays on the old
    disk.
    """
    fleet = storage
    fleet.make("kvm1", web(written_mb=48))
    fleet.playbook("discover")
    mount_small(fleet, 58)
    run = start(fleet, mib=1)
    fleet.run("kvm1", f"dd if=/dev/zero of={FAST}/other bs=1M 2> /dev/null; true")
    text = run.finish()
    assert run.process.returncode and "before its disk vda was copied" in text, text
    assert disks(fleet) == ({"vda": OLD},) * 2 and fleet.files(FAST) == ["other"]
    nothing_left(fleet)


def test_a_file_that_somebody_else_needs_stays(storage):
    fleet = storage
    fleet.make("kvm1", web())
    fleet.run("kvm1", f"qemu-img create -q -f qcow2 -F qcow2 -b {OLD} {SHARED}/over.qcow2")
    fleet.playbook("discover")
    done = move(fleet)
    assert disks(fleet) == ({"vda": NEW},) * 2 and f"the file {OLD} on kvm1 stays" in said(done)
    assert fleet.lab.host("kvm1").file(OLD).exists
    nothing_left(fleet)


@pytest.mark.parametrize(
    "command", [f"rm {NEW}", f"mv {NEW} {FAST}/x; cp {FAST}/x {NEW}", f"mount -t tmpfs over {FAST}"]
)
def test_a_copy_that_loses_its_name_while_it_is_made(storage, command):
    """QEMU would continue to write to it, and the guest would never start again with these
    writes.
    """
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    run = start(fleet)
    fleet.run("kvm1", command)
    text = run.finish()
    assert run.process.returncode and "was not switched over" in text, text
    assert disks(fleet) == ({"vda": OLD},) * 2 and "Pattern verification failed" not in digest(
        fleet, OLD
    )
    nothing_left(fleet)
