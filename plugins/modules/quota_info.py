#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: quota_info
short_description: Show the quotas and the usage of projects
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Returns the projects that have an instance or a quota. It has the limits and the use of each
    project. The use is counted in the same way as by M(drover.compute.quota).
options:
  project:
    description: Show this project only.
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.quota
"""

EXAMPLES = r"""
- name: Show the quotas
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read them
      drover.compute.quota_info:
      register: found

    - name: Show them as a table
      drover.compute.show:
        lines: "{{ found.table }}"
"""

RETURN = r"""
quotas:
  description: The projects, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    project: {description: The name of the project., type: str, returned: always, sample: shop}
    resources:
      description:
        - C(instances), C(cores) and C(ram) (MiB), then the resource classes that have a limit. Each
          has C(resource), C(limit) (null without a limit) and C(in_use).
      type: list
      elements: dict
      returned: always
      sample: [{resource: instances, limit: 10, in_use: 4}, {resource: cores, limit: 40, in_use:
        12}]
table:
  description: The same as lines of a plain text table, with as many columns as the terminal has
    room for.
  returned: success
  type: list
  elements: str
  sample: ['PROJECT  INSTANCES     CORES                 RAM', 'shop       4 of 10  12 of 40  24 GiB
    of 128 GiB']
"""
