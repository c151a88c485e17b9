#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: schedule_info
short_description: Pick hosts for instances, with the reasons
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Removes unsuitable hosts by host filters, ranks the others by weighers, and returns a
    destination for each instance with alternates and the reasons. The module claims nothing;
    M(drover.compute.allocation) does that.
  - All requests are one batch. The scheduler places them in the given order, and each counts for
    the next. If one of them fits on no host, the task fails, with the hosts that each host filter
    rejected and the hosts that were closest.
  - It reads the store and changes nothing. A failure is one sentence.
  - The lookup P(drover.compute.schedule#lookup) gives the same answer in templates.
options:
  requests:
    description:
      - Requests as in the lookup P(drover.compute.schedule#lookup). C(name) is required, and
        C(flavor) or C(vcpus) and C(memory_mb).
      - Sizes are numbers, C(memory_mb) in MiB and C(disk_gb) in GiB, or texts such as V(4GiB).
    type: list
    elements: dict
    required: true
  explain:
    description: Return the explanation. Failures are always explained.
    type: bool
    default: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.scheduler.show
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.allocation
  - plugin: drover.compute.schedule
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show where two web servers would go
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Pick hosts
      drover.compute.schedule_info:
        requests:
          - {name: web, vcpus: 2, memory_mb: 4GiB, disk_gb: 20, num_instances: 2}
        show: true
      register: found

    - name: Show the hosts
      ansible.builtin.debug:
        msg: "{{ found.selections | map(attribute='host') | join(', ') }}"
"""

RETURN = r"""
selections:
  description: One selection per instance, in the order of the requests, with the keys of a
    selection of P(drover.compute.schedule#lookup).
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: The name of the instance., type: str, returned: always, sample: web-1}
    uuid: {description: "The uuid of the instance, from the request or new.", type: str, returned:
      always,
      sample: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
    host: {description: The destination., type: str, returned: always, sample: kvm2}
    node: {description: The compute node of that host., type: str, returned: always, sample: kvm2}
    weight: {description: The weight of the host., type: float, returned: always, sample: 2.5}
    resources: {description: Amounts to claim by resource class., type: dict, returned: always,
      sample: {VCPU: 2, MEMORY_MB: 4096, DISK_GB: 20}}
    alternates:
      description: Other hosts of the same cell, best first.
      type: list
      elements: dict
      returned: always
      contains:
        host: {description: The host., type: str, returned: always, sample: kvm3}
        node: {description: The compute node of that host., type: str, returned: always, sample:
          kvm3}
        weight: {description: The weight of the host., type: float, returned: always, sample: 2.1}
    explanation: {description: The host filters and weighers; empty lists with O(explain=false).,
      type: dict, returned: always,
      sample: {hosts: 3}}
lines:
  description: The selections as lines of text for people.
  returned: success
  type: list
  elements: str
  sample: ["INSTANCE  HOST  ELSE", "web-1     kvm2  kvm3"]
"""
