#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: lease
short_description: Be the only run that works on a host
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Takes the lease of a host, so that a second run that drains it, switches its power or evacuates it stops and says who is at work.
  - The roles of this collection take and give back leases by themselves. A task is for one's own playbooks.
  - A lease belongs to one run of ansible-playbook. Taking it again renews it.
  - One whose time is over, or whose run is known to have ended because it was on the same machine, is taken over, and the task says so.
options:
  name:
    description:
      - The host, by its name in the inventory.
    type: str
    required: true
    aliases: [host]
  state:
    description:
      - V(present) takes or renews the lease, V(absent) gives it back.
    type: str
    choices: [present, absent]
    default: present
  purpose:
    description:
      - What is done, for those who find the host taken.
    type: str
    default: work on the host
  seconds:
    description:
      - For how long, in seconds.
    type: int
    default: 300
  force:
    description:
      - With O(state=absent), take away a lease that another run holds. Make sure that that run is dead.
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
        name: kvm1
        purpose: new firmware

    - name: Give it back
      drover.compute.lease:
        name: kvm1
        state: absent
"""

RETURN = r"""
taken:
  description: Whether this task took it; V(false) where the run held it already.
  returned: success
  type: bool
  sample: true
taken_over:
  description: Whose lease was taken over and why; null when nobody's.
  returned: success
  type: str
  sample: kvm1 is being worked on by admin@ctrl, process 4711 (drain), since 900 s, last heard of 400 s ago. Its time is over, so the
    lease was taken over.
"""
