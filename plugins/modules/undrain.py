#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: undrain
short_description: Bring drained hosts back, or a storage pool
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads each host, one after the other, finishes or undoes the open moves of its drain without
    beginning new ones, restores the state that the host had before the drain or evacuation, and
    starts the instances that the drain shut down there, and no others.
  - If a move has no known end, the module still brings the host back. If an instance does not
    start, the others are still started; the task fails and names it, and the next undrain tries
    again.
  - A host that cannot be brought back does not keep the others from it. The task fails in the end
    and names it.
  - With O(pool) it brings a storage pool back instead, which then gets new disks again. The
    reservations from before the drain are restored. Disks that moved stay where they are.
  - It runs on the controller, takes the lease of each host for its turn, and reaches it as a
    delegated task would.
  - The playbook C(drover.compute.undrain) and the task file C(undrain) of the role
    P(drover.compute.drain#role) call this module.
options:
  host:
    description:
      - The host, by its name in the inventory; or several, as a list or as V(kvm1,kvm2). Required
        without O(pool).
      - With O(pool), the hosts of a pool that is not shared. By default all that have it.
    type: list
    elements: str
    default: []
    aliases: [name]
  pool:
    description: A storage pool that was drained, by its name.
    type: str
  timeout:
    description: The time limit for the start of an instance, in seconds.
    type: int
    default: 60
  max_migrations:
    description: The most migrations at a time from the host, of the migrations that its drain left
      open. The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
  shutdown_timeout:
    description:
      - The time limit for the start of an instance that was shut down for its move, in seconds. The
        variable C(drover_shutdown_timeout) sets it too.
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
hosts:
  description: The states of the hosts that are back, each with C(host), C(disabled),
    C(disabled_reason), C(maintenance) and C(forced_down). The result of a failure has it too.
  returned: always
  type: list
  elements: dict
  sample: [{host: kvm1, disabled: false, disabled_reason: null, maintenance: false, forced_down:
    false}]
started:
  description: Instances that the drain had shut down and that now run again, each with C(uuid) and
    C(name).
  returned: always
  type: list
  elements: dict
  sample: [{uuid: 425519c8-859e-488e-96e3-46439d6e2f07, name: web1}]
message:
  description: The new state of each host, in a sentence.
  returned: success
  type: str
  sample: 'kvm1 is as it was before its drain or evacuation: enabled.'
"""
