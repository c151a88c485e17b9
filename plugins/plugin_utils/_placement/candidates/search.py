# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocation candidates: every way to meet a query with the existing providers (N10.4).

Pure: ProviderArrays and a Query in, rows of providers out. A query is a list of slots; each slot
takes resources from one provider: a class of the group without a suffix, or a whole group with one.
A candidate is a row with the provider of each slot, all within reach of one root, its anchor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..._common.arrays import BoolArray, IntArray, np
from ..._store.providers.provider_arrays import ProviderArrays
from . import combining, viable
from .query import Query
from .viable import Option, Slot

#: The most combinations in memory at a time.
BLOCK = 500000
#: The most combinations of one anchor if groups are alike: their number grows without limit with
#: the number of the groups.
MOST_ALIKE = 256


def slots(query: Query) -> list[Slot]:
    """Return the slots of a query, in the order of its groups."""
    slot_list = []
    for suffix, group in query.groups.items():
        if suffix:
            slot_list.append(Slot(suffix, group.resources))
        else:
            slot_list += [Slot("", {name: amount}) for name, amount in group.resources.items()]
    return slot_list


def find(topology: ProviderArrays, query: Query) -> IntArray:
    """Find the candidates, in the order of the names of anchors and then of providers, slot by
    slot.

    :returns: a row for each candidate: the place of the provider of each of slots(query). No two
        rows are alike. With a limit the first so many.
    """
    parts = slots(query)
    options = viable.options(topology, query)
    if options is None:
        return np.zeros((0, len(parts)), dtype=np.int64)
    batches, count = [], 0
    seen: set[tuple[int, ...]] = set()
    for _anchors, rows in anchored(topology, query, options):
        rows = _unlike(topology, rows, seen)
        batches.append(rows)
        count += len(rows)
        if query.limit and count >= query.limit:
            break
    rows = np.concatenate(batches) if batches else np.zeros((0, len(parts)), dtype=np.int64)
    return rows[: query.limit] if query.limit else rows


def anchored(
    topology: ProviderArrays, query: Query, options: Sequence[Option], only: BoolArray | None = None
) -> Iterator[tuple[IntArray, IntArray]]:
    """Find the candidates, some at a time: their anchors, and rows as find() returns them.

    :param options: viable.options() of the query.
    :param only: the anchors to search; None for all.
    """
    rules = combining.Rules(topology, query, slots(query))
    for block in _blocks(options, topology.size):
        yield _product(options, block if only is None else block & only, rules)


def _blocks(options: Sequence[Option], size: int) -> Iterator[BoolArray]:
    """Return the anchors that have something for every slot, not too many combinations at a
    time.
    """
    combinations = np.ones(size)
    for option in options:
        combinations *= np.bincount(option.anchors, minlength=size)
    anchors = np.flatnonzero(combinations)
    if not len(anchors):
        return
    block = (np.cumsum(combinations[anchors]) // BLOCK).astype(np.int64)
    for number in np.unique(block).tolist():
        mask = np.zeros(size, dtype=bool)
        mask[anchors[block == number]] = True
        yield mask


def _product(
    options: Sequence[Option], anchors: BoolArray, rules: combining.Rules
) -> tuple[IntArray, IntArray]:
    """Return the anchors (of a mask) and the rows of places that meet the rules, in order."""
    owner = rows = np.zeros((0, 0), dtype=np.int64)
    for number, option in enumerate(options):
        mine = anchors[option.anchors]
        at, places = option.anchors[mine], option.places[mine]
        if number == 0:
            owner, rows = at, places.reshape(-1, 1)
        else:
            # Each row once for every provider that its anchor has for this slot.
            first = np.searchsorted(at, owner)
            many = np.searchsorted(at, owner, side="right") - first
            if np.all(many == 1):
                rows = np.column_stack([rows, places[first]])
            else:
                again = np.repeat(np.arange(len(rows)), many)
                within = np.arange(len(again)) - np.repeat(np.cumsum(many) - many, many)
                rows = np.column_stack([rows[again], places[first[again] + within]])
                owner = owner[again]
        kept = rules.keep(rows, number)
        if kept is not None:
            rows, owner = rows[kept], owner[kept]
        if rules.has_equal_groups:
            kept = _some_of_each(owner)
            rows, owner = rows[kept], owner[kept]
    return owner, rows


def _some_of_each(owner: IntArray) -> BoolArray:
    """Return which rows to keep so that no owner has more than MOST_ALIKE: at even distances, so
    that they stay different.
    """
    first, many = (np.searchsorted(owner, owner, side=side) for side in ("left", "right"))
    within, many = np.arange(len(owner)) - first, many - first
    mask: BoolArray = (many <= MOST_ALIKE) | (
        within * MOST_ALIKE // many != (within - 1) * MOST_ALIKE // many
    )
    return mask


def _unlike(topology: ProviderArrays, rows: IntArray, seen: set[tuple[int, ...]]) -> IntArray:
    """Drop the rows that an earlier anchor has too: only sharing providers serve more than one
    anchor.
    """
    if not topology.reached:
        return rows
    sharing = np.zeros(topology.size, dtype=bool)
    sharing[list(topology.reached)] = True
    shared = np.flatnonzero(sharing[rows].all(axis=1))
    kept = np.ones(len(rows), dtype=bool)
    for number, row in zip(shared.tolist(), map(tuple, rows[shared].tolist())):
        if row in seen:
            kept[number] = False
        seen.add(row)
    return rows[kept]
