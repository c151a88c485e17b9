# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_domain_disk_move``, into pools of volumes and out of them. A folder stands for the
devices of LVM and ZFS; Ceph is a fake.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._disk_move import move
from ansible_collections.drover.compute.plugins.module_utils._storage import rbd
from ansible_collections.drover.compute.tests.unit import devices
from ansible_collections.drover.compute.tests.unit.module_utils.faraway import Faraway, refuse
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, qemu_img
from ansible_collections.drover.compute.tests.unit.modules.ceph import Ceph, Image
from ansible_collections.drover.compute.tests.unit.modules.test_domain_disk_move import (
    UUID,
    Guest,
    on_a_disk,
    ready,
)

MIB = 2**20
NAME = f"{UUID}-vda"
RBD = f"rbd:vms/{NAME}"
NETWORK = (
    "<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='rbd'"
    f" name='vms/{NAME}'><host name='192.0.2.1' port='6789'/></source><target dev='vda'"
    " bus='virtio'/></disk>"
)


class OfVolumes(Guest):
    """A guest of a host with a pool of Ceph named ceph, and one of LVM named vms."""

    def __init__(self, run_module, uri, connection, folder, guests):
        super().__init__(run_module, uri, connection, folder, guests)
        self.ceph, self.device = Ceph(), str(folder / "dev" / NAME)
        # The devices of this host take the place of the files of a remote host.
        self.lvm = Faraway(connection, "", shared=[folder])
        # The folder of a pool of LVM is always below /dev.
        self.lvm.pool("vms", folder / "dev", kind="zfs")
        pools = {"ceph": self.ceph, "vms": self.lvm.pools["vms"]}
        guests.volumes = lambda name: name.partition("/")[2] in self.ceph.images

        def look_up(name):
            return (
                pools[name]
                if name in pools
                else refuse(libvirt.VIR_ERR_NO_STORAGE_POOL, f"Storage pool not found: '{name}'")
            )

        connection.storagePoolLookupByName, connection.listAllStoragePools = (
            look_up,
            lambda flags=0: list(pools.values()),
        )

    def volumes(self):
        return sorted(self.ceph.images), sorted(os.listdir(os.path.dirname(self.device)))

    def disks(self):
        flags = ([0] if self.domain.isActive() else []) + [libvirt.VIR_DOMAIN_XML_INACTIVE]
        return [
            devices.source_of(ET.fromstring(self.domain.XMLDesc(each)).find("devices/disk"))
            for each in flags
        ]

    def driver(self):
        return {
            ET.fromstring(self.domain.XMLDesc(each)).find("devices/disk/driver").get("type")
            for each in (0, libvirt.VIR_DOMAIN_XML_INACTIVE)
        }


@pytest.fixture
def make(run_module, fake_host, domain_xml, tmp_path, monkeypatch):
    monkeypatch.setattr(move, "POLL", 0.01)

    def made(element=None, running=True, others=(), size="64M"):
        (tmp_path / "fast").mkdir()
        (tmp_path / "dev").mkdir()
        on_a_disk(tmp_path, monkeypatch)
        path = qemu_img(tmp_path / "vda.qcow2", size=size)
        uri, connection = fake_host(domain_xml("vm", 7, devices=element or disk(path)), *others)
        vm = OfVolumes(run_module, uri, connection, tmp_path, devices.Devices(monkeypatch))
        monkeypatch.setattr(rbd, "_with_qemu_img", vm.ceph.qemu_img)
        monkeypatch.setattr(
            libvirt.virDomain,
            "blockInfo",
            lambda domain, target, flags=0: [64 * MIB, 64 * MIB, 64 * MIB],
        )
        if not running and vm.domain.isActive():
            vm.domain.destroy()
        return vm

    return made


@pytest.mark.parametrize(
    "pool, there, after", [("ceph", RBD, ([NAME], [])), ("vms", None, ([], [NAME]))]
)
def test_a_file_becomes_a_volume(make, pool, there, after):
    vm = make()
    there = there or vm.device
    dry_run = vm.done(check_mode=True, diff_mode=True, pool=pool)
    assert (
        dry_run["device"]["source"] == there
        and dry_run["device"]["format"] == "raw"
        and vm.volumes() == ([], [])
    )
    assert dry_run["device"]["capacity_bytes"] == 64 * MIB
    done = vm.done(diff_mode=True, pool=pool)
    assert (done["removed"], done["kept"], done["diff"]) == ([vm.old], [], dry_run["diff"])
    assert (
        set(vm.disks()) == {there}
        and vm.driver() == {"raw"}
        and not os.path.exists(vm.old)
        and vm.volumes() == after
        and not vm.recorded
    )
    assert {image.size for image in vm.ceph.images.values()} <= {64 * MIB}
    assert not vm.done("unchanged", pool=pool)["changed"]


def test_the_origin_of_a_disk_on_the_network_is_told(make):
    """The store needs this name to count the disk on its pool."""
    vm = make()
    assert vm.done(check_mode=True, pool="ceph")["device"]["origin"] == f"rbd:192.0.2.1:/vms/{NAME}"


def test_a_volume_of_ceph_becomes_a_file_and_goes(make):
    vm = make(NETWORK)
    vm.ceph.images = {NAME: Image(64 * MIB, "data"), "somebodys": Image(1)}
    vm.ceph.refresh()
    dry_run = vm.done(check_mode=True)
    done = vm.done()
    new = os.path.join(vm.fast, NAME)
    assert (
        set(vm.disks()) == {new} == {dry_run["device"]["source"]}
        and "origin" not in dry_run["device"]
    )
    assert (
        done["removed"] == [RBD]
        and vm.volumes()[0] == ["somebodys"]
        and os.stat(new).st_size == 64 * MIB
    )
    assert "auth" not in vm.domain.XMLDesc(0) and "protocol" not in vm.domain.XMLDesc(
        libvirt.VIR_DOMAIN_XML_INACTIVE
    )


@pytest.mark.parametrize("running", [True, False])
def test_a_volume_of_lvm_becomes_a_file_and_goes(make, tmp_path, running):
    path = tmp_path / "dev" / NAME
    vm = make(
        "<disk type='block' device='disk'><driver name='qemu' type='raw'/><source"
        f" dev='{path}'/><target dev='vda'/></disk>",
        running,
    )
    path.write_bytes(b"drover!!" * (8 * MIB))
    done = vm.done()
    assert (
        set(vm.disks()) == {os.path.join(vm.fast, NAME)}
        and done["removed"] == [str(path)]
        and vm.volumes() == ([], [])
    )
    with open(os.path.join(vm.fast, NAME), "rb") as file:
        assert file.read(8) == b"drover!!"


def test_a_volume_whose_name_does_not_prove_whose_it_is_stays(make):
    vm = make(NETWORK.replace(NAME, "root"))
    vm.ceph.images = {"root": Image(64 * MIB, "data")}
    vm.ceph.refresh()
    done = vm.done()
    assert (
        done["removed"] == []
        and "its name does not say" in done["kept"][0]["reason"]
        and "root" in vm.ceph.images
    )


def test_of_one_that_is_off(make):
    vm = make(running=False)
    assert "while its guest runs" in vm.refuses(pool="ceph")
    vm.is_as_before()
    vm.done(pool="vms")
    assert (
        set(vm.disks()) == {vm.device}
        and os.stat(vm.device).st_size == 64 * MIB
        and not os.path.exists(vm.old)
        and not vm.recorded
    )


@pytest.mark.parametrize("to", ["fast", "ceph"])
def test_one_in_ceph_that_is_off_is_refused_in_a_sentence(make, monkeypatch, to):
    """libvirt tells the size of such an image only while the guest runs."""

    def block_info(domain, target, flags=0):
        if not domain.isActive():
            refuse(
                libvirt.VIR_ERR_INTERNAL_ERROR,
                "missing storage backend for network files using rbd protocol",
            )
        return [64 * MIB, 64 * MIB, 64 * MIB]

    vm = make(NETWORK.replace(NAME, "root"), running=False)
    monkeypatch.setattr(libvirt.virDomain, "blockInfo", block_info)
    vm.ceph.images = {"root": Image(64 * MIB, "data")}
    vm.ceph.refresh()
    for check_mode in (True, False):
        refusal = vm.refuses(check_mode=check_mode, **({} if to == "fast" else {"pool": to}))
        assert (
            refusal.startswith("The disk vda of vm on ")
            and "is not moved: the guest is off" in refusal
            and "Start it, then run this again" in refusal
        )
        assert "backend" not in refusal and list(vm.ceph.images) == ["root"] and not vm.recorded


@pytest.mark.parametrize("pool", ["ceph", "vms"])
def test_an_abort_removes_the_volume(make, pool):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", pool=pool, order="one")
    assert sum(map(len, vm.volumes())) == 1 and vm.recorded
    assert vm.done("aborted", state="aborted")["removed"] == [RBD if pool == "ceph" else vm.device]
    vm.is_as_before()
    assert vm.volumes() == ([], [])


@pytest.mark.parametrize("pool", ["ceph", "vms"])
def test_each_call_goes_on(make, pool):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", pool=pool, order="one")
    assert "is being moved to" in vm.refuses(begun=True)
    ready(vm)
    assert vm.done(pool=pool, goes_on=True, order="two")["removed"] == [vm.old]


@pytest.mark.parametrize("pool", ["ceph", "vms"])
def test_the_next_run_begins_anew_after_the_guest_went_off(make, pool):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", pool=pool)
    vm.domain.destroy()
    if pool == "ceph":
        assert "while its guest runs" in vm.refuses(pool=pool)
        assert vm.volumes() == ([], []) and os.path.exists(vm.old)
        return
    vm.done(pool=pool)
    assert set(vm.disks()) == {vm.device} and not os.path.exists(vm.old)


def cut_off(vm, pool, monkeypatch):
    """Kill a call after it made the volume and before it recorded the volume."""
    made = move.places.create

    def create(*given):
        made(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(move.places, "create", create)
        with pytest.raises(KeyboardInterrupt):
            vm.run(pool=pool)


@pytest.mark.parametrize("pool", ["ceph", "vms"])
def test_a_volume_of_which_only_the_intention_is_recorded_is_removed_by_its_name(
    make, monkeypatch, pool
):
    """It was not there before."""
    vm = make()
    cut_off(vm, pool, monkeypatch)
    assert vm.recorded and sum(map(len, vm.volumes())) == 1 and set(vm.disks()) == {vm.old}
    assert vm.done("aborted", state="aborted")["kept"] == [] and vm.volumes() == ([], [])
    cut_off(vm, pool, monkeypatch)
    assert vm.done(pool=pool)["removed"][-1] == vm.old and sum(map(len, vm.volumes())) == 1


def test_a_volume_that_somebody_else_makes_at_the_same_moment_stays(make, monkeypatch):
    vm = make()
    made = vm.ceph.createXML

    def lose(text, flags=0):
        made(text)
        return made(text)

    monkeypatch.setattr(vm.ceph, "createXML", lose)
    assert "exists already" in vm.refuses(pool="ceph")
    assert vm.volumes() == ([NAME], []) and set(vm.disks()) == {vm.old} and not vm.recorded


def test_another_volume_that_has_got_the_name_stays(make, tmp_path):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", pool="vms")
    os.rename(vm.device, tmp_path / "dev" / "kept")
    with open(vm.device, "wb") as file:
        file.truncate(64 * MIB)
    ready(vm)
    assert "is not the volume any more" in vm.refuses(pool="vms", goes_on=True)
    assert os.path.exists(vm.device) and set(vm.disks()) == {vm.old}


@pytest.mark.parametrize(
    "change, says",
    [
        (
            lambda vm: vm.ceph.images.update({NAME: Image(1)}),
            "exists already. Nothing was overwritten",
        ),
        (
            lambda vm: setattr(vm.ceph, "info", lambda: [2, 1 << 30, 0, 32 * MIB]),
            "has 32 MiB free, and the copy takes 64 MiB",
        ),
        (
            lambda vm: setattr(vm.ceph, "isActive", lambda: 0),
            "is not active: start it with virsh pool-start ceph",
        ),
    ],
)
def test_refused_before_anything_is_made(make, change, says):
    vm = make()
    change(vm)
    before = dict(vm.ceph.images)
    assert says in vm.refuses(pool="ceph")
    vm.is_as_before()
    assert vm.ceph.images == before


def test_a_volume_that_another_domain_names_is_refused(make, domain_xml):
    vm = make(others=[domain_xml("thief", 8, devices=NETWORK)])
    assert "would be in use" in vm.refuses(pool="ceph")
    vm.is_as_before()


def test_a_pool_that_rounds_the_size_up_takes_no_disk_of_another_size(make, monkeypatch):
    vm = make(size=str(64 * MIB + 512))
    made = type(vm.lvm.pools["vms"]).createXML

    def rounded(pool, text, flags=0):
        return made(pool, text.replace(str(64 * MIB + 512), str(68 * MIB)), flags)

    monkeypatch.setattr(type(vm.lvm.pools["vms"]), "createXML", rounded)
    assert "make the disk larger first" in vm.refuses(pool="vms")
    vm.is_as_before()
    assert vm.volumes() == ([], [])


@pytest.mark.parametrize(
    "wrong", [["ceph", "somebodys", None], ["ceph", NAME], "ceph", ["ceph", NAME, 7]]
)
def test_a_record_of_another_volume_is_believed_by_nobody(make, wrong):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", pool="ceph")
    vm.ceph.images["somebodys"] = Image(1)
    found = move.records.read(vm.domain)
    move.records.write(vm.domain, {**found, "made_volume": wrong})
    assert "cannot be read" in vm.run(pool="ceph")["msg"] and "somebodys" in vm.ceph.images
