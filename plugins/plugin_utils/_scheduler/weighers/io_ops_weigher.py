# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fewer builds and moves under way are better."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class IoOpsWeigher(Weigher):
    """Fewer builds and moves under way are better.

    Inputs: num_io_ops, with the instances placed earlier in the batch. Raw value: num_io_ops. The
    scale starts at 0; the multiplier is negative by default. Source: N3.2.
    """

    name = "IoOpsWeigher"
    reads = ("num_io_ops",)
    measures = "builds and moves under way"
    extremes = ("most", "fewest")
    unit = ""
    multiplier_option = "io_ops_weight_multiplier"
    options = {"io_ops_weight_multiplier": -1.0}
    minval = 0.0

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        return states.num_io_ops.astype(np.float64)
