# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup drain_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: drain_plan
short_description: Plan how to empty one host or several
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Finds a destination for every instance of the hosts, all as one batch and the largest first, by the host filters and weighers of the
    scheduler. If an instance has no destination then, it tries other orders, then O(extra_moves), then O(solver_seconds).
  - Running and paused instances move live, instances that are shut off move cold, unless the policy of an instance differs.
  - Destinations are in the cell of the host, up and enabled, and have enough free capacity. Members of an anti-affinity server group are never
    on one host, not even during a move. Members of an affinity group go to one host, one after the other, or they all stay.
  - A move between hosts on one shared pool needs no additional disk, because the disk stays where it is.
  - Instances that cannot move are listed with the reason; the others are planned.
  - It reads and never writes or moves anything. The same store gives the same plan.
options:
  _terms:
    description:
      - The host to empty, with all its compute nodes. Several hosts, also as V(kvm1,kvm2) or as a list, get one plan, and none of
        them is a destination.
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
  - drover.compute.plans.drain
  - drover.compute.plans.drain_plugin
seealso:
  - module: drover.compute.plan_drain_info
  - module: drover.compute._migration
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
      drover.compute.show:
        lines: "{{ plan.lines }}"

    - name: Show the instances that cannot move
      ansible.builtin.debug:
        msg: "{{ item.name }}: {{ item.reason }}"
      loop: "{{ plan.unmovable }}"
      loop_control:
        label: "{{ item.name }}"
"""

RETURN = r"""
_raw:
  description: The plan, as the only element.
  type: list
  elements: dict
  contains:
    host: {description: "The host to empty; several in one text, as V(kvm1, kvm2).", type: str, returned: always}
    hosts: {description: The hosts to empty., type: list, elements: str, returned: always}
    moves:
      description:
        - The moves in the order of their beginning, each with C(uuid), C(name), C(state), C(live) (V(false) for a cold move),
          C(from_host), C(from_node), C(host), C(node), C(provider), C(vcpus), C(memory_mb), C(disk_gb), C(pool_disks)
          (GiB by storage pool), C(server_group), C(copies_mib)
          (MiB that are copied, the memory of a live move and disks that are on storage of the source only), C(copies_disk_mib) (of these
          the disks), C(copying) (for memory and disks C(what), C(mib), the expected C(rate) in MiB per second, its C(basis) and the number
          of measured C(moves)), C(disks) (each disk that it writes to, with C(target), C(source), C(how) V(shared), V(copied) or
          V(unknown), C(mib) that are copied, and C(virtual_mib), its size for the guest; null for an unknown one),
          C(unknown) (the unknown facts about the disks), C(bandwidth_mib) (the limit of the migration),
          C(seconds) (expected), C(converges), C(wave), C(order), C(extra)
          (V(true) for an instance of another host that moves to free capacity), C(for_hosts) (the hosts that it makes room for),
          C(after) (uuids of the moves that must be done before) and C(stage) (moves of one stage do not wait for each other).
          If a destination may take a class from several providers, C(allocations) has the providers of the move (uuids of providers to
          amounts by class).
      type: list
      elements: dict
      returned: always
    unmovable:
      description:
        - Instances that cannot move, each with C(uuid), C(name), C(host), C(state), C(vcpus), C(memory_mb), C(disk_gb), C(reason),
          C(nearest) (the host with the least missing capacity, and the missing amount), C(way_out) and C(keep_running) (a shutdown would lose
          something).
      type: list
      elements: dict
      returned: always
    shutdowns: {description: "Instances that are shut down by their policy, the lowest priority first.", type: list, elements: dict, returned: always}
    status: {description: "V(ok), V(partial) if some cannot move, V(infeasible) if this is proven.", type: str, returned: always}
    proof: {description: Why it cannot be done., type: str, returned: when it is proven}
    down:
      description: The hosts that are down, each with C(host) and C(reason). A host that is down cannot be drained.
      type: list
      elements: dict
      returned: always
    hint: {description: A way that may still empty the host., type: str, returned: when there is one}
    method: {description: The method that found the destinations., type: str, returned: always}
    extra_moves: {description: The number of moves of other hosts' instances., type: int, returned: always}
    seconds: {description: The expected duration in seconds., type: float, returned: always}
    estimate:
      description: The expected duration, the rates that it is based on, and the unknown parts that are not counted, as lines of text for people.
      type: list
      elements: str
      returned: always
      sample:
        - Expected to take about 3 h 13 min.
        - "Copies 1.2 TiB: memory at 102 MiB/s, measured over 12 moves between these hosts; disks of running instances at 110 MiB/s, assumed."
        - "Not known, so not counted: the size of its disk vdb (web3)."
    unsettled:
      description: Hosts with open extra moves of an earlier run for these hosts.
      type: list
      elements: str
      returned: always
    waves: {description: The number of waves., type: int, returned: always}
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always}
"""

import dataclasses
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
    flat,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import host_names
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion

#: Options that the variables of the same names set.
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
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        **{name: name for name in SAME},
    }
    OPTIONS = ("excluded",)

    def answer(self, terms: list[Any]) -> list[Any]:
        question = DrainQuestion.of_options(
            self.policy(), {name: self.get_option(name) for name in SAME}
        )
        excluded, store = self.get_option("excluded"), self.store()
        question = dataclasses.replace(question, own=self.own(store).guests())
        with store.read() as connection:
            return [question.plan(connection, host_names(flat(terms)), excluded)]
