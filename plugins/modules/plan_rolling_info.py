#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_rolling_info
short_description: Plan batches of hosts that can be down together
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Forms the fewest batches that it finds of hosts that can be down together. All instances of a
    batch then fit on the other hosts.
  - Hosts that cannot be emptied are in no batch and are named with the reason.
  - It reads the store and changes nothing. A failure is one sentence.
options:
  hosts:
    description: The hosts of the maintenance. By default all hosts of the store.
    type: list
    elements: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.plans.rolling
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
- name: Plan a maintenance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Form the batches, and show them
      drover.compute.plan_rolling_info:
        spare_hosts: 1
        show: true
"""

RETURN = r"""
plan:
  description: The plan.
  returned: success
  type: dict
  contains:
    batches: {description: "The batches in their order, each a list of hosts.", type: list,
      elements: list, returned: always,
      sample: [[kvm1, kvm2], [kvm3]]}
    blocked:
      description: Hosts that are in no batch.
      type: list
      elements: dict
      returned: always
      contains:
        host: {description: The host., type: str, returned: always, sample: kvm4}
        reason: {description: Why it is in no batch., type: str, returned: always, sample: db1
          cannot move}
    down:
      description: Hosts of the batches that are down, each with C(host) and C(reason).
      type: list
      elements: dict
      returned: always
      sample: [{host: kvm2, reason: no route to host}]
    bound: {description: No plan can have fewer batches than this., type: int, returned: always,
      sample: 2}
    lines:
      description: The plan as lines of text for people.
      type: list
      elements: str
      returned: always
      sample: ["3 hosts in 2 batches.", "  1. kvm1, kvm2", "  2. kvm3"]
"""
