# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of a soft-anti-affinity group apart, if possible."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """Members of a soft-anti-affinity group apart, if possible.

    Inputs: the request's server group; the number of its members on each host, with the members
    placed earlier in the batch.
    Raw value: policy soft-anti-affinity: minus members on the host, else 0. The multiplier may not
    be negative. Source: N3.2.
    """

    name = "ServerGroupSoftAntiAffinityWeigher"
    measures = "members of its server group"
    extremes = ("fewest", "most")
    multiplier_option = "soft_anti_affinity_weight_multiplier"
    options = {"soft_anti_affinity_weight_multiplier": 1.0}
    least_multiplier = 0.0

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        group = states.group_of(spec)
        if group is None or group.policy != "soft-anti-affinity":
            return 0.0
        return -group.per_host.by_host()[states.host_of].astype(np.float64)
