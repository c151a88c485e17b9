#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: flavor
short_description: Create, change or delete a flavor
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - A flavor is a size with a name and with requirements for hosts. A request names it instead of
    amounts.
  - When a flavor changes, existing instances keep their size.
options:
  name:
    description: The name of the flavor.
    type: str
    required: true
  state:
    description: V(absent) deletes the flavor.
    type: str
    choices: [present, absent]
    default: present
  vcpus:
    description:
      - Virtual CPUs. Required for a new flavor.
    type: int
  memory_mb:
    description:
      - Memory in MiB, or a size such as V(4GiB). Required for a new flavor.
    type: raw
  disk_gb:
    description:
      - Disk in GiB, or a size such as V(1TiB). A new flavor has V(0).
    type: raw
  extra_specs:
    description:
      - Requirements for hosts, such as C(aggregate_instance_extra_specs:ssd) or
        C(capabilities:hypervisor_version). A key with the value null is deleted. Other keys stay.
    type: dict
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
- name: Create a flavor for databases
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create it
      drover.compute.flavor:
        name: db
        vcpus: 4
        memory_mb: 16GiB
        disk_gb: 100
        extra_specs:
          "aggregate_instance_extra_specs:ssd": "true"
"""

RETURN = r"""
flavor:
  description: The flavor.
  returned: when O(state=present)
  type: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always, sample:
      71747e21-eed8-44bc-ad09-5fff1572dcd2}
    name: {description: Its name., type: str, returned: always, sample: db}
    vcpus: {description: Virtual CPUs., type: int, returned: always, sample: 4}
    memory_mb: {description: Memory in MiB., type: int, returned: always, sample: 2048}
    disk_gb: {description: Disk in GiB., type: int, returned: always, sample: 100}
    extra_specs: {description: Its requirements for hosts., type: dict, returned: always, sample:
      {'trait:CUSTOM_SSD': required}}
"""
