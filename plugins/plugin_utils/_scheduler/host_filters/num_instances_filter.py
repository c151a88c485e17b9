# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit on the number of instances."""

from __future__ import annotations

from ..capacity import LimitFilter


class NumInstancesFilter(LimitFilter):
    """The host has fewer instances than the limit.

    Inputs: num_instances, with the instances placed earlier in the batch; option
    max_instances_per_host [50].
    Rule: num_instances < max_instances_per_host. Source: N2.1.
    """

    name = "NumInstancesFilter"
    options = {"max_instances_per_host": 50}
    column = "num_instances"
    limit_option = "max_instances_per_host"
    label = "instances"
