# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts by metrics that they report."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._common.arrays import FloatArray, IntArray, np
from ..components import HostStates, RequestSpec, Weigher
from ..errors import SchedulerError
from ..metrics import by_name


class MetricsWeigher(Weigher):
    """Hosts by metrics that they report.

    Inputs: the host's metrics; options metrics_weight_setting ({metric: ratio}), metrics_required
    [true], metrics_weight_of_unavailable [-10000.0].
    Raw value: sum of ratio * metric. If metrics_required is true, a metric that a host does not
    report refuses the request (enable MetricsFilter to leave such hosts out); if it is false, the
    host's raw value is metrics_weight_of_unavailable, unless the ratio or the multiplier is 0.
    Source: N3.2 ([metrics] weight_setting, required, weight_of_unavailable).
    """

    name = "MetricsWeigher"
    measures = "metrics"
    extremes = ("highest", "lowest")
    multiplier_option = "metrics_weight_multiplier"
    options = {
        "metrics_weight_multiplier": 1.0,
        "metrics_weight_setting": {},
        "metrics_required": True,
        "metrics_weight_of_unavailable": -10000.0,
    }
    run_filter_once_per_request = True

    def needs(self, spec: RequestSpec) -> Collection[str]:
        return ("metrics",) if self.option["metrics_weight_setting"] else ()

    def raw_of(self, states: HostStates, spec: RequestSpec, passed: IntArray) -> FloatArray | float:
        setting = self.option["metrics_weight_setting"]
        if not setting:
            return 0.0
        column = states.categorical("metrics")
        values = [by_name(metrics) for metrics in column.values]
        multiplier = np.broadcast_to(
            states.aggregates.least(self.multiplier_option, self.multiplier), (states.size,)
        )
        weights = np.zeros(states.size, dtype=np.float64)
        lost = np.zeros(states.size, dtype=bool)
        candidates = np.zeros(states.size, dtype=bool)
        candidates[passed] = True
        for name, ratio in setting.items():
            have = np.array([name in each for each in values], dtype=bool)[column.codes]
            numbers = np.array([_number(each.get(name)) for each in values], dtype=np.float64)
            if self.option["metrics_required"] and not have[candidates].all():
                index = int(np.flatnonzero(candidates & ~have)[0])
                raise SchedulerError(
                    f"Host {states.label(index)} does not report the metric {name} of"
                    " metrics_weight_setting; enable MetricsFilter to leave such hosts out, or set"
                    " metrics_required to false."
                )
            lost |= ~have & (ratio * multiplier != 0)
            weights += ratio * numbers[column.codes]
        return np.where(lost, self.option["metrics_weight_of_unavailable"], weights)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
