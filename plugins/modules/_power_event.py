#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _power_event
short_description: Record a power action on a host, before and after
author:
  - The drover.compute authors (@drover-compute)
description:
  - The role drover.compute.power uses this module to record each action in the store before it
    begins, and again with its result. The module switches nothing on or off.
  - Without O(action) and O(uuid) it returns the newest event of the host.
options:
  host:
    description: The host, by its name in the inventory.
    type: str
    required: true
  action:
    description: The action that is about to begin.
    type: str
    choices: [startup, shutdown, reboot, hard_off, cycle, fence]
  driver:
    description: The power driver that does it.
    type: str
  uuid:
    description: The event that has ended, the C(event.uuid) from its begin.
    type: str
  status:
    description: The result.
    type: str
    choices: [completed, failed]
  power_state:
    description: The power state of the host that its driver has reported at the end. A host that is
      V(off) is down from now on.
    type: str
    choices: ['on', 'off', unknown]
  boot_id:
    description: The boot id of the host, if it answers.
    type: str
  message:
    description: The error or the finding.
    type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each call with O(action) is another event.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
