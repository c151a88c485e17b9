#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _resize
short_description: The steps of a resize or cold migration of one instance
author:
  - The drover.compute authors (@drover-compute)
description:
  - Each step works on one hypervisor, so delegate it to the host that O(state) names.
    M(drover.compute.instance_resize) runs all steps, takes the leases of the hosts, and moves the
    instance with M(drover.compute._domain_migration) between the steps.
  - The store records the resize before anything is changed. Until the resize is confirmed or
    reverted, the instance has the allocations of both sizes. Each step can be repeated, so the next
    run continues a run that was killed.
options:
  state:
    description:
      - V(begun), at the instance's host, finds the new size and the destination, has the hypervisor
        check them, and records the resize. It continues a resize that is already open.
      - V(left), at the instance's host, shuts the instance down and gives it the new vCPUs and
        memory.
      - V(arrived), at the destination, verifies the instance and its new size, and starts it if it
        ran before. Then the resize waits to be confirmed.
      - V(undone), at the instance's host, restores the old size and starts the instance if it ran
        before. Only before V(arrived).
      - V(confirmed), at the destination, makes its disk larger and frees the allocations of its old
        size.
      - V(leaving_again), at the destination, shuts the instance down and restores the old size.
        Then V(reverted), at the old host, starts it if it ran when the resize began.
      - V(begun) without a new size keeps the size and moves the instance to another host.
      - If no resize is open, every state but V(begun) does nothing.
    type: str
    choices: [begun, left, arrived, undone, confirmed, leaving_again, reverted]
    required: true
  instance:
    description: The instance, a name, a uuid, or a mapping with C(name) and C(uuid).
    type: raw
    required: true
  host:
    description:
      - With O(state=begun), the destination. By default the instance stays on its host if the new
        size fits there beside the old one; otherwise the scheduler picks a host.
    type: str
  options:
    description:
      - The options of its move, as O(drover.compute._migration#module:options). Roles set them from
        the variable C(drover_migration). The options of the instance's policy override them.
        C(order) and C(back) of C(resize) contain them.
    type: dict
    default: {}
  message:
    description: With O(state=undone), the reason, which the store keeps.
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.size
  - drover.compute.migration_options.resize
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
seealso:
  - module: drover.compute.instance_resize
  - module: drover.compute.allocation
  - module: drover.compute.domain
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
