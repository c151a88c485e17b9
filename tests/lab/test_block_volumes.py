# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that are local logical volumes of each host: made, copied to the destination of a move, and
removed with their instance.

The commands of LVM and libvirt's driver are real. Without device mapper in the kernel, the devices
are loop devices (lablib/storage/lvm.py).
"""

from __future__ import annotations

import json
import shutil

import pytest
from lablib.storage import lvm
from test_evacuate import AT_ONCE
from test_fleet import DOMAIN, SHARED, Domain, changed, eventually, said
from test_sharing import discover, holdings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in lvm.PROGRAMS),
        reason="LVM is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]

CLASS = "CUSTOM_DISK_GB_VMS"
VARIABLES = {
    "drover_shared_pools": ["shared"],
    "drover_storage_pools": [{"name": "vms", "traits": ["STORAGE_DISK_SSD"]}],
    **AT_ONCE,
}

EMPTY = """
for device in $(ls /dev/vms); do virsh vol-delete --pool vms $device || lvremove -f /dev/vms/$device; done
virsh pool-refresh vms
rm -rf /var/lib/drover/migrations
true
"""


class OnLvm:
    """A fleet with a volume group on each host."""

    def __init__(self, fleet):
        self.fleet = fleet

    def volumes(self, host):
        """Return {volume: GiB} as LVM itself lists them."""
        listed = self.fleet.run(
            host, "lvs --noheadings --nosuffix --units g -o lv_name,lv_size vms"
        ).split()
        return {name: float(size) for name, size in zip(listed[::2], listed[1::2])}

    def everywhere(self):
        return {host: found for host in self.fleet.hosts if (found := self.volumes(host))}

    def write(self, host, volume, letter, offset_mb, count_mb=1):
        """Write as the guest would."""
        self.fleet.run(
            host,
            f"qemu-io -f raw -n -U -c 'write -q -P {ord(letter)} {offset_mb}M {count_mb}M'"
            f" /dev/vms/{volume} 2>&1 || head -c {count_mb}M /dev/zero | tr '\\0' {letter} | dd"
            f" of=/dev/vms/{volume} bs=1M seek={offset_mb} oflag=direct conv=notrunc",
        )

    def digest(self, host, volume):
        return self.fleet.run(
            host, f"dd if=/dev/vms/{volume} bs=1M iflag=direct 2>/dev/null | sha256sum"
        ).split()[0]

    def counted(self, host):
        rows = self.fleet.query(
            "SELECT i.used FROM inventories i JOIN resource_providers p ON p.id = i.provider_id"
            " WHERE p.name = :name",
            name=f"{host}_pool_vms",
        )
        return rows[0][0]

    def playbook(self, name, check=True, **variables):
        return self.fleet.playbook(name, "-e", json.dumps({**VARIABLES, **variables}), check=check)

    def place(self, *disks, check=True, name="db", **more):
        return self.fleet.place(
            [{"name": name, "memory_mb": 64, "disks": list(disks), **more}],
            check=check,
            **VARIABLES,
        )

    def make(self, host, name, *volumes, state="running"):
        """Make a guest by hand on volumes made by hand."""
        disks, lines = "", []
        for number, volume in enumerate(volumes):
            lines.append(f"virsh vol-create-as vms {volume} 1G")
            source = (
                f"<source dev='/dev/vms/{volume}'/><target dev='vd{'abc'[number]}' bus='virtio'/>"
            )
            disks += (
                "<disk type='block' device='disk'><driver name='qemu' type='raw'"
                f" cache='none'/>{source}</disk>"
            )
        xml = DOMAIN.format(
            disks=disks, name=name, uuid=Domain(name).uuid, memory_mb=64, vcpus=1, metadata=""
        )
        lines += [
            f"virsh define /dev/stdin <<'END'\n{xml}\nEND",
            f"virsh start {name}" if state == "running" else "",
        ]
        self.fleet.run(host, "\n".join(lines))

    def uuid(self, name="db"):
        (uuid,) = {
            each["uuid"]
            for domains in self.fleet.look().values()
            for each in domains
            if each["name"] == name
        }
        return uuid


@pytest.fixture(scope="module")
def groups(own_lab):
    own_lab.command("up", "--with", "lvm")
    return own_lab


@pytest.fixture
def on_lvm(groups, fleet):
    # A host that was off has its devices and its pool again.
    lvm.up(fleet.lab.layout)
    found = OnLvm(fleet)
    yield found
    for host in fleet.hosts:
        fleet.lab.command("start", host)
    lvm.up(fleet.lab.layout)
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    fleet.everywhere(EMPTY)


def test_the_whole_life_of_an_instance_with_logical_volumes(on_lvm):
    """The disk is made by its definition, copied live to the host of a drain over old data, copied
    back cold, and removed with the guest; other volumes stay."""
    fleet, base = on_lvm.fleet, f"{SHARED}/base.qcow2"
    discover(fleet, **VARIABLES)
    fleet.everywhere("virsh vol-create-as vms somebodys 1G")
    fleet.run(
        "kvm1",
        f"qemu-img create -q -f qcow2 {base} 512M && qemu-io -c 'write -q -P 90 1M 3M' {base}",
    )
    disks = [
        {"size_gb": 1, "pool": "vms", "image": base},
        {"size_gb": 2, "pool": "vms", "traits": ["STORAGE_DISK_SSD"]},
    ]
    done = on_lvm.place(*disks)
    host, state = fleet.settled()["db"]
    uuid = on_lvm.uuid()
    own = {f"{uuid}-vda": 1, f"{uuid}-vdb": 2}
    assert state == "running" and on_lvm.volumes(host) == {"somebodys": 1, **own}, said(done)
    assert "<disk type='block'" in fleet.run(host, "virsh dumpxml --inactive db")
    assert holdings(fleet)["db"][f"{host}_pool_vms"] == {CLASS: 3} and on_lvm.counted(host) == 3
    written = fleet.run(
        host,
        f"dd if=/dev/vms/{uuid}-vda bs=1M count=5 iflag=direct 2>/dev/null | tr -d '\\0' |"
        " sha256sum",
    )
    assert written == fleet.run(host, "head -c 3M /dev/zero | tr '\\0' Z | sha256sum")
    assert changed(on_lvm.playbook("discover")) == 0
    again = on_lvm.place(*disks)
    assert changed(again) == 0, said(again)

    on_lvm.write(host, f"{uuid}-vdb", "K", 1500, 8)
    before = {name: on_lvm.digest(host, name) for name in own}
    done = on_lvm.playbook("drain", drover_host=host)
    destination, state = fleet.settled()["db"]
    assert destination != host and state == "running", said(done)
    assert on_lvm.volumes(destination) == {"somebodys": 1, **own} and on_lvm.volumes(host) == {
        "somebodys": 1
    }
    assert {name: on_lvm.digest(destination, name) for name in own} == before
    assert (
        holdings(fleet)["db"][f"{destination}_pool_vms"] == {CLASS: 3} and on_lvm.counted(host) == 0
    )

    on_lvm.playbook("undrain", drover_host=host)
    fleet.run(destination, "virsh destroy db")
    on_lvm.playbook("discover")
    done = on_lvm.playbook("instance_migrate", drover_instance="db", drover_destination=host)
    assert fleet.settled()["db"] == (host, "shutoff"), said(done)
    assert on_lvm.volumes(host) == {"somebodys": 1, **own} and on_lvm.volumes(destination) == {
        "somebodys": 1
    }
    assert {name: on_lvm.digest(host, name) for name in own} == before

    done = on_lvm.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert fleet.where() == {} and set(map(str, on_lvm.everywhere().values())) == {
        "{'somebodys': 1.0}"
    }, said(done)
    assert on_lvm.counted(host) == 0


def test_a_volume_that_is_not_named_for_its_instance_is_copied_and_stays(on_lvm):
    fleet = on_lvm.fleet
    on_lvm.make("kvm1", "web", "web-root")
    on_lvm.write("kvm1", "web-root", "K", 5)
    before = on_lvm.digest("kvm1", "web-root")
    discover(fleet, **VARIABLES)
    done = on_lvm.playbook("drain", drover_host="kvm1")
    destination, state = fleet.settled()["web"]
    assert destination != "kvm1" and state == "running"
    assert on_lvm.volumes(destination) == on_lvm.volumes("kvm1") == {"web-root": 1}
    assert "/dev/vms/web-root" in said(
        done
    ) and "its name does not say that it is this instance's" in said(done), said(done)
    assert on_lvm.digest(destination, "web-root") == before
    done = on_lvm.playbook("instance_delete", drover_instance="web", drover_instance_force=True)
    assert on_lvm.volumes(destination) == {"web-root": 1} and "/dev/vms/web-root" in said(done), (
        said(done)
    )


def test_nothing_is_copied_over_a_volume_that_is_there(on_lvm):
    fleet = on_lvm.fleet
    discover(fleet, **VARIABLES)
    on_lvm.place({"size_gb": 1, "pool": "vms"})
    host, uuid = fleet.settled()["db"][0], on_lvm.uuid()
    others = [each for each in fleet.hosts if each != host]
    for each in others:
        fleet.run(each, f"virsh vol-create-as vms {uuid}-vda 1G")
    before = {each: on_lvm.digest(each, f"{uuid}-vda") for each in others}
    done = on_lvm.playbook("drain", drover_host=host, check=False)
    assert fleet.settled()["db"] == (host, "running")
    assert "nothing proves that it is a leftover of ours" in said(done), said(done)
    assert {each: on_lvm.digest(each, f"{uuid}-vda") for each in others} == before
    # A pool that the destination lacks is not made either.
    fleet.run(others[0], f"virsh vol-delete --pool vms {uuid}-vda; virsh pool-destroy vms")
    try:
        done = on_lvm.playbook(
            "instance_migrate", drover_instance="db", drover_destination=others[0], check=False
        )
        assert "vms" in said(done) and fleet.settled()["db"] == (host, "running"), said(done)
    finally:
        fleet.run(others[0], "virsh pool-start vms")


def test_a_volume_that_others_use_stays(on_lvm):
    fleet = on_lvm.fleet
    discover(fleet, **VARIABLES)
    on_lvm.place({"size_gb": 1, "pool": "vms"}, {"size_gb": 1, "pool": "vms"})
    host, uuid = fleet.settled()["db"][0], on_lvm.uuid()
    on_lvm.playbook("instance_stop", drover_instance="db", drover_instance_force=True)
    source = f"<source pool='vms' volume='{uuid}-vda'/><target dev='vda' bus='virtio'/>"
    disk = f"<disk type='volume'><driver name='qemu' type='raw'/>{source}</disk>"
    xml = DOMAIN.format(
        disks=disk, name="thief", uuid=Domain("thief").uuid, memory_mb=64, vcpus=1, metadata=""
    )
    fleet.run(
        host,
        f"virsh define /dev/stdin <<'END'\n{xml}\nEND\nlosetup --find --show /dev/vms/{uuid}-vdb",
    )
    try:
        done = on_lvm.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
        assert on_lvm.volumes(host) == {f"{uuid}-vda": 1, f"{uuid}-vdb": 1}, said(done)
        assert "the domain thief uses it" in said(done) and "the loop device" in said(done), said(
            done
        )
    finally:
        fleet.run(
            host,
            f"losetup --detach $(losetup --associated /dev/vms/{uuid}-vdb --noheadings --output"
            " NAME)",
        )


def test_a_build_that_was_killed_is_continued_and_nothing_else_is_taken(on_lvm):
    fleet = on_lvm.fleet
    discover(fleet, **VARIABLES)
    uuid = Domain("db").uuid
    # Its name proves nothing: a volume that a person made may have data.
    fleet.everywhere(f"virsh vol-create-as vms {uuid}-vda 1G")
    done = on_lvm.place({"size_gb": 1, "pool": "vms"}, uuid=uuid, check=False)
    assert (
        done.returncode != 0
        and "nothing proves that a build of this instance has made it" in said(done)
    ), said(done)
    assert fleet.where() == {} and fleet.query("SELECT * FROM allocations") == []
    fleet.everywhere(
        f"mkdir -p /var/lib/drover/migrations; echo '{{\"vms/{uuid}-vda\": null}}' >"
        f" /var/lib/drover/migrations/{uuid}.volumes"
    )
    on_lvm.place({"size_gb": 1, "pool": "vms"}, uuid=uuid)
    host, state = fleet.settled()["db"]
    assert state == "running"
    assert fleet.run(host, f"ls /var/lib/drover/migrations/{uuid}.volumes 2>/dev/null; true") == ""


def test_a_dead_hosts_volumes_are_nowhere_else(on_lvm):
    fleet = on_lvm.fleet
    discover(fleet, **VARIABLES)
    on_lvm.place({"size_gb": 1, "pool": "vms"})
    host, uuid = fleet.settled()["db"][0], on_lvm.uuid()
    others = [each for each in fleet.hosts if each != host]
    fleet.lab.command("kill", host)
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", f"{host},localhost", check=False
    )
    done = on_lvm.playbook(
        "evacuate", drover_host=host, drover_host_is_off=f"{host} is powered off", check=False
    )
    assert fleet.where(others) == {} and f"{uuid}-vda" in said(done), said(done)
    assert all(on_lvm.volumes(each) == {} for each in others)


def test_a_disk_moves_into_lvm_and_out_of_it(on_lvm):
    """The guest moves live and shut off; the volume and the file are removed when the disk is on
    the other host."""
    fleet = on_lvm.fleet
    guest = Domain("web", boots=True, size="64M", written_mb=16)
    volume, old, new = f"{guest.uuid}-vda", f"{SHARED}/web-0.qcow2", f"{SHARED}/{guest.uuid}-vda"
    fleet.make("kvm1", guest)
    discover(fleet, **VARIABLES)
    # Old data of the place are not visible in the empty parts of the disk.
    fleet.run(
        "kvm1",
        "virsh vol-create-as vms junk 64M && head -c 64M /dev/zero | tr '\\0' X | dd"
        " of=/dev/vms/junk bs=1M oflag=direct 2>/dev/null",
    )
    fleet.run("kvm1", "virsh vol-delete junk vms")

    def move(pool, **given):
        return on_lvm.playbook(
            "instance_disk_move",
            drover_instance="web",
            drover_disk="vda",
            drover_pool=pool,
            **given,
        )

    def source():
        texts = [
            fleet.run("kvm1", f"virsh domblklist --details {words} web")
            for words in ("", "--inactive")
        ]
        return {line.split()[3] for text in texts for line in text.splitlines() if " vda " in line}

    done = move("vms")
    assert (
        source() == {f"/dev/vms/{volume}"}
        and list(on_lvm.volumes("kvm1")) == [volume]
        and fleet.files(SHARED) == []
    ), said(done)
    assert holdings(fleet)["web"]["kvm1_pool_vms"] == {CLASS: 1} and fleet.settled()["web"] == (
        "kvm1",
        "running",
    )
    assert changed(move("vms")) == 0
    byte_count = fleet.run(
        "kvm1",
        f"dd if=/dev/vms/{volume} bs=1M skip=1 count=15 iflag=direct 2>/dev/null | tr -d Z | wc -c",
    )
    assert byte_count.strip() == "0"
    rest = f"dd if=/dev/vms/{volume} bs=1M skip=16 iflag=direct 2>/dev/null | tr -d '\\0' | wc -c"
    assert fleet.run("kvm1", rest).strip() == "0"

    done = move(SHARED)
    assert (
        source() == {new}
        and on_lvm.volumes("kvm1") == {}
        and fleet.files(SHARED) == [f"{guest.uuid}-vda"]
    ), said(done)
    on_lvm.playbook("instance_stop", drover_instance="web", drover_instance_force=True)
    done = move("vms")
    assert source() == {f"/dev/vms/{volume}"} and fleet.files(SHARED) == [], said(done)
    assert fleet.run("kvm1", rest).strip() == "0"
    assert (
        old not in said(done)
        and fleet.query("SELECT name FROM instances WHERE order_uuid IS NOT NULL") == []
    )
    on_lvm.playbook("instance_start", drover_instance="web")
    assert fleet.settled()["web"] == ("kvm1", "running")
    done = on_lvm.playbook("instance_delete", drover_instance="web", drover_instance_force=True)
    assert on_lvm.volumes("kvm1") == {}, said(done)


def test_a_run_that_is_killed_while_it_copies_into_lvm(on_lvm):
    fleet = on_lvm.fleet
    guest = Domain("web", boots=True, size="64M", written_mb=16)
    fleet.make("kvm1", guest)
    discover(fleet, **VARIABLES)
    variables = {"drover_instance": "web", "drover_disk": "vda", "drover_pool": "vms"}
    run = fleet.start(
        "instance_disk_move",
        "-e",
        json.dumps({**VARIABLES, **variables, "drover_migration": {"bandwidth_mib": 2}}),
    )
    eventually(lambda: "job='copy'" in fleet.run("kvm1", "virsh dumpxml web"))
    run.kill()
    assert list(on_lvm.volumes("kvm1")) == [f"{guest.uuid}-vda"]
    done = on_lvm.playbook("instance_disk_move", **variables, drover_abort=True)
    assert on_lvm.volumes("kvm1") == {} and fleet.files(SHARED) == ["web-0.qcow2"], said(done)
    on_lvm.playbook("instance_disk_move", **variables)
    assert list(on_lvm.volumes("kvm1")) == [f"{guest.uuid}-vda"] and fleet.files(SHARED) == []
    fleet.settled()
