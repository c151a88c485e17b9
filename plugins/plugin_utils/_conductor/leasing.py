# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leases of a run for the hosts that it works on.

A run takes a lease once and gives it back once. Between them, each write of the run renews it. A
renewal fails if the lease was lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from .._store.engine import Connection, Store
from .._store.runs import leases


class Leasing:
    """The leases of one run.

    :param say: show a line to the operator.
    """

    def __init__(self, store: Store, actor: leases.Actor, say: Callable[[str], None]) -> None:
        self._store, self._actor, self._say = store, actor, say
        # The hosts with a lease that this run has taken and not given back.
        self._hosts: set[str] = set()

    @property
    def holder(self) -> str:
        """Return the words for this run that people read."""
        return self._actor.holder

    @contextlib.contextmanager
    def held(
        self, hosts: Iterable[str], purpose: str, seconds: int = leases.SECONDS
    ) -> Iterator[None]:
        """Hold the leases of hosts, taken in this order.

        The run keeps the leases that it held before.

        :param purpose: the purpose, for other runs that want the hosts.
        :param seconds: the time until they end without a renewal.
        :raises leases.LeaseHeld: another run has one of them; the leases taken before it are given
        back.
        """
        before = set(self._hosts)
        taken: list[str] = []
        # For a lease that the run holds, only extend its time.
        wanted = [host for host in hosts if host not in before or seconds > leases.SECONDS]
        try:
            for host in wanted:
                new = self.take(host, purpose, seconds)
                # An older lease belongs to another task of the playbook.
                if new:
                    taken.append(host)
                self._hosts.add(host)
            yield
        finally:
            self._hosts = before
            if taken:
                self.release(taken)

    def take(self, host: str, purpose: str, seconds: int = leases.SECONDS) -> bool:
        """Take the lease of a host for a number of seconds, or make it longer.

        The run keeps it, also through other tasks of the playbook.

        :returns: True if the lease is new.
        :raises leases.LeaseHeld: another run has it.
        """
        with self._store.write() as connection:
            lease = leases.take(connection, host, self._actor, purpose, seconds)
        if lease["taken_over"]:
            self._say(lease["taken_over"])
        return lease["changed"]

    def renew(self, connection: Connection, host: str) -> None:
        """Renew the lease of a host, and all other leases of the run.

        :raises leases.LeaseLost: another run or no run holds it.
        """
        leases.renew(connection, host, self._actor)
        leases.renew_all(connection, self._actor)

    def extend(self, host: str, seconds: int) -> None:
        """Extend the lease of a host to a number of seconds from now, for a call without renewals.

        :raises leases.LeaseLost: see renew().
        """
        with self._store.write() as connection:
            leases.renew(connection, host, self._actor, seconds)

    def begun(self, host: str) -> float | None:
        """Return the begin of the lease of a host (seconds since 1970); None without a lease."""
        with self._store.read() as connection:
            return leases.begun(connection, host)

    def release(self, hosts: list[str]) -> None:
        """Give back the leases of these hosts, if this run holds them."""
        with self._store.write() as connection:
            for host in hosts:
                if leases.held(connection, host, self._actor):
                    leases.release(connection, host, self._actor)
