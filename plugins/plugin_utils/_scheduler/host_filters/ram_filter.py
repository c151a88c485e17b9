# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enough memory."""

from __future__ import annotations

from ..capacity import CapacityFilter


class RamFilter(CapacityFilter):
    """Enough memory.

    Inputs: the request's memory_mb (MiB); inventory and use of MEMORY_MB.
    Rule: CapacityFilter. Source: N2.7 for the name, N10.2 for the rule.
    """

    name = "RamFilter"
    resource_class = "MEMORY_MB"
    label = "RAM"
