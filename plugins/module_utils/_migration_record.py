# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is remembered of a move on the source hypervisor: one JSON file and one lock per instance.

Private to the collection. The file tells a later call what a worker that died was about to do; it is
never believed over libvirt.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

VERSION = 1

#: Statuses that a move does not leave by itself.
ENDED = ("completed", "failed", "cancelled", "conflict", "lost")

#: Those after which nothing is left to find out.
SETTLED = ("completed", "failed", "cancelled")


def default_folder():
    """Where records are kept: below /run for root, so that a reboot clears them, else the user's."""
    if os.geteuid() == 0:
        return "/run/drover/migrations"
    base = os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.cache")
    return os.path.join(base, "drover", "migrations")


def is_held(path):
    """Whether there is such a file and a process holds it locked."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


class Records:
    """The folder of records and locks."""

    def __init__(self, folder=None):
        self.folder = folder or default_folder()

    def prepare(self):
        """Make the folder, readable by its owner only. Raises OSError."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def _path(self, uuid, ending):
        return os.path.join(self.folder, f"{uuid}.{ending}")

    def read(self, uuid):
        """The record of an instance as a dictionary, or None if there is none that can be read."""
        try:
            with open(self._path(uuid, "json"), encoding="utf-8") as handle:
                record = json.load(handle)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("version") == VERSION else None

    def write(self, record):
        """Write the record whole or not at all: a reader never sees half of it."""
        self.prepare()
        path = self._path(record["uuid"], "json")
        part = f"{path}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            json.dump(record, handle, indent=1, sort_keys=True)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, path)

    def lock(self, uuid, patience=0.0):
        """Take the instance's lock; a descriptor to keep open, or None if somebody else has it.

        ``patience`` is how many seconds to try: a reader that asks :meth:`is_locked` holds it for a moment.
        The kernel frees the lock when its holder dies, however it dies.
        """
        self.prepare()
        descriptor = os.open(self._path(uuid, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except OSError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.05)

    def is_locked(self, uuid):
        """Whether a worker is alive for the instance."""
        return is_held(self._path(uuid, "lock"))

    def ask_abort(self, uuid, migration):
        """Leave word for the worker that the move is to be aborted."""
        self.prepare()
        part = f"{self._path(uuid, 'abort')}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            handle.write(migration or "")
        os.replace(part, self._path(uuid, "abort"))

    def abort_asked(self, uuid, migration):
        """Whether such word was left for this migration; one that was meant for an earlier one does not count."""
        try:
            with open(self._path(uuid, "abort"), encoding="utf-8") as handle:
                return handle.read() == (migration or "")
        except OSError:
            return False

    def forget_abort(self, uuid):
        """The word was heeded, or came too late."""
        try:
            os.unlink(self._path(uuid, "abort"))
        except OSError:
            pass


def new_record(move, source_uri):
    """The record of a move that begins now."""
    return {
        "version": VERSION,
        "uuid": move["uuid"],
        "name": move.get("name"),
        "move": dict(move),
        "source_uri": source_uri,
        "status": "running",
        "phase": "checking",
        "pid": os.getpid(),
        "started_at": time.time(),
        "finished_at": None,
        "message": "",
        "storage": None,
        "files": [],
        "probes": [],
        "temporary": None,
        "earlier": [],
        "took_over": False,
        "leftovers": [],
        "was": None,
        "autostart": None,
        # When its time is over (seconds since 1970), how long that is in all, and what was done then.
        "ends": None,
        "limit": None,
        "escalated": None,
        "shut_down": False,
        "percent": 0,
        "total_mib": None,
        "remaining_mib": None,
        "source_state": None,
        "destination_state": None,
    }


def same_move(record, move, source_uri):
    """Whether a record is of this very way, from the same source to the same destination."""
    return (
        record is not None
        and record["source_uri"] == source_uri
        and record["move"]["destination_uri"] == move["destination_uri"]
    )
