#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: store_audit_info
short_description: Find contradictions in the store
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Finds contradictions in the store, and between the store and the last discovery of each host. It
    reads only the store, so run the playbook drover.compute.discover first.
  - M(drover.compute.store) repairs the safe ones with O(drover.compute.store#module:state=healed).
options:
  release_expired:
    description:
      - Count claims that expired before any host showed their domain as safe to release.
    type: bool
    default: false
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.info_module
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Audit the store
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Find contradictions
      drover.compute.store_audit_info:
      register: audit

    - name: Show the number of each kind
      ansible.builtin.debug:
        var: audit.counts
"""

RETURN = r"""
findings:
  description: The findings, the most serious first.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the finding, see docs/audit.md of the collection.
      type: str
      returned: always
      sample: allocation_missing
    level:
      description: V(problem), or V(information) if no action is needed.
      type: str
      returned: always
      sample: problem
    uuid:
      description: The uuid of the instance, domain, consumer, compute node or provider.
      type: str
      returned: always
      sample: 4f7b7d2e-0c52-4a3e-8a53-6d2a43b0a0c1
    name:
      description: The name of the instance, domain or compute node.
      type: str
      returned: always
      sample: web1
    host:
      description: The host; several are separated by a comma.
      type: str
      returned: always
      sample: kvm1
    provider:
      description: The name of the resource provider.
      type: str
      returned: always
      sample: kvm1
    resource:
      description: The resource class.
      type: str
      returned: always
      sample: VCPU
    why:
      description: The contradiction.
      type: str
      returned: always
      sample: It takes VCPU 2, MEMORY_MB 2048 and holds nothing.
    advice:
      description: The action to take.
      type: str
      returned: always
      sample: Run drover.compute.discover on its host, or the audit with drover_audit_heal=true.
    safe:
      description: True if O(drover.compute.store#module:state=healed) repairs it.
      type: bool
      returned: always
      sample: true
    heal:
      description: The repair by O(drover.compute.store#module:state=healed), or the reason why it
        leaves it.
      type: str
      returned: always
      sample: gives it VCPU 2, MEMORY_MB 2048 on kvm1, over capacity or not
counts:
  description: The number of findings of each kind.
  returned: success
  type: dict
  sample: {allocation_missing: 1}
checked:
  description: The numbers of hosts, instances and allocations that the audit checked. An allocation
    is an amount of one resource class.
  returned: success
  type: dict
  sample: {hosts: 12, instances: 333, allocations: 999}
sound:
  description: True if only information is left.
  returned: success
  type: bool
  sample: false
table:
  description: RV(findings) as lines of text.
  returned: success
  type: list
  elements: str
  sample: ['FINDING         NAME  HOST  WHY, AND WHAT HEAL DOES', 'use_miscounted  kvm3  kvm3  VCPU:
    2 is counted as used, and 0 is allocated. Heal counts again: 0']
"""
