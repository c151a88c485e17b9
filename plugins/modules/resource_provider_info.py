#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_provider_info
short_description: Show resource providers with their inventories, use, traits and aggregates
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Returns the resource providers that meet all filters. The filters are the same as for
    Placement's C(GET /resource_providers). They check each provider separately, not its tree.
  - The number of queries does not grow with the number of providers.
options:
  name:
    description: Show only the provider of this name.
    type: str
  uuid:
    description: Show only the provider of this uuid.
    type: str
  in_tree:
    description: Show only providers in the tree of the provider of this uuid.
    type: str
  member_of:
    description:
      - The uuid of an aggregate of the provider; C(in:a,b) for one of several, C(!a) or C(!in:a,b)
        for none of them.
      - With a list each of its items must match.
    type: raw
  required:
    description:
      - Traits that the provider must have, separated by commas, V(!TRAIT) for a forbidden one; or
        C(in:A,B) for one of several.
      - With a list each of its items must match.
    type: raw
  resources:
    description:
      - Amounts that must fit on the provider now, as a mapping of resource classes to amounts or as
        C(CLASS:amount,CLASS:amount).
    type: raw
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.resource_provider
  - module: drover.compute.allocation_info
"""

EXAMPLES = r"""
- name: Find a pool
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create a pool as an example
      drover.compute.resource_provider:
        name: pool2
        inventories:
          DISK_GB: {total: 20000}
        traits: [MISC_SHARES_VIA_AGGREGATE]

    - name: Find sharing providers with 100 GiB of free disk that is not on spinning disks
      drover.compute.resource_provider_info:
        resources: {DISK_GB: 100}
        required: [MISC_SHARES_VIA_AGGREGATE, "!STORAGE_DISK_HDD"]
      register: pools

    - name: Show them
      ansible.builtin.debug:
        var: pools.resource_providers
"""

RETURN = r"""
resource_providers:
  description: The providers, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always, sample:
      d8d90f1b-67f0-4911-9993-48c25569f5d4}
    name: {description: Its name., type: str, returned: always, sample: kvm1}
    generation: {description: Its generation., type: int, returned: always, sample: 2}
    parent: {description: "The name of its parent, or null.", type: str, returned: always, sample:
      kvm1}
    parent_uuid: {description: "The uuid of its parent, or null.", type: str, returned: always,
      sample: d8d90f1b-67f0-4911-9993-48c25569f5d4}
    root: {description: The name of the root of its tree., type: str, returned: always, sample:
      kvm1}
    root_uuid: {description: The uuid of the root of its tree., type: str, returned: always, sample:
      d8d90f1b-67f0-4911-9993-48c25569f5d4}
    compute_node: {description: "Host and hypervisor_hostname of the compute node at its root, or
      null.", type: dict, returned: always,
      sample: {host: kvm1, hypervisor_hostname: kvm1}}
    inventories:
      description:
        - For each resource class C(total), C(reserved), C(min_unit), C(max_unit), C(step_size),
          C(allocation_ratio), C(capacity) (rounded down) and C(used).
      type: dict
      returned: always
      sample: {VCPU: {total: 16, reserved: 0, min_unit: 1, max_unit: 16, step_size: 1,
        allocation_ratio: 4.0, capacity: 64, used: 2}}
    traits: {description: "Its traits, sorted.", type: list, elements: str, returned: always,
      sample: [COMPUTE_NODE]}
    aggregates: {description: "Uuids of its aggregates, sorted.", type: list, elements: str,
      returned: always,
      sample: [a4d2c7d0-5344-5577-8c8f-61615263957a]}
"""
