#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _definitions
short_description: Read instance definitions, and write host and uuid back into their file
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads and checks definitions of instances from a YAML file or from variables, and finds the ones
    that are in the store.
  - With O(write_back=true) it writes the host and the uuid of each instance back into the file.
    Comments, order and quoting do not change, so that the file can be in git.
options:
  keep:
    description:
      - Only keep the flavors, images, aggregates and server groups of the definitions in the store.
        Existing objects are changed if their definitions differ; nothing is removed.
      - The room of instances that an earlier run claimed, and that the definitions do not have any
        more, is given back if that run was on this controller and has ended before it had them
        built.
    type: bool
    default: false
  write_back:
    description:
      - Write host and uuid of each instance that is in the store back into O(path).
    type: bool
    default: false
  mark_absent:
    description:
      - Only write C(state) V(absent) into O(path) at these instances, which were removed. Each is a
        name, a uuid, or a mapping with C(name) and C(uuid). Remove that line to have an instance
        built again. A definition with C(count) is marked if all its instances were removed.
    type: list
    elements: raw
    default: []
  differences:
    description: The lines that M(drover.compute._alignment) returns, in place of the differences to
      what the store knows of the instances.
    type: list
    elements: str
extends_documentation_fragment:
  - drover.compute.scheduler.show
  - drover.compute.definitions
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
