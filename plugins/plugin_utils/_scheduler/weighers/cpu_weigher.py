# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More free virtual CPUs are better."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class CPUWeigher(Weigher):
    """More free virtual CPUs are better.

    Inputs: VCPU total, reserved, used and ratio.
    Raw value: total * ratio - (reserved + used); Nova counts reserved CPUs as used.
    Scale starts at 0. A negative multiplier packs. Source: N3.2, N5.1 for vcpus_used.
    """

    name = "CPUWeigher"
    measures = "free vCPU"
    unit = ""
    multiplier_option = "cpu_weight_multiplier"
    options = {"cpu_weight_multiplier": 1.0}
    minval = 0.0

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        resource = states.resources.get("VCPU")
        if resource is None:
            return np.zeros(states.size, dtype=np.float64)
        return resource.scaled - (resource.reserved + resource.used)
