# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shortage of a host that does not fit, by the figures of the fit (N11.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .._common.arrays import np
from .columns import KIB, CellColumns, CellTable
from .guest import DEDICATED, ISOLATE, LARGE, SMALL, GuestCell, GuestTopology

_NEAR = "lacks NUMA cells with that room near the requested PCI devices and networks"


class NumaLack(NamedTuple):
    """text: the rest of a sentence that begins with the name of the host. share: the missing share;
    0 is nothing.
    """

    text: str
    share: float


def of_cells(
    table: CellTable,
    host: int,
    kinds: Sequence[tuple[GuestCell, int]],
    topology: GuestTopology,
    with_limits: bool,
) -> NumaLack:
    """Return the shortage of the cells of a host for the cells of a guest.

    :param kinds: each guest cell in the form for the fit, with the number of host CPUs for its
        emulator.
    """
    columns = table.columns.at(host)
    cell_columns = np.flatnonzero(columns.exists[0]).tolist()
    if len(cell_columns) < len(kinds):
        return NumaLack(
            f"has {len(cell_columns)} NUMA {_cells(len(cell_columns))}, and the guest needs"
            f" {len(kinds)}",
            float(len(kinds) - len(cell_columns)),
        )
    masks = [
        table.fits(columns, cell, topology, emulator, with_limits)[0] for cell, emulator in kinds
    ]
    for number, ((cell, emulator), mask) in enumerate(zip(kinds, masks)):
        if mask.any():
            continue
        near = min(
            (
                _of_cell(table, columns, host, column, cell, emulator, topology, with_limits)
                for column in cell_columns
            ),
            key=lambda each: each.share,
        )
        return NumaLack(f"lacks room for cell {number} of the guest; {near.text}", near.share)
    enough = int(np.any(masks, axis=0).sum())
    if enough < len(kinds):
        return NumaLack(
            f"has {enough} NUMA {_cells(enough)} with enough free CPUs and memory, and the guest"
            f" needs {len(kinds)}",
            1.0,
        )
    return NumaLack(_NEAR, 1.0)


def _of_cell(
    table: CellTable,
    columns: CellColumns,
    host: int,
    column: int,
    cell: GuestCell,
    emulator: int,
    topology: GuestTopology,
    with_limits: bool,
) -> NumaLack:
    """Return the shortage of one cell of a host for a guest cell that does not fit it."""
    at = 0, column
    lacks = []
    if topology.is_pinned:
        lacks += _pinned(columns, column, len(cell.pinned) + emulator, topology.thread_policy)
    if topology.cpu_policy != DEDICATED:
        room = int(columns.shared[at])
        if with_limits:
            room = min(
                room,
                int(columns.shared[at] * columns.cpu_ratio[0, 0]) - int(columns.shared_used[at]),
            )
        lacks += _short(room, len(cell.shared), "shared vCPUs")
    lacks += _memory(table, columns, column, cell, topology)
    if topology.cpu_policy != DEDICATED and with_limits:
        most = int(columns.memory[at] * columns.ram_ratio[0, 0]) - int(columns.memory_used[at])
        lacks += (
            []
            if any("MiB" in each.text for each in lacks)
            else _short(most, cell.memory_mb, "MiB of memory")
        )
    name = f"its NUMA cell {int(columns.ids[at])}"
    text = " and ".join(each.text for each in lacks)
    return NumaLack(f"{name} comes nearest and has {text}", sum(each.share for each in lacks))


def _pinned(columns: CellColumns, column: int, wanted: int, policy: str | None) -> list[NumaLack]:
    free = int(columns.dedicated_free[0, column])
    if free < wanted:
        return _short(free, wanted, "CPUs to pin")
    threads = int(columns.threads[0, column])
    if policy == ISOLATE:
        whole = int(columns.whole_cores[0, column])
        if threads > 1 and not columns.is_legacy[0, column]:
            return [
                NumaLack(
                    f"cores with {threads} threads, which hw:cpu_thread_policy=isolate does not"
                    " take",
                    1.0,
                )
            ]
        return _short(whole, wanted, "whole cores, which hw:cpu_thread_policy=isolate takes")
    if policy is not None and policy != "prefer":
        cores = columns.cores[0, column].tolist()
        most = max((count * size for size, count in enumerate(cores) if size > 1), default=0)
        return _short(
            most,
            wanted,
            f"CPUs to pin in cores with several free threads, which hw:cpu_thread_policy={policy}"
            " takes",
        )
    return []


def _memory(
    table: CellTable, columns: CellColumns, column: int, cell: GuestCell, topology: GuestTopology
) -> list[NumaLack]:
    """Return the shortage of memory of a cell: pages of the requested size, or of its smallest
    size.
    """
    at = 0, column
    page_size, is_smallest = topology.page_size, columns.is_smallest[at]
    if page_size is None and not is_smallest.any():
        free = columns.memory[at] - (columns.memory_used[at] if topology.is_pinned else 0)
        return _short(int(free), cell.memory_mb, "MiB of memory")
    sizes = columns.has_pages[at].copy()
    if page_size in (None, SMALL):
        sizes &= is_smallest
    elif page_size == LARGE:
        sizes &= ~is_smallest
    elif isinstance(page_size, int):
        sizes &= table.sizes == page_size
    if not sizes.any():
        return [
            NumaLack(
                f"no pages of {page_size} KiB" if isinstance(page_size, int) else "no huge pages",
                1.0,
            )
        ]
    all_pages = (
        columns.pages if page_size is None and not topology.is_pinned else columns.pages_free
    )
    best: list[NumaLack] | None = None
    for place in np.flatnonzero(sizes).tolist():
        size, pages = int(table.sizes[place]), int(all_pages[0, column, place])
        if cell.memory_mb * KIB % size:
            lack = [
                NumaLack(
                    f"pages of {size} KiB, of which {cell.memory_mb} MiB are no whole number", 1.0
                )
            ]
        elif page_size is None:
            lack = _short(pages * size // KIB, cell.memory_mb, "MiB of memory")
        else:
            lack = _short(pages, cell.memory_mb * KIB // size, f"free pages of {size} KiB")
        if best is None or sum(each.share for each in lack) < sum(each.share for each in best):
            best = lack
    return best or []


def _short(there: int, wanted: int, what: str) -> list[NumaLack]:
    """Return the missing part of an amount; empty if the amount suffices."""
    return (
        []
        if there >= wanted
        else [NumaLack(f"{max(there, 0)} of {wanted} {what}", (wanted - max(there, 0)) / wanted)]
    )


def _cells(count: int) -> str:
    return "cell" if count == 1 else "cells"
