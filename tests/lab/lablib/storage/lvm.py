# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A volume group of LVM on a separate disk of each host, as a storage pool ``vms`` of the type
logical.

The commands and the metadata are LVM's, and so is libvirt's driver. The kernel of the lab may have
no device mapper, so the devices of the volumes are loop devices over the same extents: the program
``lvm`` of each host switches these on and off (``lvm_here.py``).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil

from ..layout import Host, LabError, Layout, as_root, run
from . import beside

NAME = "lvm"
PROGRAMS = ("lvm", "losetup")
GROUP = "vms"
#: GiB of the disk of each host. It is sparse, and has old data in the places of new volumes.
SIZE_GB = 8

#: Its place on the disk of a host, and in the host.
FOLDER = "lib/lab-lvm"

POOL_XML = (
    "<pool type='logical'><name>{name}</name><source><device"
    " path='{device}'/><name>{name}</name><format"
    " type='lvm2'/></source><target><path>/dev/{name}</path></target></pool>"
)

CONFIG = """\
devices {{
    dir="/run/lab-lvm"
    scan=["/dev"]
    filter=["a|^{device}$|","r|.*|"]
    use_devicesfile=0
    obtain_device_list_from_udev=0
    external_device_info_source="none"
}}
activation {{ udev_sync=0 udev_rules=0 monitoring=0 }}
backup {{ backup=0 archive=0 }}
"""

_HERE = pathlib.Path(__file__).parent / "lvm_here.py"


def folder(layout: Layout, host: Host) -> pathlib.Path:
    """Return the folder with the disk of LVM of a host, and its other files."""
    return layout.disk(host) / "var" / FOLDER


def up(layout: Layout) -> None:
    """Give each host its volume group and its pool, if it does not have them yet or was off
    since.
    """
    for host in layout.hosts():
        give_to(layout, host)


def give_to(layout: Layout, host: Host) -> None:
    """Give a host its volume group and its pool."""
    place, root = folder(layout, host), as_root()
    image = place / "disk"
    if not image.exists():
        run(*root, "mkdir", "-p", place / "etc")
        run(*root, "cp", os.path.realpath(shutil.which("lvm") or "lvm"), place / "lvm")
        run(*root, "truncate", "-s", f"{SIZE_GB}G", image)
    # The file is changed in place: a running host has this very file mounted.
    run(
        *root,
        "tee",
        place / "lvm_here",
        text=f"#!/usr/bin/python3\n{_HERE.read_text(encoding='utf-8')}",
    )
    run(*root, "chmod", "755", place / "lvm_here")
    device = (devices_of(image) or [run(*root, "losetup", "--find", "--show", image).strip()])[0]
    run(*root, "tee", place / "etc/lvm.conf", text=CONFIG.format(device=device))
    name = GROUP
    lines = [
        "set -e",
        f"mkdir -p /dev/{name}",
        f"mountpoint -q /dev/{name} || mount -t tmpfs tmpfs /dev/{name}",
        (
            f"grep -q ' /usr/sbin/lvm ' /proc/self/mountinfo || mount --bind /var/{FOLDER}/lvm_here"
            " /usr/sbin/lvm"
        ),
        f"vgs {name} >/dev/null 2>&1 || {{ pvcreate -q {device}; vgcreate -q {name} {device}; }}",
    ]
    run("ssh", "-F", layout.ssh_config, host.name, "\n".join(lines))
    beside.give(layout, host, {name: POOL_XML.format(name=name, device=device)})


def devices_of(image: pathlib.Path) -> list[str]:
    """Return the loop devices of an image and of its volumes; the device of the whole image is
    first."""
    listed = run(
        *as_root(), "losetup", "--associated", image, "--noheadings", "--output", "NAME,OFFSET"
    ).split("\n")
    by_offset = sorted(
        (int(offset), name) for name, offset in (line.split() for line in listed if line.strip())
    )
    return [name for dummy, name in by_offset]


def down(layout: Layout) -> None:
    """Release the loop devices of all hosts."""
    for image in layout.folder.glob(f"hosts/*/var/{FOLDER}/disk"):
        for device in devices_of(image):
            with contextlib.suppress(LabError):
                run(*as_root(), "losetup", "--detach", device)
