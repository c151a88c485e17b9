#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: _on_host
short_description: Run a module of a hypervisor, if it is the machine that the store has
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs a module on the hypervisor of the task. The module compares the machine with the one that
    the store has for the host, and does nothing on another one. The roles run modules of
    hypervisors by it.
  - On another machine the task fails with C(not_this_host). It is not unreachable, because
    something answers.
options:
  module:
    description: The module. By default the module reads the id of the boot.
    type: str
    choices: [_boot_info, _domain_backup, _migration_trust, hypervisor_info,
      ansible.builtin.command]
    default: _boot_info
  arguments:
    description: The options of the module.
    type: dict
    default: {}
  wait:
    description: Wait at most so many seconds until the host answers.
    type: int
    default: 0
  unlike:
    description: With O(wait), wait for an answer with another boot id than this one. With the
      module C(_boot_info) only.
    type: str
    default: ''
attributes:
  check_mode:
    support: full
    details: If the module supports it.
  diff_mode:
    support: full
    details: If the module supports it.
  idempotent:
    support: full
    details: If the module is.
extends_documentation_fragment:
  - drover.compute.attributes
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
