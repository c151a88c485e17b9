# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Not too many instances, by aggregate."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_filters.num_instances_filter import NumInstancesFilter


class AggregateNumInstancesFilter(NumInstancesFilter):
    """NumInstancesFilter with the limit of the host's aggregates.

    Inputs: those of NumInstancesFilter; aggregate metadata max_instances_per_host.
    Rule: num_instances < the least max_instances_per_host of the host's aggregates as a whole number; the
    option when there is none or one cannot be read. Source: NOVA_SEMANTICS 2.1.
    """

    name = "AggregateNumInstancesFilter"
    reads = ("aggregates",)

    def limit(self, states):
        return states.aggregates.least("max_instances_per_host", self.option["max_instances_per_host"], int)
