#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_drain_info
short_description: Plan how to empty one host or several
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Finds a destination for every instance of the hosts, and names the instances that cannot move, with the reason and a way out.
  - The module M(drover.compute.drain) carries out such a plan. It plans again first.
  - It reads the store and changes nothing. A failure is one sentence.
  - The lookup P(drover.compute.drain_plan#lookup) gives the same answer in templates.
options:
  host:
    description: The host to empty, with all its compute nodes. Several hosts, as a list or as V(kvm1,kvm2), get one plan, in which none of
      them is a destination.
    type: list
    elements: str
    required: true
    aliases: [name]
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.plans.drain
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.drain
  - plugin: drover.compute.drain_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Plan a drain
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan, and show the plan
      drover.compute.plan_drain_info:
        host: kvm1
        show: true
      register: drain

    - name: Stop if the host cannot be emptied
      ansible.builtin.assert:
        that: drain.plan.status == 'ok'
        fail_msg: "{{ drain.plan.unmovable | map(attribute='name') | join(', ') }} cannot move."
"""

RETURN = r"""
plan:
  description: The plan, with the keys of a plan of P(drover.compute.drain_plan#lookup).
  returned: success
  type: dict
  contains:
    host: {description: "The host to empty; several in one text, as V(kvm1, kvm2).", type: str, returned: always, sample: kvm1}
    hosts: {description: The hosts to empty., type: list, elements: str, returned: always, sample: [kvm1]}
    status: {description: "V(ok), V(partial) if some cannot move, V(infeasible) if this is proven.", type: str, returned: always, sample: ok}
    moves:
      description: The moves in the order in which to begin them. These are the most used keys.
      type: list
      elements: dict
      returned: always
      contains:
        uuid: {description: The uuid of the instance., type: str, returned: always, sample: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
        name: {description: Its name., type: str, returned: always, sample: web1}
        live: {description: V(false) for a cold move., type: bool, returned: always, sample: true}
        from_host: {description: Its host., type: str, returned: always, sample: kvm1}
        host: {description: Its destination., type: str, returned: always, sample: kvm2}
        wave: {description: Its wave., type: int, returned: always, sample: 1}
    unmovable:
      description: Instances that cannot move.
      type: list
      elements: dict
      returned: always
      contains:
        name: {description: The name of the instance., type: str, returned: always, sample: db1}
        host: {description: Its host., type: str, returned: always, sample: kvm1}
        reason: {description: Why it cannot move., type: str, returned: always, sample: it has snapshots}
        way_out: {description: The change that would let it move., type: str, returned: always, sample: Delete its snapshots.}
        keep_running: {description: Whether a shutdown would lose something of it., type: bool, returned: always, sample: false}
    seconds: {description: The expected duration in seconds., type: float, returned: always, sample: 42.5}
    waves: {description: The number of waves., type: int, returned: always, sample: 1}
    lines:
      description: The plan as lines of text for people.
      type: list
      elements: str
      returned: always
      sample: ["kvm1 holds no instances; there is nothing to move."]
"""
