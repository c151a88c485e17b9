# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Away from named instances."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class DifferentHostFilter(HostFilter):
    """The host holds none of the instances that the hint different_host names.

    Inputs: the hint (uuids or names, also of instances placed earlier in the batch); the hosts of
    instances.
    Rule: without a hint, pass; else no named instance is on the host. Unknown names do not count.
    Source: N2.1.
    """

    name = "DifferentHostFilter"

    def not_applicable(self, spec: RequestSpec) -> bool:
        return not spec.hints.get("different_host")

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        named = spec.hints.get("different_host")
        return ~states.holds(named) if named else np.ones(states.size, dtype=bool)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        held = [name for name in spec.hints["different_host"] if states.holds((name,))[index]]
        return f"different_host: the host holds {', '.join(held)}"
