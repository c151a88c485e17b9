#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_migrate
short_description: Move instances to other hosts
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - First it ends the open migrations of these instances. Then it finds a destination for each
    instance, all as one batch. If an instance has no destination, the module moves none.
  - Running and paused instances move live, the others cold, host after host. If O(cold) is true or
    the policy requires it, a running instance is shut down, moved and started, one instance after
    the other. If one fails, the others still follow.
  - The module refuses an instance with the policy never, and an instance with the policy live if
    the move would be cold.
  - It runs on the controller, takes the leases of the hosts, and reaches each host as a delegated
    task would.
  - The next run finishes a run that was killed.
  - The role P(drover.compute.instance#role) and the playbook C(drover.compute.instance_migrate)
    call this module.
options:
  host:
    description: The destination, which must have the capacity. By default the scheduler picks one
      for each instance.
    type: str
  cold:
    description: Shut down running instances, and start them at the destination.
    type: bool
    default: false
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.instances
  - drover.compute.migration_options.resize
  - drover.compute.migration_options.limits
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details:
      - It shows the instances that are shut down for their move.
  idempotent:
    support: partial
    details:
      - Without O(host) the instances move each time.
seealso:
  - module: drover.compute.instance_resize
  - module: drover.compute._migration
"""

EXAMPLES = r"""
- name: Move an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Move web1 to kvm2
      drover.compute.instance_migrate:
        instances: [web1]
        host: kvm2
"""

RETURN = r"""
migrations:
  description:
    - The result of each move, with C(uuid) and C(name) of the instance, C(source), C(destination),
      C(provider) (the uuid of the resource provider there), C(status) (V(completed), V(failed),
      V(cancelled), V(conflict) or V(lost)), C(message) (mostly the cause of a failure), C(storage)
      (V(shared), V(copied) or V(none)), C(elapsed_s) (its seconds) and C(ignores_shutdown) (true if
      the guest did not shut down for its move).
    - The result of a failure has it too, in short.
  returned: always
  type: list
  elements: dict
  sample: [{uuid: 0f389330-8dd4-4aa0-b19c-de3c8ae435a9, name: web1, source: kvm1, destination: kvm2,
    provider: 17d76cca-506d-409a-9722-2994c91f5be9, status: completed, message: '', storage: shared,
      elapsed_s: 1.5, ignores_shutdown: false}]
resizes:
  description:
    - The result of each instance that was shut down for its move, with C(migration) (its uuid),
      C(uuid) and C(name) of the instance, C(status) (V(accepted), V(finished) while it waits to be
      confirmed, V(confirmed) or V(reverted)), C(source), C(destination), C(same_host), C(running)
      (it ran when the resize began), C(arrived) (it was seen at its destination with the new size),
      and the sizes C(old) and C(new), each with C(flavor), C(vcpus), C(memory_mb) and C(disk_gb).
    - The result of a failure has it too, in short.
  returned: always
  type: list
  elements: dict
  sample: [{migration: 70fc4cfe-2359-43d2-8279-c613dede1731, uuid:
    a611f76b-1b2f-4e31-b9e7-ddc9a6c00076, name: web1, status: confirmed,
    source: kvm1, destination: kvm1, same_host: true, running: true, old: {flavor: null, vcpus: 1,
      memory_mb: 64, disk_gb: 1},
    new: {flavor: large, vcpus: 2, memory_mb: 96, disk_gb: 1}}]
"""
