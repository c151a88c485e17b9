# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of files in the cache of images, and the notes beside them. A note proves that this
collection has made a file and that the file is unchanged.

Private to the collection.
"""

from __future__ import annotations

import json
import os
import re

from .._ownership import ownership

#: The folder of the cache below the folder of instances; the name comes from Nova.
CACHE = "_base"
#: The ending of the note beside a file.
NOTE = ".json"

NAME = re.compile(r"[0-9a-f]{64}|[0-9a-f]{128}")


def digits_of(path: str) -> str | None:
    """Return the digits of the checksum of an image of the cache; None for a file that has changed
    since its check and for any other file.
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
    """Return the facts that identify an unchanged file of the cache. The owner is not such a fact,
    because libvirt changes it.
    """
    return {"inode": found.st_ino, "size": found.st_size, "modified": found.st_mtime_ns}


def read_note(path: str) -> dict[str, int] | None:
    """Return a note; None without a readable note."""
    try:
        with open(path, encoding="utf-8") as file:
            note = json.load(file)
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def write_note(path: str, what: dict[str, int]) -> None:
    """Write a note in one atomic step."""
    folder, name = os.path.split(path)
    part = os.path.join(folder, f"{ownership.TEMPORARY}{os.getpid()}-{name}")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(what, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
