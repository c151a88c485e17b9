#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _variables
short_description: Refuse variables that a playbook of the collection does not read
author:
  - The drover.compute authors (@drover-compute)
description:
  - The first task of each playbook of the collection. A variable of the collection on the command
    line that the playbook does not read would change nothing, and the playbook would do something
    else than its user wants.
  - A variable that names hosts, instances or disks is refused wherever it is set.
  - It also fails if C(drover_hypervisors) is set and matches no host of the inventory.
options:
  playbook:
    description: The playbook, such as V(drain).
    type: str
    required: true
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
