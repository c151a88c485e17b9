# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup drain_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: drain_plan
short_description: Plan how to empty a host
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Finds a destination for every instance of a host, all as one batch and the largest first, by the host filters and weighers of the
    scheduler. Running and paused instances move live, those that are shut off move cold.
  - Destinations are in the cell of the host, up and enabled, and have the room. Members of an anti-affinity server group never meet, not
    even for a moment. Members of an affinity group go to one host, one after the other, or they all stay.
  - Hosts on one shared pool need no disk for what moves between them, for it stays where it is.
  - What cannot move is listed with the reason and does not keep the rest from being planned.
  - It reads and never writes or moves anything. The same store gives the same plan.
options:
  _terms:
    description: The host to empty, with all its compute nodes. With several, each has a plan of its own that knows nothing of the others.
    required: true
  max_migrations:
    description: How many instances leave the host at a time. It only decides the waves that the plan shows.
    type: int
    default: 2
    vars:
      - name: drover_max_migrations
  excluded:
    description:
      - Compute nodes, by name or uuid of their provider, that an instance must not go to, because moving it there has failed before.
        A mapping of the uuid of the instance to a list.
    type: dict
    default: {}
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
seealso:
  - module: drover.compute.migration
"""

EXAMPLES = r"""
- name: Plan a drain
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan
      ansible.builtin.set_fact:
        plan: "{{ lookup('drover.compute.drain_plan', 'kvm1') }}"

    - name: Show the plan
      ansible.builtin.debug:
        var: plan.lines

    - name: Name what cannot move
      ansible.builtin.debug:
        msg: "{{ item.name }}: {{ item.reason }}"
      loop: "{{ plan.unmovable }}"
      loop_control:
        label: "{{ item.name }}"
"""

RETURN = r"""
_raw:
  description: One plan per host.
  type: list
  elements: dict
  contains:
    host: {description: The host to empty., type: str, returned: always}
    moves:
      description:
        - The moves in the order in which to begin them, each with C(uuid), C(name), C(state), C(live) (V(false) for a cold move),
          C(from_host), C(from_node), C(host), C(node), C(provider), C(vcpus), C(memory_mb), C(disk_gb), C(server_group), C(wave) and C(order).
      type: list
      elements: dict
      returned: always
    unmovable:
      description: What cannot move, each with C(uuid), C(name), C(state), C(vcpus), C(memory_mb), C(disk_gb) and C(reason).
      type: list
      elements: dict
      returned: always
    waves: {description: How many waves there are., type: int, returned: always}
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always}
"""

import time

from ansible_collections.drover.compute.plugins.plugin_utils.deciding import wanted_to_move
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.lookup import DroverLookup
from ansible_collections.drover.compute.plugins.plugin_utils.planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils.store.fleet import read_host_instances
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import read_columns


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        "service_down_time": "service_down_time",
        "max_migrations": "max_migrations",
    }
    OPTIONS = ("excluded",)

    def answer(self, terms):
        policy = self.policy()
        limits = {"per_source": self.get_option("max_migrations")}
        if limits["per_source"] < 1:
            raise DroverError("max_migrations must be at least 1, or nothing would ever move.")
        plans = []
        with self.store().read() as connection:
            there = {host: read_host_instances(connection, host) for host in terms}
            wanted = wanted_to_move([each for instances in there.values() for each in instances], policy)
            columns = read_columns(connection, time.time(), self.get_option("service_down_time"), wanted)
            for host in terms:
                plans.append(plan_drain(columns, there[host], host, policy, limits, self.get_option("excluded")))
        return plans
