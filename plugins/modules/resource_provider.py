#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_provider
short_description: Make, change or delete a resource provider
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - A resource provider has something that can be claimed, in inventories of resource classes; traits that say what it is like; and
    aggregates, through which a sharing provider is reached. It may hang under another one, as a GPU does under its host.
  - Only what is given is compared and written, and each of O(inventories), O(traits) and O(aggregates) is all that the provider
    shall have. An empty one takes everything away.
  - The provider of a compute node is made by discovery. What discovery writes there, which is the inventories of VCPU, PCPU,
    MEMORY_MB and DISK_GB and the traits that the host reports, stays as it is and need not be named; everything else is yours, and
    discovery leaves it alone.
  - The generation rises by one for each of inventories, traits and aggregates that changes.
options:
  name:
    description:
      - Its name, of 200 characters at most. With the O(uuid) of a provider that exists it is its new name.
      - Needed for a new provider.
    type: str
  uuid:
    description:
      - Its uuid. A new provider gets a random one if it is not given.
    type: str
  state:
    description:
      - V(absent) deletes the provider, which must have neither allocations nor children.
    type: str
    choices: [present, absent]
    default: present
  parent:
    description:
      - The name or uuid of the provider to hang it under, with all that hangs under it. An empty text makes it a root.
    type: str
  inventories:
    description:
      - A mapping of resource classes to what there is of them. O(inventories) needs C(total) of each; C(reserved) is 0, C(min_unit)
        and C(step_size) are 1, C(max_unit) is 2147483647 and C(allocation_ratio) is 1.0 when not given.
      - Capacity is (total - reserved) x allocation ratio. It may be set below what is in use, with a warning; an inventory in use
        cannot be removed.
    type: dict
  traits:
    description:
      - Names of traits, standard ones or those made with M(drover.compute.trait).
    type: list
    elements: str
  aggregates:
    description:
      - Uuids of aggregates of providers. One that is new is made.
      - They are not those of M(drover.compute.aggregate), which group hosts.
    type: list
    elements: str
  generation:
    description:
      - The generation that you have seen. The task fails when the provider has another one by now.
    type: int
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - Except with O(generation), which a change makes stale.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.resource_provider_info
  - module: drover.compute.resource_class
  - module: drover.compute.trait
"""

EXAMPLES = r"""
- name: Two GPUs below a host, and a pool that two racks share
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make the class
      drover.compute.resource_class:
        name: CUSTOM_GPU

    - name: Make the trait
      drover.compute.trait:
        name: CUSTOM_NVLINK

    - name: Make the provider above
      drover.compute.resource_provider:
        name: rack1

    - name: Hang the GPUs below it
      drover.compute.resource_provider:
        name: rack1-gpus
        parent: rack1
        inventories:
          CUSTOM_GPU: {total: 2, max_unit: 1}
        traits: [CUSTOM_NVLINK]

    - name: Share a pool of disk with whatever is in the aggregate
      drover.compute.resource_provider:
        name: pool1
        inventories:
          DISK_GB: {total: 20000, reserved: 500}
        traits: [MISC_SHARES_VIA_AGGREGATE]
        aggregates: [6f70656e-7374-4163-8b20-6d6f6f6e0001]

    - name: Delete the GPUs again
      drover.compute.resource_provider:
        name: rack1-gpus
        state: absent
"""

RETURN = r"""
resource_provider:
  description: The provider, as M(drover.compute.resource_provider_info) shows it.
  returned: when O(state=present)
  type: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always}
    name: {description: Its name., type: str, returned: always}
    generation: {description: Its generation., type: int, returned: always}
    parent: {description: "The name of its parent, or null.", type: str, returned: always}
    parent_uuid: {description: "The uuid of its parent, or null.", type: str, returned: always}
    root: {description: The name of the root of its tree., type: str, returned: always}
    root_uuid: {description: The uuid of the root of its tree., type: str, returned: always}
    compute_node: {description: "Host and hypervisor_hostname of the compute node at its root, or null.", type: dict, returned: always}
    inventories: {description: "Its inventories with C(capacity), rounded down, and C(used).", type: dict, returned: always}
    traits: {description: "Its traits, sorted.", type: list, elements: str, returned: always}
    aggregates: {description: "Uuids of its aggregates, sorted.", type: list, elements: str, returned: always}
"""
