#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _rolling_host
short_description: The record of a rolling maintenance
author:
  - The drover.compute authors (@drover-compute)
description:
  - Writes and reads the record of a rolling maintenance, that is the step begun last on each host.
    From it the next run continues a run that was stopped or killed. It changes no host.
  - Without O(hosts) it returns the record.
options:
  hosts:
    description: The hosts to record. With O(state=absent), no host means all hosts.
    type: list
    elements: str
    default: []
  state:
    description: V(absent) removes hosts from the record.
    type: str
    choices: [present, absent]
    default: present
  stage:
    description: The step that begins now. A host is recorded as V(waiting) first.
    type: str
    choices: [waiting, before_drain, drain, after_drain, reboot, after_reboot, enable, after_enable,
      back, done]
  boot_id:
    description: The boot id of the host before its reboot. An empty text deletes it.
    type: str
  instances:
    description: The instances on the host before its drain, each with C(uuid), C(host) and C(node).
    type: list
    elements: dict
  message:
    description: The failure. An empty text deletes it.
    type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
