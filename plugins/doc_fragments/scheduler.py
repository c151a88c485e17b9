# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of plugins that use the scheduler."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragments ``drover.compute.scheduler``; for lookups, ``.plugin``; for modules
    that plan, ``.show``.
    """

    DOCUMENTATION = r"""
options:
  policy:
    description:
      - The policy of the scheduler, a mapping. All keys are optional.
      - C(enabled_filters) is a list of host filters, in their order. The default is
        V(ComputeFilter), V(AvailabilityZoneFilter), V(CoreFilter), V(RamFilter), V(DiskFilter),
        V(SameHostFilter), V(DifferentHostFilter), V(ServerGroupAntiAffinityFilter) and
        V(ServerGroupAffinityFilter). An unknown name is refused with the list of known names.
      - C(weighers) is a list of weighers, or a mapping of weigher to multiplier. By default all
        thirteen of Nova run with Nova's multipliers, which spreads instances. A negative multiplier
        of V(RAMWeigher) or V(CPUWeigher) packs them.
      - Options such as C(ram_weight_multiplier) set multipliers by Nova's names. The same keys of
        an aggregate set them for its hosts.
      - C(driver) is V(filter_scheduler), or one of the older V(chance), V(simple) and
        V(least_cost).
      - The name of your own host filter or weigher is the name of a class in the folder
        C(host_filters) or C(weighers) beside the playbook or the policy file, or
        NAMESPACE.COLLECTION.CLASS.
      - C(shuffle_best_same_weighed_hosts), V(false) by default, takes any of the hosts with the
        best weight.
      - C(max_attempts), V(3) by default, is the number of hosts that may be tried for one instance,
        the alternates included.
      - C(host_subset_size), V(1) by default, is the number of best hosts. One of them is taken at
        random, always the same for one instance.
      - C(default_availability_zone), V(nova) by default, is the zone of hosts without a zone.
    type: dict
    default: {}
  policy_file:
    description:
      - A YAML file with a policy. The keys of O(policy) override it. An error names file, line and
        column.
    type: path
  service_down_time:
    description:
      - The greatest age of the last discovery, in seconds, for a host to count as up. With V(0) the
        age does not count, only its success.
      - The variable C(drover_service_down_time) sets it too.
    type: int
    default: 0
requirements:
  - numpy on the controller
"""

    PLUGIN = r"""
options:
  policy:
    vars:
      - name: drover_scheduler
  policy_file:
    vars:
      - name: drover_scheduler_file
  service_down_time:
    vars:
      - name: drover_service_down_time
"""

    # Modules with lines for people in their answer.
    SHOW = r"""
options:
  show:
    description:
      - Show the lines of the answer in the terminal or job log, too.
      - A row of a host that is down, or of an instance that is missing or has crashed, has the
        colour that Ansible gives to errors (red). A row of a host that is disabled or in
        maintenance, or of a paused instance, has the colour of changes (yellow).
    type: bool
    default: false
"""
