# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allocations of a plan from nested or sharing providers of one resource class."""

from __future__ import annotations

import copy
from collections.abc import Collection

from .._common import capacity_rule
from .._common.arrays import BoolArray, IntArray, np
from .._scheduler.provider_columns import ProviderColumns

#: An amount of the class, and the number of the provider that gives it.
Part = tuple[int, int]


class ProviderLoad:
    """The used amounts of the providers of one class, and the providers that give each item the
    class on each node.

    An item that returns to its first node takes its former allocation there. While it moves between
    nodes of its sharing provider of the class, its allocation there stays and is counted once.
    """

    def __init__(self, providers: ProviderColumns) -> None:
        self.providers = providers.copy()
        #: {item: (its first node, its allocation there)}.
        self._first: dict[int, tuple[int, list[Part]]] = {}
        #: {(item, node): its allocation there}.
        self._taken: dict[tuple[int, int], list[Part]] = {}

    def copy(self) -> ProviderLoad:
        """Return an independent copy."""
        found = copy.copy(self)
        found.providers, found._taken = self.providers.copy(), dict(self._taken)
        return found

    def begin(self, item: int, node: int, parts: list[Part]) -> None:
        """Record the allocation of an item on its first node."""
        self._first[item] = (node, parts)

    def fits(self, item: int, amount: int, at: int) -> BoolArray:
        """Return a bool array over the nodes: True if one provider has capacity for an item that is
        at a node (-1 for none).
        """
        suitable = self.providers.reaching(self.providers.with_room(amount)) | self.keeping(
            item, at
        )
        first, parts = self._first.get(item, (-1, []))
        if first >= 0:
            suitable[first] = all(
                capacity_rule.has_room(
                    self.providers.used[provider], part, self.providers.capacity[provider]
                )
                for provider, part in parts
            )
        return suitable

    def keeping(self, item: int, at: int) -> BoolArray:
        """Return a bool array over the nodes: True if an item keeps its allocation of a sharing
        provider there.
        """
        kept = self._kept(item, at)
        return self.providers.reaching(np.arange(len(self.providers.uuid)) == kept)

    def lacking(self, item: int, amount: int, at: int) -> IntArray:
        """Return the amount that is missing at each node until one provider has enough."""
        short = (amount - self.providers.most(amount)).clip(min=0)
        return np.where(
            self.keeping(item, at), 0, np.where(np.isfinite(short), short, amount)
        ).astype(np.int64)

    def counts(self, amount: int) -> IntArray:
        """Return the number of items with this amount that fit on each node if no other node takes
        any.
        """
        providers = self.providers
        return np.bincount(
            providers.row,
            weights=providers.counts(amount)[providers.provider],
            minlength=providers.size,
        ).astype(np.int64)

    def share_out(self, amount: int, counts: IntArray) -> IntArray:
        """Return counts by node, reduced so that shared capacity is not counted for several
        nodes.
        """
        providers, counts = self.providers, counts.copy()
        if not providers.lent.any():
            return counts
        remaining = providers.counts(amount)
        # The nested providers of a node come before the shared ones.
        for row in np.unique(providers.row).tolist():
            mine = providers.of_nodes(row)
            count, counts[row] = int(counts[row]), 0
            for provider in providers.provider[mine][
                np.argsort(providers.lent[mine], kind="stable")
            ].tolist():
                taken = min(count - int(counts[row]), int(remaining[provider]))
                remaining[provider] -= taken
                counts[row] += taken
        return counts

    def put(self, item: int, node: int, amount: int, other: int) -> list[tuple[IntArray, int]]:
        """Count an item on a node; it also counts on another node (-1 for none).

        :returns: [(rows, change of the free amount of these rows)].
        """
        first, parts = self._first.get(item, (-1, []))
        if node != first:
            provider = self.providers.choose(node, amount, self._kept(item, other), full=True)
            parts = self._taken[item, node] = [(provider, amount)] if provider >= 0 else []
        return self._count_parts(item, parts, other, 1)

    def take(self, item: int, node: int, other: int) -> list[tuple[IntArray, int]]:
        """Undo put()."""
        return self._count_parts(item, self._parts_on_node(item, node), other, -1)

    def _parts_on_node(self, item: int, node: int) -> list[Part]:
        first, parts = self._first.get(item, (-1, []))
        return parts if node == first else self._taken.get((item, node), [])

    def _kept(self, item: int, node: int) -> int:
        """Return the sharing provider that gives an item the class on a node, -1 for none."""
        return next(
            (
                provider
                for provider, _part in self._parts_on_node(item, node)
                if self.providers.lends(node, provider)
            ),
            -1,
        )

    def _count_parts(
        self, item: int, parts: list[Part], other: int, sign: int
    ) -> list[tuple[IntArray, int]]:
        elsewhere: Collection[int] = (
            {provider for provider, _part in self._parts_on_node(item, other)} if other >= 0 else ()
        )
        changes = []
        for provider, part in parts:
            if provider in elsewhere:
                continue
            free = int(self.providers.capacity[provider]) - int(self.providers.used[provider])
            self.providers.used[provider] += sign * part
            rows = self.providers.row[self.providers.provider == provider]
            changes.append((rows, max(free - sign * part, 0) - max(free, 0)))
        return changes
