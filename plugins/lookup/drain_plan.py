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
    scheduler; where that leaves one without a place, in other orders, then with O(extra_moves), then with O(solver_seconds).
  - Running and paused instances move live, those that are shut off move cold, unless the policy of an instance says otherwise.
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
  max_migrations_per_destination:
    description: How many instances go to one host at a time.
    type: int
    vars:
      - name: drover_max_migrations_per_destination
  max_migrations_overall:
    description: How many instances move at a time in all.
    type: int
    vars:
      - name: drover_max_migrations_overall
  extra_moves:
    description: How many instances of other hosts may move to make room, where the host cannot be emptied without that.
    type: int
    default: 0
    vars:
      - name: drover_extra_moves
  solver_seconds:
    description: How long an exact model may be worked on where nothing else finds a place for all. It needs the Python package highspy.
    type: float
    default: 0
    vars:
      - name: drover_solver_seconds
  migration:
    description: The options of the migrations. C(bandwidth_mib) counts for the forecast.
    type: dict
    default: {}
    vars:
      - name: drover_migration
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
  - drover.compute.scheduler.plugin
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
          C(from_host), C(from_node), C(host), C(node), C(provider), C(vcpus), C(memory_mb), C(disk_gb), C(server_group), C(seconds)
          (expected), C(converges), C(wave), C(order), C(extra) (V(true) for one of another host, that makes room), C(for_host), C(after)
          (uuids of the moves that must be done before) and C(stage) (those of one stage do not wait for each other). Where a destination
          may take a class from several providers, C(allocations) says which the move takes (uuids of providers to amounts by class).
      type: list
      elements: dict
      returned: always
    unmovable:
      description:
        - What cannot move, each with C(uuid), C(name), C(state), C(vcpus), C(memory_mb), C(disk_gb), C(reason), C(nearest) (the host that
          comes nearest to having room and what it lacks) and C(way_out).
      type: list
      elements: dict
      returned: always
    shutdowns: {description: "What its policy lets be shut down instead of moved, the less important first.", type: list, elements: dict, returned: always}
    status: {description: "V(ok), V(partial) where some cannot move, V(infeasible) where that is proven.", type: str, returned: always}
    proof: {description: Why it cannot be done., type: str, returned: when it is proven}
    hint: {description: What might still empty the host., type: str, returned: when there is such a thing}
    method: {description: How the places were found., type: str, returned: always}
    extra_moves: {description: How many moves are of instances of other hosts., type: int, returned: always}
    seconds: {description: How long it is expected to take., type: float, returned: always}
    unsettled:
      description: Hosts at which moves are open that an earlier run began to make room for this one.
      type: list
      elements: str
      returned: always
    waves: {description: How many waves there are., type: int, returned: always}
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always}
"""

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.lookup import DroverLookup
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.plans import DrainQuestion

#: Options that come from the variable of their name.
SAME = (
    "service_down_time",
    "max_migrations",
    "max_migrations_per_destination",
    "max_migrations_overall",
    "extra_moves",
    "solver_seconds",
    "migration",
)


class LookupModule(DroverLookup):
    VARIABLES = {"policy": "scheduler", "policy_file": "scheduler_file", **{name: name for name in SAME}}
    OPTIONS = ("excluded",)

    def answer(self, terms):
        question = DrainQuestion.of_options(self.policy(), {name: self.get_option(name) for name in SAME})
        excluded = self.get_option("excluded")
        with self.store().read() as connection:
            return [question.plan(connection, host, excluded) for host in terms]
