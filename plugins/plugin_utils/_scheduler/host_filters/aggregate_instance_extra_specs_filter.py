# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of the flavor on the host's aggregates."""

from __future__ import annotations

from collections.abc import Iterable

from ..._common.arrays import BoolArray, np
from ..aggregates import Membership
from ..components import HostFilter, HostStates, RequestSpec
from ..extra_spec_operators import requirement

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(HostFilter):
    """The aggregates of the host meet the flavor's extra specs.

    Inputs: extra specs without a scope or with the scope aggregate_instance_extra_specs; aggregate
    metadata, values split at commas and merged over aggregates.
    Rule: for each key at least one value meets the requirement (extra_spec_operators.py); a missing
    key fails, so a host in no aggregate fails too. Other scopes do not count. An extra spec without
    a scope that is meant as a capability fails every host here. Source: N2.1, N2.2.
    """

    name = "AggregateInstanceExtraSpecsFilter"
    run_filter_once_per_request = True
    reads = ("aggregates",)

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        specs = self._wanted_specs(spec)
        if not specs:
            return np.ones(states.size, dtype=bool)
        return states.aggregates.each(lambda each: not self._first_unmet(each, specs))

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        key, text = self._first_unmet(states.aggregates.at(index), self._wanted_specs(spec)) or (
            "",
            "",
        )
        values = states.aggregates.at(index).split.get(key)
        return (
            f"aggregate key {key}: asked '{text}', the host's aggregates have"
            f" {', '.join(sorted(values)) if values else 'none'}"
        )

    @staticmethod
    def _wanted_specs(spec: RequestSpec) -> list[tuple[str, str]]:
        specs = []
        for key, text in spec.extra_specs.items():
            scope, _colon, rest = key.partition(":")
            if not rest:
                specs.append((key, text))
            elif scope == SCOPE:
                specs.append((rest, text))
        return specs

    @staticmethod
    def _first_unmet(
        membership: Membership, wanted: Iterable[tuple[str, str]]
    ) -> tuple[str, str] | None:
        for key, text in wanted:
            need = requirement(text)
            if not any(need.matches(value) for value in membership.split.get(key, ())):
                return key, text
        return None
