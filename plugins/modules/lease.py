#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: lease
short_description: Reserve a host for one run
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Takes the lease of a host, so that a second run that drains it, switches its power or evacuates
    it stops and names the holder.
  - The roles of this collection take and release leases by themselves. The module is for your own
    playbooks.
  - A lease belongs to one run of ansible-playbook. A second task of the run renews it.
  - The module takes over a lease that has expired, or that a run on the same machine has left, with
    a message.
options:
  host:
    description:
      - The host, by its name in the inventory.
    type: str
    required: true
    aliases: [name]
  state:
    description:
      - V(present) takes or renews the lease, V(absent) releases it.
    type: str
    choices: [present, absent]
    default: present
  purpose:
    description:
      - The purpose of the lease, shown to other runs that need the host.
    type: str
    default: work on the host
  seconds:
    description:
      - The duration of the lease, in seconds.
    type: int
    default: 300
  force:
    description:
      - With O(state=absent), remove the lease of another run. First make sure that this run is
        dead.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Work on a host alone
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Take the lease of kvm1
      drover.compute.lease:
        host: kvm1
        purpose: new firmware

    - name: Release it
      drover.compute.lease:
        host: kvm1
        state: absent
"""

RETURN = r"""
taken:
  description: True if this task took it; V(false) if the run already had it.
  returned: success
  type: bool
  sample: true
taken_over:
  description: The holder of a lease that was taken over, and why; null if none was.
  returned: success
  type: str
  sample: kvm1 is being worked on by admin@ctrl, process 4711 (drain), since 900 s, last heard of
    400 s ago. Its time is over, so the lease was taken over.
"""
