# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host reports every metric that is weighed."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec
from ..metrics import by_name


class MetricsFilter(HostFilter):
    """The host reports every metric that MetricsWeigher weighs.

    Inputs: the host's metrics; option metrics_weight_setting ({metric: ratio}).
    Rule: each metric of the setting is among the host's. Source: N2.1.
    """

    name = "MetricsFilter"
    run_filter_once_per_request = True
    options = {"metrics_weight_setting": {}}
    reads = ("metrics",)

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        metric_names = set(self.option["metrics_weight_setting"])
        if not metric_names:
            return np.ones(states.size, dtype=bool)
        return states.categorical("metrics").each(
            lambda metrics: metric_names <= set(by_name(metrics))
        )

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        have = by_name(states.categorical("metrics")[index])
        missing = sorted(set(self.option["metrics_weight_setting"]) - set(have))
        return f"metrics: the host does not report {', '.join(missing)}"
