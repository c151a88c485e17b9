# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service is enabled and up."""

from __future__ import annotations

from ..._common.arrays import BoolArray
from ..components import HostFilter, HostStates, RequestSpec


class ComputeFilter(HostFilter):
    """The service of the host is not disabled, and up.

    Inputs: enabled, up (the store computes "up" from the heartbeat and forced_down).
    Rule: enabled and up. Source: N2.1 and N7.
    """

    name = "ComputeFilter"
    run_filter_once_per_request = True

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        return states.enabled & states.up

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        reasons = []
        if not states.enabled[index]:
            reason = states.disabled_reason[index]
            reasons.append(f"disabled, '{reason}'" if reason else "disabled")
        if not states.up[index]:
            reason = states.down_reason[index]
            reasons.append(f"down, {reason}" if reason else "down")
        return " and ".join(reasons)
