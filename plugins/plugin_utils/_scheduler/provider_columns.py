# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A resource class that compute nodes take from nested or sharing providers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import _capacity_rule as capacity_rule
from ansible_collections.drover.compute.plugins.plugin_utils._arrays import BoolArray, FloatArray, IntArray, np


class ProviderColumns:
    """The providers of one class, and the compute nodes that may take from each. An amount is taken from one provider.

    uuid, name: lists; used, min_unit, max_unit, step_size (int64), capacity (float64): arrays over the providers. row, provider
    (int64), lent (bool): arrays by row, the pairs of a node and a provider that it may take from; lent is one that is not in the
    node's own tree. shown (int64 over the nodes): the provider whose figures a node shows, -1 for none. several: whether a node
    has more providers than the one that it shows.
    """

    def __init__(self, given: Mapping[str, Any], size: int) -> None:
        self.size = size
        self.uuid, self.name = list(given["uuid"]), list(given["name"])
        numbers = {key: np.array(given[key], dtype=np.int64) for key in ("total", "reserved", "used", "min_unit", "max_unit", "step_size")}
        self.used = numbers["used"]
        self.min_unit, self.max_unit, self.step_size = numbers["min_unit"], numbers["max_unit"], numbers["step_size"]
        ratio = np.array(given["ratio"], dtype=np.float64)
        self.capacity: FloatArray = capacity_rule.capacity(numbers["total"], numbers["reserved"], ratio)
        self.row = np.array(given["row"], dtype=np.int64)
        self.provider = np.array(given["provider"], dtype=np.int64)
        self.lent = np.array(given["lent"], dtype=bool)
        self.shown = np.array(given["shown"], dtype=np.int64)
        self.several = bool((self.provider != self.shown[self.row]).any())
        self.number_of = {uuid: number for number, uuid in enumerate(self.uuid)}

    def copy(self) -> ProviderColumns:
        """Return the same providers with a use of their own."""
        found = copy.copy(self)
        found.used = self.used.copy()
        return found

    def reorder(self, order: IntArray) -> None:
        """Put the nodes in another order (int array of old row numbers)."""
        new_of = np.empty(self.size, dtype=np.int64)
        new_of[order] = np.arange(self.size)
        self.shown = self.shown[order]
        row = new_of[self.row]
        pairs = np.argsort(row, kind="stable")
        self.row, self.provider, self.lent = row[pairs], self.provider[pairs], self.lent[pairs]

    def allowed(self, amount: int) -> BoolArray:
        """Return a bool array over the providers: may one allocation be of this amount at all?"""
        return capacity_rule.is_allowed(amount, self.min_unit, self.max_unit, self.step_size)

    def with_room(self, amount: int) -> BoolArray:
        """Return a bool array over the providers: is there room now?"""
        return self.allowed(amount) & capacity_rule.has_room(self.used, amount, self.capacity)

    def reaching(self, providers: BoolArray) -> BoolArray:
        """Return a bool array over the nodes: may a node take from one of these providers (bool array)?"""
        found = np.zeros(self.size, dtype=bool)
        found[self.row[providers[self.provider]]] = True
        return found

    def most(self, amount: int = 0) -> FloatArray:
        """Return the most that one provider has free for each node (float64, minus infinity without one).

        :param amount: only providers that may give this amount at all are looked at; 0 for all.
        """
        free = self.capacity - self.used
        if amount:
            free = np.where(self.allowed(amount), free, -np.inf)
        found = np.full(self.size, -np.inf)
        np.maximum.at(found, self.row, free[self.provider])
        return found

    def left(self, row: int) -> tuple[float, float] | None:
        """Return (free, capacity) of the provider of a node that has most free, None where the node has none."""
        providers = self.provider[self.of_nodes(row)]
        if not len(providers):
            return None
        best = int(providers[np.argmax(self.capacity[providers] - self.used[providers])])
        return float(self.capacity[best] - self.used[best]), float(self.capacity[best])

    def sums(self) -> tuple[IntArray, IntArray]:
        """Return what each node may take in all: (capacity, free), int64 arrays; nothing of a provider counts as less than nothing."""
        capacity = np.floor(self.capacity).astype(np.int64)
        return self._sum(capacity), self._sum((capacity - self.used).clip(min=0))

    def counts(self, amount: int) -> IntArray:
        """Return how often an amount fits on each provider now (int64 array)."""
        free = np.floor(self.capacity).astype(np.int64) - self.used
        return np.where(self.allowed(amount), free.clip(min=0) // amount, 0)

    def of_nodes(self, row: int) -> slice:
        """Return the slice of a node's pairs."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return slice(int(first), int(last))

    def choose(self, row: int, amount: int, kept: int = -1, full: bool = False) -> int:
        """Return the provider that a node takes an amount from, -1 when none has room.

        :param kept: a provider that the instance holds the amount of and keeps where the node reaches it; -1 for none.
        :param full: whether a provider is chosen that has no room where none has.

        One of the node's own tree goes before one that is lent. Of its own the one with the least room left, which keeps room for large
        amounts; of those that are lent the one with the most.
        """
        mine = self.of_nodes(row)
        providers, lent = self.provider[mine], self.lent[mine]
        if kept >= 0 and (providers == kept).any():
            return kept
        fits = self.with_room(amount)[providers]
        if fits.any():
            providers, lent = providers[fits], lent[fits]
        elif not (full and len(providers)):
            return -1
        left = (self.capacity[providers] - self.used[providers] - amount) / np.maximum(self.capacity[providers], 1)
        return int(providers[np.lexsort((np.where(lent, -left, left), lent))[0]])

    def lends(self, row: int, provider: int) -> bool:
        """Return whether a provider is lent to a node."""
        mine = self.of_nodes(row)
        return bool((self.lent[mine] & (self.provider[mine] == provider)).any())

    def of_instance(self, row: int, amounts: Mapping[str, int] | None, amount: int) -> list[tuple[int, int]]:
        """Return what an instance on a node holds: [(provider, amount)].

        :param amounts: {provider uuid: amount}; None where that is not known: then it is what the node shows, or its only provider.
        """
        if amounts is not None:
            return [(self.number_of[uuid], held) for uuid, held in amounts.items() if uuid in self.number_of]
        provider, mine = int(self.shown[row]), self.of_nodes(row)
        if provider < 0 and mine.stop - mine.start == 1:
            provider = int(self.provider[mine.start])
        return [(provider, amount)] if provider >= 0 else []

    def _sum(self, amounts: IntArray) -> IntArray:
        return np.bincount(self.row, weights=amounts[self.provider], minlength=self.size).astype(np.int64)
