# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A class that nodes take from nested or sharing providers, as a plan loads it."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import capacity_rule
from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.provider_columns import ProviderColumns


class ProviderLoad:
    """The use of the providers of one class, and which of them each item takes it from on which node.

    An item that returns to its first node takes what it held there, as in truth it never left. Between nodes that reach the
    sharing provider that it holds the class of, it keeps that, and nothing is counted twice.
    """

    def __init__(self, providers: ProviderColumns) -> None:
        self.providers = providers.copy()
        self._first: dict = {}
        self._taken: dict = {}

    def copy(self) -> ProviderLoad:
        """Return the same load, to be changed by itself."""
        found = copy.copy(self)
        found.providers, found._taken = self.providers.copy(), dict(self._taken)
        return found

    def begin(self, item: int, node: int, parts: list) -> None:
        """Record what an item holds on its first node: [(provider, amount)]."""
        self._first[item] = (node, parts)

    def fits(self, item: int, amount: int, at: int) -> Any:
        """Return a bool array over the nodes: has one provider room for an item that is at a node (-1 for nowhere)?"""
        found = self.providers.reaching(self.providers.with_room(amount)) | self.keeping(item, at)
        first, parts = self._first.get(item, (-1, ()))
        if first >= 0:
            found[first] = all(
                capacity_rule.has_room(self.providers.used[provider], part, self.providers.capacity[provider]) for provider, part in parts
            )
        return found

    def keeping(self, item: int, at: int) -> Any:
        """Return a bool array over the nodes: where does an item keep what it holds of a sharing provider?"""
        kept = self._kept(item, at)
        return self.providers.reaching(np.arange(len(self.providers.uuid)) == kept)

    def lacking(self, item: int, amount: int, at: int) -> Any:
        """Return how much is lacking at each node until one provider has room (int64 array)."""
        short = (amount - self.providers.most(amount)).clip(min=0)
        return np.where(self.keeping(item, at), 0, np.where(np.isfinite(short), short, amount)).astype(np.int64)

    def counts(self, amount: int) -> Any:
        """Return how often an amount fits on each node, were it the only one that takes any (int64 array)."""
        providers = self.providers
        return np.bincount(providers.row, weights=providers.counts(amount)[providers.provider], minlength=providers.size).astype(np.int64)

    def share_out(self, amount: int, counts: Any) -> Any:
        """Return counts (int64 over the nodes) lowered to what all nodes have of an amount together: what one takes is gone for others."""
        providers, counts = self.providers, counts.copy()
        if not providers.lent.any():
            return counts
        left = providers.counts(amount)
        # Of the providers of a node its own go first.
        for row in np.unique(providers.row).tolist():
            mine = providers.of_nodes(row)
            wanted, counts[row] = int(counts[row]), 0
            for provider in providers.provider[mine][np.argsort(providers.lent[mine], kind="stable")].tolist():
                taken = min(wanted - int(counts[row]), int(left[provider]))
                left[provider] -= taken
                counts[row] += taken
        return counts

    def put(self, item: int, node: int, amount: int, other: int) -> list:
        """Book an item on a node; other: a node that it is on as well, -1 for none.

        :returns: [(rows, change of what is free there)].
        """
        first, parts = self._first.get(item, (-1, ()))
        if node != first:
            provider = self.providers.choose(node, amount, self._kept(item, other), full=True)
            parts = self._taken[item, node] = [(provider, amount)] if provider >= 0 else []
        return self._count(item, parts, other, 1)

    def take(self, item: int, node: int, other: int) -> list:
        """The opposite of put()."""
        return self._count(item, self._held(item, node), other, -1)

    def _held(self, item: int, node: int) -> list:
        first, parts = self._first.get(item, (-1, ()))
        return parts if node == first else self._taken.get((item, node), [])

    def _kept(self, item: int, node: int) -> int:
        """The sharing provider that an item holds the class of on a node, -1 for none."""
        return next((provider for provider, _part in self._held(item, node) if self.providers.lends(node, provider)), -1)

    def _count(self, item: int, parts: list, other: int, sign: int) -> list:
        elsewhere = {provider for provider, _part in self._held(item, other)} if other >= 0 else ()
        changes = []
        for provider, part in parts:
            if provider in elsewhere:
                continue
            free = int(self.providers.capacity[provider]) - int(self.providers.used[provider])
            self.providers.used[provider] += sign * part
            rows = self.providers.row[self.providers.provider == provider]
            changes.append((rows, max(free - sign * part, 0) - max(free, 0)))
        return changes
