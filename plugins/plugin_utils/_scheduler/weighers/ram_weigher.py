# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More free memory is better."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class RAMWeigher(Weigher):
    """More free memory is better.

    Inputs: MEMORY_MB total, reserved and used.
    Raw value: free_ram_mb = total - reserved - used, in MiB (without the allocation ratio). Scale
    starts at 0. A negative multiplier packs. Source: N3.2, N5.1 for free_ram_mb.
    """

    name = "RAMWeigher"
    measures = "free memory"
    unit = "MiB"
    multiplier_option = "ram_weight_multiplier"
    options = {"ram_weight_multiplier": 1.0}
    minval = 0.0

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        resource = states.resources.get("MEMORY_MB")
        if resource is None:
            return np.zeros(states.size, dtype=np.float64)
        return (resource.total - resource.reserved - resource.used).astype(np.float64)
