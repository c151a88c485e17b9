#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_home_info
short_description: Plan the moves back after maintenance
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Lists moves that bring instances back to their earlier compute nodes, as far as these have
    enough free capacity now. The plan names the instances that stay where they are, and why.
  - It reads the store and changes nothing. A failure is one sentence.
options:
  instances:
    description:
      - The earlier compute node of each instance, with C(uuid), C(host) and C(node), as
        M(drover.compute.instance_info) returns them.
      - Instances that are already there, or gone, are left out of the plan.
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.plans.home
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.plan_rolling_info
"""

EXAMPLES = r"""
- name: Record where the instances are, to bring them back later
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read the instances
      drover.compute.instance_info:
      register: found

    - name: Plan the moves back, and show the plan
      drover.compute.plan_home_info:
        instances: "{{ found.instances }}"
        show: true
"""

RETURN = r"""
plan:
  description: The plan.
  returned: success
  type: dict
  contains:
    moves:
      description:
        - The moves in the order of their beginning. A move also has C(live), C(from_node), C(node),
          C(provider), C(memory_mb), C(server_group), C(seconds), C(wave) and C(order).
      type: list
      elements: dict
      returned: always
      contains:
        uuid: {description: The uuid of the instance., type: str, returned: always, sample:
          5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
        name: {description: Its name., type: str, returned: always, sample: web1}
        from_host: {description: Its host now., type: str, returned: always, sample: kvm2}
        host: {description: Its earlier host., type: str, returned: always, sample: kvm1}
        copies_mib: {description: "MiB that are copied, the memory of a live move and disks that are
          on storage of the source only.", type: int,
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
          returned: always, sample: [the size of its disk vdb]}
    staying:
      description: Instances that are not moved back.
      type: list
      elements: dict
      returned: always
      contains:
        name: {description: The name of the instance., type: str, returned: always, sample: web2}
        uuid: {description: Its uuid., type: str, returned: always, sample:
          5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c02}
        reason: {description: Why it stays., type: str, returned: always, sample: there is no room}
    seconds: {description: The expected duration in seconds., type: float, returned: always, sample:
      12.0}
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
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned:
      always, sample: ["No move home."]}
"""
