# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks in a pool of Ceph are clones of one image that is filled once, and never of one that is not
whole.
"""

from __future__ import annotations

import json
import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._images import notes as _image_notes
from ansible_collections.drover.compute.plugins.module_utils._images import rbd_images
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._orders.unfinished import (
    UnfinishedBuild,
)
from ansible_collections.drover.compute.plugins.module_utils._storage import rbd
from ansible_collections.drover.compute.tests.unit.module_utils.faraway import refuse
from ansible_collections.drover.compute.tests.unit.module_utils.images import qemu_img
from ansible_collections.drover.compute.tests.unit.modules.ceph import Ceph, Image

GIB = 2**30
DIGITS = "ab" * 32
PREFIX = f"drover-image-{DIGITS}-"
CONTENT = f"converted from {b'QFI' + bytes([0xFB])!r}"


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012d}"


def volume(number):
    return f"{uuid(number)}-vda"


class Host:
    """A host with the pool, and an image in its cache."""

    def __init__(self, run_module, fake_host, domain_xml, folder):
        self.uri, self.connection = fake_host()
        self._run, self._xml, self.ceph = run_module, domain_xml, Ceph()
        self.connection.storagePoolLookupByName = lambda name: self.ceph
        self.connection.listAllStoragePools = lambda flags=0: [self.ceph]
        (folder / "_base").mkdir()
        self.image = qemu_img(folder / "_base" / DIGITS, size="64M")
        _image_notes.write_note(f"{self.image}.json", _image_notes.stamp(os.lstat(self.image)))

    def build(self, number, **more):
        disk = {
            "pool": "ceph",
            "volume": volume(number),
            "size_gb": 1,
            "format": "raw",
            "backing_file": self.image,
            **more,
        }
        source = f"<source pool='ceph' volume='{volume(number)}'/><target dev='vda'/>"
        xml = self._xml(
            f"vm{number}", number, devices=f"<disk type='volume' device='disk'>{source}</disk>"
        )
        return self._run("domain", uri=self.uri, uuid=uuid(number), xml=xml, disks=[disk])

    def for_clones(self):
        return [name for name in self.ceph.images if name.startswith("drover-image-")]


@pytest.fixture
def host(run_module, fake_host, domain_xml, tmp_path, monkeypatch):
    found = Host(run_module, fake_host, domain_xml, tmp_path)
    monkeypatch.setattr(rbd, "_with_qemu_img", found.ceph.qemu_img)
    return found


def notes(records):
    return [each for each in os.listdir(records.folder) if each.endswith(".image")]


def test_the_image_is_filled_once_and_each_disk_is_a_clone_of_its_own_size(host, records):
    first = host.build(1)
    assert first["rc"] == 0 and "than a clone" not in str(first.get("warnings")), first
    second = host.build(2, size_gb=2)
    assert second["rc"] == 0, second
    (image,) = host.for_clones()
    assert (
        image.startswith(PREFIX)
        and host.ceph.images[image].data == CONTENT
        and host.ceph.images[image].size == 64 * 2**20
    )
    for number, size in ((1, 1), (2, 2)):
        made = host.ceph.images[volume(number)]
        assert (made.parent, made.size) == ((image, "drover-whole"), size * GIB)
    assert notes(records) == []


def test_an_image_of_another_host_is_compared_once(host, records):
    host.build(1)
    (image,) = host.for_clones()
    assert host.ceph.compared == []
    os.unlink(os.path.join(records.folder, f"{image}.image-seen"))
    host.build(2)
    host.build(3)
    assert host.for_clones() == [image] and host.ceph.compared == [image]


def test_what_has_the_name_and_the_mark_and_other_content_is_not_cloned(host):
    """A stranger has made it, or it was written to before its snapshot."""
    strange = f"{PREFIX}aaaaaaaa"
    host.ceph.images[strange] = Image(
        64 * 2**20, "strange", snapshots={"drover-whole": ("strange", True)}
    )
    for number in (1, 2):
        assert host.build(number)["rc"] == 0
    (image,) = set(host.for_clones()) - {strange}
    assert {host.ceph.images[volume(number)].parent for number in (1, 2)} == {
        (image, "drover-whole")
    }
    assert host.ceph.images[strange].data == "strange"


def test_the_image_stays_when_an_instance_is_removed(host):
    host.build(1)
    host.build(2)
    (image,) = host.for_clones()
    result = host._run(
        "domain",
        uri=host.uri,
        uuid=uuid(1),
        state="absent",
        remove_disks=True,
        force=True,
        timeout=0,
    )
    assert result["rc"] == 0, result
    assert set(host.ceph.images) == {image, volume(2)}


@pytest.mark.parametrize("how", ["no note", "changed", "elsewhere"])
def test_an_image_whose_checksum_is_not_known_is_copied(host, tmp_path, how):
    """A person can give the name of the image to any file."""
    if how == "no note":
        os.unlink(f"{host.image}.json")
    elif how == "changed":
        os.utime(host.image, (1, 1))
    else:
        host.image = qemu_img(tmp_path / DIGITS, size="64M")
    result = host.build(1)
    assert result["rc"] == 0, result
    assert list(host.ceph.images) == [volume(1)] and host.ceph.images[volume(1)].data == CONTENT


def killed(monkeypatch, host, where):
    """Kill the host module at one point of a build; nothing runs after it."""

    class Killed(BaseException):
        pass

    def end():
        raise Killed

    setattr(host.ceph, where, end)
    with monkeypatch.context() as patch:
        patch.setattr(rbd_images, "_drop_image", lambda *dummy: None)
        with pytest.raises(Killed):
            host.build(1)
    setattr(host.ceph, where, lambda: None)


def test_a_kill_while_it_is_filled(host, records, monkeypatch):
    killed(monkeypatch, host, "before_fill")
    (leftover,) = host.for_clones()
    assert host.ceph.images[leftover].snapshots == {} and notes(records) == [f"{leftover}.image"]
    result = host.build(1)
    assert result["rc"] == 0, result
    (image,) = host.for_clones()
    assert (
        image != leftover
        and host.ceph.images[volume(1)].parent == (image, "drover-whole")
        and notes(records) == []
    )


def test_one_that_is_still_filled_is_not_removed(host, records, monkeypatch):
    """qemu-img has the lock when the module is gone."""
    killed(monkeypatch, host, "before_fill")
    (leftover,) = host.for_clones()
    lock = Records().lock(f"image-{leftover[-8:]}")
    try:
        assert host.build(1)["rc"] == 0
    finally:
        os.close(lock)
    assert (
        leftover in host.for_clones()
        and host.ceph.images[volume(1)].parent[0] != leftover
        and notes(records) == [f"{leftover}.image"]
    )


def test_what_another_host_has_not_finished_is_neither_cloned_nor_removed(host):
    other = f"{PREFIX}00000000"
    host.ceph.images[other] = Image(64 * 2**20, "half of it")
    result = host.build(1)
    assert result["rc"] == 0, result
    assert host.ceph.images[other] == Image(64 * 2**20, "half of it")
    assert host.ceph.images[volume(1)].parent[0] != other


def test_a_kill_after_the_mark(host, records, monkeypatch):
    """The image is whole, so the note alone goes."""
    name = f"{PREFIX}00000000"
    host.ceph.images[name] = Image(
        64 * 2**20, CONTENT, snapshots={"drover-whole": (CONTENT, False)}
    )
    records.prepare()
    with open(os.path.join(records.folder, f"{name}.image"), "w", encoding="utf-8") as file:
        json.dump({"pool": "ceph"}, file)
    assert host.build(1)["rc"] == 0
    assert (
        host.for_clones() == [name]
        and host.ceph.images[volume(1)].parent == (name, "drover-whole")
        and notes(records) == []
    )


def test_of_two_hosts_that_fill_it_at_once_one_wins(host, records):
    other = f"{PREFIX}00000000"

    def be_quicker():
        host.ceph.images[other] = Image(
            64 * 2**20, CONTENT, snapshots={"drover-whole": (CONTENT, False)}
        )

    host.ceph.before_fill = be_quicker
    result = host.build(1)
    assert result["rc"] == 0, result
    assert (
        host.for_clones() == [other]
        and host.ceph.images[volume(1)].parent == (other, "drover-whole")
        and notes(records) == []
    )


def test_what_cannot_be_cloned_is_copied(host):
    host.ceph.before_clone = lambda: refuse(
        libvirt.VIR_ERR_INTERNAL_ERROR, "An error occurred, but the cause is unknown"
    )
    result = host.build(1)
    assert result["rc"] == 0, result
    made = host.ceph.images[volume(1)]
    assert (made.parent, made.data, made.size) == (None, CONTENT, GIB)
    assert "which takes longer and more space than a clone" in str(result["warnings"])


def test_an_image_that_cannot_be_filled_leaves_nothing(host, records):
    def fail():
        host.ceph.before_fill = lambda: None
        raise rbd.LibvirtProblem("no space")

    host.ceph.before_fill = fail
    result = host.build(1)
    assert result["rc"] == 0 and "no space" in str(result["warnings"]), result
    assert list(host.ceph.images) == [volume(1)] and notes(records) == []


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("size", [64 * 2**20, GIB])
def test_a_kill_after_the_clone_was_made(host, records, noted, size):
    """The clone has the data of the image. Only the note proves that it was never a disk of a
    guest, and nothing is written to it."""
    host.build(2)
    (image,) = host.for_clones()
    host.ceph.images[volume(1)] = clone = Image(size, "of the image", (image, "drover-whole"))
    if noted:
        UnfinishedBuild(records, uuid(1)).begin(("ceph", volume(1)), clone=True)
    result = host.build(1)
    if not noted:
        assert result["rc"] == 1 and "is not the requested disk" in result["msg"], result
        assert clone.size == size
        return
    assert result["rc"] == 0, result
    assert (clone.data, clone.size, host.ceph.images[volume(1)]) == ("of the image", GIB, clone)
    assert not UnfinishedBuild(records, uuid(1)).is_clone(("ceph", volume(1)))


def test_a_clone_without_its_image_is_filled(host, records):
    """The host lost its power while Ceph made it."""
    host.ceph.images[volume(1)] = Image(64 * 2**20)
    UnfinishedBuild(records, uuid(1)).begin(("ceph", volume(1)), clone=True)
    result = host.build(1)
    assert result["rc"] == 0, result
    assert host.ceph.images[volume(1)] == Image(GIB, CONTENT)


def test_a_build_that_fails_removes_its_clone_and_not_the_image(host, monkeypatch):
    def fail(self, flags=0):
        refuse(libvirt.VIR_ERR_INTERNAL_ERROR, "it does not start")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", fail)
    monkeypatch.setattr(libvirt.virDomain, "create", fail)
    result = host.build(1)
    assert result["rc"] == 1 and "it does not start" in result["msg"], result
    (image,) = host.ceph.images
    assert image.startswith(PREFIX)


def test_a_cleaning_names_the_images_and_removes_none(host, run_module, tmp_path):
    host.build(1)
    (image,) = host.for_clones()
    half = f"{PREFIX}00000000"
    host.ceph.images[half] = Image(64 * 2**20, "half of it")
    host.ceph.refresh()
    os.utime(f"{host.image}.json", (1, 1))
    result = run_module("_image_file", uri=host.uri, folder=str(tmp_path), state="clean")
    reasons = {each["path"]: each["reason"] for each in result["kept"]}
    assert result["removed"] == [host.image] and {image, half} < set(host.ceph.images)
    assert (
        "only Ceph knows" in reasons[f"ceph/{image}"]
        and "it is not whole" in reasons[f"ceph/{half}"]
    )
