# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of an anti-affinity group stay apart."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class ServerGroupAntiAffinityFilter(HostFilter):
    """The host holds fewer members of the server group than max_server_per_host.

    Inputs: the request's server group; the number of its members on each host, with the members
    placed earlier in the batch; the group's max_server_per_host [1].
    Rule: no group, or policy not anti-affinity: pass; this very instance is on the host already:
    pass (a move may keep its source); else members on the host < max_server_per_host. Source: N2.1.
    Members count per host, not per compute node: nodes of one host fail together.
    """

    name = "ServerGroupAntiAffinityFilter"

    def not_applicable(self, spec: RequestSpec) -> bool:
        return spec.server_group is None

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        group = states.group_of(spec)
        if group is None or group.policy != "anti-affinity":
            return np.ones(states.size, dtype=bool)
        allowed = group.per_host.by_host() < group.max_server_per_host
        for index in states.where(spec.key):
            allowed[states.host_of[index]] = True
        return allowed[states.host_of]

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        group = states.group_of(spec)
        if group is None:
            return super().rejection_reason(states, spec, index)
        held = group.per_host[states.host_of[index]]
        return (
            f"anti-affinity: the host holds {held} of server group {group.name},"
            f" {group.max_server_per_host} allowed"
        )
