#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_provider
short_description: Create, change or delete a resource provider
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - A resource provider has inventories of resource classes that can be claimed, traits that
    describe it, and aggregates that connect it to sharing providers. It may be below another
    provider, for example a GPU below its host.
  - Only the given options are compared and written. Each of O(inventories), O(traits) and
    O(aggregates) is the complete list; an empty one removes everything.
  - Discovery creates the provider of a compute node. It owns the inventories that it reads from
    libvirt, such as VCPU and MEMORY_MB, and the traits that the host reports; they do not change
    and need not be named. Discovery does not change anything else there.
  - The generation rises by one for each of inventories, traits and aggregates that changes.
options:
  name:
    description:
      - Its name, of at most 200 characters. With the O(uuid) of an existing provider it is the new
        name.
      - Required for a new provider.
    type: str
  uuid:
    description:
      - Its uuid. By default a new provider gets a random one.
    type: str
  state:
    description:
      - V(absent) deletes the provider, which must have neither allocations nor children.
    type: str
    choices: [present, absent]
    default: present
  parent:
    description:
      - The name or uuid of its new parent. Its children move with it. An empty text makes it a
        root.
    type: str
  inventories:
    description:
      - A mapping of resource classes to inventories. Each needs C(total). The default of
        C(reserved) is 0, of C(min_unit) and C(step_size) 1, of C(max_unit) 2147483647 and of
        C(allocation_ratio) 1.0.
      - Capacity is (total - reserved) x allocation ratio. It may be set below the used amount, with
        a warning; an inventory in use cannot be removed.
    type: dict
  traits:
    description:
      - Names of traits, standard ones or your own (M(drover.compute.trait)).
    type: list
    elements: str
  aggregates:
    description:
      - Uuids of aggregates of providers. A new one is created.
      - They are not the aggregates of M(drover.compute.aggregate), which group hosts.
    type: list
    elements: str
  generation:
    description:
      - The generation that you have read. The task fails if the provider has another one by now.
    type: int
attributes:
  idempotent:
    support: full
    details:
      - Except with O(generation), which a change makes stale.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
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
    - name: Create the class
      drover.compute.resource_class:
        name: CUSTOM_GPU

    - name: Create the trait
      drover.compute.trait:
        name: CUSTOM_NVLINK

    - name: Create the parent
      drover.compute.resource_provider:
        name: rack1

    - name: Create the GPUs below it
      drover.compute.resource_provider:
        name: rack1-gpus
        parent: rack1
        inventories:
          CUSTOM_GPU: {total: 2, max_unit: 1}
        traits: [CUSTOM_NVLINK]

    - name: Share a disk pool with the providers in the aggregate
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
    uuid: {description: Its uuid., type: str, returned: always, sample:
      48d460b2-e4cd-4900-86bf-5c0f5a3a66c1}
    name: {description: Its name., type: str, returned: always, sample: gpu}
    generation: {description: Its generation., type: int, returned: always, sample: 3}
    parent: {description: "The name of its parent, or null.", type: str, returned: always, sample:
      x'); DROP TABLE resource_providers; --}
    parent_uuid: {description: "The uuid of its parent, or null.", type: str, returned: always,
      sample: 77576743-8950-4b49-892e-b3b4866b23a2}
    root: {description: The name of the root of its tree., type: str, returned: always, sample:
      kvm1}
    root_uuid: {description: The uuid of the root of its tree., type: str, returned: always, sample:
      77576743-8950-4b49-892e-b3b4866b23a2}
    compute_node: {description: "Host and hypervisor_hostname of the compute node at its root, or
      null.", type: dict, returned: always,
      sample: {host: kvm1, hypervisor_hostname: kvm1}}
    inventories: {description: "Its inventories with C(capacity), rounded down, and C(used).", type:
      dict, returned: always,
      sample: {DISK_GB: {total: 20000, reserved: 0, min_unit: 1, max_unit: 2147483647, step_size: 1,
        allocation_ratio: 1.0,
      capacity: 20000, used: 0}}}
    traits: {description: "Its traits, sorted.", type: list, elements: str, returned: always,
      sample: [CUSTOM_NVLINK]}
    aggregates: {description: "Uuids of its aggregates, sorted.", type: list, elements: str,
      returned: always,
      sample: [a4d2c7d0-5344-5577-8c8f-61615263957a]}
"""
