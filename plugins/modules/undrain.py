#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: undrain
short_description: Bring a drained host back
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Reads the host, finishes or undoes the moves that its drain left open without beginning any, gives the host the state that it had before
    the drain or evacuation, and starts what the drain shut down there, and nothing else.
  - Where a move cannot be ended the host is brought back all the same. An instance that does not start is named and keeps no other from it;
    the host is back, the task fails, and the next undrain tries again.
  - It runs on the controller, takes the lease of the host and reaches it as the inventory says, as a task does that is delegated to it.
  - The playbook C(drover.compute.undrain) and the task file C(undrain) of the role P(drover.compute.drain#role) are made of it.
options:
  host:
    description: The host, by its name in the inventory.
    type: str
    required: true
  timeout:
    description: How long an instance may take to start, in seconds.
    type: int
    default: 60
  max_migrations:
    description: The most migrations at a time from the host, of those that are under way. The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
  shutdown_timeout:
    description:
      - How long an instance may take to start again that was shut down for its move, in seconds. The variable C(drover_shutdown_timeout) sets
        it too.
    type: int
    default: 300
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
  - module: drover.compute.drain
  - module: drover.compute.host
"""

EXAMPLES = r"""
- name: Bring a host back
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Bring kvm1 back
      drover.compute.undrain:
        host: kvm1
"""

RETURN = r"""
host:
  description: The state of the host, C(disabled), C(disabled_reason), C(maintenance) and C(forced_down). It is in the result of a failure too.
  returned: always
  type: dict
started:
  description: Instances that the drain had shut down and that run again, each with C(uuid) and C(name).
  returned: always
  type: list
  elements: dict
message:
  description: What the host is now, in a sentence.
  returned: success
  type: str
"""
