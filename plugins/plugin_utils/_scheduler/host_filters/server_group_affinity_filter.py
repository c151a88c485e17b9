# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of an affinity group stay together."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class ServerGroupAffinityFilter(HostFilter):
    """The host already has the server group, or no host has it yet.

    Inputs: the request's server group; the hosts of its members, with the members placed earlier in
    the batch.
    Rule: no group, or policy not affinity, or no member anywhere: pass; else the host has a member.
    The first member may go anywhere. Source: N2.1.
    """

    name = "ServerGroupAffinityFilter"

    def not_applicable(self, spec: RequestSpec) -> bool:
        return spec.server_group is None

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        group = states.group_of(spec)
        if group is None or group.policy != "affinity" or not group.per_host:
            return np.ones(states.size, dtype=bool)
        return (group.per_host.by_host() > 0)[states.host_of]

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        group = states.group_of(spec)
        if group is None:
            return super().rejection_reason(states, spec, index)
        hosts = sorted(
            {states.host[i] for i in np.flatnonzero(group.per_host.by_host()[states.host_of] > 0)}
        )
        return f"affinity: server group {group.name} is on {', '.join(hosts)}"
