# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enough virtual CPUs."""

from __future__ import annotations

from ..capacity import CapacityFilter


class CoreFilter(CapacityFilter):
    """Enough virtual CPUs.

    Inputs: the request's vcpus (vCPU); inventory and use of VCPU.
    Rule: CapacityFilter. Source: N2.7 for the name, N10.2 for the rule.
    """

    name = "CoreFilter"
    resource_class = "VCPU"
    label = "CPU"
