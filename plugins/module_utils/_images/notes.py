# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of files in the cache of images, and the notes beside them, which tell that a file is as this collection has made it.

Private to the collection.
"""

from __future__ import annotations

import json
import os
import re

from .._ownership import ownership

#: In the folder of instances, as Nova calls it.
CACHE = "_base"
#: The ending of the note beside a file.
NOTE = ".json"

NAME = re.compile(r"[0-9a-f]{64}|[0-9a-f]{128}")


def digits_of(path: str) -> str | None:
    """Return the digits of the checksum of an image of the cache that is unchanged since its check;
    None for every other file.
    """
    folder, name = os.path.split(path)
    if os.path.basename(folder) != CACHE or not NAME.fullmatch(name):
        return None
    note = read_note(path + NOTE)
    try:
        return name if note is not None and note == stamp(os.lstat(path)) else None
    except FileNotFoundError:
        return None


def stamp(found: os.stat_result) -> dict[str, int]:
    """Return the facts that identify a file of the cache as made and unchanged: libvirt changes its
    owner, and nothing else.
    """
    return {"inode": found.st_ino, "size": found.st_size, "modified": found.st_mtime_ns}


def read_note(path: str) -> dict[str, int] | None:
    """Read a note; None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_note(path: str, what: dict[str, int]) -> None:
    """Write a note, whole or not at all."""
    folder, name = os.path.split(path)
    part = os.path.join(folder, f"{ownership.TEMPORARY}{os.getpid()}-{name}")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(what, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
