# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Newer hypervisors are better."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class HypervisorVersionWeigher(Weigher):
    """Newer hypervisors are better.

    Inputs: hypervisor_version. Raw value: hypervisor_version, unknown as 0.
    Source: N3.2.
    """

    name = "HypervisorVersionWeigher"
    measures = "hypervisor"
    extremes = ("newest", "oldest")
    multiplier_option = "hypervisor_version_weight_multiplier"
    options = {"hypervisor_version_weight_multiplier": 1.0}
    run_filter_once_per_request = True
    reads = ("hypervisor_version",)

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        return states.hypervisor_version.astype(np.float64)
