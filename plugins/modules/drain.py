#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Empty a living host by migration
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Reads the host, settles what an earlier run left open, plans all moves as one batch, has the hypervisors check them, and shows the plan.
    Then it disables the host, moves the instances, shuts down those that are to be shut down, sees by what the host shows that it is
    empty, and sets it to maintenance.
  - A move that fails leaves its instance where it is; it is planned anew, to another host.
  - It runs on the controller and reaches each hypervisor as the inventory says, as a task does that is delegated to it. One lease keeps other
    runs off the host for as long as it works.
  - A run that was killed is finished by the next one.
  - The role P(drover.compute.drain#role) and the playbook C(drover.compute.drain) are made of it.
options:
  host:
    description: The host to empty, by its name in the inventory.
    type: str
    required: true
  reason:
    description: Why, for those who look later.
    type: str
    default: drained by drover.compute
  unmovable:
    description:
      - What to do about instances that cannot move. V(fail) stops before anything is changed. V(skip) leaves them running; the host
        then stays disabled and does not go into maintenance. V(shutdown) shuts them down in good order once the others have moved.
    type: str
    choices: [fail, skip, shutdown]
    default: fail
  rounds:
    description: How many times to plan and move before giving up. A later round is only needed after a failure.
    type: int
    default: 3
  extra_moves:
    description:
      - How many instances of other hosts may move to make room, where the host cannot be emptied without that.
      - The variable C(drover_extra_moves) sets it too.
    type: int
    default: 0
attributes:
  check_mode:
    support: full
    details:
      - Reads the host and shows the plan.
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.drain
  - drover.compute.migration_options.limits
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - plugin: drover.compute.drain_plan
    plugin_type: lookup
  - module: drover.compute.migration
"""

EXAMPLES = r"""
- name: Empty a host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Show what would be done
      drover.compute.drain:
        host: kvm1
        plan_only: true

    - name: Empty kvm1
      drover.compute.drain:
        host: kvm1
        reason: new kernel
      register: drained

    - name: Say what became of it
      ansible.builtin.debug:
        msg: "{{ drained.message }}"
"""

RETURN = r"""
plan:
  description: The last plan, as the lookup P(drover.compute.drain_plan#lookup) gives it. It is in the result of a failure too, where there was one.
  returned: always
  type: dict
migrations:
  description: What became of each move, as RV(drover.compute.migration#module:migrations).
  returned: always
  type: list
  elements: dict
shut_down:
  description: Instances that were shut down, each with C(uuid) and C(name).
  returned: always
  type: list
  elements: dict
staying:
  description: Instances that cannot move, each with C(uuid), C(name) and C(reason).
  returned: always
  type: list
  elements: dict
message:
  description: What became of the host, in a sentence.
  returned: always
  type: str
"""
