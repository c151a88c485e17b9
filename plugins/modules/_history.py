#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _history
short_description: Record the capacity and the use of the fleet today
author:
  - The drover.compute authors (@drover-compute)
description:
  - Writes one row for each zone and resource class, with its capacity and the allocated amount. A
    later call of the same day replaces them. The rows of 800 days are kept. The playbook
    C(drover.compute.discover) runs it at its end, and M(drover.compute.capacity_info) draws a line
    through these days.
  - Records too that all hosts of the inventory have been read once, if so. Until then a new store,
    or one that was brought back from a backup, starts and removes nothing (docs/safety.md).
options:
  inventory_hosts:
    description: The hypervisors of the inventory.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: drover.compute.capacity_info
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
