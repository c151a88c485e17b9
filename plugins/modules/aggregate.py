#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: aggregate
short_description: Create, change or delete a host aggregate
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - An aggregate is a group of hosts with keys and values that host filters and weighers read. The
    key C(availability_zone) makes it a zone.
  - A host is in at most one zone. Its zone cannot change while it has instances that were placed by
    zone.
options:
  name:
    description: The name of the aggregate.
    type: str
    required: true
  state:
    description:
      - V(absent) deletes the aggregate, which must have no hosts.
    type: str
    choices: [present, absent]
    default: present
  metadata:
    description:
      - Keys and values to set. A key with the value null is deleted. Other keys stay.
    type: dict
  hosts:
    description: Hosts to add. Other hosts stay.
    type: list
    elements: str
  remove_hosts:
    description: Hosts to remove.
    type: list
    elements: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
- name: Group the hosts with fast disks
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create the aggregate
      drover.compute.aggregate:
        name: fast
        metadata: {ssd: "true", ram_weight_multiplier: "-1.0"}
        hosts: [kvm1, kvm2]

    - name: Delete one key again
      drover.compute.aggregate:
        name: fast
        metadata: {ram_weight_multiplier: null}
"""

RETURN = r"""
aggregate:
  description: The aggregate.
  returned: when O(state=present)
  type: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always, sample:
      c825a738-03d0-4229-91a8-5f066266c3f1}
    name: {description: Its name., type: str, returned: always, sample: fast}
    metadata: {description: Its keys and values., type: dict, returned: always, sample: {ssd:
      'true'}}
    hosts: {description: "Its hosts, sorted.", type: list, elements: str, returned: always, sample:
      [kvm1, kvm2]}
"""
