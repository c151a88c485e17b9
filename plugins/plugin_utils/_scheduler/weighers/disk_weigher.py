# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More free disk is better."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class DiskWeigher(Weigher):
    """More free disk is better.

    Inputs: DISK_GB total, reserved and used; disk_available_least (GiB).
    Raw value: free_disk_mb = 1024 * min(total - reserved - used, disk_available_least).
    Scale starts at 0. A negative multiplier packs. Source: N3.2, N1.1 for free_disk_mb.
    """

    name = "DiskWeigher"
    measures = "free disk"
    unit = "MiB"
    multiplier_option = "disk_weight_multiplier"
    options = {"disk_weight_multiplier": 1.0}
    minval = 0.0

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        resource = states.resources.get("DISK_GB")
        if resource is None:
            return np.zeros(states.size, dtype=np.float64)
        return 1024.0 * np.minimum(
            resource.total - resource.reserved - resource.used, states.disk_available_least
        )
