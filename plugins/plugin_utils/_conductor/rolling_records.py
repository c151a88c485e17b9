# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a rolling maintenance: one for each host, with its last begun stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from .._records.outcomes import RollingRecord
from .._store.engine import Store
from .._store.hosts import rolling
from .ports import Clock

#: The records of all hosts, by host.
Records = Mapping[str, RollingRecord]


class HostLook(TypedDict):
    """The result of a look at a host.

    - unread: the reason why it cannot be read, or None.
    - needed: True if it needs a reboot, None if that is not known.
    - why: the reason of needed.
    """

    host: str
    unread: str | None
    needed: bool | None
    why: str


class RollingRecords:
    """The records of one run.

    :param hosts: the hosts of the run; the records of other hosts count only for the report.
    """

    def __init__(self, store: Store, clock: Clock, hosts: Collection[str]) -> None:
        self._store, self._clock, self._hosts = store, clock, hosts

    def read(self) -> Records:
        """Return all records, by host."""
        with self._store.read() as connection:
            return {each["host"]: each for each in rolling.read(connection)}

    def left(self, records: Records) -> list[str]:
        """Return the hosts that are not done."""
        return [
            host
            for host, record in records.items()
            if host in self._hosts and record["stage"] != "done"
        ]

    def begun(self, records: Records) -> list[str]:
        """Return the hosts that were begun and are not done."""
        return [host for host in self.left(records) if records[host]["stage"] != "waiting"]

    def begin(self, host: str, stage: str, **values: str) -> bool:
        """Record a stage before its work begins. Return True if that changed anything."""
        return self.write([host], {"stage": stage, "message": "", **values})

    def write(self, hosts: Collection[str], values: Mapping[str, Any]) -> bool:
        """Record values for hosts. Return True if that changed anything."""
        changed = False
        if hosts:
            with self._store.write() as connection:
                for host in hosts:
                    changed |= rolling.write(connection, host, values, self._clock.time())
        return changed

    def forget(self) -> bool:
        """Remove all records. Return True if one existed."""
        with self._store.write() as connection:
            return rolling.forget(connection)
