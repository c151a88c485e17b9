# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of all hosts as arrays, and the hosts' cells that one guest cell fits (N11.4,
N11.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from .._common.arrays import BoolArray, FloatArray, IntArray, np
from .._records.numa import HostCell, NumaHost
from .guest import ANY, DEDICATED, ISOLATE, LARGE, REQUIRE, SMALL, GuestCell, GuestTopology
from .host_cpus import HostCpus

KIB = 1024


@dataclass
class CellColumns:
    """The inputs of the fit, each [hosts, cells] unless noted otherwise. Memory is MiB.

    A host with fewer cells than another has columns without a cell at its end (``exists`` false).
    """

    exists: BoolArray
    #: The number of the cell on the host; -1 without a cell.
    ids: IntArray
    #: The number of the socket; -1 if unknown.
    sockets: IntArray
    memory: IntArray
    memory_used: IntArray
    #: CPUs for shared vCPUs, and vCPUs on them.
    shared: IntArray
    shared_used: IntArray
    threads: IntArray
    is_legacy: BoolArray
    #: [hosts, cells, t]: the number of cores with at least t free dedicated CPUs; the entry t = 0
    #: has no meaning.
    cores: IntArray
    #: The number of cores without any pinned CPU.
    whole_cores: IntArray
    #: [hosts, cells, sizes].
    has_pages: BoolArray
    is_smallest: BoolArray
    pages: IntArray
    pages_free: IntArray
    #: [hosts, 1].
    cpu_ratio: FloatArray
    ram_ratio: FloatArray

    def at(self, host: int) -> CellColumns:
        """Return the columns of one host alone, on the same memory."""
        return replace(
            self, **{each.name: getattr(self, each.name)[host : host + 1] for each in fields(self)}
        )

    @property
    def dedicated_free(self) -> IntArray:
        """Free dedicated CPUs."""
        found: IntArray = self.cores[:, :, 1:].sum(axis=2)
        return found


class CellTable:
    """The columns with their sources.

    sizes: page sizes of all hosts in KiB, the smallest first; the last axis of the columns of
    pages. cpus: the dedicated CPUs of each cell of each host.
    """

    def __init__(self, hosts: Sequence[NumaHost]) -> None:
        cells = [list(each.get("cells") or ()) for each in hosts]
        every = [cell for each in cells for cell in each]
        self.sizes = np.array(
            sorted({page["size_kb"] for cell in every for page in cell.get("pages") or ()}),
            dtype=np.int64,
        )
        self._size_at = {size: place for place, size in enumerate(self.sizes.tolist())}
        self.cpus = [[HostCpus(cell) for cell in each] for each in cells]
        shape = (len(hosts), max(map(len, cells), default=0))
        threads = max((each.layout.threads for row in self.cpus for each in row), default=1)
        self.columns = _empty(shape, threads, len(self.sizes))
        for row, (host, mine) in enumerate(zip(hosts, cells)):
            self.columns.cpu_ratio[row] = float(host.get("cpu_allocation_ratio") or 4.0)
            self.columns.ram_ratio[row] = float(host.get("ram_allocation_ratio") or 1.0)
            for column, cell in enumerate(mine):
                self._fill_cell((row, column), cell)

    def _fill_cell(self, place: tuple[int, int], cell: HostCell) -> None:
        columns, cpus = self.columns, self.cpus[place[0]][place[1]]
        columns.exists[place] = True
        columns.ids[place] = cell["id"]
        socket = cell.get("socket")
        columns.sockets[place] = -1 if socket is None else socket
        columns.memory[place] = cell["memory_mb"]
        columns.shared[place] = len(set(cell["cpus"]))
        columns.threads[place] = cpus.layout.threads
        columns.is_legacy[place] = cpus.layout.is_legacy
        pages = sorted(cell.get("pages") or (), key=lambda page: page["size_kb"])
        for number, page in enumerate(pages):
            at = (*place, self._size_at[page["size_kb"]])
            columns.has_pages[at] = True
            columns.is_smallest[at] = number == 0
            columns.pages[at] = page["total"]
            columns.pages_free[at] = page["total"] - (page.get("reserved") or 0)
        self.count_cores(*place)

    def count_cores(self, host: int, column: int) -> None:
        """Count the free CPUs of the cores of a cell again."""
        cpus = self.cpus[host][column]
        sizes = [len(core) for core in cpus.free()]
        row = self.columns.cores[host, column]
        row[:] = [sum(size >= least for size in sizes) for least in range(len(row))]
        self.columns.whole_cores[host, column] = len(cpus.whole())

    def size_at(self, host: int, column: int, page_kb: int | None) -> int | None:
        """Return the place of a page size, or of the smallest one of a cell; None if the cell has
        no such pages.
        """
        if page_kb is None:
            found = np.flatnonzero(self.columns.is_smallest[host, column])
            return int(found[0]) if len(found) else None
        place = self._size_at.get(page_kb)
        return place if place is not None and self.columns.has_pages[host, column, place] else None

    def fits(
        self,
        columns: CellColumns,
        cell: GuestCell,
        topology: GuestTopology,
        emulator: int,
        with_limits: bool,
    ) -> BoolArray:
        """Return [hosts, cells]: True if a guest cell by itself fits a host cell.

        :param emulator: the number of further host CPUs, for the emulator.
        :param with_limits: False for a host that is forced: its allocation ratios do not count.
        """
        suitable: BoolArray = columns.exists & self._fits_memory(columns, cell, topology)
        if topology.is_pinned:
            suitable &= _fits_cores(columns, len(cell.pinned), topology.thread_policy, emulator)
        if topology.cpu_policy != DEDICATED:
            suitable &= len(cell.shared) <= columns.shared
            if with_limits:
                suitable &= (
                    columns.shared_used + len(cell.shared) <= columns.shared * columns.cpu_ratio
                )
                suitable &= (
                    columns.memory_used + cell.memory_mb <= columns.memory * columns.ram_ratio
                )
        return suitable

    def _fits_memory(
        self, columns: CellColumns, cell: GuestCell, topology: GuestTopology
    ) -> BoolArray:
        suitable: BoolArray
        if topology.page_size is not None:
            suitable = np.any(self.fitting_sizes(columns, cell, topology.page_size), axis=2)
            return suitable
        # Shared guests together may use more memory than the cell has, but a single guest may not.
        pages = columns.pages_free if topology.is_pinned else columns.pages
        free = columns.memory - columns.memory_used if topology.is_pinned else columns.memory
        paged = (self._has_pages(pages, cell) & columns.is_smallest).any(axis=2)
        suitable = np.where(columns.is_smallest.any(axis=2), paged, cell.memory_mb <= free)
        return suitable

    def fitting_sizes(self, columns: CellColumns, cell: GuestCell, wanted: int | str) -> BoolArray:
        """Return [hosts, cells, sizes]: True for the page sizes that can hold a guest cell by
        themselves.
        """
        holding: BoolArray = self._has_pages(columns.pages_free, cell) & columns.has_pages
        if wanted == SMALL:
            return holding & columns.is_smallest
        if wanted == LARGE:
            return holding & ~columns.is_smallest
        return holding if wanted == ANY else holding & (self.sizes == wanted)

    def _has_pages(self, pages: IntArray, cell: GuestCell) -> BoolArray:
        size_kb = cell.memory_mb * KIB
        found: BoolArray = (pages * self.sizes >= size_kb) & (size_kb % self.sizes == 0)
        return found


def _fits_cores(
    columns: CellColumns, vcpus: int, thread_policy: str | None, emulator: int
) -> BoolArray:
    """Return [hosts, cells]: True if the cores have room for pinned vCPUs (N11.5)."""
    free = columns.dedicated_free
    if emulator and not vcpus:
        # Nova finds no place for an emulator beside a cell without pinned vCPUs.
        return np.zeros(free.shape, dtype=bool)
    enough: BoolArray = vcpus + emulator <= free
    if thread_policy == ISOLATE:
        if not vcpus:
            return np.zeros(free.shape, dtype=bool)
        full = np.take_along_axis(columns.cores, columns.threads[:, :, None], axis=2)[:, :, 0]
        return (
            enough
            & (full >= vcpus)
            & (columns.whole_cores >= vcpus + emulator)
            & (columns.is_legacy | (columns.threads == 1))
        )
    if thread_policy == REQUIRE:
        threads = np.arange(columns.cores.shape[2])
        paired = (columns.cores > 0) & (columns.cores * threads >= vcpus) & (threads > 1)
        return enough & paired.any(axis=2)
    return enough


def _empty(shape: tuple[int, int], threads: int, sizes: int) -> CellColumns:
    def whole(*more: int) -> IntArray:
        return np.zeros(shape + more, dtype=np.int64)

    def false(*more: int) -> BoolArray:
        return np.zeros(shape + more, dtype=bool)

    return CellColumns(
        exists=false(),
        ids=whole() - 1,
        sockets=whole() - 1,
        memory=whole(),
        memory_used=whole(),
        shared=whole(),
        shared_used=whole(),
        threads=whole() + 1,
        is_legacy=false(),
        cores=whole(threads + 1),
        whole_cores=whole(),
        has_pages=false(sizes),
        is_smallest=false(sizes),
        pages=whole(sizes),
        pages_free=whole(sizes),
        cpu_ratio=np.ones((shape[0], 1)),
        ram_ratio=np.ones((shape[0], 1)),
    )
