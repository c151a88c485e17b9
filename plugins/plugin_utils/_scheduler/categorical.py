# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Columns by their distinct values: a fleet has many hosts and few kinds of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._arrays import BoolArray, IntArray, np


class Categorical:
    """A column as a list of distinct values and, per row, which of them it has.

    values: list of Python objects; codes: int64 array of length n.
    """

    def __init__(self, values: list[Any], codes: IntArray) -> None:
        self.values = values
        self.codes = codes

    @classmethod
    def of(cls, column: Sequence[Any] | np.ndarray) -> Categorical:
        """From a list of values; those that cannot be hashed are told apart by their JSON."""
        numbers: dict[Any, int] = {}
        values: list[Any] = []
        codes = np.empty(len(column), dtype=np.int64)
        for index, value in enumerate(column):
            key = json.dumps(value, sort_keys=True, default=str) if isinstance(value, (dict, list)) else value
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(values)
                values.append(value)
            codes[index] = number
        return cls(values, codes)

    @classmethod
    def constant(cls, value: Any, size: int) -> Categorical:
        """A column that has one value everywhere."""
        return cls([value], np.zeros(size, dtype=np.int64))

    def each(self, predicate: Callable[[Any], object]) -> BoolArray:
        """bool array: the predicate's answer for each row, asked once per distinct value."""
        if not self.values:
            return np.zeros(0, dtype=bool)
        return np.array([bool(predicate(value)) for value in self.values], dtype=bool)[self.codes]

    def map(self, function: Callable[[Any], Any]) -> Categorical:
        """A Categorical of function(value) (two values may become equal)."""
        return Categorical([function(value) for value in self.values], self.codes)

    def reorder(self, order: IntArray) -> None:
        """Put the rows in another order (int array of old row numbers)."""
        self.codes = self.codes[order]

    def __getitem__(self, index: int) -> Any:
        return self.values[self.codes[index]]


def decoded(value: Any) -> Any:
    """JSON text as what it says, empty text as None; anything else as it is.

    :raises ValueError: text that is not JSON.
    """
    if isinstance(value, str):
        return json.loads(value) if value.strip() else None
    return value
