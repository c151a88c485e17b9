#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_cpu
short_description: Show the CPU of the fleet, or compute it again
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Instances with C(cpu) V(fleet) in their definition have the CPU of the fleet. It has the
    features that all hosts of a group have, so that each of these hosts can run each of these
    instances. A group is the hosts with the same vendor of CPU, architecture, domain type and cell,
    disabled hosts too.
  - The first such instance of a group makes it. libvirt of a host with the oldest QEMU of the group
    determines it (C(virConnectBaselineHypervisorCPU)). Then the store keeps it, and only this
    module changes it.
  - In check mode the module shows the result and keeps nothing.
options:
  renew:
    description:
      - Compute each CPU again, from the present hosts of the group. The CPU of a group without
        hosts is forgotten.
      - Existing instances keep their CPU.
    type: bool
    default: false
  hosts:
    description:
      - The hosts that count, with O(renew). Only the CPUs of their groups are made. By default all
        hosts of each group count.
      - The other hosts of a group that lack one of its features run no instance with C(cpu)
        V(fleet) that is built from then on.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.compute_node
"""

EXAMPLES = r"""
- name: Show the CPU of the fleet
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read it
      drover.compute.fleet_cpu:
      register: found

    - name: Show it
      drover.compute.show:
        lines: "{{ found.lines }}"

- name: Make it again after the last old host is gone
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make it again
      drover.compute.fleet_cpu:
        renew: true

- name: Make it of two hosts, as the others are old and will go
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make it again
      drover.compute.fleet_cpu:
        renew: true
        hosts: [kvm1, kvm2]
"""

RETURN = r"""
cpus:
  description: One for each group of hosts that has a CPU.
  returned: success
  type: list
  elements: dict
  contains:
    cell: {description: The cell of the hosts; null without one., type: str, returned: always,
      sample: site1}
    arch: {description: The architecture., type: str, returned: always, sample: x86_64}
    domain_type: {description: V(kvm) or V(qemu)., type: str, returned: always, sample: kvm}
    vendor: {description: The vendor of the CPUs; null where libvirt names none., type: str,
      returned: always, sample: Intel}
    model: {description: The model of the CPU., type: str, returned: always, sample: Haswell-noTSX}
    policies:
      description: Features in addition to the model (V(require)), and features of the model that it
        does not have (V(disable)).
      type: dict
      returned: always
      sample: {vme: require}
    hosts: {description: The hosts behind the CPU., type: list, elements: str, returned: always,
      sample: [kvm1, kvm2]}
    lacking:
      description: Hosts of the group that lack features of it, with these features. Instances with
        this CPU cannot run there.
      type: dict
      returned: always
      sample: {kvm3: [avx2]}
    created_at: {description: When it was made., type: float, returned: always, sample:
      1790000000.5}
lines:
  description: The same for people.
  returned: success
  type: list
  elements: str
  sample: ['Intel, x86_64, kvm: Haswell-noTSX with vme', '  made on 2026-09-21 14:13 of kvm1, kvm2',
    '  kvm3 lacks avx2']
"""
