# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Beside a named instance."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class SameHostFilter(HostFilter):
    """The host holds at least one of the instances that the hint same_host names.

    Inputs: the hint (uuids or names, also of instances placed earlier in the batch); the hosts of
    instances.
    Rule: without a hint, pass; else one named instance is on the host. Unknown names do not count,
    so a hint of only such names passes no host. Source: N2.1.
    """

    name = "SameHostFilter"

    def not_applicable(self, spec: RequestSpec) -> bool:
        return not spec.hints.get("same_host")

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        named = spec.hints.get("same_host")
        return states.holds(named) if named else np.ones(states.size, dtype=bool)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        named = spec.hints["same_host"]
        unknown = [name for name in named if not states.resolve(name)]
        if len(unknown) == len(named):
            return f"same_host: no host holds {', '.join(named)}"
        return f"same_host: the host does not hold {', '.join(named)}"
