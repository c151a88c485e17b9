# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checksum of an export, which is in the file itself: the SHA-256 of the file with zeros in the
place of the checksum.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from typing import BinaryIO, NamedTuple

#: The table with the checksum, the last value of its only row.
TABLE = "drover_export"
#: The text in the place of the checksum until it is computed.
ZEROS = "0" * 64
# Bytes that are read at a time: a multiple of the size of a page.
_BLOCK = 2**20


class Page(NamedTuple):
    """A page of a SQLite database, in bytes."""

    start: int
    size: int


def page(file: sqlite3.Connection) -> Page:
    """Return the page with the row of the checksum.

    :raises LookupError: the file has no such table.
    """
    root = file.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)
    ).fetchone()
    size = file.execute("PRAGMA page_size").fetchone()[0]
    if root is None:
        raise LookupError(TABLE)
    return Page((root[0] - 1) * size, size)


def seal(path: str, row: Page) -> str:
    """Write the checksum into a closed file that has zeros in its place; return the checksum."""
    with open(path, "r+b") as whole:
        place = _place_in_file(whole, row, ZEROS)
        checksum = _sum(whole, place)
        whole.seek(place)
        whole.write(checksum.encode("ascii"))
        whole.flush()
        os.fsync(whole.fileno())
    return checksum


def is_right(whole: BinaryIO, row: Page, checksum: str) -> bool:
    """Return True if the checksum is that of the file."""
    try:
        return _sum(whole, _place_in_file(whole, row, checksum)) == checksum
    except LookupError:
        return False


def _place_in_file(whole: BinaryIO, row: Page, checksum: str) -> int:
    whole.seek(row.start)
    # The last zeros of the page are those in the place of the checksum.
    inside = whole.read(row.size).rfind(checksum.encode("ascii", "replace"))
    if inside < 0:
        raise LookupError(checksum)
    return row.start + inside


def _sum(whole: BinaryIO, place: int) -> str:
    digest, zeros, start = hashlib.sha256(), ZEROS.encode("ascii"), 0
    whole.seek(0)
    for block in iter(lambda: whole.read(_BLOCK), b""):
        if start <= place < start + len(block):
            inside = place - start
            digest.update(block[:inside] + zeros + block[inside + len(zeros) :])
        else:
            digest.update(block)
        start += len(block)
    return digest.hexdigest()
