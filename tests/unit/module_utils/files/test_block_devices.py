# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of a device, on a sysfs as the kernel's ABI documents it: block/DISK/PARTITION,
device/wwid of SCSI, wwid of NVMe, dm/uuid, slaves."""

from __future__ import annotations

import os
import stat

import pytest

from ansible_collections.drover.compute.plugins.module_utils._files import block_devices
from ansible_collections.drover.compute.tests import parts

NAA = "naa.600140500000a1b2c3d4000000000001"
OTHER = "naa.600140500000a1b2c3d4000000000002"
MPATH = "mpath-3600140500000a1b2c3d4000000000001"
LVM = "LVM-" + "q3pXWQeUCBRsKFvBTtGrMOfCvvGm0Ssc" + "0tUJVVBjSTzE8GEYPQ1cAdCZWLyXn1gv"


class Sysfs:
    """Block devices below a folder. Each device has a folder with the kernel's
    facts about it, and a link by its number."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "dev/block").mkdir(parents=True)
        self._numbers = 0

    def add(self, name, above=None, **files):
        """Add a device.

        :param above: the disk of a partition.
        :param files: the content of the files of its folder; two underscores stand for a slash.
        """
        device = (above or self.folder / "devices/virtual/block") / name
        device.mkdir(parents=True)
        self._numbers += 1
        number = f"259:{self._numbers}"
        for file, text in {"dev": number, "size": "2097152", **files}.items():
            path = device / file.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n")
        (self.folder / "dev/block" / number).symlink_to(
            os.path.relpath(device, self.folder / "dev/block")
        )
        return device

    def mapped(self, name, uuid, *below):
        """Add a device of the device mapper."""
        device = self.add(name, dm__name=f"name-of-{name}", dm__uuid=uuid)
        (device / "slaves").mkdir()
        for each in below:
            (device / "slaves" / each.name).symlink_to(os.path.relpath(each, device / "slaves"))
        return device

    def identity(self, device):
        """Return the identity of a device by its number, as the code finds it."""
        return block_devices._identity(
            os.path.realpath(self.folder / "dev/block" / (device / "dev").read_text().strip())
        )


@pytest.fixture(name="sysfs")
def _sysfs(tmp_path, monkeypatch):
    monkeypatch.setattr(block_devices, "SYSFS", os.fspath(tmp_path / "sys"))
    return Sysfs(tmp_path / "sys")


@pytest.mark.parametrize(
    "name", [NAA, "eui.0025385b71b0a1c4", "uuid.5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01"]
)
@pytest.mark.parametrize("file", ["device__wwid", "wwid"], ids=["SCSI", "NVMe"])
def test_a_disk_has_its_worldwide_name(sysfs, file, name):
    assert sysfs.identity(sysfs.add("disk", **{file: name})) == name


@pytest.mark.parametrize(
    "name",
    [
        "t10.ATA     QEMU HARDDISK                           QM00001",
        "t10.QEMU    QEMU HARDDISK",
        "nvme.1b36-6d7964697368-51454d55204e564d65204374726c-00000001",
        "scsi.QEMU QEMU HARDDISK",
        "",
        "naa.",
        "naa.0000000000000000",
        "naa.00000000000000000000000000000000",
        "naa.ffffffffffffffff",
        "eui.0000000000000000",
        "eui.00000000000000000000000000000000",
        "uuid.00000000-0000-0000-0000-000000000000",
        "uuid.ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
)
@pytest.mark.parametrize("file", ["device__wwid", "wwid"], ids=["SCSI", "NVMe"])
def test_a_name_that_clones_have_too_is_none(sysfs, file, name):
    """Such a name comes from vendor, model and serial number, or was never set. Two disks of two
    hosts may have the same name, so neither the name nor a device on it proves anything."""
    disk = sysfs.add("disk", **{file: name})
    assert sysfs.identity(disk) is None
    assert sysfs.identity(sysfs.add("disk1", disk, partition="1", start="2048")) is None
    assert sysfs.identity(sysfs.mapped("dm-0", LVM, disk)) is None
    assert sysfs.identity(sysfs.mapped("dm-1", MPATH, disk)) is None


def test_a_disk_that_says_nothing_has_none(sysfs):
    assert sysfs.identity(sysfs.add("vda", serial="a-serial-number")) is None
    assert sysfs.identity(sysfs.add("loop0", loop__backing_file="/srv/images/disk.raw")) is None
    assert block_devices._identity(os.fspath(sysfs.folder / "none")) is None


def test_a_partition_is_a_part_of_its_disk(sysfs):
    """The identity contains the place of the partition, because a partition table may have been
    read before it was changed."""
    disk, again = sysfs.add("sda", device__wwid=NAA), sysfs.add("sdq", device__wwid=NAA)
    first = sysfs.add("sda1", disk, partition="1", start="2048", size="4096")
    assert sysfs.identity(first) == f"{NAA}-part1@2048+4096"
    assert sysfs.identity(
        sysfs.add("sdq1", again, partition="1", start="2048", size="4096")
    ) == sysfs.identity(first)
    others = [("2", "2048", "4096"), ("1", "2049", "4096"), ("1", "2048", "8192")]
    identities = {
        sysfs.identity(sysfs.add(f"sda1{number}", disk, partition=part, start=start, size=size))
        for number, (part, start, size) in enumerate(others)
    }
    assert len(identities) == 3 and sysfs.identity(first) not in identities


def test_a_multipath_map_is_the_disk_behind_its_paths(sysfs):
    paths = [sysfs.add(name, device__wwid=NAA) for name in ("sda", "sdb")]
    assert sysfs.identity(sysfs.mapped("dm-0", MPATH, *paths)) == NAA == sysfs.identity(paths[0])


def test_a_multipath_map_whose_paths_are_not_proven_to_be_one_disk_has_none(sysfs):
    one, other, unknown = (
        sysfs.add("sda", device__wwid=NAA),
        sysfs.add("sdb", device__wwid=OTHER),
        sysfs.add("sdc"),
    )
    assert sysfs.identity(sysfs.mapped("dm-0", MPATH, one, other)) is None
    assert sysfs.identity(sysfs.mapped("dm-1", MPATH, one, unknown)) is None
    assert sysfs.identity(sysfs.mapped("dm-2", MPATH)) is None


def test_a_logical_volume_is_its_uuid_on_what_it_lies_on(sysfs):
    """Cloned machines have volumes of one uuid."""
    paths = [sysfs.add(name, device__wwid=NAA) for name in ("sda", "sdb")]
    disk, clone = sysfs.mapped("dm-0", MPATH, *paths), sysfs.add("sdc", device__wwid=OTHER)
    volume = sysfs.mapped("dm-1", LVM, disk)
    assert sysfs.identity(volume) == f"{LVM}@{NAA}"
    assert sysfs.identity(sysfs.mapped("dm-2", LVM, clone)) == f"{LVM}@{OTHER}"
    assert sysfs.identity(sysfs.mapped("dm-3", LVM, clone, disk)) == f"{LVM}@{NAA}+{OTHER}"
    assert sysfs.identity(sysfs.mapped("dm-4", f"{LVM}-real", disk)) != sysfs.identity(volume)


def test_a_logical_volume_on_what_is_not_known_has_none(sysfs):
    disk, loop = (
        sysfs.add("sda", device__wwid=NAA),
        sysfs.add("loop0", loop__backing_file="/srv/disk.raw"),
    )
    assert sysfs.identity(sysfs.mapped("dm-0", LVM, loop)) is None
    assert sysfs.identity(sysfs.mapped("dm-1", LVM, disk, loop)) is None
    assert sysfs.identity(sysfs.mapped("dm-2", "", disk)) is None, (
        "one that was made without a uuid"
    )
    assert sysfs.identity(sysfs.mapped("dm-3", LVM)) is None, "a snapshot of nothing"


def test_the_devices_of_a_host_are_listed_with_all_their_names(sysfs, tmp_path, monkeypatch):
    """Devices without an identity, and files that are not block devices, are not in the list."""
    dev = tmp_path / "dev"
    (dev / "disk/by-id").mkdir(parents=True)
    (dev / "vg").mkdir()
    disk, unknown, volume = (
        sysfs.add("sda", device__wwid=NAA),
        sysfs.add("vda"),
        sysfs.add("dm-0", dm__uuid=LVM),
    )
    (volume / "slaves").mkdir()
    (volume / "slaves/sda").symlink_to(disk)
    try:
        for device in (disk, unknown, volume):
            major, minor = map(int, (device / "dev").read_text().split(":"))
            os.mknod(dev / device.name, stat.S_IFBLK | 0o600, os.makedev(major, minor))
    except PermissionError:
        parts.leave_out("The tests of device nodes", "only root makes them")
    monkeypatch.setattr(block_devices, "DEV", os.fspath(dev))
    (dev / "disk/by-id/wwn-0x6001").symlink_to("../../sda")
    (dev / "disk/by-id/gone").symlink_to("../../sdx")
    (dev / "vg/db").symlink_to("../dm-0")
    (dev / "file").write_text("")
    assert block_devices.listing() == [
        {"id": f"{LVM}@{NAA}", "names": [f"{dev}/dm-0", f"{dev}/vg/db"]},
        {"id": NAA, "names": [f"{dev}/disk/by-id/wwn-0x6001", f"{dev}/sda"]},
    ]
    assert block_devices.identity(f"{dev}/vg/db") == f"{LVM}@{NAA}"
    assert block_devices.identity(f"{dev}/vda") is None
    assert block_devices.identity(f"{dev}/file") is None
    assert block_devices.identity(f"{dev}/none") is None
