#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _own_machines
short_description: Name the controller and the server of the store where they are in this fleet
author:
  - The drover.compute authors (@drover-compute)
description:
  - The controller is known by the uuid of its firmware and by its machine id, the server of the
    store by its address. The variables C(drover_controller) and C(drover_store_machine), the name
    of a host or of an instance, or V(none), name them where none of these is enough.
options:
  host:
    description: A host that is about to lose its power. The task fails if it is such a machine, or
      if a guest there is one.
    type: str
  not_done:
    description: The beginning of the refusal.
    type: str
    default: nothing was done
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
