# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases for as long as a run works on hosts.

A lease is taken once and given back once. In between it is renewed with what the run writes, which fails where it was lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from .._store import leases
from .._store.engine import Connection, Store


class Leasing:
    """Takes leases in the name of one run.

    :param say: show a line to the person who watches.
    """

    def __init__(self, store: Store, actor: leases.Actor, say: Callable[[str], None]) -> None:
        self._store, self._actor, self._say = store, actor, say
        # The hosts whose leases this run has taken and not given back.
        self._hosts: set[str] = set()

    @property
    def holder(self) -> str:
        """Return the words for this run that people read."""
        return self._actor.holder

    @contextlib.contextmanager
    def held(self, hosts: Iterable[str], purpose: str, seconds: int = leases.SECONDS) -> Iterator[None]:
        """Hold the leases of hosts, taken in this order. The run keeps those that it held before.

        :param purpose: what for; others who want the hosts read it.
        :param seconds: for how long, unless they are renewed.
        :raises leases.Held: somebody else has one; those that were taken before it are given back.
        """
        before = set(self._hosts)
        taken: list[str] = []
        # A lease that the run holds is only made longer.
        wanted = [host for host in hosts if host not in before or seconds > leases.SECONDS]
        try:
            for host in wanted:
                new = self.take(host, purpose, seconds)
                # Another task of the playbook may hold it.
                if new:
                    taken.append(host)
                self._hosts.add(host)
            yield
        finally:
            self._hosts = before
            if taken:
                self.release(taken)

    def take(self, host: str, purpose: str, seconds: int = leases.SECONDS) -> bool:
        """Take the lease of a host for so many seconds, or make it longer.

        The run keeps it, through other tasks of the playbook too.

        :returns: whether the lease is new.
        :raises leases.Held: somebody else has it.
        """
        with self._store.write() as connection:
            found = leases.take(connection, host, self._actor, purpose, seconds)
        if found["taken_over"]:
            self._say(found["taken_over"])
        return found["changed"]

    def renew(self, connection: Connection, host: str) -> None:
        """Renew the lease of a host, and all others that the run holds.

        :raises leases.Lost: another run holds it, or nobody does.
        """
        leases.renew(connection, host, self._actor)
        leases.renew_all(connection, self._actor)

    def extend(self, host: str, seconds: int) -> None:
        """Make the lease of a host last so many seconds from now, for a call that renews nothing.

        :raises leases.Lost: as of renew().
        """
        with self._store.write() as connection:
            leases.renew(connection, host, self._actor, seconds)

    def begun(self, host: str) -> float | None:
        """Return the time at which the lease of a host was taken (seconds since 1970); None where there is none."""
        with self._store.read() as connection:
            return leases.begun(connection, host)

    def release(self, hosts: list[str]) -> None:
        """Give back those of the leases of hosts that the run holds."""
        with self._store.write() as connection:
            for host in hosts:
                if leases.held(connection, host, self._actor):
                    leases.release(connection, host, self._actor)
