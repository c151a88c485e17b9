# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names by which another host can find a file: its path, its place on the network, its number
in its file system.

Private to the collection. A path proves little: two hosts may have different files at one path, and
one file may have two paths (hard links, bind mounts). A copy that shares blocks (reflink) is
another file with another number.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from .._files import access, block_devices
from .._files.mounts import Mount, mount_of
from .shared_storage import real_path_id


def file_system(real_path: str, mounts: Sequence[Mount]) -> str | None:
    """Return a text for the file system of a path, the same on each host; None for an unknown file
    system.

    The text of a network file system has its server. The text of another file system is the number
    that the kernel makes from the uuid.
    """
    share = real_path_id(real_path, mounts)
    if share is not None:
        return ":".join(share.split(":", 2)[:2])
    try:
        number = access.call(os.statvfs, real_path).f_fsid
    except (OSError, access.Unresponsive):
        return None
    return f"{number:x}" if number else None


def inode(real_path: str, mounts: Sequence[Mount]) -> str | None:
    """Return a text for a file or folder, the same for all its names on all hosts; None if it is
    unknown.

    A block device has no such text: each host makes its own nodes for the device.
    """
    system = file_system(real_path, mounts)
    try:
        status = None if system is None else access.call(os.stat, real_path)
    except (OSError, access.Unresponsive):
        return None
    return None if status is None or stat.S_ISBLK(status.st_mode) else f"{system}/{status.st_ino}"


def names(path: str, mounts: Sequence[Mount]) -> dict[str, str | None]:
    """Return the names of a file of this host.

    :returns: a dict: path, real_path, shared_id, inode, device (the identity of a block device on
        all hosts) and mount (the mount point above the file). Unknown values are None.
    """
    if not os.path.isabs(path):
        return {
            "path": path,
            "real_path": None,
            "shared_id": None,
            "inode": None,
            "device": None,
            "mount": None,
        }
    real = access.real_path(path) or os.path.normpath(path)
    mount = mount_of(real, mounts)
    return {
        "path": path,
        "real_path": real,
        "shared_id": real_path_id(real, mounts),
        "inode": inode(real, mounts),
        "device": block_devices.identity(real),
        "mount": mount[0] if mount is not None else None,
    }
