# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mounts that this process sees. The kernel lists them without access to any file system.

Private to the collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A mount: mount point, root, type, source.
Mount = tuple[str, str, str, str]

MOUNTINFO = "/proc/self/mountinfo"
SWAPS = "/proc/swaps"


def all_mounts() -> list[Mount]:
    """Return a list of (mount point, root, type, source). A mount comes after the mounts that it
    hides.
    """
    try:
        with open(MOUNTINFO, encoding="utf-8", errors="backslashreplace") as file:
            return parse_mounts(file.read())
    except OSError:
        return []


def parse_mounts(text: str) -> list[Mount]:
    """Return the mounts in a text of /proc/self/mountinfo (see proc(5))."""
    mounts = []
    for line in text.splitlines():
        fields = line.split(" ")
        if "-" not in fields[6:]:
            continue
        # Optional fields come before the dash.
        after = fields[fields.index("-", 6) + 1 :]
        if len(after) >= 2:
            mounts.append(
                (_unescape(fields[4]), _unescape(fields[3]), after[0], _unescape(after[1]))
            )
    return mounts


def swap_files() -> list[str]:
    """Return the swap files of this host."""
    try:
        with open(SWAPS, encoding="utf-8", errors="backslashreplace") as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
    except OSError:
        return []
    return [_unescape(row[0]) for row in rows if row[1:2] == ["file"]]


def _unescape(text: str) -> str:
    """Return a field without the kernel's escapes (octal: blank, tab, newline, backslash)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return the mount of a path, in the form of all_mounts(); None without a mount.

    :param path: an absolute path without links.
    """
    best = None
    for mount in mounts:
        point = mount[0].rstrip("/")
        # If two mounts are on one point, the later one is seen.
        if (path == point or path.startswith(point + "/")) and (
            best is None or len(point) >= len(best[0].rstrip("/"))
        ):
            best = mount
    return best
