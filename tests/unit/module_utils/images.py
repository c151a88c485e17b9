# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Image files for tests, and their domains."""

from __future__ import annotations

import os
import struct
import subprocess
from xml.sax.saxutils import quoteattr


def qcow2(path, backing=None, size=1 << 20):
    """Write the header of a qcow2 image; it contains all facts about the backing file. qemu_img()
    makes whole images."""
    name = os.fsencode(backing) if backing else b""
    head = struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 104 + 8 if name else 0, len(name), 16, size)
    head = head.ljust(100, b"\0") + struct.pack(">I", 104) + struct.pack(">II", 0, 0) + name
    with open(path, "wb") as file:
        file.write(head)
    return str(path)


def qemu_img(path, *options, backing=None, kind="qcow2", size="1M"):
    """Make a whole image; return its path."""
    behind = ["-b", str(backing), "-F", "qcow2"] if backing else []
    command = [
        "qemu-img",
        "create",
        "-q",
        "-f",
        kind,
        *behind,
        *options,
        str(path),
        *([] if backing else [size]),
    ]
    for _try in range(50):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # LUKS derives its key for a time that a measurement of the processor decides. The
        # measurement fails on a busy machine.
        if done.returncode == 0 or "CPU usage" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return str(path)


def disk(path, target="vda", device="disk", kind="qcow2", more=""):
    """Return a ``<disk>`` that is a file."""
    driver = f"<driver name='qemu' type='{kind}'/>" if kind else ""
    return (
        f"<disk type='file' device='{device}'>{driver}<source file={quoteattr(str(path))}/><target"
        f" dev='{target}'/>{more}</disk>"
    )


def volume(pool, name, target="vda", kind="qcow2"):
    """Return a ``<disk>`` that is a volume of a storage pool."""
    return (
        f"<disk type='volume' device='disk'><driver name='qemu' type='{kind}'/><source"
        f" pool={quoteattr(pool)} volume={quoteattr(name)}/><target dev='{target}'/></disk>"
    )


def domain(name, number, devices="", extra="", uuid=None):
    """Return domain XML for libvirt's test driver."""
    uuid = uuid or f"00000000-0000-4000-8000-{number:012d}"
    return (
        f"<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory>"
        f"<os><type>hvm</type>{extra}</os><devices>{devices}</devices></domain>"
    )
