# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup simulate."""

from __future__ import annotations

DOCUMENTATION = r"""
name: simulate
short_description: Say what changes would do to the fleet
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
      - The changes, made one after the other. Each is a mapping with one of these keys.
      - C(add_hosts) adds hosts like another one (C(like), C(count)), with its sizes, aggregates, pools and devices, or hosts with sizes of their own
        (C(count), and the keys of a node of M(drover.compute.compute_node), such as C(vcpus), C(memory_mb), C(local_gb) and C(availability_zone)).
        C(name) names them.
      - C(remove_hosts) empties hosts as a drain does, and takes them away. C(maintenance) empties them and leaves them disabled.
      - C(lose_hosts) takes hosts away as if they had died. Their instances start elsewhere where there is room; whether other hosts see their disks is
        not looked at.
      - These three take names of hosts, or a mapping with C(hosts), C(aggregate) or C(availability_zone).
      - C(add_instances) places instances. It takes a request as in the lookup P(drover.compute.schedule#lookup), such as C(flavor) and C(count), or a
        definition with disks, networks and hardware as the role P(drover.compute.place#role) takes it, or a list of these.
      - C(grow) adds so many percent of instances of each kind that there is, the largest first, without their server groups.
      - C(scheduler) changes the policy for the changes that follow. It takes what O(policy) takes.
    required: true
  flavors:
    description:
      - The sizes of which it is counted how many more fit. Names of flavors in the store, or requests as in the lookup
        P(drover.compute.schedule#lookup). By default all flavors.
    type: list
    elements: raw
  max_moves:
    description: The most moves of the plan of a rebalance after the changes. With V(0) there is no such plan, which is faster in a large fleet.
    type: int
    default: 100
  export:
    description: A file that M(drover.compute.store) with O(drover.compute.store#module:state=exported) wrote, to be taken instead of the store.
    type: path
extends_documentation_fragment:
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
  description: The answer.
  type: list
  elements: dict
  contains:
    changes:
      description: The changes, in their order.
      type: list
      elements: dict
      returned: always
      contains:
        change: {description: The key of the change., type: str, returned: always, sample: lose_hosts}
        text: {description: The change as a sentence., type: str, returned: always, sample: kvm1 is lost}
        hosts: {description: The hosts that it is about., type: list, elements: str, returned: always, sample: [kvm1]}
        placed: {description: New instances that have a host., type: int, returned: always, sample: 0}
        moved: {description: Instances that are on another host then., type: int, returned: always, sample: 7}
        left_out:
          description: Instances without a place, each with C(name), C(count) and C(reason). Alike new instances are one entry.
          type: list
          elements: dict
          returned: always
    before:
      description:
        - The fleet before the changes. C(hosts), C(taking) (hosts that take instances), C(instances), C(totals) (C(zone), C(resource_class),
          C(capacity), C(used) and C(free), in the unit of the class), C(unbearable) (hosts of which not all instances fit on the others, each lost
          alone), C(capacity) (as the lookup P(drover.compute.capacity#lookup) gives it) and C(score) (of the load, 0 is even; null with O(max_moves=0)).
      type: dict
      returned: always
    after: {description: "The fleet after the changes, in the same form.", type: dict, returned: always}
    moves: {description: How many instances a rebalance would move after the changes. Null without such a plan., type: int, returned: always, sample: 4}
    score: {description: The score of the load after these moves. 0 is even., type: float, returned: always, sample: 0.021}
    placed: {description: New instances that have a host., type: int, returned: always, sample: 0}
    moved: {description: Instances that are on another host., type: int, returned: always, sample: 7}
    left_out: {description: Instances without a place., type: int, returned: always, sample: 0}
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import DroverLookup, flat
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import Question, simulate


class LookupModule(DroverLookup):
    VARIABLES = {"policy": "scheduler", "policy_file": "scheduler_file", "service_down_time": "service_down_time"}
    OPTIONS = ("flavors", "max_moves", "export")

    def answer(self, terms: list[Any]) -> list[Any]:
        question = Question(self.policy(), self.get_option("flavors"), self.get_option("max_moves"), self.get_option("service_down_time"))
        return [simulate(self.store(), flat(terms), question, self.get_option("export"))]
