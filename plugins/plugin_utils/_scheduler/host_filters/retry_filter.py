# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A compute node without an earlier attempt."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class RetryFilter(HostFilter):
    """The compute node was not tried for this instance before.

    Inputs: the request's retry list of (host, node).
    Rule: (host, node) is not in the list. Source: N2.7.
    """

    name = "RetryFilter"
    run_filter_once_per_request = True

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        if not spec.retry:
            return np.ones(states.size, dtype=bool)
        tried = set(spec.retry)
        return states.mask(lambda index: (states.host[index], states.node[index]) not in tried)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return "retry: tried already"
