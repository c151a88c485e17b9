# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Columns by their distinct values: a fleet has many hosts with few distinct values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from .._common.arrays import BoolArray, IntArray, np


class Categorical:
    """A column as a list of distinct values and the position in that list for each row.

    values: list of Python objects; codes: int64 array of length n.
    """

    def __init__(self, values: list[Any], codes: IntArray) -> None:
        self.values = values
        self.codes = codes

    @classmethod
    def of(cls, column: Sequence[Any] | np.ndarray) -> Categorical:
        """Make a column of a list of values; unhashable values are compared by their JSON."""
        numbers: dict[Any, int] = {}
        values: list[Any] = []
        codes = np.empty(len(column), dtype=np.int64)
        for index, value in enumerate(column):
            key = (
                json.dumps(value, sort_keys=True, default=str)
                if isinstance(value, (dict, list))
                else value
            )
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(values)
                values.append(value)
            codes[index] = number
        return cls(values, codes)

    @classmethod
    def constant(cls, value: Any, size: int) -> Categorical:
        """Make a column that has one value everywhere."""
        return cls([value], np.zeros(size, dtype=np.int64))

    def each(self, predicate: Callable[[Any], object]) -> BoolArray:
        """Return a bool array: the predicate's answer for each row, computed once for each distinct
        value.
        """
        if not self.values:
            return np.zeros(0, dtype=bool)
        return np.array([bool(predicate(value)) for value in self.values], dtype=bool)[self.codes]

    def map(self, function: Callable[[Any], Any]) -> Categorical:
        """Return a Categorical of function(value); two values may become equal."""
        return Categorical([function(value) for value in self.values], self.codes)

    def reorder(self, order: IntArray) -> None:
        """Put the rows in another order (int array of old row numbers)."""
        self.codes = self.codes[order]

    def __getitem__(self, index: int) -> Any:
        return self.values[self.codes[index]]


def decoded(value: Any) -> Any:
    """Return the content of a JSON text, None for an empty text, and other values unchanged.

    :raises ValueError: the text is not JSON.
    """
    if isinstance(value, str):
        return json.loads(value) if value.strip() else None
    return value
