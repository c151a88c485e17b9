# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watch over a live migration from the side: its downtime, its time limit with the action at
its end, and the user's abort.

Private to the collection. The thread that migrates is busy inside libvirt during the whole
migration, so the watch uses a separate connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._orders.records import uptime
from .._ownership.move_record import Options

POLL = 0.3

#: Seconds within which a paused guest must have sent more data, or its migration is given up.
STALLED = 60


class MigrationWatch:
    """The watch over one live migration during the ``with`` block.

    :param options: the move's options, see ``_migration.options``.
    :param ends: the uptime() at which the time is over, or None for never.
    :param limit: the time limit in seconds from the beginning: also the second limit, for the
        action at the end of the first.
    :param abort_asked: a function that returns True if the user requests an abort.
    :param note: a function that writes ``escalated`` (the action taken) into the record, before it
        is taken.
    :param escalated: the action that an earlier worker took already, or None.
    """

    def __init__(
        self,
        uri: str,
        uuid: str,
        options: Options,
        ends: float | None = None,
        limit: float | None = None,
        abort_asked: Callable[[], bool] = lambda: False,
        note: Callable[[str], object] = lambda action: None,
        escalated: str | None = None,
    ) -> None:
        self.uri, self.uuid, self.options = uri, uuid, options
        self.ends, self.limit, self.escalated = ends, limit, escalated
        self._abort_asked, self._note = abort_asked, note
        self._downtime = options.get("max_downtime_ms")
        self._switched = self._paused = False
        self._least: int | None = None
        self._progress_at = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MigrationWatch:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        # The watch must write its notes into the record before the move continues.
        self._thread.join(10)

    def _run(self) -> None:
        conn = None
        while not self._over.wait(POLL):
            try:
                if conn is None:
                    conn = binding.open_connection(self.uri)
                self._watch_once(conn.lookupByUUIDString(self.uuid))
            except LibvirtProblem:
                continue
            except libvirt.libvirtError:
                # The call came too early or too late; the next look or the end of the migration
                # decides.
                if conn is not None and not _is_alive(conn):
                    binding.close(conn)
                    conn = None
        binding.close(conn)

    def _watch_once(self, domain: Any) -> None:
        if self._abort_asked():
            domain.abortJob()
            return
        if self._downtime and domain.jobInfo()[0]:
            domain.migrateSetMaxDowntime(int(self._downtime), 0)
            self._downtime = None
        if self.ends is not None and uptime() >= self.ends:
            self._escalate(domain)

    def _escalate(self, domain: Any) -> None:
        """Carry out the action at the time limit; this is called again and again until the
        migration ends.
        """
        if not domain.jobInfo()[0]:
            # The migration has not begun, or is just over: a guest that does not move must not be
            # paused.
            return
        action = self.options.get("on_timeout") or "abort"
        if self.escalated is None:
            self.escalated = action
            self._note(action)
        if (
            action == "post_copy"
            and not self._switched
            and uptime() < (self.ends or 0) + (self.limit or 0)
        ):
            # libvirt refuses this during the copy of its disks.
            domain.migrateStartPostCopy(0)
            self._switched = True
        elif action == "pause" and not self._paused:
            domain.suspend()
            self._paused = True
            self._progress_at = time.monotonic()
        elif self._paused and not self._is_stalled(domain):
            pass
        elif not self._switched:
            # A part of a guest that was switched over is at the destination already: it can only go
            # on.
            domain.abortJob()

    def _is_stalled(self, domain: Any) -> bool:
        """Return True if no data are sent, although the guest no longer changes data that would
        have to be sent again.
        """
        stats = domain.jobStats(0)
        left = stats.get("memory_remaining", 0) + stats.get("disk_remaining", 0)
        if self._least is None or left < self._least:
            self._least, self._progress_at = left, time.monotonic()
        return time.monotonic() - self._progress_at >= STALLED


def _is_alive(conn: Any) -> bool:
    try:
        return bool(conn.isAlive())
    except libvirt.libvirtError:
        return False
