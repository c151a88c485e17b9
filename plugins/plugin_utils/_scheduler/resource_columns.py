# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The amounts of one resource class on the compute nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._common import capacity_rule
from .._common.arrays import BoolArray, FloatArray, IntArray, np
from .provider_columns import ProviderColumns

NO_LIMIT = 2147483647


class ResourceColumns:
    """One resource class over all n compute nodes.

    total, reserved, used, min_unit, max_unit, step_size: int64 arrays; ratio, capacity: float64.
    ``capacity`` is the unrounded (total - reserved) * ratio of N10.2. A node without
    an inventory of the class has total 0.

    providers: None if each node takes the class from its own provider alone; otherwise
    ProviderColumns, which decide if an amount fits. The arrays then have the figures of the
    provider that each node shows.
    """

    def __init__(self, columns: Mapping[str, Any], size: int) -> None:
        def ints(key: str, default: int) -> IntArray:
            values = columns.get(key)
            if values is None:
                return np.full(size, default, dtype=np.int64)
            if isinstance(values, np.ndarray):
                return values.astype(np.int64)
            return np.array(
                [default if value is None else value for value in values], dtype=np.int64
            )

        self.total = ints("total", 0)
        self.reserved = ints("reserved", 0)
        self.used = ints("used", 0)
        self.min_unit = ints("min_unit", 1)
        self.max_unit = ints("max_unit", NO_LIMIT)
        self.step_size = np.maximum(ints("step_size", 1), 1)
        ratios = columns.get("ratio")
        if isinstance(ratios, np.ndarray):
            self.ratio = ratios.astype(np.float64)
        else:
            self.ratio = np.array(
                [1.0 if ratio is None else ratio for ratio in ratios or [1.0] * size],
                dtype=np.float64,
            )
        self.capacity = capacity_rule.capacity(self.total, self.reserved, self.ratio)
        #: total * ratio, the start value of CPUWeigher.
        self.scaled = self.total * self.ratio
        given = columns.get("providers")
        self.providers = None if given is None else ProviderColumns(given, size)

    def reorder(self, order: IntArray) -> None:
        """Put the rows in another order (int array of old row numbers)."""
        for key, column in vars(self).items():
            if key != "providers":
                setattr(self, key, column[order])
        if self.providers is not None:
            self.providers.reorder(order)

    def allowed(self, amount: int) -> BoolArray:
        """Return a bool array: True if one allocation may be of this amount (min, max, step)."""
        if self.providers is not None:
            return self.providers.reaching(self.providers.allowed(amount))
        return (self.total > 0) & capacity_rule.is_allowed(
            amount, self.min_unit, self.max_unit, self.step_size
        )

    def fits(self, amount: int) -> BoolArray:
        """Return a bool array: True if there is room now (the rule of the claim, N10.2)."""
        if self.providers is not None:
            return self.providers.reaching(self.providers.with_room(amount))
        return self.allowed(amount) & capacity_rule.has_room(self.used, amount, self.capacity)

    def fits_at(self, index: int, amount: int) -> bool:
        """Return fits() for one row."""
        if self.providers is not None:
            return self.providers.choose(index, amount) >= 0
        return bool(
            self.total[index] > 0
            and capacity_rule.has_room(self.used[index], amount, self.capacity[index])
            and capacity_rule.is_allowed(
                amount, self.min_unit[index], self.max_unit[index], self.step_size[index]
            )
        )

    def fits_empty(self, amount: int) -> BoolArray:
        """Return a bool array: True if there would be room without any allocation."""
        if self.providers is not None:
            return self.providers.reaching(
                self.providers.allowed(amount) & (amount <= self.providers.capacity)
            )
        return self.allowed(amount) & (amount <= self.capacity)

    @property
    def free(self) -> FloatArray:
        """The free amount of each node, on all its providers (float64 array); 0 if the class is
        overused.
        """
        if self.providers is not None:
            return self.providers.sums()[1].astype(np.float64)
        return np.clip(self.capacity - self.used, 0, None)

    def most_free(self, index: int) -> float:
        """Return the largest free amount of one provider for a node, less than 0 if the class is
        overused.
        """
        left = None if self.providers is None else self.providers.left(index)
        return float(self.capacity[index] - self.used[index]) if left is None else left[0]

    def count(self, index: int, uuid: str, own: str, amount: int) -> Any:
        """Add an amount to the use, or subtract it.

        :param index: the row of the node of the allocation.
        :param uuid: the provider of the allocation; own: the node's own provider.
        :returns: the rows that show the provider, or the row of the node if none does.
        """
        number = -1 if self.providers is None else self.providers.number_of.get(uuid, -1)
        if self.providers is None or number < 0:
            self.used[index] += amount if uuid == own else 0
            return index
        self.providers.used[number] += amount
        rows = np.flatnonzero(self.providers.shown == number)
        self.used[rows] += amount
        return rows if len(rows) else index
