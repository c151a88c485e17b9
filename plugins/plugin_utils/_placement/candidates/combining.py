# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the providers of a candidate together, each applied as soon as a row is long enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..._common.arrays import BoolArray, IntArray, np
from ..._store.providers.provider_arrays import Inventory, ProviderArrays
from . import viable
from .query import Query
from .viable import Slot

#: A function that marks the rows of places that meet a rule.
Rule = Callable[[IntArray], BoolArray]


class Rules:
    """The rules of a query on rows of places, by the last slot that they read."""

    def __init__(self, topology: ProviderArrays, query: Query, slots: Sequence[Slot]) -> None:
        self._topology = topology
        #: True if some candidates may be left out.
        self.has_equal_groups = bool(query.equal_groups)
        self._at: dict[int, list[Rule]] = {}
        spread = [number for number, slot in enumerate(slots) if not slot.suffix]
        single = {slot.suffix: number for number, slot in enumerate(slots) if slot.suffix}
        if spread:
            for choice in query.groups[""].required:
                self._add_rule(spread[-1], _Union(viable.having(topology, choice), spread))
        if query.group_policy == "isolate":
            numbers = list(single.values())
            for order, number in enumerate(numbers):
                if order:
                    self._add_rule(number, _Apart(numbers[:order], number))
        for suffixes in query.same_subtrees:
            numbers = sorted(single[suffix] for suffix in suffixes)
            if len(numbers) > 1:
                self._add_rule(numbers[-1], _Subtree(topology, numbers))
        for equal in query.equal_groups:
            for one, other in zip(equal, equal[1:]):
                self._add_rule(single[other], _InOrder(single[one], single[other]))
        self._add_sums(slots)

    def keep(self, rows: IntArray, number: int) -> BoolArray | None:
        """Return which rows, filled up to a slot, meet the rules; None for all."""
        kept = None
        for rule in self._at.get(number, ()):
            holds = rule(rows)
            kept = holds if kept is None else kept & holds
        return kept

    def _add_rule(self, number: int, rule: Rule) -> None:
        self._at.setdefault(number, []).append(rule)

    def _add_sums(self, slots: Sequence[Slot]) -> None:
        askers: dict[str, list[tuple[int, int]]] = {}
        for number, slot in enumerate(slots):
            for name, amount in slot.resources.items():
                askers.setdefault(name, []).append((number, amount))
        for name, several in askers.items():
            inventory = self._topology.inventories.get(name)
            for order, (number, _amount) in enumerate(several):
                if order and inventory is not None:
                    self._add_rule(
                        number, _Sum(self._topology.size, inventory, several[: order + 1])
                    )


class _Union:
    """Some provider of the group without a suffix has a trait."""

    def __init__(self, has: BoolArray, numbers: list[int]) -> None:
        self._has, self._numbers = has, numbers

    def __call__(self, rows: IntArray) -> BoolArray:
        return np.logical_or.reduce(self._has[rows[:, self._numbers]], axis=1)


class _Apart:
    """A group has another provider than the groups before it."""

    def __init__(self, before: list[int], number: int) -> None:
        self._before, self._number = before, number

    def __call__(self, rows: IntArray) -> BoolArray:
        return np.logical_and.reduce(rows[:, self._before] != rows[:, [self._number]], axis=1)


class _InOrder:
    """A rule: a group has no provider that comes before the provider of another group."""

    def __init__(self, before: int, number: int) -> None:
        self._before, self._number = before, number

    def __call__(self, rows: IntArray) -> BoolArray:
        found: BoolArray = rows[:, self._before] <= rows[:, self._number]
        return found


class _Subtree:
    """A rule: one of the providers is above, or is, each of the others."""

    def __init__(self, topology: ProviderArrays, numbers: list[int]) -> None:
        self._parents, self._numbers = topology.parents, numbers

    def __call__(self, rows: IntArray) -> BoolArray:
        rows = rows[:, self._numbers]
        mask = np.zeros(len(rows), dtype=bool)
        for number in range(rows.shape[1]):
            mask |= self._is_below(rows, rows[:, number]).all(axis=1)
        return mask

    def _is_below(self, rows: IntArray, top: IntArray) -> BoolArray:
        """Return, in the shape of the rows, which places are in the subtree of the ``top`` of their
        row.
        """
        above, below = rows, rows == top[:, None]
        while True:
            above = np.where(above >= 0, self._parents[above], -1)
            if not (above >= 0).any():
                return below
            below = below | (above == top[:, None])


class _Sum:
    """The amounts of a class that several slots take from one provider fit together.

    As in Placement, min_unit and step_size count for each amount, not for the sum.

    :param askers: (number of a slot, amount).
    """

    def __init__(self, size: int, inventory: Inventory, askers: list[tuple[int, int]]) -> None:
        self._askers = askers
        free, most = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        free[inventory.places] = inventory.capacity - inventory.used
        most[inventory.places] = inventory.max_unit
        self._most = np.minimum(free, most)

    def __call__(self, rows: IntArray) -> BoolArray:
        number, amount = self._askers[-1]
        place = rows[:, number]
        total = np.full(len(rows), amount)
        for other, more in self._askers[:-1]:
            total += np.where(rows[:, other] == place, more, 0)
        return total <= self._most[place]
