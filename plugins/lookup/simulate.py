# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup simulate."""

from __future__ import annotations

DOCUMENTATION = r"""
name: simulate
short_description: Show the effect of changes on the fleet
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Makes changes in a copy of the store in memory, and compares the fleet before and after.
  - The same code decides as in real placements, drains, evacuations and plans. Quotas of projects do not count.
  - It writes nothing to the store, and no hypervisor is read.
options:
  _terms:
    description:
      - The changes, each a mapping with one key, such as C(lose_hosts). The option O(drover.compute.simulate#module:changes) of the module describes
        them all.
    required: true
extends_documentation_fragment:
  - drover.compute.simulation
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
seealso:
  - module: drover.compute.simulate
"""

EXAMPLES = r"""
- name: Simulate
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Lose a host
      ansible.builtin.set_fact:
        found: "{{ lookup('drover.compute.simulate', [{'lose_hosts': ['kvm1']}]) }}"

    - name: Say what has no place then
      ansible.builtin.debug:
        msg: "{{ found.moved }} instances start elsewhere, {{ found.left_out }} have no place."
"""

RETURN = r"""
_raw:
  description: The answer. RV(drover.compute.simulate#module:simulation) of the module has the keys of its parts.
  type: list
  elements: dict
  contains:
    changes: {description: The result of each change., type: list, elements: dict, returned: always}
    before: {description: The fleet before the changes., type: dict, returned: always}
    after: {description: The fleet after the changes., type: dict, returned: always}
    moves: {description: How many instances a rebalance would move after the changes. Null without such a plan., type: int, returned: always}
    score: {description: The score of the load after these moves. 0 is even., type: float, returned: always}
    placed: {description: New instances that have a host., type: int, returned: always}
    moved: {description: Instances that are on another host., type: int, returned: always}
    left_out: {description: Instances without a place., type: int, returned: always}
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
    flat,
)
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import (
    Question,
    simulate,
)


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        "service_down_time": "service_down_time",
    }
    OPTIONS = ("flavors", "max_moves", "export")

    def answer(self, terms: list[Any]) -> list[Any]:
        question = Question(
            self.policy(),
            self.get_option("flavors"),
            self.get_option("max_moves"),
            self.get_option("service_down_time"),
        )
        return [simulate(self.store(), flat(terms), question, self.get_option("export"))]
