#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_resize
short_description: Give instances another size, and confirm or revert the resize
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Works on one instance after the other; if one fails, the others still follow. It shuts the
    instance down, changes its vCPUs and memory, moves it if necessary, and starts it if it ran
    before. If the instance cannot leave its host, it gets its old size and state back.
  - Until the resize is confirmed or reverted, the instance has the allocations of both sizes. Its
    disk grows only when the resize is confirmed, because a disk is never made smaller. A revert
    restores the old size and host, and keeps the data written in between.
  - It runs on the controller, takes the leases of the hosts, and reaches each host as a delegated
    task would.
  - The next run continues a run that was killed.
  - The role P(drover.compute.instance#role) and the playbook C(drover.compute.instance_resize) call
    this module. M(drover.compute._resize) does a single step.
options:
  ending:
    description: Confirm or revert the resize afterwards. Without a new size, confirm or revert the
      resize of an earlier run.
    type: str
    choices: [confirm, revert]
  host:
    description:
      - The destination. By default an instance stays on its host if the new size fits there beside
        the old one; otherwise the scheduler picks a host.
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.instances
  - drover.compute.migration_options.size
  - drover.compute.migration_options.resize
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
seealso:
  - module: drover.compute.instance_migrate
  - module: drover.compute._resize
"""

EXAMPLES = r"""
- name: Resize an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make it large, and confirm this
      drover.compute.instance_resize:
        instances: [web1]
        flavor: large
        ending: confirm

    - name: Give it more memory, and nothing else
      drover.compute.instance_resize:
        instances: [web1]
        memory_mb: 128MiB
        ending: confirm
"""

RETURN = r"""
resizes:
  description:
    - The result of each resize, with C(migration) (its uuid), C(uuid) and C(name) of the instance,
      C(status) (V(accepted), V(finished) while it waits to be confirmed, V(confirmed) or
      V(reverted)), C(source), C(destination), C(same_host), C(running) (it ran when the resize
      began), C(arrived) (it was seen at its destination with the new size), and the sizes C(old)
      and C(new), each with C(flavor), C(vcpus), C(memory_mb) and C(disk_gb).
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
