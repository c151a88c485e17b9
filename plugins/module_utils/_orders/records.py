# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a move on the source hypervisor: one JSON file and one lock per instance.

Private to the collection. The file tells a later call what a worker that died was about to do; it is
never believed over libvirt. Work that was under way before the start of the host is not under way
now.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from .._ownership.ownership import drop_state

VERSION = 2

BOOT_ID = "/proc/sys/kernel/random/boot_id"

#: Statuses that a move does not leave by itself.
ENDED = ("completed", "failed", "cancelled", "conflict", "lost")

#: Statuses after which nothing is left to find out.
SETTLED = ("completed", "failed", "cancelled")

#: The phases of a move that has not begun; one that has failed in such a phase never began.
BEFORE = ("checking", "waiting")


def default_folder() -> str:
    """Return the folder for records: root's is on the host itself; another user's is in the user's
    home, which several hosts may share.
    """
    if os.geteuid() == 0:
        return "/var/lib/drover/migrations"
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "drover", "migrations", socket.gethostname())


@functools.cache
def boot_id() -> str:
    """Return the identifier of this start of the host."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def uptime() -> float:
    """Return the seconds since the start of this host: all its processes see the same clock, and it
    cannot be set.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Records:
    """The records of moves, and a lock for each instance.

    A lock is a name that a socket is bound to, in Linux's abstract namespace: it is the same for all users, needs no file
    and is free when its process has ended, however it ended. A folder of one's own has locks of its
    own.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or default_folder()
        self._locks = hashlib.sha256(os.path.realpath(folder).encode()).hexdigest()[:16] if folder else "host"

    def prepare(self) -> None:
        """Make the folder, readable by its owner only. Raises OSError."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def _path(self, uuid: str, ending: str) -> str:
        return os.path.join(self.folder, f"{uuid}.{ending}")

    def read(self, uuid: str) -> dict[str, Any] | None:
        """The record of an instance as a dictionary, or None if there is none of this boot that can be read."""
        record = self._read(uuid)
        return record if record is not None and record.get("boot") == boot_id() else None

    def _read(self, uuid: str) -> dict[str, Any] | None:
        try:
            with open(self._path(uuid, "json"), encoding="utf-8") as handle:
                record = json.load(handle)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("version") == VERSION else None

    def files_left(self, move: Mapping[str, Any], source_uri: str) -> list[dict[str, Any]]:
        """Return the files that moves on this way have made at the destination and may have left
        there, as entries of files.

        A host that lost its power in the middle of a move knows it by this when it is back. Files
        that a completed move has made belong to the instance, and are no leftovers.
        """
        record = self._read(move["uuid"])
        if record is None or not same_move(record, move, source_uri) or record["status"] == "completed":
            return []
        return [entry for entry in record["files"] + record["earlier"] if entry["made"] != "no"]

    def write(self, record: dict[str, Any]) -> None:
        """Write the record whole or not at all: a reader never sees half of it."""
        self.prepare()
        path = self._path(record["uuid"], "json")
        part = f"{path}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            json.dump(record, handle, indent=1, sort_keys=True)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, path)

    def lock(self, uuid: str, patience: float = 0.0) -> int | None:
        """Take the instance's lock; return a descriptor to keep open, or None if another process
        has the lock.

        ``patience`` is how many seconds to try.
        """
        deadline = time.monotonic() + patience
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
            while True:
                try:
                    lock.bind(self._lock_name(uuid))
                    return lock.detach()
                except OSError as exc:
                    if exc.errno != errno.EADDRINUSE:
                        raise
                if time.monotonic() >= deadline:
                    return None
                time.sleep(0.05)

    def is_locked(self, uuid: str) -> bool:
        """Return True if a worker of any user is alive for the instance."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asks:
            try:
                asks.connect(self._lock_name(uuid))
            except ConnectionRefusedError:
                return False
            except OSError:
                # The lock has a process that accepts no connection from this one.
                return True
        return True

    def _lock_name(self, uuid: str) -> str:
        return f"\0drover.compute/{self._locks}/{uuid}"

    def ask_abort(self, uuid: str, migration: str | None) -> None:
        """Leave the request to abort the move for its worker."""
        self.prepare()
        part = f"{self._path(uuid, 'abort')}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            handle.write(migration or "")
        os.replace(part, self._path(uuid, "abort"))

    def abort_asked(self, uuid: str, migration: str | None) -> bool:
        """Return True if there is a request to abort this migration; a request for an earlier
        migration does not count.
        """
        try:
            with open(self._path(uuid, "abort"), encoding="utf-8") as handle:
                return handle.read() == (migration or "")
        except OSError:
            return False

    def forget_abort(self, uuid: str) -> None:
        """Remove a request to abort that was carried out, or came too late."""
        try:
            drop_state(self._path(uuid, "abort"))
        except OSError:
            pass


def new_record(move: Mapping[str, Any], source_uri: str) -> dict[str, Any]:
    """The record of a move that begins now."""
    return {
        "version": VERSION,
        "boot": boot_id(),
        "uuid": move["uuid"],
        "name": move.get("name"),
        "move": dict(move),
        "source_uri": source_uri,
        "status": "running",
        "phase": "checking",
        "pid": os.getpid(),
        "started_at": time.time(),
        # The same on the clock of uptime(), as is the end of its time.
        "since": uptime(),
        "finished_at": None,
        "message": "",
        "storage": None,
        "files": [],
        # Faults of the files at the source, which exist for every destination.
        "at_source": [],
        "probes": [],
        "temporary": None,
        "earlier": [],
        "took_over": False,
        # The files at the source and at the destination that stay (``leftovers``: paths; ``kept``:
        # these and others with the reasons), and the removed files.
        "leftovers": [],
        "kept": [],
        "removed": [],
        "was": None,
        "autostart": None,
        # The end of its time limit, the limit itself, and the action at its end.
        "ends": None,
        "limit": None,
        "escalated": None,
        "shut_down": False,
        # The copied amounts, {memory_mib, disk_mib}, if the time of the move is spent on copying.
        "copies": None,
        "percent": 0,
        "total_mib": None,
        "remaining_mib": None,
        "source_state": None,
        "destination_state": None,
    }


def same_move(record: Mapping[str, Any] | None, move: Mapping[str, Any], source_uri: str) -> bool:
    """Return True if a record is of this way, from the same source to the same destination."""
    return record is not None and record["source_uri"] == source_uri and record["move"]["destination_uri"] == move["destination_uri"]
