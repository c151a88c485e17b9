# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of lookups that ask the scheduler."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragment ``drover.compute.scheduler``."""

    DOCUMENTATION = r"""
options:
  policy:
    description:
      - How to decide. A mapping, all of its keys may be left out.
      - C(enabled_filters) is a list of host filters in the order in which they run. There are V(AvailabilityZoneFilter), V(ComputeFilter),
        V(CoreFilter), V(DifferentHostFilter), V(DiskFilter), V(RamFilter), V(SameHostFilter), V(ServerGroupAffinityFilter) and
        V(ServerGroupAntiAffinityFilter); all of them run by default.
      - C(weighers) is a list of weighers, or a mapping of weigher to multiplier. There are V(CPUWeigher), V(DiskWeigher) and
        V(RAMWeigher), all with multiplier 1.0 by default, which spreads instances. A negative multiplier packs them.
      - C(cpu_weight_multiplier), C(disk_weight_multiplier) and C(ram_weight_multiplier) set multipliers by Nova's names.
      - C(max_attempts), V(3) by default, is how many hosts may be tried for one instance, so that it has one fewer alternates.
      - C(host_subset_size), V(1) by default, is the number of best hosts out of which one is taken at random, though always the same
        for one instance.
      - C(default_availability_zone), V(nova) by default, is the zone of hosts that are in none.
    type: dict
    default: {}
    vars:
      - name: drover_scheduler
  service_down_time:
    description:
      - How old in seconds the last discovery of a host may be for the host to count as up. V(0) looks only at whether it succeeded.
    type: int
    default: 0
    vars:
      - name: drover_service_down_time
requirements:
  - numpy on the controller
"""
