#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: quota
short_description: Set or remove the quotas of a project
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - A quota limits the resources that the instances of a project may claim together. The store
    refuses a claim that would exceed a limit, and nothing is built. Projects without a quota, and
    instances without a project, have no limit.
  - The check is part of the claim's transaction. However many runs claim at the same time, none
    exceeds a limit. A lower limit stops no existing instance; the project can claim nothing more
    until it uses less.
  - An instance counts from its claim until it is deleted, also while it is off. A resize counts
    with its old and its new size until it is confirmed or reverted, as in Nova. A resize that makes
    nothing larger is never refused. A migration counts once.
  - The project of an instance is the key C(project) of its definition. Discovery reads it from the
    metadata of the domain.
options:
  project:
    description: The name of the project.
    type: str
    required: true
  state:
    description: V(absent) removes all limits of the project. V(present) sets the limits that are
      given; others stay.
    type: str
    choices: [present, absent]
    default: present
  instances:
    description: The number of instances that the project may have. V(-1) removes the limit.
    type: raw
  cores:
    description: The number of CPUs of all its instances together, shared (C(VCPU)) and dedicated
      (C(PCPU)). V(-1) removes the limit.
    type: raw
  ram:
    description: The memory that its instances may have together in MiB, or a size such as V(64GiB).
      V(-1) removes the limit.
    type: raw
  resources:
    description:
      - Limits of resource classes, such as C(DISK_GB), C(VGPU) or C(CUSTOM_LICENSE), with a number
        each. C(MEMORY_MB) and C(DISK_GB) may have a size such as V(2TiB).
      - V(-1) or null removes the limit. Classes that are not named stay as they are.
    type: dict
    default: {}
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
seealso:
  - module: drover.compute.quota_info
"""

EXAMPLES = r"""
- name: Give a project limits
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Set the quota of the shop
      drover.compute.quota:
        project: shop
        instances: 10
        cores: 40
        ram: 128GiB
        resources:
          DISK_GB: 2TiB
"""

RETURN = r"""
quota:
  description: The project, and all its limits by name. C(ram) is in MiB.
  returned: when O(state=present)
  type: dict
  sample: {project: shop, limits: {instances: 10, cores: 40, ram: 131072, DISK_GB: 2048}}
"""
