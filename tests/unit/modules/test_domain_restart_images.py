# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain_restart`` starts no domain if its disks have changed. Real images, libvirt's test
driver."""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import block_devices, digests
from ansible_collections.drover.compute.plugins.module_utils._restart import restart_images
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.module_utils.images import (
    disk,
    qcow2,
    qemu_img,
    volume,
)

UUID = "00000000-0000-4000-8000-000000000007"


@pytest.fixture
def start(run_module, fake_host, domain_xml, tmp_path):
    """``start(devices, behind, ...)`` -> the answer for one instance with these devices."""

    def begin(
        devices, behind=None, identity=None, others=(), prepare=lambda connection: None, **more
    ):
        uri, connection = fake_host(*others)
        prepare(connection)
        image = {"target": "vda", "identity": identity, "behind": behind}
        order = {
            "uuid": UUID,
            "name": "vm",
            "xml": domain_xml("vm", 7, devices=devices),
            "images": [image],
            **more,
        }
        (answer,) = run_module("_domain_restart", uri=uri, instances=[order])["instances"]
        defined = "vm" in [each.name() for each in connection.listAllDomains(0)]
        assert defined is (answer["status"] == "restarted")
        if defined:
            begin.disks = hypervisors.disks_of(connection.lookupByName("vm"))
        return answer["status"], answer["message"]

    return begin


def digest(path):
    return digests.of_file(str(path))[0]


def test_a_disk_with_nothing_behind_it(start, tmp_path):
    path = qemu_img(tmp_path / "vm.qcow2")
    assert start(disk(path), [])[0] == "restarted"
    assert start(disk(path))[0] == "restarted", (
        "of a store that has not seen the host since it records chains"
    )


@pytest.mark.parametrize("known", ["same", "another", "unknown", "not recorded", "shared"])
def test_safety_05_a_local_base_is_the_same_by_its_content(start, tmp_path, known):
    base = qemu_img(tmp_path / "golden.qcow2")
    top = qemu_img(tmp_path / "vm.qcow2", backing=base)
    text = {"same": digest(base), "another": "0" * 64, "unknown": None, "shared": None}.get(known)
    behind = (
        None
        if known == "not recorded"
        else [{"path": base, "shared": known == "shared", "digest": text}]
    )
    status, message = start(disk(top), behind)
    if known in ("same", "shared"):
        assert status == "restarted", message
    else:
        words = (
            "its content differs"
            if known == "another"
            else "cannot be told, as its content was not recorded"
        )
        assert (
            status == "failed" and f"{base} behind its disk {top}" in message and words in message
        )


def test_suspected_1_a_snapshot_that_was_made_since_the_last_discovery(start, tmp_path):
    """The store knows the domain with a disk that is now only a backing file of the newest
    image.
    """
    old = qemu_img(tmp_path / "vm.qcow2")
    qemu_img(tmp_path / "vm.backup", backing=old)
    status, message = start(disk(old), [])
    assert (
        status == "failed"
        and f"the image {tmp_path}/vm.backup is backed by {old}, so it is not the newest of this disk"
        in message
    )


@pytest.mark.parametrize("made", ["whole", "not whole", "not yet", "two", "of another one"])
def test_c1_a_snapshot_that_was_made_when_the_host_died(start, tmp_path, made):
    """The image of the snapshot must be the way to all data, also if the guest was not switched to
    it yet."""
    old = qemu_img(tmp_path / "vm.qcow2")
    new = tmp_path / f"{UUID}-vda-before-00aa.qcow2"
    if made in ("whole", "two"):
        qemu_img(new, backing=old)
    if made == "two":
        qemu_img(tmp_path / f"{UUID}-vda-before-00bb.qcow2", backing=old)
    if made == "not whole":
        new.write_bytes(b"QFI\xfb")
    if made == "of another one":
        qemu_img(
            tmp_path / "00000000-0000-4000-8000-000000000008-vda-before-00aa.qcow2", backing=old
        )
    status, message = start(disk(old), [], snapshotting=True)
    if made in ("two", "of another one"):
        assert status == "failed" and f"is backed by {old}, so it is not the newest" in message
    else:
        assert status == "restarted", message
        assert start.disks == [str(new if made == "whole" else old)] and (str(new) in message) is (
            made == "whole"
        )


def test_suspected_1_another_chain_than_discovery_has_recorded(start, tmp_path):
    base, other = qemu_img(tmp_path / "base.qcow2"), qemu_img(tmp_path / "other.qcow2")
    top = qemu_img(tmp_path / "vm.qcow2", backing=base)
    for behind in (
        [],
        [{"path": other, "shared": True}],
        [{"path": base, "shared": True}, {"path": other, "shared": True}],
    ):
        status, message = start(disk(top), behind)
        assert status == "failed" and f"is backed by {base} now" in message
    broken = qcow2(tmp_path / "broken.qcow2", "gone")
    status, message = start(disk(broken), [{"path": str(tmp_path / "gone"), "shared": True}])
    assert status == "failed" and "gone cannot be read" in message


def test_a_disk_that_another_domain_here_has(start, domain_xml, tmp_path):
    path = qemu_img(tmp_path / "vm.qcow2")
    status, message = start(disk(path), [], others=[domain_xml("other", 8, devices=disk(path))])
    assert status == "failed" and f"the domain other uses {path}" in message
    shared = disk(path, more="<shareable/>")
    assert start(shared, [], others=[domain_xml("other", 8, devices=shared)])[0] == "restarted"


def test_storage_evacuation_knows_mounts(start, tmp_path, monkeypatch):
    """A file of that name below a mount point whose storage is not mounted is another one."""
    path = qemu_img(tmp_path / "vm.qcow2")
    identity = "nfs:filer:/vms/vm.qcow2"
    status, message = start(disk(path), [], identity=identity)
    assert (
        status == "failed"
        and f"{path} is on {os.uname().nodename} not what it was, {identity}: mount that storage there"
        in message
    )
    monkeypatch.setattr(
        restart_images,
        "read_mounts",
        lambda path: [("/", "/", "ext4", "x"), (str(tmp_path), "/", "nfs4", "filer:/vms")],
    )
    assert start(disk(path), [], identity=identity)[0] == "restarted"
    assert start(disk(path), [], identity="nfs:other:/vms/vm.qcow2")[0] == "failed"
    assert start(disk(path), [], identity="declared:san/vm.qcow2")[0] == "restarted"


def test_storage_a_device_is_the_same_by_its_worldwide_name(start, tmp_path, monkeypatch):
    path = tmp_path / "device"
    path.touch()
    block = (
        "<disk type='block' device='disk'><driver name='qemu' type='raw'/><source"
        f" dev='{path}'/><target dev='vda'/></disk>"
    )
    monkeypatch.setattr(block_devices, "identity", lambda each: "naa.1")
    assert start(block, [], identity="device:naa.2")[0] == "failed"
    assert start(block, [], identity="device:naa.1")[0] == "restarted"
    assert start(block, [], identity=f"device:declared:{path}")[0] == "restarted"


def test_a_volume_is_resolved_here(start, tmp_path):
    qemu_img(tmp_path / "vol.qcow2")

    def pool(connection):
        text = (
            f"<pool type='dir'><name>images</name><target><path>{tmp_path}</path></target></pool>"
        )
        made = connection.storagePoolDefineXML(text, 0)
        made.create(0)
        made.createXML("<volume><name>vol.qcow2</name><capacity>1</capacity></volume>", 0)

    status, message = start(volume("images", "vol.qcow2"), [])
    assert status == "failed" and "its disk images/vol.qcow2 cannot be found" in message
    assert start(volume("images", "vol.qcow2"), [], prepare=pool)[0] == "restarted"


RBD = (
    (
        "<pool type='rbd'><name>ceph</name><source><name>vms</name><host name='{}'"
        " port='6789'/></source></pool>"
    ),
    "rbd:mon1:/vms/root",
)


@pytest.fixture
def far(monkeypatch):
    """A pool of Ceph, which the test driver does not have. The test sets names of volumes, state
    and calls."""

    class Pool:
        def __init__(self):
            self.server, self.running, self.volumes, self.refreshed = "mon1", True, ["root"], 0

        def name(self):
            return "ceph"

        def XMLDesc(self, flags):
            return RBD[0].format(self.server)

        def isActive(self):
            return self.running

        def refresh(self, flags):
            self.refreshed += 1

        def storageVolLookupByName(self, name):
            if name not in self.volumes:
                problem = libvirt.libvirtError(
                    f"Storage volume not found: no storage vol with matching name '{name}'"
                )
                problem.err = (
                    libvirt.VIR_ERR_NO_STORAGE_VOL,
                    0,
                    str(problem),
                    2,
                    None,
                    None,
                    None,
                    0,
                    0,
                )
                raise problem

    pool = Pool()
    look_up = libvirt.virConnect.storagePoolLookupByName
    monkeypatch.setattr(
        libvirt.virConnect,
        "storagePoolLookupByName",
        lambda conn, name: pool if name == "ceph" else look_up(conn, name),
    )
    return pool


def test_a_volume_on_the_network_is_the_same_by_where_it_comes_from(start, far, domain_xml):
    disk_xml = volume("ceph", "root")
    assert start(disk_xml, identity=RBD[1])[0] == "restarted" and far.refreshed == 1
    for change, words in (
        (
            {"server": "mon2"},
            f"its disk ceph/root is on {os.uname().nodename} not what it was, {RBD[1]}",
        ),
        ({"server": "localhost"}, "comes from a server of the dead host itself (localhost)"),
        ({"running": False}, "does not run on"),
        ({"volumes": []}, "its disk ceph/root cannot be found"),
    ):
        before = dict(vars(far))
        vars(far).update(change)
        status, message = start(disk_xml, identity=RBD[1])
        assert status == "failed" and words in message, message
        vars(far).update(before)
    status, message = start(disk_xml)
    assert status == "failed" and "was not recorded" in message


@pytest.mark.parametrize("by", ["volume", "network"])
def test_a_volume_on_the_network_that_another_domain_here_has(start, far, domain_xml, by):
    network = (
        "<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='rbd'"
        " name='vms/root'>"
    )
    other = (
        volume("ceph", "root")
        if by == "volume"
        else f"{network}<host name='mon1'/></source><target dev='vda'/></disk>"
    )
    status, message = start(
        volume("ceph", "root"), identity=RBD[1], others=[domain_xml("other", 8, devices=other)]
    )
    assert (
        status == "failed"
        and "the domain other on" in message
        and "uses its disk ceph/root" in message
    )


def test_storage_what_came_from_the_dead_host_itself(start, tmp_path):
    nbd = (
        "<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='nbd'"
        " name='x'><host name='{}'/></source>"
    )
    status, message = start(f"{nbd.format('127.0.0.1')}<target dev='vda'/></disk>")
    assert (
        status == "failed" and "comes from a server of the dead host itself (127.0.0.1)" in message
    )
    assert start(f"{nbd.format('192.0.2.1')}<target dev='vda'/></disk>")[0] == "restarted"
    top = qcow2(tmp_path / "vm.qcow2", "nbd://localhost/x")
    assert start(disk(top), [])[0] == "failed"


def left(connection):
    """Return the disk of the definition of vm on this host; None without a definition."""
    domains = {each.name(): each for each in connection.listAllDomains(0)}
    return hypervisors.disks_of(domains["vm"])[0] if "vm" in domains else None


@pytest.fixture
def old_definition(run_module, fake_host, domain_xml, tmp_path):
    """``old_definition(path, ...)``: vm comes back to its old host, and the host still has a
    definition of vm with the base of today's disk."""
    base = qemu_img(tmp_path / "vm.qcow2")
    top = qemu_img(tmp_path / "vm.after", backing=base)

    def begin(check_mode=False, prepare=lambda connection: None, **more):
        uri, connection = fake_host()
        connection.defineXML(domain_xml("vm", 7, devices=disk(base)))
        prepare(connection)
        image = {"target": "vda", "identity": None, "behind": [{"path": base, "shared": True}]}
        order = {
            "uuid": UUID,
            "name": "vm",
            "xml": domain_xml("vm", 7, devices=disk(top)),
            "images": [image],
            **more,
        }
        (answer,) = run_module(
            "_domain_restart", uri=uri, instances=[order], check_mode=check_mode
        )["instances"]
        return answer, connection

    begin.base, begin.top = base, top
    return begin


@pytest.mark.parametrize("running", [True, False])
def test_b1_an_old_definition_is_not_started_in_place_of_the_newest(old_definition, running):
    """The disk of the old definition is now below today's disk; a write to it destroys both."""
    answer, connection = old_definition(running=running)
    assert answer["status"] == "restarted" and answer["state"] == (
        "running" if running else "shutoff"
    ), answer["message"]
    assert (
        left(connection) == old_definition.top
        and "in place of an old definition of it" in answer["message"]
    )


def test_b1_a_dry_run_leaves_the_old_definition(old_definition):
    answer, connection = old_definition(check_mode=True)
    assert answer["status"] == "restarted" and left(connection) == old_definition.base


def test_b1_an_old_definition_that_is_not_replaced_stays_as_it_was(old_definition, monkeypatch):
    """The definition is not one that this evacuation made."""
    answer, connection = old_definition(files=["/nowhere/vm.qcow2"])
    assert (
        answer["status"] == "uncertain" and "does not have /nowhere/vm.qcow2" in answer["message"]
    )
    assert left(connection) == old_definition.base

    def refuse(self, flags):
        raise libvirt.libvirtError("it does not")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    answer, connection = old_definition()
    assert answer["status"] == "uncertain" and left(connection) == old_definition.base


def test_b1_the_saved_memory_of_an_old_definition_is_not_laid_over_the_disks_of_today(
    old_definition,
):
    def save(connection):
        domain = connection.lookupByName("vm")
        domain.create()
        domain.managedSave(0)

    answer, connection = old_definition(prepare=save)
    assert (
        answer["status"] == "uncertain" and f"virsh managedsave-remove {UUID}" in answer["message"]
    )
    assert left(connection) == old_definition.base and connection.lookupByName(
        "vm"
    ).hasManagedSaveImage(0)
