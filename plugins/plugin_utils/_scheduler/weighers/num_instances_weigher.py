# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts by their number of instances."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class NumInstancesWeigher(Weigher):
    """Hosts by their number of instances; it does nothing without a multiplier.

    Inputs: num_instances. Raw value: num_instances. A positive multiplier packs, a negative one
    spreads. Source: N3.2.
    """

    name = "NumInstancesWeigher"
    measures = "instances"
    extremes = ("most", "fewest")
    unit = ""
    multiplier_option = "num_instances_weight_multiplier"
    options = {"num_instances_weight_multiplier": 0.0}

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        return states.num_instances.astype(np.float64)
