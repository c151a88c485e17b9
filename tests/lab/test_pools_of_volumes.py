# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains of pools of volumes, and disks that move from one kind of volume to another: files,
logical volumes and images in Ceph."""

from __future__ import annotations

import json
import shutil

import pytest
from lablib.storage import ceph, lvm
from test_fleet import SHARED, Domain, changed, eventually, said
from test_sharing import discover, holdings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in (*ceph.PROGRAMS, *lvm.PROGRAMS)),
        reason="Ceph or LVM is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]

VARIABLES = {"drover_shared_pools": ["shared"], "drover_storage_pools": ["vms", "ceph"]}
WRITTEN_MB = 16
EMPTY = (
    "for each in $(ls /dev/vms); do virsh vol-delete --pool vms $each; done; virsh pool-refresh"
    " vms; rm -rf /var/lib/drover/migrations; true"
)


@pytest.fixture(scope="module")
def servers(own_lab):
    own_lab.command("up", "--with", "ceph,lvm")
    return own_lab


@pytest.fixture
def pools(servers, fleet):
    yield fleet
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    for image in json.loads(cluster(fleet).rbd("ls", "--format", "json")):
        cluster(fleet).rbd("rm", image)
    fleet.everywhere(EMPTY)


def cluster(fleet):
    return ceph.Cluster(fleet.lab.layout)


def guest(fleet, name="web", **given):
    """Make a guest with a file; return its uuid."""
    domain = Domain(name, boots=True, size="64M", written_mb=WRITTEN_MB, **given)
    fleet.make("kvm1", domain)
    return domain.uuid


def drain(fleet, pool, *words, check=True, **variables):
    return fleet.playbook(
        "drain",
        *words,
        "-e",
        json.dumps({"drover_pool": pool, **VARIABLES, **variables}),
        check=check,
    )


def undrain(fleet, pool):
    return fleet.playbook("undrain", "-e", json.dumps({"drover_pool": pool, **VARIABLES}))


def move(fleet, pool, **variables):
    extra_vars = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_pool": pool,
        **VARIABLES,
        **variables,
    }
    return fleet.playbook("instance_disk_move", "-e", json.dumps(extra_vars))


def sources(fleet, name="web"):
    """Return the source of the disk, in the running guest and in the definition."""
    listings = [
        fleet.run("kvm1", f"virsh domblklist --details {words} {name}")
        for words in ("", "--inactive")
    ]
    return {line.split()[3] for text in listings for line in text.splitlines() if " vda " in line}


def volumes(fleet):
    return fleet.run("kvm1", "lvs --noheadings -o lv_name vms").split()


def images(fleet):
    return json.loads(cluster(fleet).rbd("ls", "--format", "json"))


def digest_of_volume(fleet, name):
    """Return the numbers of wrong bytes in the written part, and of bytes that are not zero after
    it."""
    byte_count = fleet.run(
        "kvm1",
        f"dd if=/dev/vms/{name} bs=1M skip=1 count={WRITTEN_MB - 1} iflag=direct 2>/dev/null | tr"
        " -d Z | wc -c",
    )
    rest = fleet.run(
        "kvm1",
        f"dd if=/dev/vms/{name} bs=1M skip={WRITTEN_MB} iflag=direct 2>/dev/null | tr -d '\\0' |"
        " wc -c",
    )
    return byte_count.strip(), rest.strip()


def digest_of_image(fleet, name):
    path = fleet.folder / "exported"
    cluster(fleet).rbd("export", "--no-progress", name, str(path))
    data = path.read_bytes()
    path.unlink()
    return str(len(data[2**20 : WRITTEN_MB * 2**20].replace(b"Z", b""))), str(
        len(data[WRITTEN_MB * 2**20 :].replace(b"\0", b""))
    )


def in_order(fleet):
    assert (
        fleet.query(
            "SELECT name FROM instances WHERE order_uuid IS NOT NULL OR task_state IS NOT NULL"
        )
        == []
    )
    assert fleet.query("SELECT name FROM leases") == []
    assert changed(discover(fleet, **VARIABLES)) == 0
    fleet.settled()


def test_from_lvm_to_ceph_and_back(pools):
    """A drain moves a disk from one kind of volume to another while the guest runs, counts it there
    and leaves nothing behind."""
    fleet = pools
    uuid = guest(fleet)
    discover(fleet, **VARIABLES)
    name, pid = f"{uuid}-vda", fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    move(fleet, "vms")
    assert volumes(fleet) == [name] and digest_of_volume(fleet, name) == ("0", "0")

    done = drain(fleet, "vms", drover_host="kvm1", drover_destination_pool="ceph")
    assert "is empty of disks" in said(done), said(done)
    assert (
        sources(fleet) == {f"{ceph.POOL}/{name}"}
        and volumes(fleet) == []
        and images(fleet) == [name]
    )
    assert (
        digest_of_image(fleet, name) == ("0", "0")
        and fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    )
    assert (
        set(holdings(fleet)["web"]) >= {"pool/ceph"}
        and "kvm1_pool_vms" not in holdings(fleet)["web"]
    )
    in_order(fleet)

    assert changed(undrain(fleet, "vms")) == 1
    done = drain(fleet, "ceph", drover_destination_pool="vms")
    assert said(done).count("is empty of disks") >= 1, said(done)
    assert (
        sources(fleet) == {f"/dev/vms/{name}"} and volumes(fleet) == [name] and images(fleet) == []
    )
    assert (
        digest_of_volume(fleet, name) == ("0", "0")
        and fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    )
    assert holdings(fleet)["web"]["kvm1_pool_vms"] and "pool/ceph" not in holdings(fleet)["web"]
    assert changed(undrain(fleet, "ceph")) == 1
    in_order(fleet)


def test_from_a_folder_without_a_destination_that_is_named(pools):
    """The run names no destination: a guest that is off goes to LVM, because libvirt does not copy
    it into Ceph."""
    fleet = pools
    uuid = guest(fleet, state="shutoff")
    discover(fleet, **VARIABLES)
    done = drain(fleet, "shared")
    assert (
        "is empty of disks" in said(done)
        and volumes(fleet) == [f"{uuid}-vda"]
        and images(fleet) == []
    ), said(done)
    assert [each for each in fleet.files(SHARED) if each.endswith(".qcow2")] == []
    assert digest_of_volume(fleet, f"{uuid}-vda") == ("0", "0")
    undrain(fleet, "shared")
    in_order(fleet)


def test_killed_while_it_copies_into_ceph(pools):
    """The next drain releases the dead run's claims, or continues with its copy; one copy of the
    disk is left."""
    fleet = pools
    uuid = guest(fleet)
    discover(fleet, **VARIABLES)
    name = f"{uuid}-vda"
    move(fleet, "vms")
    variables = {
        "drover_pool": "vms",
        "drover_host": "kvm1",
        "drover_destination_pool": "ceph",
        **VARIABLES,
        "drover_migration": {"bandwidth_mib": 1},
    }
    run = fleet.start("drain", "-e", json.dumps(variables))
    eventually(lambda: "job='copy'" in fleet.run("kvm1", "virsh dumpxml web"))
    run.kill()
    done = drain(fleet, "vms", drover_host="kvm1", drover_destination_pool="ceph")
    assert "is empty of disks" in said(done), said(done)
    assert (
        sources(fleet) == {f"{ceph.POOL}/{name}"}
        and volumes(fleet) == []
        and images(fleet) == [name]
    )
    assert digest_of_image(fleet, name) == ("0", "0")
    undrain(fleet, "vms")
    in_order(fleet)


def test_what_runs_before_a_drain_runs_on_the_hosts_of_the_pool_and_stops_it(pools):
    fleet = pools
    guest(fleet)
    discover(fleet, **VARIABLES)
    move(fleet, "vms")
    before = sources(fleet)
    hook = fleet.folder / "hook.yml"
    hook.write_text(
        "- name: Look\n  ansible.builtin.command: touch /run/drained\n  changed_when: true\n- name:"
        " Refuse\n  ansible.builtin.fail:\n    msg: not now\n"
    )
    refused = drain(fleet, "vms", check=False, drover_host="kvm1", drover_before_drain=str(hook))
    assert refused.returncode != 0 and "not now" in said(refused), said(refused)
    assert fleet.run("kvm1", "ls /run/drained") and sources(fleet) == before
    assert "drained" not in said(fleet.playbook("hosts", "-e", "drover_host=kvm1"))
    hook.write_text(
        "- name: Look\n  ansible.builtin.command: rm /run/drained\n  changed_when: true\n"
    )
    done = drain(
        fleet,
        "vms",
        drover_host="kvm1",
        drover_before_drain=str(hook),
        drover_destination_pool="ceph",
    )
    assert "is empty of disks" in said(done) and sources(fleet) != before
    undrain(fleet, "vms")
    in_order(fleet)


def sound(fleet, text, pid):
    """Check that the guest runs, that no order, lease or record of a move is left, and that store
    and host agree."""
    assert "Traceback" not in text and "is empty of disks" not in text, text
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    assert "disk_move" not in fleet.run(
        "kvm1", "virsh dumpxml --inactive web"
    ) and "job='copy'" not in fleet.run("kvm1", "virsh dumpxml web")
    in_order(fleet)


def test_a_volume_group_that_runs_out_between_two_disks(pools):
    """Another user takes all free space: the second disk stays, is named, and moves when there is
    room again."""
    fleet = pools
    off = Domain("db", size="64M", written_mb=WRITTEN_MB, state="shutoff")
    fleet.make("kvm1", off)
    guest(fleet)
    discover(fleet, **VARIABLES)
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    slowly = {
        "drover_destination_pool": "vms",
        "drover_migration": {"bandwidth_mib": 2},
        "drover_max_migrations": 1,
    }
    run = fleet.start("drain", "-e", json.dumps({"drover_pool": "shared", **VARIABLES, **slowly}))
    eventually(lambda: volumes(fleet))
    free = fleet.run("kvm1", "vgs --noheadings --nosuffix --units b -o vg_free vms").strip()
    fleet.run("kvm1", f"virsh vol-create-as vms hog {free}")
    text = run.finish()
    assert (
        run.process.returncode
        and "is not empty" in text
        and "MiB free" in text
        and "make room there" in text
    ), text
    assert sorted(volumes(fleet)) == sorted([f"{off.uuid}-vda", "hog"]) and digest_of_volume(
        fleet, f"{off.uuid}-vda"
    ) == ("0", "0")
    assert sources(fleet) == {f"{SHARED}/web-0.qcow2"}
    sound(fleet, text, pid)
    assert (
        "kvm1_pool_vms" in holdings(fleet)["db"] and "kvm1_pool_vms" not in holdings(fleet)["web"]
    )
    fleet.run("kvm1", "virsh vol-delete --pool vms hog")
    done = drain(fleet, "shared", drover_destination_pool="vms")
    assert "is empty of disks" in said(done) and len(volumes(fleet)) == 2, said(done)
    undrain(fleet, "shared")
    in_order(fleet)


def test_a_pool_of_ceph_that_gets_full_in_the_middle_of_a_copy(pools):
    """Ceph delays the writes of the copy, and QEMU waits for them when the copy is aborted. So the
    result is not known: both places stay claimed, and the next run continues when there is room."""
    fleet = pools
    uuid = guest(fleet)
    discover(fleet, **VARIABLES)
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    slowly = {
        "drover_destination_pool": "ceph",
        "drover_migration": {"bandwidth_mib": 1, "timeout_per_gib": 20},
    }
    run = fleet.start("drain", "-e", json.dumps({"drover_pool": "shared", **VARIABLES, **slowly}))
    try:
        eventually(lambda: "job='copy'" in fleet.run("kvm1", "virsh dumpxml web"))
        cluster(fleet).ceph("osd", "pool", "set-quota", ceph.POOL, "max_bytes", str(2**20))
        text = run.finish()
    finally:
        cluster(fleet).ceph("osd", "pool", "set-quota", ceph.POOL, "max_bytes", "0")
    assert run.process.returncode and "Traceback" not in text and "is empty of disks" not in text, (
        text
    )
    assert (
        "It is not certain what became of the move of its disk vda" in text
        and "Run this again" in text
    ), text
    assert "did not begin" not in text, text
    assert set(holdings(fleet)["web"]) >= {"pool/shared", "pool/ceph"}
    # Ceph completes the writes after a while.
    eventually(lambda: not fleet.lab.host("kvm1").run("timeout 5 virsh blockjob web vda").rc)
    done = drain(fleet, "shared", drover_destination_pool="ceph")
    assert "is empty of disks" in said(done), said(done)
    assert (
        sources(fleet) == {f"{ceph.POOL}/{uuid}-vda"}
        and images(fleet) == [f"{uuid}-vda"]
        and digest_of_image(fleet, f"{uuid}-vda") == ("0", "0")
    )
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    undrain(fleet, "shared")
    in_order(fleet)
