# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""LVM's commands on a host of the lab without device mapper: LVM does all steps except for the
activation, which makes loop devices here.

A volume that a process of the host has open cannot be removed, as with device mapper.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

FOLDER = "/var/lib/lab-lvm"
DISK = f"{FOLDER}/disk"
#: Old data of former volumes. LVM does not remove it.
STALE = b"\xa5" * 65536


def lvm(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LVM_SYSTEM_DIR": f"{FOLDER}/etc",
        "LVM_SUPPRESS_FD_WARNINGS": "1",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        [f"{FOLDER}/lvm", *words], env=environment, capture_output=True, text=True, check=False
    )
    errors = [
        line
        for line in done.stderr.split("\n")
        if line.strip() and "Activation disabled" not in line
    ]
    if errors:
        print("\n".join(errors), file=sys.stderr)
    if done.returncode and check:
        sys.exit(done.returncode)
    return done


def extents(group: str) -> dict[str, tuple[int, int]]:
    """Return offset and size of each volume, in bytes."""
    options = ("--driverloaded", "n", "--noheadings", "--nosuffix", "--units", "b")
    start = int(lvm("pvs", *options, "-o", "pe_start").stdout)
    by_volume = {}
    for line in lvm(
        "lvs", *options, "--segments", "-o", "lv_name,seg_pe_ranges,vg_extent_size", group
    ).stdout.split("\n"):
        if line.strip():
            name, ranges, extent = line.split()
            first, last = map(int, ranges.rpartition(":")[2].split("-"))
            by_volume[name] = (start + first * int(extent), (last - first + 1) * int(extent))
    return by_volume


def activate(group: str, stale: str = "") -> None:
    """Make the missing devices of volumes.

    :param stale: name of a new volume; it keeps old data.
    """
    for name, (offset, size) in extents(group).items():
        link = f"/dev/{group}/{name}"
        if not os.path.lexists(link):
            command = [
                "losetup",
                "--find",
                "--show",
                "--offset",
                str(offset),
                "--sizelimit",
                str(size),
                DISK,
            ]
            device = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
            if name == stale:
                with open(device, "r+b") as file:
                    for place in (65536, size - len(STALE)):
                        file.seek(place)
                        file.write(STALE)
            os.symlink(device, link)


def deactivate(group: str, name: str) -> bool:
    """Release the device of a volume; return False if a process has it open."""
    link = f"/dev/{group}/{name}"
    device = os.path.realpath(link)
    if is_open(device):
        print(f"  Logical volume {group}/{name} in use.", file=sys.stderr)
        return False
    if os.path.lexists(link):
        subprocess.run(["losetup", "--detach", device], check=True)
        os.unlink(link)
    return True


def is_open(device: str) -> bool:
    number = os.path.basename(device)
    with open("/proc/mounts", encoding="utf-8") as mounts:
        if any(line.split()[0] in (device, number) for line in mounts):
            return True
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            for each in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{process}/fd/{each}") == device:
                        return True
    return False


def main() -> int:
    command, words = os.path.basename(sys.argv[0]), sys.argv[1:]
    off = ("--driverloaded", "n")
    if command == "lvcreate":
        name = words[words.index("--name") + 1]
        group = [word for word in words if not word.startswith("-")][-1]
        lvm(command, *off, "-an", "-Zn", "-Wn", "--alloc", "contiguous", *words)
        activate(group, stale=name)
        return 0
    if command in ("lvremove", "lvchange"):
        group, name = words[-1].split("/")[-2:]
        if command == "lvchange":
            return 0
        if not deactivate(group, name):
            return 5
        lvm(command, *off, *words[:-1], f"{group}/{name}")
        return 0
    if command == "vgchange":
        if "-aly" in words:
            activate(words[-1])
            return 0
        left = [name for name in extents(words[-1]) if not deactivate(words[-1], name)]
        return 5 if left else 0
    done = lvm(command, *off, *words, check=False)
    # A volume with a loop device is active.
    sys.stdout.write(re.sub(r"(?<=-[a-z]{2}-)XX(?=----)", "a-", done.stdout))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
