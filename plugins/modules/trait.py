#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: trait
short_description: Create or delete custom traits
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - A trait is a property of a resource provider. The standard traits, such as HW_CPU_X86_AVX2, come
    from OpenStack's os-traits; they always exist.
  - All of the names or none are created or deleted.
options:
  names:
    description:
      - One name or several, each C(CUSTOM_) and then A-Z, 0-9 and C(_), of 255 characters at most.
    type: list
    elements: str
    required: true
    aliases: [name]
  state:
    description:
      - V(absent) deletes the names that exist. If one of them is in use, it fails and names the
        resource providers that use it.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
seealso:
  - module: drover.compute.resource_provider
"""

EXAMPLES = r"""
- name: Manage custom traits
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create them
      drover.compute.trait:
        names: [CUSTOM_NVLINK, CUSTOM_GOLD]

    - name: Delete one again
      drover.compute.trait:
        name: CUSTOM_GOLD
        state: absent
"""

RETURN = r"""
names:
  description: The names that exist now, sorted.
  returned: success
  type: list
  elements: str
  sample: [CUSTOM_GOLD]
"""
