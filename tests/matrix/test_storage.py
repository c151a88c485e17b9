# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of an instance on storage without a module in the lab's kernel: placed, moved, drained,
evacuated, deleted, by the shipped modules.

The test writes the kernel's table of mounts, the names of devices and the pools of libvirt. ZFS: a
file takes the place of each volume's device.
"""

from __future__ import annotations

import contextlib
import os

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.filter._disk_layout import disk_layout
from ansible_collections.drover.compute.plugins.module_utils._files import block_devices, mounts
from ansible_collections.drover.compute.plugins.module_utils._storage import shared_storage
from ansible_collections.drover.compute.plugins.module_utils._storage import volumes as _volumes
from ansible_collections.drover.compute.tests.matrix import volumes
from ansible_collections.drover.compute.tests.matrix.operations import Operation
from ansible_collections.drover.compute.tests.matrix.world import Run, world_of
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.module_utils.images import qemu_img
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

MIB = 2**20
GUEST = b"what the guest has written"


class Life:
    """An instance ``web`` on a world's storage."""

    def __init__(self, world):
        self.world, self.uuid = world, None

    def place(self, *disks):
        """Place it as the role place does; return its host."""
        run, world = Run(self.world), self.world
        (instance,) = run.task(
            "localhost",
            "_definitions",
            instances=[{"name": "web", "memory_mb": 64, "disks": list(disks)}],
        )["instances"]
        (selection,) = run.task("localhost", "_schedule", requests=[instance["request"]])[
            "selections"
        ]
        (claimed,) = run.task(
            "localhost", "allocation", selections=[selection], of_definitions=True
        )["claims"]
        claim = {**instance, **claimed}
        self.uuid = claim["uuid"]
        laid_out = disk_layout(
            claim["disks"], f"{world.disks}/web", {}, claim.get("pools") or {}, self.uuid
        )
        text = hypervisors.xml("web", self.uuid).replace(
            "<devices>", "<devices>" + "".join(map(_element, laid_out)), 1
        )
        make = [each["make"] for each in laid_out if each["make"]]
        given = {"name": "web", "xml": text, "disks": make, "defined_disks": claim["disks"]}
        try:
            run.task(claim["host"], "_instance_build", uuid=self.uuid, timeout=1, **given)
        except AnsibleActionFail as problem:
            # The second failure has the same message, and the result of the build.
            run.task(
                claim["host"],
                "_instance_build",
                state="settled",
                uuid=self.uuid,
                message=str(problem),
                timeout=1,
            )
        return claim["host"]

    def host(self):
        """Return the one host of the running instance."""
        (name,) = (host for host, state in self.world.fleet.where()["web"] if state == "running")
        return name

    def disks(self):
        return hypervisors.disks_of(self.world.fleet.hosts[self.host()].domains()[self.uuid])

    def move(self, host):
        Run(self.world).task(
            "localhost", "instance_migrate", instances=["web"], host=host, timeout=1
        )
        assert self.host() == host

    def others(self):
        return [name for name in self.world.HOSTS if name != self.host()]

    def goes_everywhere(self):
        """Move, drain and evacuate it."""
        first = self.host()
        second = self.others()[0]
        self.move(second)
        self.world.discover()
        self.drain(second)
        dead = self.host()
        assert dead != second
        self.world.discover()
        self.evacuate(dead)
        assert self.host() not in (dead, second)
        self.world.fleet.hosts[dead].power_on()
        self.world.discover()
        assert [name for name, _state in self.world.fleet.where()["web"]] == [self.host()], first

    def drain(self, host):
        Run(self.world).task("localhost", "drain", host=[host], max_wait=2, shutdown_timeout=1)

    def evacuate(self, host):
        """Cut the power of its host, and evacuate the host as a person does."""
        self.world.fleet.hosts[host].power_off()
        with contextlib.suppress(AnsibleActionFail):
            self.world.discover()
        others = [name for name in self.world.HOSTS if name != host]
        arguments = {"host": host, "others": others, "max_evacuations": 1, "start_timeout": 1}
        limits = {"down_seconds": 0, "quiet_seconds": 0, "start_seconds": 0, "down_percent": 100}
        assert Run(self.world).task(
            "localhost", "evacuate", state="judged", power="off", **arguments, **limits
        )["fence"]
        event = Run(self.world).task(
            "localhost", "_power_event", host=host, action="fence", driver="ipmi"
        )["event"]
        Run(self.world).task(
            "localhost",
            "_power_event",
            host=host,
            uuid=event["uuid"],
            status="completed",
            power_state="off",
        )
        return Run(self.world).task("localhost", "evacuate", state="restarted", **arguments)

    def delete(self):
        return Run(self.world).task(
            "localhost", "instance", state="absent", instances=["web"], force=True, timeout=1
        )


def _element(disk):
    """Return the disk in a domain, as the template of the role place writes it."""
    source = disk["source"]
    if source:
        kind, place, name = (
            source["type"],
            f"dev='{source['dev']}'",
            f"<alias name='ua-drover-attached-source-{disk['target']}'/>",
        )
    elif disk.get("pool") and disk.get("volume"):
        kind, place, name = "volume", f"pool='{disk['pool']}' volume='{disk['volume']}'", ""
    else:
        kind, place, name = "file", f"file='{disk['path']}'", ""
    driver = f"<driver name='qemu' type='{disk['format']}' cache='none'/>"
    return (
        f"<disk type='{kind}' device='disk'>{driver}<source {place}/><target"
        f" dev='{disk['target']}'/>{name}</disk>"
    )


class Empty(Operation):
    """Return three hosts, and an instance that stays on one of them."""

    def prepare(self, world):
        world.instance("beside", "kvm3")


@pytest.fixture
def world():
    with world_of(Empty()) as made:
        yield made


MOUNTS = {
    "nfs4": ("/", "filer:/export"),
    "ceph": ("/", "mon1,mon2:/vms"),
    "cifs": ("/", "//filer/share"),
    "lustre": ("/", "192.0.2.1@tcp:/work"),
    "gfs2": ("/", "/dev/mapper/san-vms"),
    "ocfs2": ("/", "/dev/mapper/san-vms"),
}


@pytest.mark.parametrize("kind", MOUNTS)
def test_files_on_a_mounted_network_or_cluster_file_system(world, tmp_path, monkeypatch, kind):
    root, source = MOUNTS[kind]
    table = tmp_path / "mountinfo"
    table.write_text(
        f"21 1 254:1 / / rw - ext4 /dev/vda1 rw\n30 21 0:40 {root} {world.disks} rw - {kind}"
        f" {source} rw\n"
    )
    (tmp_path / "by-uuid").mkdir()
    (tmp_path / "by-uuid" / "0f3c-aa").symlink_to("/dev/mapper/san-vms")
    monkeypatch.setattr(mounts, "MOUNTINFO", str(table))
    monkeypatch.setattr(shared_storage, "BY_UUID", str(tmp_path / "by-uuid"))
    world.discover()
    life = Life(world)
    life.place({"size_gb": 1}, {"size_gb": 1})
    paths = life.disks()
    assert {os.path.dirname(path) for path in paths} == {world.disks}
    numbers = [os.stat(path).st_ino for path in paths]
    life.goes_everywhere()
    assert life.disks() == paths and [os.stat(path).st_ino for path in paths] == numbers
    # A clone on another host needs the second image.
    clone = qemu_img(os.path.join(world.disks, "clone.qcow2"), backing=paths[1])
    world.fleet.hosts[life.others()[0]].define("clone", uuid_of("clone"), disks=[clone])
    world.discover()
    (deleted,) = life.delete()["instances"]
    assert [os.path.exists(path) for path in (*paths, clone)] == [False, True, True]
    assert (
        deleted["removed_disks"] == paths[:1]
        and [each["path"] for each in deleted["kept_disks"]] == paths[1:]
    )
    world.check_running()


@pytest.mark.parametrize(
    "name",
    ["naa.600140500000a1b2c3d4000000000001", "LVM-q3pX0tUJ@naa.600140500000a1b2c3d4000000000001"],
)
def test_a_device_of_a_san_and_a_logical_volume_on_one(world, monkeypatch, name):
    """All hosts show the device with one name, and it never belongs to the instance alone."""
    if not world.folder.startswith("/dev/"):
        pytest.skip("a file stands for the device, below /dev/shm, and this machine has none")
    path = os.path.join(world.folder, "device")
    with open(path, "wb") as file:
        file.write(GUEST)
        file.truncate(MIB)
    world.keep(path)
    monkeypatch.setattr(block_devices, "identity", lambda each: name if each == path else None)
    monkeypatch.setattr(block_devices, "listing", lambda: [{"id": name, "names": [path]}])
    world.discover()
    life = Life(world)
    life.place({"source": {"path": path}, "size_gb": 1})
    life.goes_everywhere()
    assert life.disks() == [path]
    (deleted,) = life.delete()["instances"]
    assert "web" not in world.fleet.where() and deleted["removed_disks"] == []
    assert [each["path"] for each in deleted["kept_disks"]] == [path]
    world.check_running()


class Fast(Empty):
    """Make the folder of a pool that counts separately."""

    def prepare(self, world):
        super().prepare(world)
        self.folder = os.path.join(world.folder, "fast")
        os.makedirs(self.folder)
        for host in world.fleet.hosts.values():
            text = (
                "<pool"
                f" type='dir'><name>fast</name><target><path>{self.folder}</path></target></pool>"
            )
            host.connection.storagePoolDefineXML(text).create()
        world.fleet.variables.update(drover_storage_pools=["fast"], drover_shared_pools=["fast"])
        world.discover()


def test_discovery_counts_each_disk_as_place_did():
    """A file in the folder of a pool counts there, so a definition without the pool, or with
    another one, is refused."""
    operation = Fast()
    with world_of(operation) as world:
        life = Life(world)
        pool_image, elsewhere = (
            qemu_img(os.path.join(folder, "data.qcow2"), size="1G")
            for folder in (operation.folder, world.disks)
        )
        source = {"size_gb": 1, "source": {"path": pool_image, "format": "qcow2"}}
        for disk, words in (
            (source, "counts on the storage pool fast.* pool: fast"),
            (
                {"size_gb": 1, "path": os.path.join(operation.folder, "new.qcow2")},
                "counts on the storage pool fast.* pool: fast",
            ),
            (
                {**source, "source": {**source["source"], "path": elsewhere}, "pool": "fast"},
                "is not in the storage pool fast",
            ),
        ):
            with pytest.raises(AnsibleActionFail, match=words):
                life.place(disk)
            assert (
                "web" not in world.fleet.where()
                and os.listdir(operation.folder) == ["data.qcow2"]
                and life.uuid not in fleets.holdings(world.url)
            )
        life.place({**source, "pool": "fast"}, {"size_gb": 1})
        claimed = fleets.holdings(world.url)[life.uuid]
        world.discover()
        assert fleets.holdings(world.url)[life.uuid] == claimed
        assert {
            name: amount
            for each in claimed.values()
            for name, amount in each.items()
            if "DISK_GB" in name
        } == {
            "CUSTOM_DISK_GB_FAST": 1,
            "DISK_GB": 1,
        }


class Zfs(Empty):
    """Make a pool of ZFS on kvm1; a call of ``elsewhere`` makes one of the same name and path on
    kvm2."""

    def prepare(self, world):
        super().prepare(world)
        self.folder, self.root = (
            os.path.join(world.folder, "tank"),
            os.path.join(world.folder, "devices of kvm2"),
        )
        os.makedirs(self.folder)
        volumes.give(world.fleet, "kvm1", "tank", self.folder, world.folder)
        world.fleet.variables["drover_storage_pools"] = ["tank"]
        world.discover()

    def elsewhere(self, world):
        os.makedirs(self.root + self.folder)
        volumes.give(world.fleet, "kvm2", "tank", self.folder, None, self.root)
        world.discover()


@pytest.fixture
def zfs(monkeypatch):
    monkeypatch.setattr(_volumes, "GIB", MIB)
    operation = Zfs()
    with world_of(operation) as world:
        yield operation, world, Life(world)


def placed(operation, world, life, **more):
    assert life.place({"size_gb": 1, "pool": "tank", **more}) == "kvm1"
    path = os.path.join(operation.folder, f"{life.uuid}-vda")
    assert life.disks() == [path] and os.stat(path).st_size == MIB
    (amounts,) = [
        each
        for each in fleets.holdings(world.url)[life.uuid].values()
        if "CUSTOM_DISK_GB_TANK" in each
    ]
    assert amounts["CUSTOM_DISK_GB_TANK"] == 1
    return path


def test_a_volume_of_zfs_is_made_and_removed_again(zfs):
    operation, world, life = zfs
    somebodys = os.path.join(operation.folder, "somebodys")
    with open(somebodys, "wb") as file:
        file.write(GUEST)
    path = placed(*zfs)
    world.discover()
    (deleted,) = life.delete()["instances"]
    assert (deleted["removed_disks"], deleted["kept_disks"]) == ([path], [])
    assert os.listdir(operation.folder) == ["somebodys"]


def test_a_volume_of_zfs_that_another_domain_has_stays(zfs):
    operation, world, life = zfs
    path = placed(*zfs)
    disk = f"<disk type='block'><source dev='{path}'/><target dev='vda'/></disk>"
    text = hypervisors.xml("thief", uuid_of("thief")).replace("<devices>", f"<devices>{disk}", 1)
    world.fleet.hosts["kvm1"].connection.defineXML(text)
    (deleted,) = life.delete()["instances"]
    assert (
        deleted["removed_disks"] == []
        and "thief" in deleted["kept_disks"][0]["reason"]
        and os.path.exists(path)
    )


def test_a_volume_of_zfs_is_copied_by_a_drain(zfs):
    operation, world, life = zfs
    path = placed(*zfs)
    operation.elsewhere(world)
    world.fleet.hosts["kvm1"].domains()[life.uuid].destroy()
    with open(path, "r+b") as file:
        file.write(GUEST)
    world.discover()
    life.drain("kvm1")
    assert world.fleet.where()["web"] == [("kvm2", "shutoff")]
    assert os.listdir(operation.folder) == []
    with open(operation.root + path, "rb") as file:
        assert file.read(len(GUEST)) == GUEST and os.stat(file.fileno()).st_size == MIB


def test_a_drain_names_a_volume_of_zfs_that_no_other_host_has_a_pool_for(zfs):
    operation, world, life = zfs
    path = placed(*zfs)
    with pytest.raises(AnsibleActionFail, match="web"):
        life.drain("kvm1")
    assert life.host() == "kvm1" and os.path.exists(path)


def test_an_evacuation_restarts_no_instance_on_a_volume_of_zfs(zfs):
    """Only the dead host has it, although another host has a pool with its name."""
    operation, world, life = zfs
    path = placed(*zfs)
    operation.elsewhere(world)
    with pytest.raises(AnsibleActionFail, match="is on the dead host alone"):
        life.evacuate("kvm1")
    assert world.fleet.where()["web"] == [("kvm1", "shutoff")] and os.path.exists(path)
