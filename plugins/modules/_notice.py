#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _notice
short_description: See that the task file of a notice can be included
author:
  - The drover.compute authors (@drover-compute)
description:
  - Ansible ends the whole run for a task file that it cannot read, or that names a module that is
    not installed, whatever would rescue it. This task fails instead, with the reason, so that a
    drain or an evacuation continues without the notice.
  - It also refuses a file that would end the run with C(meta), or that sets variables of the
    collection.
options:
  path:
    description: The path of the task file on the controller. A relative path begins in the current
      folder.
    type: raw
    required: true
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
