# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Digests of the content of large files. A file is read again only after a change.

Private to the collection. A digest is made of digests of pieces, so that several calls can read a
long file. Holes count as zeros, so that copies with different holes have the same digest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from typing import Any, TypedDict

from . import access

PIECE = 64 << 20
BLOCK = 1 << 20
_ZEROS = bytes(BLOCK)

#: The time limit in seconds to read one piece.
PIECE_LIMIT = 300

#: The seconds after a change in which a file may change again with the same time of change.
SETTLED = 3


class Digest:
    """The digest of a file, made of its bytes in their order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._hash, self._block = hashlib.sha256(), bytearray()
        self._size = self._done = 0

    def data(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._size += len(piece)
        self._block += piece
        while len(self._block) >= BLOCK:
            self._add_block(bytes(self._block[:BLOCK]))
            del self._block[:BLOCK]

    def hole(self, length: int) -> None:
        """Add so many zeros."""
        first = min(length, -len(self._block) % BLOCK)
        self.data(bytes(first))
        blocks, rest = divmod(length - first, BLOCK)
        for _dummy in range(blocks):
            self._add_block(_ZEROS)
        self._size += blocks * BLOCK
        self.data(bytes(rest))

    def _add_block(self, block: bytes) -> None:
        _add_to_digest(self._hash, self._done, block)
        self._done += BLOCK
        if self._done % PIECE == 0:
            self._pieces.append(self._hash.hexdigest())
            self._hash = hashlib.sha256()

    def end(self) -> str:
        """Return the digest of the whole content."""
        if self._block:
            self._add_block(bytes(self._block.ljust(BLOCK, b"\0")))
        if self._done % PIECE:
            self._pieces.append(self._hash.hexdigest())
        return _digest_of_pieces(self._size, self._pieces)


def _add_to_digest(found: hashlib._Hash, offset: int, block: bytes) -> None:
    if block != _ZEROS:
        found.update(b"%d:" % offset)
        found.update(block)


def _digest_of_pieces(size: int, pieces: Iterable[str]) -> str:
    return hashlib.sha256(f"{size}:{':'.join(pieces)}".encode()).hexdigest()


def _piece(path: str, start: int) -> str:
    """Return the digest of one piece of a file. Do not read holes."""
    hasher = hashlib.sha256()
    with open(path, "rb", buffering=0) as handle:
        descriptor, offset = handle.fileno(), start
        end = min(start + PIECE, os.fstat(descriptor).st_size)
        while offset < end:
            try:
                data = os.lseek(descriptor, offset, os.SEEK_DATA)
            except OSError as exc:
                if exc.errno == errno.ENXIO:
                    break
                data = offset
            offset = max(offset, data // BLOCK * BLOCK)
            if offset >= end:
                break
            _add_to_digest(hasher, offset, os.pread(descriptor, BLOCK, offset).ljust(BLOCK, b"\0"))
            offset += BLOCK
    return hasher.hexdigest()


class Stamp(TypedDict):
    """The facts that show if a file is unchanged."""

    size: int
    #: Its times of change, in the form of libvirt.
    modified: str
    changed: str


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the facts that show if a file is unchanged: its size, and its times of change in
    libvirt's form.
    """
    times = [
        f"{each // 10**9}.{each % 10**9:09d}" for each in (status.st_mtime_ns, status.st_ctime_ns)
    ]
    return {"size": status.st_size, "modified": times[0], "changed": times[1]}


def is_settled(stamp: Stamp) -> bool:
    """Return True if the last change of a file is old enough. Then the next change gives the file
    another time of change.
    """
    return time.time() - float(stamp["changed"]) > SETTLED


def of_file(path: str, seconds: float | None = None) -> tuple[str | None, Stamp]:
    """Return ``(digest, stamp)`` of a file of this host.

    :param seconds: the time limit to read the file; the next call continues there. With 0 the
        function reads nothing and returns only a known digest.
    :returns: a digest of None when there was no time, or it changed while it was read.
    :raises OSError: it cannot be read, or is not a file.
    :raises Unresponsive: its file system does not answer.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    status = access.call(os.stat, path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no file")
    stamp, name = stamp_of(status), f"{status.st_dev}-{status.st_ino}"
    note = recall(name, stamp)
    if note and note.get("digest"):
        return note["digest"], stamp
    pieces = note["pieces"] if note else []
    before = len(pieces)
    while len(pieces) * PIECE < status.st_size:
        if deadline is not None and time.monotonic() >= deadline:
            if len(pieces) > before:
                keep(name, stamp, pieces=pieces)
            return None, stamp
        pieces.append(access.call(_piece, path, len(pieces) * PIECE, limit=PIECE_LIMIT))
    if stamp_of(access.call(os.stat, path)) != stamp:
        return None, stamp
    digest = _digest_of_pieces(status.st_size, pieces)
    keep(name, stamp, digest=digest)
    return digest, stamp


# -- the digests of earlier reads
# --------------------------------------------------------------------


def folder() -> str:
    """Return the folder of the digests. The folder of root survives a reboot; other users have it
    in the home.
    """
    if os.geteuid() == 0:
        return "/var/lib/drover/digests"
    return os.path.join(
        os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"),
        "drover",
        "digests",
    )


def recall(name: str, stamp: Stamp) -> dict[str, Any] | None:
    """Return the dict that keep() has saved under a name; None if the file has changed."""
    try:
        with open(os.path.join(folder(), f"{name}.json"), encoding="utf-8") as handle:
            note = json.load(handle)
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) and note.get("stamp") == stamp else None


def keep(name: str, stamp: Stamp, **what: object) -> None:
    """Remember something of a file as it is; where that is not possible it is read again."""
    if not is_settled(stamp):
        return
    path = os.path.join(folder(), f"{name}.json")
    part = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        with open(part, "w", encoding="utf-8") as handle:
            json.dump({"stamp": stamp, **what}, handle)
        os.replace(part, path)
    except OSError:
        return
