# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room by the allocation ratio of the host's aggregates: disk."""

from __future__ import annotations

from ..capacity import AggregateCapacityFilter


class AggregateDiskFilter(AggregateCapacityFilter):
    """DiskFilter with the allocation ratio of the host's aggregates.

    Inputs: the inputs of DiskFilter; aggregate metadata disk_allocation_ratio.
    Rule: AggregateCapacityFilter. Source: N2.7.
    """

    name = "AggregateDiskFilter"
    ratio_key = "disk_allocation_ratio"
    resource_class = "DISK_GB"
    label = "disk"
