# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host aggregates for one scheduling run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._common.arrays import BoolArray, FloatArray, IntArray, np


class Membership:
    """A set of aggregates that hosts are in; many hosts share one.

    names: the names of the aggregates; raw: {key: set of the values as written}; split: {key: set
    of the parts of comma lists} (Nova's aggregate_metadata_get_by_host).
    """

    def __init__(self, aggregates: Sequence[Mapping[str, Any]]) -> None:
        self.names = [each["name"] for each in aggregates]
        self.raw: dict[str, set[str]] = {}
        self.split: dict[str, set[str]] = {}
        for each in aggregates:
            for key, value in (each.get("metadata") or {}).items():
                text = str(value)
                self.raw.setdefault(str(key), set()).add(text)
                self.split.setdefault(str(key), set()).update(
                    part.strip() for part in text.split(",")
                )

    def least(self, key: str, default: float, cast: Callable[[str], float] = float) -> float:
        """Return the least value of a key as a number; the default without a value, or if a value
        is not a number.

        Source: N2.1 (limits) and N3.1 (multipliers): the least of several values counts; an
        unreadable value means the option.
        """
        values = self.raw.get(key)
        if not values:
            return default
        try:
            numbers = [cast(value) for value in values]
        except ValueError:
            return default
        return min(numbers) if all(math.isfinite(number) for number in numbers) else default


class Aggregates:
    """The aggregates of a fleet and their hosts.

    memberships: list of Membership; of: int64 array of length n, the position of each row in that
    list.
    """

    def __init__(
        self,
        aggregates: Iterable[Mapping[str, Any]] | None,
        numbers: Mapping[str, int],
        host_of: IntArray,
    ) -> None:
        """
        :param aggregates: [{name, metadata, hosts}], hosts by name.
        :param numbers: {host: number}; :param host_of: int64 array, number of each row's host.
        """
        self.all = list(aggregates or ())
        self.keys = {str(key) for each in self.all for key in each.get("metadata") or {}}
        sets: list[frozenset[int]] = [frozenset()]
        code = np.zeros(len(numbers), dtype=np.int64)
        for place, aggregate in enumerate(self.all):
            hosts = aggregate.get("hosts") or ()
            rows = np.fromiter(
                (numbers.get(host, -1) for host in hosts), dtype=np.int64, count=len(hosts)
            )
            rows = rows[rows >= 0]
            if not len(rows):
                continue
            old, inverse = np.unique(code[rows], return_inverse=True)
            code[rows] = len(sets) + inverse
            sets.extend(sets[number] | {place} for number in old)
        used, code = np.unique(code, return_inverse=True)
        self.memberships = [
            Membership([self.all[place] for place in sorted(sets[number])]) for number in used
        ]
        self.of = code.reshape(-1)[host_of] if len(numbers) else np.zeros(0, dtype=np.int64)

    def each(self, predicate: Callable[[Membership], object]) -> BoolArray:
        """Return a bool array: predicate(Membership), computed once for each distinct set of
        aggregates.
        """
        if not self.memberships:
            return np.zeros(len(self.of), dtype=bool)
        return np.array([bool(predicate(each)) for each in self.memberships], dtype=bool)[self.of]

    def least(
        self, key: str, default: float | FloatArray, cast: Callable[[str], float] = float
    ) -> float | FloatArray:
        """Return the least number of a metadata key for each row; just ``default`` if no aggregate
        has the key.
        """
        if key not in self.keys:
            return default
        values = np.array(
            [each.least(key, math.nan, cast) for each in self.memberships], dtype=np.float64
        )[self.of]
        return np.where(np.isnan(values), default, values)

    def at(self, index: int) -> Membership:
        """Return the Membership of one row."""
        return self.memberships[self.of[index]]
