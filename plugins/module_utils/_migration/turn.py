# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A limit for moves off this host at the same time; the other moves wait, first come, first served.

Private to the collection. A move that waits has been checked already, so that it begins in the
moment another one is over: Nova's migrations of status ``queued`` do the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from .._orders.records import uptime
from .._ownership.ownership import drop_state


class Turn:
    """The place of one move in a line of this host.

    It is a file that its process holds locked. Its name is the time at which the place was taken,
    on a clock that cannot be set: the kernel frees the lock when the process dies, however it dies,
    and an unlocked file counts for nothing.

    :param folder: the folder of the places, such as the folder of the records.
    :param line: the name of the line, which is the purpose of the wait.
    """

    def __init__(self, folder: str, uuid: str, line: str = "turns") -> None:
        self._folder = os.path.join(folder, line)
        self._uuid = uuid
        self._name: str | None = None
        self._descriptor: int | None = None

    def take_place(self, since: float | None = None) -> None:
        """Stand in line; a second call changes nothing.

        :param since: the uptime() at which a move began that continues and has not waited; None for
            now.
        :raises OSError: the folder cannot be written.
        """
        if self._descriptor is not None:
            return
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with self._lock_line():
            self._name = name = f"{uptime() if since is None else since:020.6f}.{self._uuid}"
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = descriptor = os.open(os.path.join(self._folder, name), flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def has_come(self, most: int | None) -> bool:
        """Return True if fewer than ``most`` (None for no limit) moves before this one are still in
        the line.
        """
        if most is None:
            return True
        with self._lock_line():
            return self._count_before(before=self._name) < most

    def count(self) -> int:
        """Return the number of moves in the line."""
        if not os.path.isdir(self._folder):
            return 0
        with self._lock_line():
            return self._count_before()

    def _count_before(self, before: str | None = None) -> int:
        names = [name for name in os.listdir(self._folder) if name[0].isdigit()]
        return sum(self._is_there(name) for name in names if before is None or name < before)

    def leave(self) -> None:
        """Let the next one go."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError), self._lock_line():
            drop_state(os.path.join(self._folder, self._name or ""))
        os.close(self._descriptor)
        self._descriptor = None

    @contextlib.contextmanager
    def _lock_line(self) -> Iterator[None]:
        """Lock the line: otherwise a place might be seen before it is locked, or be taken before
        one that has been counted.
        """
        descriptor = os.open(
            os.path.join(self._folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _is_there(self, name: str) -> bool:
        path = os.path.join(self._folder, name)
        if _is_held(path):
            return True
        # The process that held the file died.
        with contextlib.suppress(OSError):
            drop_state(path)
        return False


def _is_held(path: str) -> bool:
    """Return True if such a file exists and a process holds it locked."""
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
