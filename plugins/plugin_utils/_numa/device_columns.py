# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Free PCI devices of all hosts as arrays, to find the hosts that fit a request (N12.3)."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.arrays import BoolArray, IntArray, np
from .device_pools import PLACES, HostDevices, folded, is_usable
from .device_requests import LEGACY, REQUIRED, SOCKET, PciRequest


class DeviceColumns:
    """Counts of free devices: [hosts, kinds of pools, columns of cells + 2].

    The last two columns are devices whose cell is not known, and devices of a cell that the host
    does not have.

    :param hosts: the devices of each host.
    :param cell_ids: [hosts, columns], -1 without a cell.
    """

    def __init__(self, hosts: Sequence[HostDevices], cell_ids: IntArray) -> None:
        self._hosts = hosts
        self._columns = cell_ids.shape[1]
        kinds = {pool.kind for each in hosts for pool in each.pools}
        self._kinds = sorted(
            kinds, key=lambda kind: sorted((key, str(value)) for key, value in kind)
        )
        number = {kind: place for place, kind in enumerate(self._kinds)}
        self.counts = np.zeros((len(hosts), len(self._kinds), self._columns + 2), dtype=np.int64)
        #: The kind and the column in the counts for each pool of each host.
        self._places: list[list[tuple[int, int]]] = []
        for devices, ids in zip(hosts, cell_ids.tolist()):
            column = {cell: place for place, cell in enumerate(ids) if cell >= 0}
            self._places.append(
                [(number[pool.kind], self._column(pool.node, column)) for pool in devices.pools]
            )
        for host in range(len(hosts)):
            self.count(host)

    def _column(self, node: int | None, column: dict[int, int]) -> int:
        return self._columns if node is None else column.get(node, self._columns + 1)

    def count(self, host: int) -> None:
        """Count the free devices of a host again."""
        self.counts[host] = 0
        devices = self._hosts[host]
        for pool, place in zip(devices.pools, self._places[host]):
            self.counts[(host, *place)] += len(devices.free(pool))

    @property
    def by_cell(self) -> IntArray:
        """[hosts, columns]: all free devices of each cell."""
        found: IntArray = self.counts[:, :, : self._columns].sum(axis=1)
        return found

    def is_separable(self, requests: Sequence[PciRequest]) -> bool:
        """Return True if no two requests match the same devices and all are about kinds, so that
        counts decide.
        """
        chosen = [set(self._matching(request)) for request in requests]
        about_places = any(
            key in PLACES for request in requests for spec in request.specs for key, _value in spec
        )
        return not about_places and sum(map(len, chosen)) == len(set().union(*chosen))

    def _matching(self, request: PciRequest) -> list[int]:
        specs = [[(key, folded(value)) for key, value in spec] for spec in request.specs]
        return [
            number
            for number, kind in enumerate(self._kinds)
            if any(all(pair in kind for pair in spec) for spec in specs)
        ]

    def supports(
        self,
        requests: Sequence[PciRequest],
        chosen: Sequence[int] | None = None,
        sockets: IntArray | None = None,
    ) -> BoolArray:
        """Return True for each host with devices that meet requests that are separable.

        :param chosen: columns of the chosen cells; None leaves policies out.
        :param sockets: [hosts, columns], -1 for an unknown socket; with ``chosen``.
        """
        supporting = np.ones(len(self._hosts), dtype=bool)
        for request in requests:
            matching = self._matching(request)
            usable = [
                number for number in matching if is_usable(dict(self._kinds[number]), request)
            ]
            matched, free = (self.counts[:, numbers].sum(axis=1) for numbers in (matching, usable))
            columns = self._by_policy(request, matched, chosen, sockets)
            supporting &= np.where(columns, free, 0).sum(axis=1) >= request.count
        return supporting

    def _by_policy(
        self,
        request: PciRequest,
        matched: IntArray,
        chosen: Sequence[int] | None,
        sockets: IntArray | None,
    ) -> BoolArray:
        """Return [hosts, columns + 2]: True where a request may take devices."""
        every = np.ones(matched.shape, dtype=bool)
        if chosen is None or sockets is None:
            return every
        near = np.zeros(matched.shape, dtype=bool)
        near[:, list(chosen)] = True
        if request.policy == REQUIRED:
            return near
        is_enough = (matched[:, list(chosen)].sum(axis=1) >= request.count)[:, None]
        if request.policy == SOCKET:
            same = np.zeros(matched.shape, dtype=bool)
            for column in chosen:
                same[:, : self._columns] |= (sockets == sockets[:, [column]]) & (sockets >= 0)
            return np.where(is_enough, near, same)
        legacy = near.copy()
        legacy[:, self._columns] = True
        legacy = np.where(is_enough, near, legacy)
        if request.policy == LEGACY:
            return legacy
        return np.where(
            (np.where(legacy, matched, 0).sum(axis=1) >= request.count)[:, None], legacy, every
        )
