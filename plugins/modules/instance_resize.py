#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_resize
short_description: Give instances another flavor, and confirm or revert that
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Works on one instance after the other; one that fails stops no other. An instance is shut down, gets its new vCPUs and memory, moves if
    it has to, and starts if it ran. What does not leave its host gets its old size and state back there.
  - Until it is confirmed or reverted an instance holds the room of both sizes. Its disk grows when it is confirmed, as a disk is never made
    smaller again; to revert gives exactly the old size and place, and what was written since.
  - It runs on the controller, takes the leases of the hosts and reaches each as the inventory says, as a task does that is delegated to it.
  - A run that was killed is gone on with by the next.
  - The role P(drover.compute.instance#role) and the playbook C(drover.compute.instance_resize) are made of it. M(drover.compute.resize) has
    its steps one by one.
options:
  flavor:
    description:
      - The flavor that they shall have, see M(drover.compute.flavor). One with a smaller disk is refused. One without a disk leaves the disks
        as they are.
    type: str
  ending:
    description: Whether to confirm or to revert the resize afterwards. Without O(flavor), that of an earlier run.
    type: str
    choices: [confirm, revert]
  host:
    description:
      - The host to take. By default an instance stays where it is if the new size fits there beside the old one, and else goes where the
        scheduler puts it.
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.instances
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
  - module: drover.compute.instance_migrate
  - module: drover.compute.resize
"""

EXAMPLES = r"""
- name: Resize an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make it large, and keep that
      drover.compute.instance_resize:
        instances: [web1]
        flavor: large
        ending: confirm
"""

RETURN = r"""
resizes:
  description: What became of each resize, as RV(drover.compute.resize#module:resize). It is in the result of a failure too.
  returned: always
  type: list
  elements: dict
"""
