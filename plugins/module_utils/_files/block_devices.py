# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of a device under all its names, from data of the storage.

Private to the collection. The uuid of a logical volume alone proves nothing, because cloned
machines have volumes with the same uuid. It counts only together with the devices below the volume.
"""

from __future__ import annotations

import os
import stat
from typing import TypedDict

from . import access

SYSFS = "/sys"
DEV = "/dev"

#: The prefixes of worldwide names. Names of vendor and serial number (t10) are missing: all disks
#: of some virtual machines have the same one.
WORLDWIDE = ("naa.", "eui.", "uuid.")

#: Below DEV, the folders that name devices; the folders of volume groups are found by their links.
_FOLDERS = ("mapper", "disk/by-id", "disk/by-path", "disk/by-partuuid", "disk/by-uuid")


def identity(path: str) -> str | None:
    """Return the identity of a device, the same text on every host; None without an identity.

    :param path: a device, by any of its names.
    """
    try:
        return access.call(_identity_of_path, path)
    except (OSError, access.Unresponsive):
        return None


def _identity_of_path(path: str) -> str | None:
    status = os.stat(path)
    if not stat.S_ISBLK(status.st_mode):
        return None
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return _identity(os.path.realpath(os.path.join(SYSFS, "dev/block", number)))


def _identity(device: str) -> str | None:
    """Return the identity of a device by its folder of sysfs."""
    partition = _read_text(device, "partition")
    if partition:
        whole = _identity(os.path.dirname(device))
        return (
            whole
            and f"{whole}-part{partition}@{_read_text(device, 'start')}+{_read_text(device, 'size')}"
        )
    name = _read_text(device, "device/wwid") or _read_text(device, "wwid")
    if name:
        return name if _is_worldwide(name) else None
    mapped = _read_text(device, "dm/uuid")
    below = {
        _identity(os.path.realpath(os.path.join(device, "slaves", each)))
        for each in _names_in_folder(os.path.join(device, "slaves"))
    }
    identities = sorted(each for each in below if each is not None)
    if not mapped or not identities or None in below:
        return None
    if mapped.startswith("mpath-"):
        # These are several paths to one disk (multipath).
        return identities[0] if len(identities) == 1 else None
    return f"{mapped}@{'+'.join(identities)}"


def _is_worldwide(name: str) -> bool:
    """Return True if only one disk has the name. Disks without a set name have all zeros, or all
    ones, behind the digit of the kind of name.
    """
    return name.startswith(WORLDWIDE) and len(set(name.partition(".")[2][1:].replace("-", ""))) > 1


class BlockDevice(TypedDict):
    """A block device: its id is the same on all hosts, its names are its paths on this host."""

    id: str
    names: list[str]


def listing() -> list[BlockDevice]:
    """Return the devices of this host that have an identity: list of dicts id and names, all their
    paths, sorted.
    """
    try:
        return access.call(_listing)
    except (OSError, access.Unresponsive):
        return []


def _listing() -> list[BlockDevice]:
    names: dict[int, list[str]] = {}
    groups = [each for each in _names_in_folder(DEV) if os.path.isdir(os.path.join(DEV, each))]
    for place in (
        "",
        *_FOLDERS,
        *(
            each
            for each in groups
            if each not in ("mapper", "disk", "fd", "shm", "pts", "mqueue", "hugepages")
        ),
    ):
        for each in _names_in_folder(os.path.join(DEV, place)):
            path = os.path.join(DEV, place, each)
            try:
                status = os.stat(path)
            except OSError:
                continue
            if stat.S_ISBLK(status.st_mode):
                names.setdefault(status.st_rdev, []).append(path)
    devices: list[BlockDevice] = []
    for number, paths in names.items():
        device_id = _identity(
            os.path.realpath(
                os.path.join(SYSFS, "dev/block", f"{os.major(number)}:{os.minor(number)}")
            )
        )
        if device_id:
            devices.append({"id": device_id, "names": sorted(paths)})
    return sorted(devices, key=lambda each: each["id"])


def loop_files() -> list[tuple[str, str]]:
    """Return the files behind loop devices of this host: list of (path, device)."""
    block, pairs = os.path.join(SYSFS, "block"), []
    for name in _names_in_folder(block):
        path = (
            _read_text(os.path.join(block, name), "loop/backing_file")
            if name.startswith("loop")
            else None
        )
        if path:
            pairs.append((path, os.path.join(DEV, name)))
    return pairs


def _names_in_folder(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read_text(folder: str, name: str) -> str | None:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as handle:
            return handle.read().strip() or None
    except OSError:
        return None
