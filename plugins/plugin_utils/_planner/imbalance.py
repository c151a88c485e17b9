# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The score of imbalance, and the one move that improves it most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .._common.arrays import FloatArray, IntArray, np
from .packing_state import PackingState

#: The number of sources that are compared exactly at a time, and the number of destinations of
#: each, the most promising ones.
SOURCES = 256
DESTINATIONS = 64
#: The number of kinds of items with a search for destinations at the same time; it limits the
#: memory.
KINDS = 32


class Score(NamedTuple):
    """The score of a packing state: the sum of the standard deviations of the free shares, 0 for an
    even load.

    rows: the nodes that count. weights: of the resource classes. cost_per_gib: see
    plan_rebalance().
    """

    packing_state: PackingState
    rows: IntArray
    weights: FloatArray
    cost_per_gib: float

    def now(self) -> float:
        return float(self.shares().std(axis=0) @ self.weights) if len(self.rows) else 0.0

    def shares(self) -> FloatArray:
        """Return the free share of the capacity (rows x classes)."""
        packing_state = self.packing_state
        free_shares: FloatArray = packing_state.free[self.rows] / np.maximum(
            packing_state.capacity[self.rows], 1
        )
        return free_shares

    def each(self, amount: float) -> float:
        """Return an amount for each node as an amount of the score: the gain of a move is
        proportional to one over the number of nodes.
        """
        return amount / max(len(self.rows), 1)

    def cost(self, item: int) -> float:
        """Return the cost of a move of an item."""
        return float(self.costs(self.packing_state.need[item]))

    def costs(self, need: IntArray) -> FloatArray:
        """Return the cost of moves of these needs (any x classes)."""
        classes = self.packing_state.classes
        memory: FloatArray = (
            need[..., classes.index("MEMORY_MB")] / 1024
            if "MEMORY_MB" in classes
            else np.zeros(need.shape[:-1])
        )
        return memory * self.each(self.cost_per_gib)


class _Sources(NamedTuple):
    """Moves by their sources: one move for all items of one kind and of equal groups on a node.

    item: a number that is different for each item, and sorts the items; kind: position in _Kinds;
    at: position in the rows of the score.
    """

    item: IntArray
    kind: IntArray
    at: IntArray

    def chosen(self, which: IntArray) -> _Sources:
        return _Sources(self.item[which], self.kind[which], self.at[which])


class BestMove:
    """A search for the move with the greatest gain minus cost.

    As a first approximation, the change of the score is a sum of one term for the source and one
    for the destination. So the best sources and the best destinations are found separately, without
    a table of all pairs, and only pairs of these are compared exactly. In a small fleet these are
    all pairs.

    :param items: the items that may move.
    """

    def __init__(self, score: Score, items: Iterable[int]) -> None:
        self.packing_state = packing_state = score.packing_state
        self.rows = score.rows
        position = np.full(packing_state.size, -1)
        position[self.rows] = np.arange(len(self.rows))
        self._position: IntArray = position
        self._capacity = np.maximum(packing_state.capacity[self.rows], 1)
        self._members: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
        for item in items:
            if position[packing_state.at[item]] >= 0:
                key = (
                    int(packing_state.at[item]),
                    int(packing_state.kind[item]),
                    packing_state.groups[item],
                )
                self._members.setdefault(key, []).append(item)
        #: The kinds of items, their needs without repetition, and which of these each kind has.
        self._kinds = np.array(
            sorted({kind for _at, kind, _groups in self._members}), dtype=np.int64
        )
        self._needs, inverse = np.unique(
            packing_state.needs[self._kinds], axis=0, return_inverse=True
        )
        self._need_of: IntArray = inverse.reshape(-1)
        self._all = self._sources([members[0] for members in self._members.values()])
        self._class_of = {
            item: number
            for number, members in enumerate(self._members.values())
            for item in members
        }
        self._items = list(self._members.values())

    def _sources(self, items: Sequence[int]) -> _Sources:
        chosen = np.array(items, dtype=np.int64)
        kinds = np.searchsorted(self._kinds, self.packing_state.kind[chosen])
        return _Sources(chosen, kinds, self._position[self.packing_state.at[chosen]])

    def find(
        self, score: Score, moved: Mapping[int, int], others: bool, least: float
    ) -> tuple[int, int] | None:
        """Return an item and the row of its destination; None if no move gains ``least`` more than
        it costs.

        :param moved: the items that have moved already, which may move on.
        :param others: whether items may move that have not moved yet.
        """
        if not self._items:
            return None
        comparison = _Comparison(self, score)
        for sources in comparison.promising(self._possible_moves(moved, others)):
            found = comparison.best(sources, least)
            if found is not None:
                return found
        return None

    def _possible_moves(self, moved: Mapping[int, int], others: bool) -> _Sources:
        """Return the moves that may be made now."""
        again = self._sources(sorted(moved))
        if not others:
            return again
        first = self._all.item.copy()
        for number in {self._class_of[item] for item in moved}:
            first[number] = next((item for item in self._items[number] if item not in moved), -1)
        here = self._all._replace(item=first).chosen(np.flatnonzero(first >= 0))
        return _Sources(*(np.concatenate(pair) for pair in zip(here, again)))


class _Comparison:
    """Moves of a packing state as it is now; all arrays are by position in the rows of the
    score.
    """

    def __init__(self, moves: BestMove, score: Score) -> None:
        self.moves, self.score = moves, score
        self.packing_state = moves.packing_state
        shares = score.shares()
        self.count = len(shares)
        self.deviation = shares.std(axis=0)
        self.above: FloatArray = shares - shares.mean(axis=0)
        self.before = float(self.deviation @ score.weights)
        # An even load has no first order; then the deviation counts with the smallest value that a
        # move can cause.
        slope = score.weights / (
            2 * self.count * np.maximum(self.deviation, 0.1 / np.sqrt(self.count))
        )
        part = moves._needs[:, None, :] / moves._capacity
        square, product = (part**2) @ slope, (2 * part * self.above) @ slope
        #: The cost of an item for the score at its source and at its destination, to first order
        #: (needs x rows).
        self.leaving, self.arriving = square + product, square - product
        self.cost = score.costs(moves._needs)
        self._targets: dict[int, IntArray] = {}
        self._room = self.packing_state.free[moves.rows]
        self._bound: FloatArray = self.arriving.min(axis=1, initial=np.inf)[moves._need_of]

    def promising(self, sources: _Sources) -> Iterator[_Sources]:
        """Yield sources, the most promising ones first, as long as they may gain anything."""
        need = self.moves._need_of[sources.kind]
        own = self.leaving[need, sources.at] + self.cost[need]
        remaining = np.arange(len(own))
        first = True
        while len(remaining):
            while True:
                total = own[remaining] + self._bound[sources.kind[remaining]]
                best = (
                    np.argpartition(total, SOURCES)[:SOURCES]
                    if len(remaining) > SOURCES
                    else np.arange(len(remaining))
                )
                unknown = [
                    kind
                    for kind in np.unique(sources.kind[remaining[best]]).tolist()
                    if kind not in self._targets
                ]
                if not unknown:
                    break
                for start in range(0, len(unknown), KINDS):
                    self._find_targets(unknown[start : start + KINDS])
            if not first and total[best].min() >= 0:
                return
            chosen = sources.chosen(remaining[best])
            yield chosen.chosen(np.argsort(chosen.item))
            first = False
            remaining = np.delete(remaining, best)

    def _find_targets(self, kinds: Sequence[int]) -> None:
        """Find the most promising destinations of kinds, and the cost of the best of them for the
        score.
        """
        packing_state, rows = self.packing_state, self.moves.rows
        numbers = self.moves._kinds[kinds]
        keep = packing_state.masks[np.ix_(numbers, rows)] & packing_state.open[rows]
        for number in range(len(packing_state.classes)):
            # Room in providers that nodes share is checked when an item has been chosen.
            if number not in packing_state.provided:
                keep &= self._room[:, number] >= packing_state.needs[numbers, number][:, None]
        change = np.where(keep, self.arriving[self.moves._need_of[kinds]], np.inf)
        for kind, line in zip(kinds, change):
            self._targets[kind] = self._most_promising(line)
            self._bound[kind] = line[self._targets[kind]].min(initial=np.inf)

    @staticmethod
    def _most_promising(change: FloatArray) -> IntArray:
        """Return the positions of the destinations that fit and have the least change, in their
        order.
        """
        best = (
            np.argpartition(change, DESTINATIONS)[:DESTINATIONS]
            if len(change) > DESTINATIONS
            else np.arange(len(change))
        )
        return np.sort(best[np.isfinite(change[best])])

    def best(self, sources: _Sources, least: float) -> tuple[int, int] | None:
        """Return the item and the row of the destination of the best move that fits and is worth
        ``least``.
        """
        width = max((len(self._targets[kind]) for kind in sources.kind.tolist()), default=0)
        if not width:
            return None
        targets = np.full((len(sources.item), width), -1)
        for number, kind in enumerate(sources.kind.tolist()):
            targets[number, : len(self._targets[kind])] = self._targets[kind]
        worth = self._worth(sources, targets)
        while True:
            number, place = divmod(int(np.argmax(worth)), width)
            if worth[number, place] < least:
                return None
            item = int(sources.item[number])
            fits = self.packing_state.fits(item)[self.moves.rows]
            if fits[targets[number, place]]:
                return item, int(self.moves.rows[targets[number, place]])
            # The server group or the providers of the item allow other destinations than its kind.
            own = self._most_promising(
                np.where(fits, self.arriving[self.moves._need_of[sources.kind[number]]], np.inf)
            )[:width]
            targets[number] = -1
            targets[number, : len(own)] = own
            one = np.array([number])
            worth[number] = self._worth(sources.chosen(one), targets[one])[0]

    def _worth(self, sources: _Sources, targets: IntArray) -> FloatArray:
        """Return gain minus cost of each move (sources x targets), for a target of -1 minus
        infinity.
        """
        need = self.moves._need_of[sources.kind]
        amounts, capacity = self.moves._needs[need], self.moves._capacity
        leaving = (amounts / capacity[sources.at])[:, None, :]
        arriving = amounts[:, None, :] / capacity[targets]
        # The sum of the shares, and of their squares, around the mean.
        total = leaving - arriving
        squares = leaving * (leaving + 2 * self.above[sources.at][:, None, :]) + arriving * (
            arriving - 2 * self.above[targets]
        )
        variance = self.deviation**2 + squares / self.count - (total / self.count) ** 2
        worth: FloatArray = (
            self.before
            - np.sqrt(variance.clip(min=0)) @ self.score.weights
            - self.cost[need][:, None]
        )
        return np.where(targets >= 0, worth, -np.inf)
