#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: allocation_info
short_description: Show allocations and their consumers
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Returns the sums of the allocations that match the filters, by resource class, for all and for
    each provider, project, user and consumer type.
  - With O(consumers) or O(provider) it also returns each consumer.
options:
  consumers:
    description:
      - Uuids of consumers, which are instances and migrations. A consumer without allocations is
        left out.
    type: list
    elements: str
    aliases: [consumer]
  provider:
    description: Count only allocations on this resource provider. Its name or uuid.
    type: str
  project:
    description: Count only consumers of this project.
    type: str
  user:
    description: Count only consumers of this user.
    type: str
  consumer_type:
    description:
      - Count only consumers of this type, such as V(INSTANCE) or V(MIGRATION).
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.resource_provider_info
"""

EXAMPLES = r"""
- name: Show the usage
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create a pool as an example
      drover.compute.resource_provider:
        name: pool3
        inventories:
          DISK_GB: {total: 20000}

    - name: Read its consumers
      drover.compute.allocation_info:
        provider: pool3
      register: held

    - name: Show them
      ansible.builtin.debug:
        var: held.consumers

    - name: Read all allocations
      drover.compute.allocation_info:
      register: usage

    - name: Show it by project
      ansible.builtin.debug:
        var: usage.usages_by.project
"""

RETURN = r"""
usages:
  description: The sum for each resource class.
  returned: success
  type: dict
  sample: {MEMORY_MB: 512, VCPU: 2}
usages_by:
  description: The same sums by name, with C((none)) for consumers without one.
  returned: success
  type: dict
  contains:
    provider: {description: By name of the resource provider., type: dict, returned: always, sample:
      {kvm1: {MEMORY_MB: 512, VCPU: 2}}}
    project: {description: By project., type: dict, returned: always, sample: {(none): {MEMORY_MB:
      512, VCPU: 2}}}
    user: {description: By user., type: dict, returned: always, sample: {(none): {MEMORY_MB: 512,
      VCPU: 2}}}
    consumer_type: {description: By type of the consumer., type: dict, returned: always, sample:
      {INSTANCE: {MEMORY_MB: 512, VCPU: 2}}}
consumers:
  description: The consumers, sorted by uuid.
  returned: when O(consumers) or O(provider) is given
  type: list
  elements: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always, sample:
      4678f48e-9e6e-53d3-9c13-dbd66056a5d1}
    name: {description: "The name of the instance, also of the moving instance of a migration; null
      for others.", type: str, returned: always, sample: web}
    type: {description: "Its type, such as V(INSTANCE).", type: str, returned: always, sample:
      INSTANCE}
    project: {description: "Its project, or null.", type: str, returned: always, sample: shop}
    user: {description: "Its user, or null.", type: str, returned: always, sample: ann}
    generation: {description: Its generation., type: int, returned: always, sample: 1}
    expires_at: {description: "When the claim ends (seconds since 1970), or null.", type: float,
      returned: always, sample: 1795337314.2}
    expires_at_iso: {description: "The same time in ISO 8601, or null.", type: str, returned:
      always, sample: "2026-11-22T08:48:34Z"}
    allocations:
      description: Its allocations, by C(provider) and C(provider_uuid) with C(resources). With
        O(provider) only on that provider.
      type: list
      elements: dict
      returned: always
      sample: [{provider: kvm1, provider_uuid: 102bc601-47a0-44e3-8fe2-ac5986484a85, resources:
        {MEMORY_MB: 512, VCPU: 2}}]
"""
