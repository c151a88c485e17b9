#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: host
short_description: Switch a host on or off for the scheduler
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Enables or disables the service of a host, puts it into maintenance, or forces it down.
  - Nothing is scheduled onto a host that is disabled or down. What runs there goes on running.
options:
  name:
    description:
      - The host, by its name in the inventory.
    type: str
    required: true
    aliases: [host]
  state:
    description:
      - V(enabled) lets instances in again. It also ends maintenance and forgets what a drain remembered.
      - V(disabled) keeps new instances away.
      - V(maintenance) is disabled and marked as in maintenance.
      - V(draining) is disabled, and what the host was before is remembered. Running it again remembers nothing new.
      - V(restored) gives back what V(draining) remembered, and changes nothing when there is nothing remembered. It starts no instance
        but says in RV(to_start) which are to be started; that is remembered until M(drover.compute.instance) has started, stopped or
        removed them there.
    type: str
    choices: [enabled, disabled, maintenance, draining, restored]
  reason:
    description:
      - Why, for those who look later. Only with V(disabled), V(maintenance) and V(draining).
    type: str
  forced_down:
    description:
      - V(true) marks the service as down whatever its heartbeat says. V(false) takes the mark away.
    type: bool
  shuts_down:
    description:
      - The uuids of instances that are about to be shut down for the drain. Those of them that run are remembered, too.
      - Only with V(draining).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Keep new instances off a host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Disable kvm1
      drover.compute.host:
        name: kvm1
        state: disabled
        reason: disk sdb reports errors

    - name: Let instances in again
      drover.compute.host:
        name: kvm1
        state: enabled
"""

RETURN = r"""
host:
  description: The service as it is now.
  returned: success
  type: dict
  contains:
    host: {description: The host., type: str, returned: always}
    disabled: {description: Whether it is disabled., type: bool, returned: always}
    disabled_reason: {description: Why., type: str, returned: always}
    maintenance: {description: Whether it is in maintenance., type: bool, returned: always}
    forced_down: {description: Whether it is forced down., type: bool, returned: always}
to_start:
  description: What was shut down for the drain and is still off on the host, the more important first, each with C(uuid) and C(name).
  returned: with O(state=restored)
  type: list
  elements: dict
"""
