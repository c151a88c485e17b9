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
  - Each step works on one hypervisor, so delegate it to the host that O(state) names. M(drover.compute.instance_resize) runs all steps,
    takes the leases of the hosts, and moves the instance with M(drover.compute._domain_migration) between the steps.
  - The store records the resize before anything is changed. Until the resize is confirmed or reverted, the instance has the allocations of
    both sizes. Each step can be repeated, so the next run continues a run that was killed.
options:
  state:
    description:
      - V(begun), at the instance's host, finds the new size and the destination, has the hypervisor check them, and records the resize. It
        continues a resize that is already open.
      - V(left), at the instance's host, shuts the instance down and gives it the new vCPUs and memory.
      - V(arrived), at the destination, verifies the instance and its new size, and starts it if it ran before. Then the resize waits to be
        confirmed.
      - V(undone), at the instance's host, restores the old size and starts the instance if it ran before. Only before V(arrived).
      - V(confirmed), at the destination, makes its disk larger and frees the allocations of its old size.
      - V(leaving_again), at the destination, shuts the instance down and restores the old size. Then V(reverted), at the old host, starts
        it if it ran when the resize began.
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
      - With O(state=begun), the destination. By default the instance stays on its host if the new size fits there beside the old one;
        otherwise the scheduler picks a host.
    type: str
  options:
    description:
      - The options of its move, as O(drover.compute._migration#module:options). Roles set them from the variable C(drover_migration). The
        options of the instance's policy override them. C(order) and C(back) of RV(resize) contain them.
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
- name: Revert the resize of an instance that stayed on its host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Shut it down
      drover.compute._resize:
        state: leaving_again
        instance: web1
      delegate_to: kvm1

    - name: Give it its old size and start it
      drover.compute._resize:
        state: reverted
        instance: web1
      delegate_to: kvm1
"""

RETURN = r"""
resize:
  description: The resize, null if there is nothing to do.
  returned: success
  type: dict
  contains:
    migration: {description: Its uuid., type: str, returned: always}
    uuid: {description: The uuid of the instance., type: str, returned: always}
    name: {description: Its name., type: str, returned: always}
    status: {description: "C(accepted), C(finished) (it waits to be confirmed), C(confirmed) or C(reverted).", type: str, returned: always}
    source: {description: The host it was on., type: str, returned: always}
    destination: {description: The host it goes to., type: str, returned: always}
    source_uri: {description: The libvirt URI there., type: str, returned: always}
    destination_uri: {description: The libvirt URI there., type: str, returned: always}
    same_host: {description: Whether it stays where it is., type: bool, returned: always}
    running: {description: Whether it ran when the resize began., type: bool, returned: always}
    arrived: {description: Whether it was seen at its destination with the new size., type: bool, returned: always}
    old: {description: "The old C(flavor), C(vcpus), C(memory_mb) and C(disk_gb).", type: dict, returned: always}
    new: {description: The new ones., type: dict, returned: always}
    order: {description: The input of M(drover.compute._domain_migration) to move it there., type: dict, returned: always}
    back: {description: The input to move it back., type: dict, returned: always}
"""
