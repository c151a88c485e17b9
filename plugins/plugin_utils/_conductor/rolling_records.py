# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a rolling maintenance: one for each host, with the stage that was begun last."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from .._records.outcomes import RollingRecord
from .._store import rolling
from .._store.engine import Store
from .ports import Clock

#: The records of all hosts, by host.
Records = Mapping[str, RollingRecord]


class Seen(TypedDict):
    """What a look at a host found. unread: why it cannot be read, or None. needed: whether it needs a reboot, None if that cannot be told. why."""

    host: str
    unread: str | None
    needed: bool | None
    why: str


class RollingRecords:
    """Reads and writes the records of one run.

    :param hosts: those of the run; the records of other hosts count for the report only.
    """

    def __init__(self, store: Store, clock: Clock, hosts: Collection[str]) -> None:
        self._store, self._clock, self._hosts = store, clock, hosts

    def read(self) -> Records:
        """Read all records."""
        with self._store.read() as connection:
            return {each["host"]: each for each in rolling.read(connection)}

    def left(self, records: Records) -> list[str]:
        """Return the hosts that are not done."""
        return [host for host, record in records.items() if host in self._hosts and record["stage"] != "done"]

    def begun(self, records: Records) -> list[str]:
        """Return the hosts that were begun with and are not done."""
        return [host for host in self.left(records) if records[host]["stage"] != "waiting"]

    def begin(self, host: str, stage: str, **values: str) -> bool:
        """Record the stage that begins now, before anything is done; return whether that changed anything."""
        return self.write([host], {"stage": stage, "message": "", **values})

    def write(self, hosts: Collection[str], values: Mapping[str, Any]) -> bool:
        """Record values for hosts; return whether that changed anything."""
        changed = False
        if hosts:
            with self._store.write() as connection:
                for host in hosts:
                    changed |= rolling.write(connection, host, values, self._clock.time())
        return changed

    def forget(self) -> bool:
        """Remove all records; return whether there were any."""
        with self._store.write() as connection:
            return rolling.forget(connection)
