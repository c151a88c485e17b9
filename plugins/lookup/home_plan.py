# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup home_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: home_plan
short_description: Plan the moves back after maintenance
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Lists moves that bring instances back to their earlier compute nodes, as far as these have enough free capacity now. Every step keeps
    host filters and server groups. The plan names the instances that stay, and the reasons.
  - It reads and never writes or moves anything.
options:
  _terms:
    description:
      - The earlier compute node of each instance, a mapping with C(uuid), C(host) and C(node), or a list of such mappings. Instances that
        are already there, or gone, are left out.
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
  - drover.compute.plans.home
  - drover.compute.plans.home_plugin
seealso:
  - module: drover.compute.plan_home_info
  - plugin: drover.compute.rolling_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Record where the instances are, to bring them back later
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read the instances
      drover.compute.instance_info:
      register: found

    - name: Plan the moves back
      ansible.builtin.set_fact:
        plan: "{{ lookup('drover.compute.home_plan', found.instances) }}"

    - name: Show the plan
      drover.compute.show:
        lines: "{{ plan.lines }}"
"""

RETURN = r"""
_raw:
  description: One plan.
  type: list
  elements: dict
  contains:
    moves:
      description:
        - The moves in the order of their beginning, each with C(uuid), C(name), C(live), C(from_host), C(from_node), C(host), C(node),
          C(provider), C(memory_mb), C(server_group), C(seconds), C(wave) and C(order), and with the amounts of
          its copies (C(copies_mib), C(copies_disk_mib), C(copying), C(disks), C(unknown)) as in P(drover.compute.drain_plan#lookup).
      type: list
      elements: dict
      returned: always
    waves: {description: The number of waves., type: int, returned: always}
    seconds: {description: The expected duration in seconds., type: float, returned: always}
    estimate:
      description: The expected duration, the rates that it is based on, and the unknown parts that are not counted, as lines of text for people.
      type: list
      elements: str
      returned: always
    staying:
      description: Instances that are not moved back, each with C(uuid), C(name) and C(reason).
      type: list
      elements: dict
      returned: always
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always}
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
    flat,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    homes_of,
    plan_home,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    limits as migration_limits,
)


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        "service_down_time": "service_down_time",
        "max_migrations": "max_migrations",
    }

    def answer(self, terms: list[Any]) -> list[Any]:
        policy, most = self.policy(), self.get_option("max_migrations")
        migration_limits.of_options({"max_migrations": most})
        homes = homes_of(flat(terms))
        store = self.store()
        own = self.own(store).guests()
        with store.read() as connection:
            return [
                plan_home(
                    connection, homes, policy, most, self.get_option("service_down_time"), own
                )
            ]
