# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enough disk."""

from __future__ import annotations

from ..capacity import CapacityFilter


class DiskFilter(CapacityFilter):
    """Enough disk.

    Inputs: the request's disk_gb (GiB); inventory and use of DISK_GB.
    Rule: CapacityFilter. Source: N2.7 for the name, N10.2 for the rule.

    The possible growth of thin disks (disk_available_least) does not count here, because the claim
    does not know it; DiskWeigher includes it.
    """

    name = "DiskFilter"
    resource_class = "DISK_GB"
    label = "disk"
