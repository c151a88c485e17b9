# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit on the number of builds and moves under way."""

from __future__ import annotations

from ..capacity import LimitFilter


class IoOpsFilter(LimitFilter):
    """The host has fewer builds and moves under way than the limit.

    Inputs: num_io_ops, with the instances placed earlier in the batch; option max_io_ops_per_host
    [8].
    Rule: num_io_ops < max_io_ops_per_host. Source: N2.1.
    """

    name = "IoOpsFilter"
    reads = ("num_io_ops",)
    options = {"max_io_ops_per_host": 8}
    column = "num_io_ops"
    limit_option = "max_io_ops_per_host"
    label = "I/O operations"
