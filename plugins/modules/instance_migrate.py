#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_migrate
short_description: Move instances to other hosts
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Ends what an earlier run left open of these instances, and finds a destination for each, all of them as one batch. Where that cannot be
    done nothing is moved.
  - Those that run or are paused move live, those that are off move cold, host after host. With O(cold), or where their policy says so, those
    that run are shut down, moved and started, one after the other. One that fails stops no other.
  - One whose policy says never is refused, and so is one that is off, or would be shut down, though it says live.
  - It runs on the controller, takes the leases of the hosts and reaches each as the inventory says, as a task does that is delegated to it.
  - A run that was killed is finished by the next one.
  - The role P(drover.compute.instance#role) and the playbook C(drover.compute.instance_migrate) are made of it.
options:
  host:
    description: The host to take, which must have the room; by default the scheduler picks one for each.
    type: str
  cold:
    description: Shut down those that run, and start them at the destination.
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
      - It shows those that are shut down for their move.
  idempotent:
    support: partial
    details:
      - Without O(host) they move each time.
seealso:
  - module: drover.compute.instance_resize
  - module: drover.compute.migration
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
  description: What became of each move, as RV(drover.compute.migration#module:migrations). It is in the result of a failure too.
  returned: always
  type: list
  elements: dict
resizes:
  description: What became of those that were shut down for their move, as RV(drover.compute.resize#module:resize). It is in the result of a
    failure too.
  returned: always
  type: list
  elements: dict
"""
