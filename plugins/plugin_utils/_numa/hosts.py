# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many hosts with their NUMA cells (N11) and PCI devices (N12): the hosts that fit a request, and
its cells and devices there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

from .._common.arrays import BoolArray, IntArray, np
from .._common.errors import DroverError
from .._records.numa import CellUse, NumaHost, Placed, PlacedCell
from . import lacks
from .columns import KIB, CellTable
from .device_columns import DeviceColumns
from .device_pools import HostDevices, Nearness
from .device_specs import read_device_specs
from .guest import GuestCell, GuestTopology
from .host_cpus import HostCpus
from .matching import can_match
from .request import HostRequest

FITS = ""
PCI_FILTER, NO_CELLS, NO_THREADS, NO_FIT, PCI_CLAIM = (
    "pci filter",
    "no host topology",
    "thread policy",
    "numa fit",
    "pci claim",
)
#: The reason why a host does not fit -> the sentence for it, after the host's name.
REASONS = {
    PCI_FILTER: "has too few free PCI devices of the requested kind",
    NO_CELLS: "reports no NUMA cells",
    NO_THREADS: "has no core with several threads, which hw:cpu_thread_policy=require needs",
    NO_FIT: (
        "has no NUMA cells with enough free CPUs, memory or pages, with the PCI devices and"
        " networks near them"
    ),
    PCI_CLAIM: (
        "cannot give the PCI devices together, as physical and virtual functions exclude each other"
    ),
}
_CODES = (FITS, *REASONS)
#: The maximum of choices of cells times sums over all hosts. Above it, only hosts that pass the
#: other checks are examined, one by one.
_MOST_SUMS = 500


class DoesNotFit(DroverError):
    """An instance does not fit a host. ``why`` is a key of REASONS; lack: a function that gives the
    exact shortage, if there is one.
    """

    def __init__(
        self, host: str, why: str, lack: Callable[[], lacks.NumaLack] | None = None
    ) -> None:
        super().__init__(f"Host {host} {REASONS[why]}.")
        self.why, self._lack = why, lack

    @property
    def lack(self) -> lacks.NumaLack:
        """The shortage of the host, as long as nothing has changed there. It is computed only when
        it is read.
        """
        return lacks.NumaLack(REASONS[self.why], 1.0) if self._lack is None else self._lack()


@dataclass(frozen=True)
class Fit:
    """The hosts that fit a request: a bool array, and for each host the position of its reason in
    _CODES.
    """

    mask: BoolArray
    codes: IntArray

    def why(self, host: int) -> str:
        """Return the key in REASONS of a host; empty if it fits."""
        return _CODES[int(self.codes[host])]


class NumaHosts:
    """The cells and PCI devices of hosts, with the parts that instances have.

    :param pack: fill cells one after the other instead of evenly.
    :raises InvalidSpecs: a device spec cannot be read.
    """

    def __init__(self, hosts: Sequence[NumaHost], pack: bool = False) -> None:
        self.names = [str(each["name"]) for each in hosts]
        self._pack = pack
        self._table = CellTable(hosts)
        self._columns = self._table.columns
        self._devices = [
            HostDevices(each.get("pci") or (), read_device_specs(each.get("device_spec") or ()))
            for each in hosts
        ]
        self._device_columns = DeviceColumns(self._devices, self._columns.ids)
        self._cells = [list(each.get("cells") or ()) for each in hosts]
        self._has_cells: BoolArray = np.any(self._columns.exists, axis=1)
        self._has_threads: BoolArray = np.any(
            self._columns.exists & (self._columns.threads > 1), axis=1
        )
        # A host with an unknown socket meets no policy "socket" (N12.3).
        known = np.where(self._columns.exists, self._columns.sockets, 0).min(axis=1, initial=0) >= 0
        self._sockets = np.where(known[:, None] & self._columns.exists, self._columns.sockets, -1)
        self._held: dict[tuple[int, str], Placed] = {}
        for number, each in enumerate(hosts):
            for placed in each.get("instances") or ():
                self._count_cells(number, placed, 1)
                if "uuid" in placed:
                    self._held[number, placed["uuid"]] = placed

    # --- the hosts that fit ---

    def fits(self, request: HostRequest) -> Fit:
        """Return the hosts that fit now, and the reasons of the others."""
        codes = np.zeros(len(self.names), dtype=np.int64)

        def reject(mask: BoolArray, why: str) -> None:
            codes[mask & (codes == 0)] = _CODES.index(why)

        if request.pci:
            reject(~self.has_devices(request), PCI_FILTER)
        if request.topology is not None:
            reject(~self._has_cells, NO_CELLS)
            if request.needs_threads:
                reject(~self._has_threads, NO_THREADS)
            reject(~self._fits_cells(request, request.topology, codes == 0), NO_FIT)
        return Fit(codes == 0, codes)

    def has_devices(self, request: HostRequest) -> BoolArray:
        """Return the hosts that have the PCI devices, in any of their cells."""
        if self._device_columns.is_separable(request.pci):
            return self._device_columns.supports(request.pci)
        answers: dict[Any, bool] = {}
        supporting = np.zeros(len(self.names), dtype=bool)
        for host, devices in enumerate(self._devices):
            key = devices.counts_key()
            if key not in answers:
                answers[key] = devices.supports(request.pci)
            supporting[host] = answers[key]
        return supporting

    def _fits_cells(
        self, request: HostRequest, topology: GuestTopology, alive: BoolArray
    ) -> BoolArray:
        columns = self._columns.exists.shape[1]
        size = len(topology.cells)
        if columns < size:
            return np.zeros(len(self.names), dtype=bool)
        kinds = _kinds(topology)
        masks = [
            self._table.fits(self._columns, cell, topology, emulator, request.with_limits)
            for cell, emulator in dict.fromkeys(kinds)
        ]
        counts = [kinds.count(kind) for kind in dict.fromkeys(kinds)]
        sums = 2 ** len(masks) - 1
        is_near = bool(request.pci or request.physnets or request.is_tunneled)
        if sums <= _MOST_SUMS and not is_near:
            return can_match(masks, counts)
        if sums * comb(columns, size) <= _MOST_SUMS and self._device_columns.is_separable(
            request.pci
        ):
            suitable = np.zeros(len(self.names), dtype=bool)
            for chosen in combinations(range(columns), size):
                near = can_match([mask[:, list(chosen)] for mask in masks], counts)
                if near.any():
                    near &= self._device_columns.supports(
                        request.pci, chosen, self._sockets
                    ) & self._reach_networks(request, chosen)
                suitable |= near
                if suitable[alive].all():
                    break
            return suitable
        for mask, count in zip(masks, counts):
            alive = alive & (mask.sum(axis=1) >= count)
        return self._search_each(request, topology, masks, alive)

    def _search_each(
        self,
        request: HostRequest,
        topology: GuestTopology,
        masks: Sequence[BoolArray],
        alive: BoolArray,
    ) -> BoolArray:
        """Return the hosts that fit, of the hosts in ``alive``, one by one; equal hosts are
        examined once.
        """
        suitable = np.zeros(len(self.names), dtype=bool)
        answers: dict[Any, bool] = {}
        for host in np.flatnonzero(alive).tolist():
            near = (
                [(each.get("physnets"), each.get("tunneled")) for each in self._cells[host]]
                if request.physnets or request.is_tunneled
                else ()
            )
            numbers = (self._columns.ids, self._sockets, *masks)
            key = (
                *(each[host].tobytes() for each in numbers),
                self._devices[host].counts_key(),
                repr(near),
            )
            if key not in answers:
                answers[key] = self._search(host, request, topology) is not None
            suitable[host] = answers[key]
        return suitable

    def _reach_networks(self, request: HostRequest, chosen: Sequence[int]) -> BoolArray:
        if not request.physnets and not request.is_tunneled:
            return np.ones(len(self.names), dtype=bool)
        return np.array(
            [self._reaches_networks(host, request, chosen) for host in range(len(self.names))],
            dtype=bool,
        )

    def _reaches_networks(self, host: int, request: HostRequest, chosen: Iterable[int]) -> bool:
        """Return True if the chosen cells have each network that a cell of the host has (N11.6)."""
        cells = self._cells[host]
        mine = [cells[column] for column in chosen if column < len(cells)]
        host_networks, chosen_networks = (
            set().union(*(each.get("physnets") or () for each in some)) for some in (cells, mine)
        )
        if request.physnets & host_networks - chosen_networks:
            return False
        return (
            not request.is_tunneled
            or any(each.get("tunneled") for each in mine)
            or not any(each.get("tunneled") for each in cells)
        )

    def why(self, request: HostRequest, host: int) -> str:
        """Return the key in REASONS why a host does not fit; empty if it fits."""
        try:
            self.place(request, host)
        except DoesNotFit as problem:
            return problem.why
        return FITS

    def lack(self, request: HostRequest, host: int) -> lacks.NumaLack:
        """Return the shortage of a host for a request that it does not fit."""
        try:
            self.place(request, host)
        except DoesNotFit as problem:
            return problem.lack
        return lacks.NumaLack("fits", 0.0)

    @property
    def free_devices(self) -> IntArray:
        """The number of free PCI devices of each host."""
        found: IntArray = self._device_columns.counts.sum(axis=(1, 2))
        return found

    # --- the parts for an instance ---

    def place(self, request: HostRequest, host: int) -> Placed:
        """Return the cells and devices of a request on a host, as plain data; nothing is taken yet.

        :raises DoesNotFit: the host does not fit.
        """
        devices = self._devices[host]
        if request.pci and not devices.supports(request.pci):
            raise DoesNotFit(self.names[host], PCI_FILTER)
        cells: list[PlacedCell] = []
        near = None
        if request.topology is not None:
            if not self._has_cells[host]:
                raise DoesNotFit(self.names[host], NO_CELLS)
            if request.needs_threads and not self._has_threads[host]:
                raise DoesNotFit(self.names[host], NO_THREADS)
            chosen = self._search(host, request, request.topology)
            if chosen is None:
                kinds, topology = _kinds(request.topology), request.topology
                raise DoesNotFit(
                    self.names[host],
                    NO_FIT,
                    lambda: lacks.of_cells(self._table, host, kinds, topology, request.with_limits),
                )
            near = self._nearness(host, chosen)
            cells = [
                self._place_cell(host, column, guest, request.topology)
                for guest, column in enumerate(chosen)
            ]
        device_sets = devices.choose(request.pci, near)
        if device_sets is None:
            raise DoesNotFit(self.names[host], PCI_CLAIM)
        return {
            "cells": cells,
            "pci": [
                {
                    "count": asked.count,
                    "policy": asked.policy,
                    "devices": [devices.describe(each) for each in mine],
                }
                for asked, mine in zip(request.pci, device_sets)
            ],
        }

    def count(self, request: HostRequest, host: int, most: int) -> int:
        """Return the number of equal instances that a host takes now, one after the other; at most
        ``most``.
        """
        taken: list[Placed] = []
        try:
            while len(taken) < most:
                placed = self.place(request, host)
                self.consume(host, placed)
                taken.append(placed)
        except DoesNotFit:
            pass
        for placed in taken:
            self.release(host, placed)
        return len(taken)

    def _place_cell(
        self, host: int, column: int, guest: int, topology: GuestTopology
    ) -> PlacedCell:
        cell, emulator = topology.cells[guest], topology.emulator_cpus if guest == 0 else 0
        pins: list[int] = []
        reserved: list[int] = []
        if topology.is_pinned:
            pins, reserved = self._table.cpus[host][column].choose(
                len(cell.pinned), topology.thread_policy, emulator
            )
        page_kb = None
        if topology.page_size is not None:
            sizes = self._table.fitting_sizes(self._columns.at(host), cell, topology.page_size)[
                0, column
            ]
            page_kb = int(self._table.sizes[np.flatnonzero(sizes)[-1]])
        return {
            "guest": guest,
            "host": int(self._columns.ids[host, column]),
            "memory_mb": cell.memory_mb,
            "page_kb": page_kb,
            "shared": list(cell.shared),
            "pins": {str(vcpu): cpu for vcpu, cpu in zip(cell.pinned, pins)},
            "reserved": sorted(reserved),
            "cpu_policy": topology.cpu_policy,
            "thread_policy": topology.thread_policy,
            "emulator_policy": topology.emulator_policy,
        }

    def _search(self, host: int, request: HostRequest, topology: GuestTopology) -> list[int] | None:
        """Return the column of a host cell for each guest cell, or None.

        It is the first of the ordered choices of cells that meets all conditions, in Nova's order
        of cells (N11.4).
        """
        size = len(topology.cells)
        columns = self._columns.at(host)
        masks = {
            kind: (
                self._table.fits(columns, kind[0], topology, kind[1], request.with_limits)[
                    0
                ].tolist()
            )
            for kind in dict.fromkeys(_kinds(topology))
        }
        cell_masks = [masks[kind] for kind in _kinds(topology)]
        usable = [
            column
            for column in self._in_order(host, request, topology)
            if any(mask[column] for mask in cell_masks)
        ]
        if len(usable) < size:
            return None
        sets: list[frozenset[int]] = [frozenset(usable)]
        if request.pci or request.physnets or request.is_tunneled:
            sets = [
                chosen
                for chosen in map(frozenset, combinations(usable, size))
                if _has_match(cell_masks, chosen) and self._is_near(host, request, chosen)
            ]
        columns_chosen: list[int] = []
        for guest in range(size):
            for column in usable:
                if column in columns_chosen or not cell_masks[guest][column]:
                    continue
                taken = {*columns_chosen, column}
                rest = cell_masks[guest + 1 :]
                matching_sets = [
                    each for each in sets if taken <= each and _has_match(rest, each - taken)
                ]
                if matching_sets:
                    columns_chosen.append(column)
                    sets = matching_sets
                    break
            else:
                return None
        return columns_chosen

    def _in_order(self, host: int, request: HostRequest, topology: GuestTopology) -> Iterator[int]:
        """Return the columns of a host's cells in the order of the search: the last sort key counts
        most (N11.4).
        """
        order = list(range(len(self._cells[host])))
        if len(order) > len(topology.cells):
            columns = self._columns.at(host)
            free = (columns.memory - columns.memory_used)[0].tolist()
            order.sort(key=free.__getitem__, reverse=not self._pack)
            if topology.is_pinned:
                cpus = columns.dedicated_free[0].tolist()
                order.sort(key=cpus.__getitem__, reverse=not self._pack)
            else:
                order.sort(key=columns.shared_used[0].tolist().__getitem__, reverse=self._pack)
            devices = self._device_columns.counts[host].sum(axis=0).tolist()
            order.sort(key=devices.__getitem__, reverse=bool(request.pci))
        return iter(order)

    def _is_near(self, host: int, request: HostRequest, chosen: frozenset[int]) -> bool:
        if not self._reaches_networks(host, request, chosen):
            return False
        return not request.pci or self._devices[host].supports(
            request.pci, self._nearness(host, chosen)
        )

    def _nearness(self, host: int, chosen: Iterable[int]) -> Nearness:
        ids, sockets = self._columns.ids[host].tolist(), self._sockets[host].tolist()
        chosen = list(chosen)
        mine = {sockets[column] for column in chosen}
        same = (
            None
            if -1 in mine
            else frozenset(cell for cell, socket in zip(ids, sockets) if socket in mine)
        )
        return Nearness(frozenset(ids[column] for column in chosen), same)

    # --- taken parts ---

    def consume(self, host: int, placed: Placed) -> None:
        """Count the result of place() as taken (N11.7).

        :raises DroverError: a CPU or a device is taken, or does not exist. Then nothing is counted.
        """
        for column, cell in self._columns_of(host, placed):
            cpus = self._table.cpus[host][column]
            for cpu in cpus.not_free(_cpus_of(cell, cpus)):
                raise DroverError(
                    f"CPU {cpu} of host {self.names[host]} is not free for an instance."
                )
        for address in self._devices[host].not_free(_addresses_of(placed)):
            raise DroverError(
                f"The PCI device {address} of host {self.names[host]} is not free for an instance."
            )
        self._count_cells(host, placed, 1)

    def held(self, host: int, uuid: str) -> Placed:
        """Return the parts that an instance had of a host at the beginning, in the form of place();
        empty if it had nothing.
        """
        return self._held.get((host, uuid), {})

    def release(self, host: int, placed: Placed) -> None:
        """Count the parts of an instance as free again.

        :raises DroverError: no instance has a CPU or a device of it. Then nothing is counted.
        """
        for column, cell in self._columns_of(host, placed):
            cpus = self._table.cpus[host][column]
            for cpu in cpus.not_pinned(_cpus_of(cell, cpus)):
                raise DroverError(f"No instance is pinned to CPU {cpu} of host {self.names[host]}.")
        for address in self._devices[host].not_taken(_addresses_of(placed)):
            raise DroverError(
                f"No instance has the PCI device {address} of host {self.names[host]}."
            )
        self._count_cells(host, placed, -1)

    def _count_cells(self, host: int, placed: Placed, sign: int) -> None:
        addresses = _addresses_of(placed)
        if addresses:
            self._devices[host].count(addresses, sign)
            self._device_columns.count(host)
        columns = self._columns
        for column, cell in self._columns_of(host, placed):
            at = host, column
            columns.memory_used[at] += sign * cell["memory_mb"]
            columns.shared_used[at] += sign * len(cell["shared"])
            size = self._table.size_at(host, column, cell.get("page_kb"))
            if size is not None:
                columns.pages_free[(*at, size)] -= sign * (
                    cell["memory_mb"] * KIB // int(self._table.sizes[size])
                )
            cpus = self._table.cpus[host][column]
            pinned = _cpus_of(cell, cpus)
            if pinned:
                cpus.count(pinned, sign)
                self._table.count_cores(*at)

    def _columns_of(self, host: int, placed: Placed) -> list[tuple[int, PlacedCell]]:
        """Return the column of each cell of an instance. An instance on a cell that the host does
        not have takes nothing of it.
        """
        column = {each["id"]: number for number, each in enumerate(self._cells[host])}
        return [
            (column[cell["host"]], cell)
            for cell in placed.get("cells") or ()
            if cell["host"] in column
        ]

    def usage(self, host: int) -> list[CellUse]:
        """Return the parts of each cell of a host that instances have, as plain data."""
        usage: list[CellUse] = []
        for column, cell in enumerate(self._cells[host]):
            at = host, column
            pages = zip(
                self._table.sizes.tolist(),
                self._columns.has_pages[at].tolist(),
                self._columns.pages_free[at].tolist(),
            )
            usage.append(
                {
                    "id": cell["id"],
                    "memory_mb": int(self._columns.memory_used[at]),
                    "shared": int(self._columns.shared_used[at]),
                    "pinned": sorted(self._table.cpus[host][column].pins),
                    "pages_free": {str(size): free for size, there, free in pages if there},
                }
            )
        return usage


def _kinds(topology: GuestTopology) -> list[tuple[GuestCell, int]]:
    """Return each guest cell in the form for the fit: equal cells are one kind, without the numbers
    of their vCPUs.
    """
    kinds = []
    for number, cell in enumerate(topology.cells):
        kind = GuestCell((0,) * len(cell.shared), (0,) * len(cell.pinned), cell.memory_mb)
        kinds.append((kind, topology.emulator_cpus if number == 0 else 0))
    return kinds


def _cpus_of(cell: PlacedCell, cpus: HostCpus) -> set[int]:
    """Return the host CPUs that a guest cell takes from a host cell."""
    return cpus.with_siblings(
        {*cell["pins"].values(), *cell["reserved"]}, cell.get("thread_policy")
    )


def _addresses_of(placed: Placed) -> list[str]:
    return [device["address"] for each in placed.get("pci") or () for device in each["devices"]]


def _has_match(cell_masks: Sequence[Sequence[bool]], columns: frozenset[int]) -> bool:
    """Return True if each guest cell can get a separate host cell among the given columns."""
    owner: dict[int, int] = {}

    def finds(guest: int, seen: set[int]) -> bool:
        for column in columns:
            if cell_masks[guest][column] and column not in seen:
                seen.add(column)
                if column not in owner or finds(owner[column], seen):
                    owner[column] = guest
                    return True
        return False

    return all(finds(guest, set()) for guest in range(len(cell_masks)))
