#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _alignment
short_description: Compare instances with their definitions at their hypervisors, and bring them
  into line
author:
  - The drover.compute authors (@drover-compute)
description:
  - A step of the role P(drover.compute.place#role). It reads the domains of instances that exist,
    with one call for each host, and names each difference to their definitions.
  - With O(apply=true) it changes policy, labels, autostart, vCPUs and memory, attaches disks and
    network interfaces that are missing, and changes media of CD-ROM drives. It names everything
    else, with the way to change it.
  - It uses the operations of M(drover.compute.instance_disk), M(drover.compute.instance_interface),
    M(drover.compute.instance_cdrom) and M(drover.compute.instance_resize). A resize shuts the
    instance down and starts it again; nothing else touches its guest.
  - It detaches, ejects, shrinks and removes nothing.
  - The next run continues a run that was killed.
options:
  definitions:
    description: The instances that M(drover.compute._definitions) returns.
    type: list
    elements: dict
    required: true
  apply:
    description: Make the changes that are possible. By default nothing is changed.
    type: bool
    default: false
  migration:
    description: Options of the move, if a resize moves an instance, as in
      M(drover.compute.instance_migrate).
    type: dict
    default: {}
extends_documentation_fragment:
  - drover.compute.migration_options.resize
  - drover.compute.scheduler
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
seealso:
  - module: drover.compute._definitions
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
