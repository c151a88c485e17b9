# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of members of a server group on each host. A large fleet has thousands of groups with
a few members each.
"""

from __future__ import annotations

from .._common.arrays import IntArray, np


class HostCounts:
    """A count for each host, by its number; only hosts with a count take memory.

    :param hosts: the number of hosts.
    """

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._counts: dict[int, int] = {}

    def __getitem__(self, host: int) -> int:
        return self._counts.get(int(host), 0)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, host: int, number: int) -> None:
        """Add a number, which may be negative, to the count of a host."""
        host = int(host)
        self._counts[host] = self._counts.get(host, 0) + number
        if not self._counts[host]:
            del self._counts[host]

    def hosts_with(self, least: int) -> list[int]:
        """Return the hosts with a count of at least ``least``, which must be above 0."""
        return [host for host, count in self._counts.items() if count >= least]

    def by_host(self) -> IntArray:
        """Return the count of each host as a new array."""
        found = np.zeros(self._hosts, dtype=np.int64)
        found[list(self._counts)] = list(self._counts.values())
        return found

    def copy(self) -> HostCounts:
        """Return an independent copy."""
        found = HostCounts(self._hosts)
        found._counts = self._counts.copy()
        return found
