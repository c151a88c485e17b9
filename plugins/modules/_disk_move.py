#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _disk_move
short_description: Move a disk of an instance to another storage of its host
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of the playbook C(drover.compute.instance_disk_move). Run it on localhost. It takes the
    lease of the host.
  - The guest continues to run. If it is off, the disk is copied while it stays off.
  - If the run is killed, run it again to continue the move.
options:
  instance:
    description: The name or the uuid of the instance. Required.
    type: str
    default: ''
  disk:
    description: The disk, by its name in the domain, such as V(vda). Required.
    type: str
    default: ''
  pool:
    description: The storage pool of the host, by its name, or the absolute path of a folder there.
      Required for O(state=moved).
    type: str
    default: ''
  state:
    description: V(moved) moves it. V(aborted) gives up an unfinished move of any run; the disk
      stays the old file.
    type: str
    choices: [moved, aborted]
    default: moved
  migration:
    description:
      - Of the options of migrations, V(bandwidth_mib) limits the copy, and V(timeout_per_gib), 800
        by default, is the number of seconds for each GiB of the disk, which counts as 2 GiB at
        least. After that time the move is given up.
    type: dict
    default: {}
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
seealso:
  - module: drover.compute._domain_disk_move
  - module: drover.compute.instance_disk
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
