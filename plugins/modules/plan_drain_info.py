#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_drain_info
short_description: Plan how to empty one host or several
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Finds a destination for every instance of the hosts, and names the instances that cannot move,
    with the reason and a way out.
  - The module M(drover.compute.drain) carries out such a plan. It plans again first.
  - It reads the store and changes nothing. A failure is one sentence.
options:
  host:
    description: The host to empty, with all its compute nodes. Several hosts, as a list or as
      V(kvm1,kvm2), get one plan, and none of them is a destination.
    type: list
    elements: str
    required: true
    aliases: [name]
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.plans.drain
  - drover.compute.plans.moves
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.drain
"""

EXAMPLES = r"""
- name: Plan a drain
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan, and show the plan
      drover.compute.plan_drain_info:
        host: kvm1
        show: true
      register: drain

    - name: Stop if the host cannot be emptied
      ansible.builtin.assert:
        that: drain.plan.status == 'ok'
        fail_msg: "{{ drain.plan.unmovable | map(attribute='name') | join(', ') }} cannot move."
"""

RETURN = r"""
plan:
  description: The plan.
  returned: success
  type: dict
  contains:
    host: {description: "The host to empty; several in one text, as V(kvm1, kvm2).", type: str,
      returned: always, sample: kvm1}
    hosts: {description: The hosts to empty., type: list, elements: str, returned: always, sample:
      [kvm1]}
    status: {description: "V(ok), V(partial) if some cannot move, V(infeasible) if this is proven.",
      type: str, returned: always,
      sample: ok}
    moves:
      description:
        - The moves in the order of their beginning. A move also has C(state), C(from_node),
          C(node), C(provider), C(vcpus), C(memory_mb), C(disk_gb), C(pool_disks) (GiB by storage
          pool), C(server_group), C(bandwidth_mib) (the limit of the migration), C(seconds)
          (expected), C(converges) and C(order). If a destination may take a class from several
          providers, C(allocations) has the providers of the move (uuids of providers to amounts by
          class).
      type: list
      elements: dict
      returned: always
      contains:
        uuid: {description: The uuid of the instance., type: str, returned: always, sample:
          5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
        name: {description: Its name., type: str, returned: always, sample: web1}
        live: {description: V(false) for a cold move., type: bool, returned: always, sample: true}
        from_host: {description: Its host., type: str, returned: always, sample: kvm1}
        host: {description: Its destination., type: str, returned: always, sample: kvm2}
        wave: {description: Its wave., type: int, returned: always, sample: 1}
        copies_mib: {description: "MiB that are copied, the memory of a live move and disks that are
          on storage of the source only.",
          type: int,
          returned: always, sample: 5376}
        copies_disk_mib: {description: "The MiB of disks in C(copies_mib).", type: int, returned:
          always, sample: 5120}
        copying:
          description: For memory and disks C(what), C(mib), the expected C(rate) in MiB per second,
            its C(basis) and the number of measured C(moves).
          type: list
          elements: dict
          returned: always
          sample: [{what: memory, mib: 256, rate: 102.0, basis: measured, moves: 12}]
        disks:
          description: Each disk that the instance writes to, with C(target), C(source), C(how)
            V(shared), V(copied) or V(unknown), C(mib) that are copied, and C(virtual_mib), its size
            for the guest; null for an unknown one.
          type: list
          elements: dict
          returned: always
          sample: [{target: vda, source: /var/lib/libvirt/images/web1.qcow2, how: copied, mib: 5120,
            virtual_mib: 20480}]
        unknown: {description: The unknown facts about the disks., type: list, elements: str,
          returned: always,
          sample: [the size of its disk vdb]}
        extra: {description: It is an instance of another host that moves to free capacity., type:
          bool, returned: always, sample: false}
        for_hosts: {description: The hosts that it makes room for., type: list, elements: str,
          returned: always, sample: [kvm1]}
        after: {description: The uuids of the moves that must be done before., type: list, elements:
          str, returned: always,
          sample: [5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c02]}
        stage: {description: Moves of one stage do not wait for each other., type: int, returned:
          always, sample: 1}
    unmovable:
      description: Instances that cannot move.
      type: list
      elements: dict
      returned: always
      contains:
        name: {description: The name of the instance., type: str, returned: always, sample: db1}
        host: {description: Its host., type: str, returned: always, sample: kvm1}
        uuid: {description: Its uuid., type: str, returned: always, sample:
          5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
        state: {description: Its state., type: str, returned: always, sample: running}
        vcpus: {description: Its vCPUs., type: int, returned: always, sample: 2}
        memory_mb: {description: Its memory in MiB., type: int, returned: always, sample: 2048}
        disk_gb: {description: Its disks in GiB., type: int, returned: always, sample: 20}
        nearest: {description: The compute node that lacks least for it and the missing amounts.,
          type: dict, returned: always,
          sample: {host: kvm2, node: kvm2, short: {MEMORY_MB: 512}, group: 0}}
        reason: {description: Why it cannot move., type: str, returned: always, sample: it has
          snapshots}
        way_out: {description: The change that would let it move., type: str, returned: always,
          sample: Delete its snapshots.}
        keep_running: {description: True if a shutdown would lose something of it., type: bool,
          returned: always, sample: false}
    shutdowns: {description: "Instances that are shut down by their policy, the lowest priority
      first.", type: list, elements: dict,
      returned: always, sample: [{name: batch1, host: kvm1, state: running}]}
    proof: {description: The reason why it is impossible., type: str, returned: when it is proven,
      sample: kvm2 and kvm3 together have 2 free vCPUs}
    down:
      description: The hosts that are down, each with C(host) and C(reason). A host that is down
        cannot be drained.
      type: list
      elements: dict
      returned: always
      sample: [{host: kvm2, reason: no route to host}]
    hint: {description: A way that may still empty the host., type: str, returned: when there is
      one, sample: Try extra_moves=1.}
    method: {description: The method that found the destinations., type: str, returned: always,
      sample: greedy}
    extra_moves: {description: The number of moves of other hosts' instances., type: int, returned:
      always, sample: 0}
    unsettled: {description: Hosts with open extra moves of an earlier run for these hosts., type:
      list, elements: str, returned: always,
      sample: [kvm3]}
    seconds: {description: The expected duration in seconds., type: float, returned: always, sample:
      42.5}
    estimate:
      description: The expected duration, the rates that it is based on, and the unknown parts that
        are not counted, as lines of text for people.
      type: list
      elements: str
      returned: always
      sample:
        - Expected to take about 3 h 13 min.
        - "Copies 1.2 TiB: memory at 102 MiB/s, measured over 12 moves between these hosts; disks of
          running instances at 110 MiB/s, assumed."
        - "Not known, so not counted: the size of its disk vdb (web3)."
    waves: {description: The number of waves., type: int, returned: always, sample: 1}
    lines:
      description: The plan as lines of text for people.
      type: list
      elements: str
      returned: always
      sample: ["kvm1 holds no instances; there is nothing to move."]
"""
