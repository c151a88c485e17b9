#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: history_info
short_description: Show the history of runs
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Returns the actions of runs, the newest first, each with the user, the controller, the command
    and the reason, in AWX also the job and the user who launched it.
  - Recorded are the work on hosts (C(run)), decisions of the scheduler, claims and releases of
    room, orders to hypervisors, changes of instances, moves, power actions, and changes of hosts.
    The newest 100,000 rows are kept.
  - For the variables of a command the store has only the names, and the values of variables that
    are not secret, such as C(drover_host). Users and passwords in addresses are masked.
options:
  instances:
    description: Only these instances, by name or uuid; also removed ones.
    type: list
    elements: str
    default: []
  host:
    description: Only this host, also as the destination of a move.
    type: str
  day:
    description: Only this day in UTC, such as V(2026-11-27).
    type: str
  rows:
    description: At most so many rows.
    type: int
    default: 50
extends_documentation_fragment:
  - drover.compute.scheduler.show
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
- name: Show what was done with one instance
  drover.compute.history_info:
    instances: [web1]
    show: true

- name: Find out what was done on a host on one day
  drover.compute.history_info:
    host: kvm1
    day: "2026-11-27"
  register: done
"""

RETURN = r"""
actions:
  description: The actions, the newest first.
  returned: success
  type: list
  elements: dict
  contains:
    created_at:
      description: Time, seconds since 1970; C(created_at_iso) is the same in UTC.
      returned: always
      type: float
      sample: 1764230400.0
    kind:
      description:
        - V(run) (work on a host), V(decision) (of the scheduler), V(claim) and V(release) (of
          room), V(order) (to a hypervisor), V(instance), V(move), V(power) or V(host).
      returned: always
      type: str
      sample: move
    message:
      description: What was done.
      returned: always
      type: str
      sample: "live-migration: completed"
    instance_uuid:
      description: Uuid of the instance; null if there is none.
      returned: always
      type: str
      sample: 4b20d080-1b54-4048-85b3-a6a62d165c01
    instance_name:
      description: Name of the instance at that time; null if there is none.
      returned: always
      type: str
      sample: web1
    host:
      description: Host; of a move the source; null if there is none.
      returned: always
      type: str
      sample: kvm1
    destination:
      description: Destination of a move, else null.
      returned: always
      type: str
      sample: kvm2
    user:
      description: User on the controller, and who became that user by sudo.
      returned: always
      type: str
      sample: alice as root
    controller:
      description: Machine that ran ansible-playbook; in AWX the container.
      returned: always
      type: str
      sample: ctl01
    command:
      description: The command, without words that may be a secret.
      returned: always
      type: str
      sample: ansible-playbook drover.compute.drain -e drover_host=kvm1
    reason:
      description: The option C(reason) of the task, else the variable C(drover_reason); empty
        without both.
      returned: always
      type: str
      sample: new memory
    job:
      description:
        - In AWX C(id) and C(template) of the job, how it was C(launched), the C(user) who launched
          it, or the C(schedule), and C(workflow_id), C(workflow), C(workflow_launched),
          C(workflow_schedule), as far as AWX gave them. Else null.
      returned: always
      type: dict
      sample: {id: "42", template: drover-drain, launched: manual, user: alice}
table:
  description: The rows as lines.
  returned: success
  type: list
  elements: str
  sample: ["WHEN              WHAT  INSTANCE  HOST  WHO"]
"""
