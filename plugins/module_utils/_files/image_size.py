# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sizes of a disk image from its first bytes and its inode, without the start of a program.

Private to the collection. Source: the qcow2 specification (docs/interop/qcow2.txt in QEMU).
"""

from __future__ import annotations

import os
import stat
import struct

from .access import open_regular

_QCOW2_MAGIC = b"QFI\xfb"


def image_size(path: str, image_format: str | None) -> tuple[int, int] | None:
    """Return ``(virtual bytes, allocated bytes)`` of the image file, or None if it cannot be read.

    The virtual size of a raw file is its length. The allocated bytes come from the file system.
    """
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            return None
        virtual = qcow2_virtual_size(path) if image_format == "qcow2" else info.st_size
    except (OSError, ValueError):
        return None
    if virtual is None:
        return None
    return virtual, info.st_blocks * 512


def qcow2_virtual_size(path: str) -> int | None:
    """Return the virtual size in bytes from a qcow2 header; None if the file has none."""
    with open_regular(path) as handle:
        header = handle.read(32)
    if len(header) < 32 or header[:4] != _QCOW2_MAGIC:
        return None
    return struct.unpack(">Q", header[24:32])[0]
