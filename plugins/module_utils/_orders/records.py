# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of moves on the source hypervisor: one JSON file and one lock per instance.

Private to the collection. The file records the next step of a worker, for a later call after the
worker died. If the file and libvirt disagree, libvirt is right. A record from before the last start
of the host is not a running move.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import socket
import time
from typing import Any, cast

from .._ownership.move_record import FileEntry, Move, MoveRecord, Phase, Status
from .._ownership.ownership import drop_state

VERSION = 2
#: The keys without which a record proves nothing. A release that did not have one of the other keys
#: left it as it is in a new record.
ESSENTIAL = ("version", "boot", "uuid", "move", "source_uri", "status", "phase", "started_at")

BOOT_ID = "/proc/sys/kernel/random/boot_id"

#: The final statuses of a move.
ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled", "conflict", "lost")

#: The final statuses of a move with a known result.
SETTLED: tuple[Status, ...] = ("completed", "failed", "cancelled")

#: The phases before a move begins. A move that failed in such a phase never began.
BEFORE: tuple[Phase, ...] = ("checking", "waiting")


def default_folder() -> str:
    """Return the folder of the records: a folder of the host for root, a folder in the home of the
    user for other users.

    Hosts may share a home, so its path has the name of the host.
    """
    if os.geteuid() == 0:
        return "/var/lib/drover/migrations"
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "drover", "migrations", socket.gethostname())


@functools.cache
def boot_id() -> str:
    """Return the identifier of this boot of the host."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def uptime() -> float:
    """Return the seconds since the boot of this host. All processes see the same clock, and no
    program can set it.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Records:
    """The records of moves, and a lock for each instance.

    A lock is a socket bound to a name in Linux's abstract namespace. The lock is the same for all
    users, needs no file and is free after any end of its process. Records with a folder from the
    caller have separate locks.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or default_folder()
        self._locks = (
            hashlib.sha256(os.path.realpath(folder).encode()).hexdigest()[:16] if folder else "host"
        )

    def prepare(self) -> None:
        """Make the folder, readable only by its owner.

        :raises OSError: the folder cannot be made.
        """
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def _path(self, uuid: str, ending: str) -> str:
        return os.path.join(self.folder, f"{uuid}.{ending}")

    def read(self, uuid: str) -> MoveRecord | None:
        """Return the record of an instance as a dictionary; None without a readable record of this
        boot.
        """
        record = self._read_record(uuid)
        return record if record is not None and record.get("boot") == boot_id() else None

    def damage(self, uuid: str) -> str:
        """Return a sentence if an instance has a record that cannot be read; else an empty text.

        The record may be of a move that is not over. So nothing is begun, and nothing is written
        over it.
        """
        path = self._path(uuid, "json")
        try:
            record = self._load_json(uuid)
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is damaged"
        else:
            if record is None or _is_of_another_version(record) or _is_whole(record):
                return ""
            reason = "it is damaged"
        return (
            f"On {socket.gethostname()} the record of a move of it, {path}, cannot be read"
            f" ({reason}), so it is not known what became of that move. Look at both hosts with"
            " virsh list --all. Once it is certain where it is, and that no copy of it runs,"
            " remove the file."
        )

    def _load_json(self, uuid: str) -> Any:
        try:
            with open(self._path(uuid, "json"), encoding="utf-8") as handle:
                return json.load(handle)
        except FileNotFoundError:
            return None

    def _read_record(self, uuid: str) -> MoveRecord | None:
        try:
            record = self._load_json(uuid)
        except (OSError, ValueError):
            return None
        if not _is_whole(record) or record["version"] != VERSION:
            return None
        return cast(MoveRecord, {**new_record(record["move"], record["source_uri"]), **record})

    def files_left(self, move: Move, source_uri: str) -> list[FileEntry]:
        """Return the files that moves from this source to this destination may have left there:
        entries of files.

        A host that lost its power during a move finds the leftovers this way after its start. The
        files of a completed move are the instance's own, and no leftovers.
        """
        record = self._read_record(move["uuid"])
        if (
            record is None
            or not same_move(record, move, source_uri)
            or record["status"] == "completed"
        ):
            return []
        return [entry for entry in record["files"] + record["earlier"] if entry["made"] != "no"]

    def write(self, record: MoveRecord) -> None:
        """Write the record in one atomic step. A reader never sees a part of it."""
        self.prepare()
        path = self._path(record["uuid"], "json")
        part = f"{path}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            json.dump(record, handle, indent=1, sort_keys=True)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, path)

    def lock(self, uuid: str, patience: float = 0.0) -> int | None:
        """Take the lock of an instance. Return a descriptor to keep open; None if another process
        has the lock.

        :param patience: seconds to try.
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
                # A process has the lock and refuses the connection.
                return True
        return True

    def _lock_name(self, uuid: str) -> str:
        return f"\0drover.compute/{self._locks}/{uuid}"

    def ask_abort(self, uuid: str, migration: str | None) -> None:
        """Write the file that tells the worker to abort the move."""
        self.prepare()
        part = f"{self._path(uuid, 'abort')}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            handle.write(migration or "")
        os.replace(part, self._path(uuid, "abort"))

    def abort_asked(self, uuid: str, migration: str | None) -> bool:
        """Return True if ask_abort() was called for this migration. A call for an earlier migration
        does not count.
        """
        try:
            with open(self._path(uuid, "abort"), encoding="utf-8") as handle:
                return handle.read() == (migration or "")
        except OSError:
            return False

    def forget_abort(self, uuid: str) -> None:
        """Remove the file of ask_abort() after the abort, or after the end of the move."""
        try:
            drop_state(self._path(uuid, "abort"))
        except OSError:
            pass


def _is_whole(record: Any) -> bool:
    return isinstance(record, dict) and set(ESSENTIAL) <= record.keys()


def _is_of_another_version(record: Any) -> bool:
    return isinstance(record, dict) and record.get("version", VERSION) != VERSION


def new_record(move: Move, source_uri: str) -> MoveRecord:
    """Return the record of a move that begins now."""
    return {
        "version": VERSION,
        "boot": boot_id(),
        "uuid": move["uuid"],
        "name": move.get("name"),
        "move": move.copy(),
        "source_uri": source_uri,
        "status": "running",
        "phase": "checking",
        "pid": os.getpid(),
        "started_at": time.time(),
        # The start on the clock of uptime(); "ends" uses the same clock.
        "since": uptime(),
        "finished_at": None,
        "message": "",
        "storage": None,
        "files": [],
        # Problems of the files at the source, independent of the destination.
        "at_source": [],
        "probes": [],
        "temporary": None,
        "earlier": [],
        "took_over": False,
        # The files at the source and at the destination: the paths that stay, all that stay with
        # reasons, the removed paths.
        "leftovers": [],
        "kept": [],
        "removed": [],
        "was": None,
        "autostart": None,
        # The end of the time limit, the whole limit, and the action at the end of the limit.
        "ends": None,
        "limit": None,
        "escalated": None,
        "shut_down": False,
        # The amounts to copy, {memory_mib, disk_mib}, if the time limit depends on them.
        "copies": None,
        "percent": 0,
        "total_mib": None,
        "remaining_mib": None,
        "source_state": None,
        "destination_state": None,
    }


def same_move(record: MoveRecord | None, move: Move, source_uri: str) -> bool:
    """Return True if a record has the same source and the same destination as a move."""
    return (
        record is not None
        and record["source_uri"] == source_uri
        and record["move"]["destination_uri"] == move["destination_uri"]
    )
