# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregates for certain flavors."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..aggregates import Membership
from ..components import HostFilter, HostStates, RequestSpec


class AggregateTypeAffinityFilter(HostFilter):
    """The host is for every flavor, or for the requested flavor.

    Inputs: the flavor's name; aggregate metadata instance_type, each value a comma list.
    Rule: if no aggregate of the host has the key, pass; else the name is in one of the lists. A
    request without a flavor has no name and passes only hosts without the key. Source: N2.1.
    """

    name = "AggregateTypeAffinityFilter"
    run_filter_once_per_request = True
    reads = ("aggregates",)

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        if "instance_type" not in states.aggregates.keys:
            return np.ones(states.size, dtype=bool)
        flavor = spec.flavor.name if spec.flavor is not None else None

        def allowed(membership: Membership) -> bool:
            flavors = membership.split.get("instance_type")
            return flavors is None or flavor in flavors

        return states.aggregates.each(allowed)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        flavors = ", ".join(sorted(states.aggregates.at(index).split["instance_type"]))
        return (
            f"flavor: is {spec.flavor.name if spec.flavor else 'not given'}, the host is for"
            f" {flavors}"
        )
