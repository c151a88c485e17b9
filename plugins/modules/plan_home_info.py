#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_home_info
short_description: Plan the moves back after maintenance
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Lists moves that bring instances back to their earlier compute nodes, as far as these have enough free capacity now. The plan names
    the instances that stay where they are, and why.
  - It reads the store and changes nothing. A failure is one sentence.
  - The lookup P(drover.compute.home_plan#lookup) gives the same answer in templates.
options:
  instances:
    description:
      - The earlier compute node of each instance, with C(uuid), C(host) and C(node), as M(drover.compute.instance_info) returns them.
      - Instances that are already there, or gone, are left out of the plan.
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.plans.home
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.plan_rolling_info
  - plugin: drover.compute.home_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Record where the instances are, to bring them back later
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read the instances
      drover.compute.instance_info:
      register: found

    - name: Plan the moves back, and show the plan
      drover.compute.plan_home_info:
        instances: "{{ found.instances }}"
        show: true
"""

RETURN = r"""
plan:
  description: The plan, with the keys of a plan of P(drover.compute.home_plan#lookup).
  returned: success
  type: dict
  contains:
    moves:
      description: The moves in the order in which to begin them. These are the most used keys.
      type: list
      elements: dict
      returned: always
      contains:
        uuid: {description: The uuid of the instance., type: str, returned: always, sample: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
        name: {description: Its name., type: str, returned: always, sample: web1}
        from_host: {description: Its host now., type: str, returned: always, sample: kvm2}
        host: {description: Its earlier host., type: str, returned: always, sample: kvm1}
    staying:
      description: Instances that are not moved back.
      type: list
      elements: dict
      returned: always
      contains:
        name: {description: The name of the instance., type: str, returned: always, sample: web2}
        reason: {description: Why it stays., type: str, returned: always, sample: there is no room}
    seconds: {description: The expected duration in seconds., type: float, returned: always, sample: 12.0}
    waves: {description: The number of waves., type: int, returned: always, sample: 1}
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always, sample: ["No move home."]}
"""
