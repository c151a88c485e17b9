#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: resize
short_description: The steps of a resize or cold migration of one instance
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Each step works on one hypervisor, so delegate it to the host that O(state) names. M(drover.compute.instance_resize) puts them
    together, takes the leases of the hosts, and moves the instance with M(drover.compute.domain_migration) in between.
  - The resize is written into the store before anything is done. While it goes on, and until it is confirmed or reverted, the room of
    both sizes is held. Each step may be taken again, so that a run that was killed is gone on with by the next.
options:
  state:
    description:
      - V(begun), at the instance's host, finds the new size and the place, has the hypervisor look whether it can be done, and writes it
        down. A resize that is open already is gone on with.
      - V(left), at the instance's host, shuts it down and gives it the new vCPUs and memory.
      - V(arrived), at the destination, sees it there with the new size, and starts it if it ran. Then it waits to be confirmed.
      - V(undone), at the instance's host, gives it its old size back there and starts it if it ran. Only before it has V(arrived).
      - V(confirmed), at the destination, makes its disk larger and frees what its old size held.
      - V(leaving_again), at the destination, shuts it down and gives it the old size, and V(reverted), at the host it came from, starts it
        there if it ran when the resize began.
      - All but V(begun) do nothing where no resize is open.
    type: str
    choices: [begun, left, arrived, undone, confirmed, leaving_again, reverted]
    required: true
  instance:
    description: The instance, a name, a uuid, or a mapping with C(name) and C(uuid).
    type: raw
    required: true
  flavor:
    description:
      - With O(state=begun), the flavor that it shall have. Without it the instance keeps its size and goes to another host.
      - A flavor with a smaller disk is refused. One without a disk leaves the disks as they are.
    type: str
  host:
    description:
      - With O(state=begun), the host to take. By default it stays where it is if the new size fits there beside the old one, and else goes
        where the scheduler puts it.
    type: str
  options:
    description:
      - How it is moved, as the option of that name of M(drover.compute.migration) says; roles take it from the variable C(drover_migration).
        The options of its policy are laid over them. They are in C(order) and C(back) of RV(resize).
    type: dict
    default: {}
  message:
    description: With O(state=undone), why, for those who look later.
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.resize
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
seealso:
  - module: drover.compute.instance_resize
  - module: drover.compute.allocation
  - module: drover.compute.domain
"""

EXAMPLES = r"""
- name: Take back the resize of an instance that stayed on its host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Shut it down
      drover.compute.resize:
        state: leaving_again
        instance: web1
      delegate_to: kvm1

    - name: Give it its old size and start it
      drover.compute.resize:
        state: reverted
        instance: web1
      delegate_to: kvm1
"""

RETURN = r"""
resize:
  description: The resize, null where there is nothing to do.
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
    order: {description: What M(drover.compute.domain_migration) takes to move it there., type: dict, returned: always}
    back: {description: What it takes to move it back., type: dict, returned: always}
"""
