# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit on the number of instances, by aggregate."""

from __future__ import annotations

from ..capacity import AggregateLimitFilter


class AggregateNumInstancesFilter(AggregateLimitFilter):
    """NumInstancesFilter with the limit of the host's aggregates.

    Inputs: the inputs of NumInstancesFilter; aggregate metadata max_instances_per_host.
    Rule: num_instances < the least max_instances_per_host of the host's aggregates as a whole
    number; the option if there is none or one cannot be read. Source: N2.1.
    """

    name = "AggregateNumInstancesFilter"
    options = {"max_instances_per_host": 50}
    column = "num_instances"
    limit_option = "max_instances_per_host"
    label = "instances"
