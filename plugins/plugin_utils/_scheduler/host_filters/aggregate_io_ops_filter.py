# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit on the number of builds and moves under way, by aggregate."""

from __future__ import annotations

from ..capacity import AggregateLimitFilter


class AggregateIoOpsFilter(AggregateLimitFilter):
    """IoOpsFilter with the limit of the host's aggregates.

    Inputs: the inputs of IoOpsFilter; aggregate metadata max_io_ops_per_host.
    Rule: num_io_ops < the least max_io_ops_per_host of the host's aggregates as a whole number; the
    option if there is none or one cannot be read. Source: N2.1.
    """

    name = "AggregateIoOpsFilter"
    reads = ("aggregates", "num_io_ops")
    options = {"max_io_ops_per_host": 8}
    column = "num_io_ops"
    limit_option = "max_io_ops_per_host"
    label = "I/O operations"
