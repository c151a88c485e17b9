# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Away from hosts where builds fail."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class BuildFailureWeigher(Weigher):
    """Away from hosts where builds fail.

    Inputs: failed_builds. Raw value: failed_builds; the multiplier counts as negative.
    Source: N3.2.
    """

    name = "BuildFailureWeigher"
    measures = "failed builds"
    extremes = ("most", "fewest")
    unit = ""
    multiplier_option = "build_failure_weight_multiplier"
    options = {"build_failure_weight_multiplier": 1000000.0}
    run_filter_once_per_request = True
    sign = -1.0

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        return states.failed_builds.astype(np.float64)
