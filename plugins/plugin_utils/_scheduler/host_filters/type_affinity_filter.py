# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of one flavor each."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class TypeAffinityFilter(HostFilter):
    """The host holds no instance of another flavor.

    Inputs: the flavor's name; the flavors of the instances on the host, with the instances placed
    earlier in the batch.
    Rule: no instance of another flavor on the host. Instances with an unknown flavor, and a request
    without a flavor, do not count. Source: N2.7.
    """

    name = "TypeAffinityFilter"
    reads = ("node_flavors",)

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        result = np.ones(states.size, dtype=bool)
        if spec.flavor is not None:
            for flavor, counts in states.flavor_counts.items():
                if flavor != spec.flavor.name:
                    result &= counts == 0
        return result

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        flavor = spec.flavor.name if spec.flavor is not None else None
        others = sorted(
            name
            for name, counts in states.flavor_counts.items()
            if counts[index] and name != flavor
        )
        return f"flavor: is {flavor}, the host holds instances of {', '.join(others)}"
