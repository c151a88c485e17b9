# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A resource class that compute nodes take from nested or sharing providers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .._common import capacity_rule
from .._common.arrays import BoolArray, FloatArray, IntArray, np


class ProviderColumns:
    """The providers of one class, and the compute nodes that may take from each. An amount is taken
    from one provider.

    uuid, name: lists; used, min_unit, max_unit, step_size (int64), capacity (float64): arrays over
    the providers. row, provider (int64), lent (bool): arrays over the pairs of a node and a
    provider from which it may take; lent is True for a provider outside the node's own tree. shown
    (int64 over the nodes): the provider with the figures that a node shows, -1 for none. several:
    True if a node has other providers than the one that it shows.
    """

    def __init__(self, given: Mapping[str, Any], size: int) -> None:
        self.size = size
        self.uuid, self.name = list(given["uuid"]), list(given["name"])
        numbers = {
            key: np.array(given[key], dtype=np.int64)
            for key in ("total", "reserved", "used", "min_unit", "max_unit", "step_size")
        }
        self.used = numbers["used"]
        self.min_unit, self.max_unit, self.step_size = (
            numbers["min_unit"],
            numbers["max_unit"],
            numbers["step_size"],
        )
        ratio = np.array(given["ratio"], dtype=np.float64)
        self.capacity: FloatArray = capacity_rule.capacity(
            numbers["total"], numbers["reserved"], ratio
        )
        self.row = np.array(given["row"], dtype=np.int64)
        self.provider = np.array(given["provider"], dtype=np.int64)
        self.lent = np.array(given["lent"], dtype=bool)
        self.shown = np.array(given["shown"], dtype=np.int64)
        self.several = bool((self.provider != self.shown[self.row]).any())
        self.number_of = {uuid: number for number, uuid in enumerate(self.uuid)}

    def copy(self) -> ProviderColumns:
        """Return the same providers with a separate record of use."""
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
        """Return a bool array over the providers: True if one allocation may be of this amount."""
        return capacity_rule.is_allowed(amount, self.min_unit, self.max_unit, self.step_size)

    def with_room(self, amount: int) -> BoolArray:
        """Return a bool array over the providers: True if there is room now."""
        return self.allowed(amount) & capacity_rule.has_room(self.used, amount, self.capacity)

    def reaching(self, providers: BoolArray) -> BoolArray:
        """Return a bool array over the nodes: True if a node may take from one of these providers
        (bool array).
        """
        found = np.zeros(self.size, dtype=bool)
        found[self.row[providers[self.provider]]] = True
        return found

    def most(self, amount: int = 0) -> FloatArray:
        """Return the largest free amount of one provider for each node (float64, minus infinity
        without a provider).

        :param amount: only providers that may give this amount count; 0 for all.
        """
        free = self.capacity - self.used
        if amount:
            free = np.where(self.allowed(amount), free, -np.inf)
        found = np.full(self.size, -np.inf)
        np.maximum.at(found, self.row, free[self.provider])
        return found

    def left(self, row: int) -> tuple[float, float] | None:
        """Return (free, capacity) of the provider of a node with the most free, None if the node
        has none.
        """
        providers = self.provider[self.of_nodes(row)]
        if not len(providers):
            return None
        best = int(providers[np.argmax(self.capacity[providers] - self.used[providers])])
        return float(self.capacity[best] - self.used[best]), float(self.capacity[best])

    def sums(self) -> tuple[IntArray, IntArray]:
        """Return the total that each node may take: (capacity, free), int64 arrays; an overused
        provider counts as 0 free.
        """
        capacity = np.floor(self.capacity).astype(np.int64)
        return self._sum(capacity), self._sum((capacity - self.used).clip(min=0))

    def counts(self, amount: int) -> IntArray:
        """Return the number of times that an amount fits on each provider now (int64 array)."""
        free = np.floor(self.capacity).astype(np.int64) - self.used
        return np.where(self.allowed(amount), free.clip(min=0) // amount, 0)

    def of_nodes(self, row: int) -> slice:
        """Return the slice of a node's pairs."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return slice(int(first), int(last))

    def choose(self, row: int, amount: int, kept: int = -1, full: bool = False) -> int:
        """Return the provider that gives a node an amount, -1 if none has room.

        :param kept: a provider with the instance's present allocation, which is kept if the node
            reaches it; -1 for none.
        :param full: whether a provider without room is chosen if no provider has room.

        A provider of the node's own tree comes before a shared one. Among own providers the one
        with the least room left is chosen, which keeps room for large amounts; among shared ones
        the one with the most.
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
        room_left = (self.capacity[providers] - self.used[providers] - amount) / np.maximum(
            self.capacity[providers], 1
        )
        return int(providers[np.lexsort((np.where(lent, -room_left, room_left), lent))[0]])

    def lends(self, row: int, provider: int) -> bool:
        """Return True if a provider is lent to a node."""
        mine = self.of_nodes(row)
        return bool((self.lent[mine] & (self.provider[mine] == provider)).any())

    def of_instance(
        self, row: int, amounts: Mapping[str, int] | None, amount: int
    ) -> list[tuple[int, int]]:
        """Return the allocations of an instance on a node: [(provider, amount)].

        :param amounts: {provider uuid: amount}; None if unknown: then the provider is the one that
            the node shows, or its only provider.
        """
        if amounts is not None:
            return [
                (self.number_of[uuid], held)
                for uuid, held in amounts.items()
                if uuid in self.number_of
            ]
        provider, mine = int(self.shown[row]), self.of_nodes(row)
        if provider < 0 and mine.stop - mine.start == 1:
            provider = int(self.provider[mine.start])
        return [(provider, amount)] if provider >= 0 else []

    def _sum(self, amounts: IntArray) -> IntArray:
        return np.bincount(self.row, weights=amounts[self.provider], minlength=self.size).astype(
            np.int64
        )
