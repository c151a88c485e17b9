# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases for as long as a run works on hosts.

A lease is taken once and given back once. In between it is renewed with what the run writes, which fails where it was lost.
"""

from __future__ import annotations

import contextlib

from ansible_collections.drover.compute.plugins.plugin_utils.store import leases


class Leasing:
    """Takes leases in the name of one run.

    :param store: an open Store.
    :param actor: the run, see lease_holder.Actor.
    :param say: a function (line) for the person who watches.
    """

    def __init__(self, store, actor, say):
        self._store, self._actor, self._say = store, actor, say
        # The hosts whose leases this run has taken and not given back.
        self._hosts = set()

    @property
    def holder(self) -> str:
        """The run, in words for people."""
        return self._actor.holder

    @contextlib.contextmanager
    def held(self, hosts, purpose, seconds=leases.SECONDS):
        """Hold the leases of hosts. Those that the run holds already are not taken again, and stay with it afterwards.

        :param hosts: names, in the order in which to take them.
        :param purpose: what for; others who want the hosts read it.
        :param seconds: for how long, unless they are renewed.
        :raises leases.Held: somebody else has one; those that were taken before it are given back.
        """
        before, taken = set(self._hosts), []
        # One that is held already is only held for longer.
        wanted = [host for host in hosts if host not in before or seconds > leases.SECONDS]
        try:
            for host in wanted:
                new = self.take(host, purpose, seconds)
                # Another task of the playbook may have it.
                if new:
                    taken.append(host)
                self._hosts.add(host)
            yield
        finally:
            self._hosts = before
            if taken:
                self.release(taken)

    def take(self, host: str, purpose: str, seconds: int = leases.SECONDS) -> bool:
        """Take the lease of a host for so many seconds, or hold it for longer.

        :returns: whether it was not held before; it stays with the run, through other tasks of the playbook too.
        :raises leases.Held: somebody else has it.
        """
        with self._store.write() as connection:
            found = leases.take(connection, host, self._actor, purpose, seconds)
        if found["taken_over"]:
            self._say(found["taken_over"])
        return found["changed"]

    def renew(self, connection, host):
        """Renew the lease of a host, and all others that the run holds.

        :raises leases.Lost: it is not the run's any more.
        """
        leases.renew(connection, host, self._actor)
        leases.renew_all(connection, self._actor)

    def extend(self, host, seconds):
        """Hold the lease of a host for so many seconds more, through a call that renews nothing."""
        with self._store.write() as connection:
            leases.renew(connection, host, self._actor, seconds)

    def begun(self, host):
        """Since when the lease of a host is held, seconds since 1970; None when nobody holds it."""
        with self._store.read() as connection:
            return leases.begun(connection, host)

    def release(self, hosts: list[str]) -> None:
        """Give back the leases of hosts, those that the run holds."""
        with self._store.write() as connection:
            for host in hosts:
                if leases.held(connection, host, self._actor):
                    leases.release(connection, host, self._actor)
