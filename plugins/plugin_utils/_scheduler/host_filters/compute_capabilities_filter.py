# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of the flavor on the host itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..._common.arrays import BoolArray, np
from .. import attributes
from ..components import HostFilter, HostStates, RequestSpec
from ..extra_spec_operators import NUMERIC, requirement


class ComputeCapabilitiesFilter(HostFilter):
    """The host has the capabilities that the flavor's extra specs require.

    Inputs: extra specs ``capabilities:a:b...``; extra specs without a scope with a key that is an
    attribute of host states (attributes.py) or a key of the host's stats; ``hw:maxphysaddr_bits``;
    the attributes of these names.
    Rule: each considered value is looked up along its path, through JSON text, mappings and stats,
    and meets the requirement (extra_spec_operators.py); missing or null fails. Other scopes do not
    count. Source: N2.2.
    """

    name = "ComputeCapabilitiesFilter"
    run_filter_once_per_request = True

    def needs(self, spec: RequestSpec) -> Collection[str]:
        columns: set[str] = set()
        for key, _text in self._specs(spec):
            columns.update(
                attributes.columns_of(key.split(":")[-1] if ":" not in key else key.split(":")[1])
            )
        return tuple(columns)

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        result = np.ones(states.size, dtype=bool)
        for key, text in self._specs(spec):
            keep = self._meets(states, key, text)
            if keep is not None:
                result &= keep
        return result

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        for key, text in self._specs(spec):
            keep = self._meets(states, key, text)
            if keep is not None and not keep[index]:
                value = self._value(states, key, index)
                return (
                    f"capability {key}: asked '{text}', the host has"
                    f" {'none' if value is None else value}"
                )
        return f"{self.name} says no"

    @staticmethod
    def _specs(spec: RequestSpec) -> Iterator[tuple[str, str]]:
        for key, text in spec.extra_specs.items():
            if key == "hw:maxphysaddr_bits":
                yield "capabilities:cpu_info:maxphysaddr:bits", f">= {text}"
            elif ":" not in key or key.startswith("capabilities:"):
                yield key, text

    @staticmethod
    def _path(key: str) -> list[str]:
        return key.split(":")[1:] if ":" in key else [key]

    def _meets(self, states: HostStates, key: str, text: str) -> BoolArray | None:
        """Return a bool array, or None if the key does not concern the filter."""
        first, *rest = self._path(key)
        required = requirement(text)
        column = attributes.lookup(states, first)
        if isinstance(column, attributes.Numbers):
            # A number has no inner keys, so a longer path finds nothing.
            if rest:
                return np.zeros(states.size, dtype=bool)
            if required.operator in NUMERIC:
                matching = NUMERIC[required.operator](column.array, required.operand)
            else:
                matching = column.each(lambda value: required.matches(str(value)))
            return matching if column.valid is None else matching & column.valid
        if first == "stats" and len(rest) == 1:
            column, rest = attributes.stat(states, rest[0]), []
        elif column is None:
            column = attributes.stat(states, first)
            if ":" not in key:
                # The key is not a capability if the host has no such statistic.
                return column.each(lambda value: value is None or required.matches(str(value)))

        def meets(value: Any) -> bool:
            value = attributes.follow(value, rest)
            return value is not None and required.matches(str(value))

        return column.each(meets)

    def _value(self, states: HostStates, key: str, index: int) -> Any:
        first, *rest = self._path(key)
        column = attributes.lookup(states, first)
        if column is None:
            column = attributes.stat(states, first)
        return attributes.follow(column[index], rest)
