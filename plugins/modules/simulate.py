#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: simulate
short_description: Show the effect of changes on the fleet
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Makes changes in a copy of the store in memory, and compares the fleet before and after. The
    answer has the instances that fit, the others with the reason, the fill by zone and resource
    class, the hosts that may not be lost (N+1), the number of further instances of each flavor, and
    the moves that a rebalance would need.
  - The same code decides as in real placements, drains, evacuations and plans.
  - With O(replay) it decides again the decisions that the store keeps, under another policy.
  - The module writes nothing to the store, and neither reads nor changes a hypervisor.
  - Quotas of projects do not count.
options:
  changes:
    description:
      - The changes, made one after the other, as a list, or as a text that is YAML of one. Each is
        a mapping with one of these keys.
      - C(add_hosts) adds hosts like another one (C(like), C(count)), with its sizes, aggregates,
        pools and devices, or hosts with sizes of their own (C(count), and the keys of a node of
        M(drover.compute.compute_node), such as C(vcpus), C(memory_mb), C(local_gb) and
        C(availability_zone)). C(name) names them.
      - C(remove_hosts) empties hosts as a drain does, and takes them away. C(maintenance) empties
        them and leaves them disabled.
      - C(lose_hosts) takes hosts away as if they had died. Their instances start on other hosts
        with room; the simulation does not check if these hosts see their disks.
      - These three take names of hosts, or a mapping with C(hosts), C(aggregate) or
        C(availability_zone).
      - C(add_instances) places instances. It takes a request as in the lookup
        P(drover.compute.schedule#lookup), such as C(flavor) and C(count), or a definition with
        disks, networks and hardware as the role P(drover.compute.place#role) takes it, or a list of
        these.
      - C(grow) adds so many percent of instances of each kind that there is, the largest first,
        without their server groups.
      - C(scheduler) changes the policy for the changes that follow. It has the form of O(policy).
    type: raw
    default: []
  replay:
    description:
      - A policy. Its keys override the same keys of O(policy). The instances of the decisions that
        the store keeps (the last 10,000) are placed again by it, one after the other in the order
        of the decisions, on the fleet as it is without them. V({}) replays under the policy as it
        is.
    type: dict
  path:
    description:
      - The path of an HTML page on the controller, with heat maps of the fleet before and after. It
        needs no other file and loads nothing. A new file has the mode 0600.
      - Without it no file is written.
    type: path
  fleet:
    description: The name of the fleet, for the headline of the page. The variable C(drover_fleet)
      sets it too.
    type: str
extends_documentation_fragment:
  - drover.compute.simulation
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: drover.compute.capacity_info
"""

EXAMPLES = r"""
- name: Simulate
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Lose a host, then grow
      drover.compute.simulate:
        changes:
          - lose_hosts: [kvm1]
          - add_instances: {vcpus: 1, memory_mb: 2048, count: 20}
        show: true
      register: found

    - name: Stop where something has no place
      ansible.builtin.assert:
        that: found.simulation.left_out == 0
"""

RETURN = r"""
simulation:
  description: The effect of the changes. Not with O(replay).
  returned: without O(replay)
  type: dict
  contains:
    changes:
      description: The changes, in their order.
      type: list
      elements: dict
      returned: always
      contains:
        change: {description: The key of the change., type: str, returned: always, sample:
          lose_hosts}
        text: {description: The change as a sentence., type: str, returned: always, sample: kvm1 is
          lost}
        hosts: {description: The hosts that it is about., type: list, elements: str, returned:
          always, sample: [kvm1]}
        placed: {description: New instances that have a host., type: int, returned: always, sample:
          0}
        moved: {description: Instances that are on another host then., type: int, returned: always,
          sample: 7}
        left_out:
          description: Instances without a place, each with C(name), C(count) and C(reason). Alike
            new instances are one entry.
          type: list
          elements: dict
          returned: always
          sample: [{name: small, count: 9, reason: "of 2 hosts, RamFilter rejected 2"}]
    before:
      description:
        - The fleet before the changes. C(hosts), C(taking) (hosts that take instances),
          C(instances), C(totals) (C(zone), C(resource_class), C(capacity), C(used) and C(free), in
          the unit of the class), C(unbearable) (hosts with instances that do not fit on the others,
          each lost alone), C(capacity) (as the lookup P(drover.compute.capacity#lookup) gives it)
          and C(score) (of the load, 0 is even; null with O(max_moves=0)).
      type: dict
      returned: always
      sample: {hosts: 3, taking: 3, instances: 6, unbearable: [], score: 0.263}
    after:
      description: The fleet after the changes, in the same form.
      type: dict
      returned: always
      sample: {hosts: 2, taking: 2, instances: 6, unbearable: [], score: 0.031}
    moves: {description: The number of instances that a rebalance would move after the changes. Null
      without such a plan., type: int,
      returned: always, sample: 4}
    score: {description: The score of the load after these moves. 0 is even., type: float, returned:
      always, sample: 0.021}
    placed: {description: New instances that have a host., type: int, returned: always, sample: 0}
    moved: {description: Instances that are on another host., type: int, returned: always, sample:
      7}
    left_out: {description: Instances without a place., type: int, returned: always, sample: 0}
replay:
  description: The decisions of another policy.
  returned: with O(replay)
  type: dict
  contains:
    decided: {description: The number of repeated decisions., type: int, returned: always, sample:
      240}
    skipped: {description: Decisions about instances that are gone., type: int, returned: always,
      sample: 12}
    elsewhere:
      description: Instances that would be elsewhere, each with C(uuid), C(name), C(host) (where it
        was placed) and C(would) (where it would be).
      type: list
      elements: dict
      returned: always
      sample: [{uuid: 3f1c2b64-9a0e-4d6a-8a43-5a4f9f4f6d10, name: web1, host: kvm1, would: kvm2}]
    refused:
      description: Instances that would be refused, each with C(name), C(count) and C(reason).
      type: list
      elements: dict
      returned: always
      sample: [{name: web1, count: 1, reason: "of 2 hosts, RamFilter rejected 2"}]
    score_before: {description: The score of the load. 0 is even., type: float, returned: always,
      sample: 0.114}
    score_after: {description: The score after the changes., type: float, returned: always, sample:
      0.062}
path:
  description: The absolute path of the page; null without one.
  returned: without O(replay)
  type: str
  sample: /home/ops/simulation.html
lines:
  description: The answer as lines of text for people.
  returned: success
  type: list
  elements: str
  sample: ["Nothing was written, and no host was read or changed."]
"""
