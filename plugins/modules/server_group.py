#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: server_group
short_description: Create or delete a server group
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - The instances of a server group must be on one host (affinity) or on different hosts
    (anti-affinity). The soft policies are preferences for the scheduler's weighers.
  - An instance joins a group when it is placed and cannot leave it. The policy of a group cannot
    change.
options:
  name:
    description: The name of the group.
    type: str
    required: true
  state:
    description:
      - V(absent) deletes the group, which must have no members.
    type: str
    choices: [present, absent]
    default: present
  policy:
    description:
      - Required with O(state=present).
    type: str
    choices: [affinity, anti-affinity, soft-affinity, soft-anti-affinity]
  max_server_per_host:
    description:
      - The number of members that one host may have, by default 1. Only with
        O(policy=anti-affinity).
    type: int
  max_moving:
    description:
      - The number of members that may move at the same time, over all runs. Further moves wait.
      - Unlike the policy it may change. V(0) removes the limit; without this option it does not
        change.
    type: int
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
- name: Keep the web servers apart
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create the server group
      drover.compute.server_group:
        name: web
        policy: anti-affinity
        max_moving: 1
"""

RETURN = r"""
server_group:
  description: The group.
  returned: when O(state=present)
  type: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always, sample:
      4d792177-a572-4313-922a-3c603010f18c}
    name: {description: Its name., type: str, returned: always, sample: web}
    policy: {description: Its policy., type: str, returned: always, sample: anti-affinity}
    max_server_per_host: {description: The number of members that one host may have., type: int,
      returned: always, sample: 2}
    max_moving: {description: The number of members that may move at the same time., type: int,
      returned: always, sample: 1}
"""
