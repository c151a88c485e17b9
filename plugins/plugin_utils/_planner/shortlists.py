# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search of nodes for many items, one after the other, without a check of all nodes for
each.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._common.arrays import FloatArray, IntArray, np
from . import packing
from .packing_state import PackingState, Placed

#: The number of nodes that are kept for each kind of items.
LENGTH = 64


class Shortlists:
    """For each kind of items the nodes with the least capacity left (best fit), or with the most
    (worst fit).

    A list is used until none of its nodes fits, then all nodes are checked again. It serves one
    load that only gains items: other nodes that get room again are found at the next check only.

    :param weights: the weights of the classes, see packing.weights_of().
    """

    def __init__(self, packing_state: PackingState, weights: FloatArray) -> None:
        self._packing_state = packing_state
        self._weights = weights
        #: {(kind, whether worst fit): (rows, the value of their last one)}.
        self._lists: dict[tuple[int, bool], tuple[IntArray, float]] = {}
        #: Kinds that fit on no node.
        self._full: set[int] = set()

    def is_full(self, kinds: set[int]) -> bool:
        """Return True if no node is known to have room for an item of one of these kinds."""
        return not self._full.isdisjoint(kinds)

    def look(self, kind: int) -> None:
        """Record a kind if no node has room for it. The record holds until an open node gets room
        again.
        """
        if not self._packing_state.room_for(kind).any():
            self._full.add(kind)

    def place(self, order: Sequence[int], worst: bool) -> tuple[Placed, int | None]:
        """Put items on nodes until one fits on none; placed items stay there.

        :returns: the nodes by item, and the item without one.
        """
        placed: Placed = {}
        for item in order:
            node = self._node(item, worst)
            if node is None:
                return placed, item
            self._packing_state.put(item, node)
            placed[item] = node
        return placed, None

    def _node(self, item: int, worst: bool) -> int | None:
        kind = int(self._packing_state.kind[item])
        rows, last = self._lists.get((kind, worst), (None, 0.0))
        if rows is not None:
            best = self._best(item, rows, worst)
            if best is not None and (not worst or best[1] <= last):
                return best[0]
        rows = np.flatnonzero(self._packing_state.room_for(kind))
        values = self._values(kind, rows, worst)
        last = np.inf
        if len(rows) > LENGTH:
            first = np.argpartition(values, LENGTH)[:LENGTH]
            rows, last = np.sort(rows[first]), float(values[first].max())
        self._lists[kind, worst] = rows, last
        # The host, the server group or the providers of the item allow other nodes than its kind.
        best = self._best(item, rows, worst) or self._best(
            item, np.flatnonzero(self._packing_state.fits(item)), worst
        )
        return None if best is None else best[0]

    def _best(self, item: int, rows: IntArray, worst: bool) -> tuple[int, float] | None:
        """Return the best of some nodes that fits, and its value."""
        rows = rows[self._packing_state.fits(item, rows)]
        if not len(rows):
            return None
        values = self._values(int(self._packing_state.kind[item]), rows, worst)
        best = int(values.argmin())
        return int(rows[best]), float(values[best])

    def _values(self, kind: int, rows: IntArray, worst: bool) -> FloatArray:
        """Return for each node the weighed share of its capacity that an item of a kind would
        leave, and its negative for worst fit.

        The smallest value is the best.
        """
        shares: FloatArray = (
            packing.left(self._packing_state, self._packing_state.needs[kind], rows) @ self._weights
        )
        return -shares if worst else shares
