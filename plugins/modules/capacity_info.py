#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: capacity_info
short_description: Count how many more instances of a flavor fit
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Counts how many more instances of each flavor, or of a request, fit into the fleet, on each
    compute node and in total. It names the resource class that runs out first, and counts how many
    fit if the worst host is lost and all its instances are restarted on the others (N+1).
  - The counts are not additive. Each is for a fleet that gets only instances of this one size.
  - It reads the store and changes nothing. A failure is one sentence.
  - The lookup P(drover.compute.capacity#lookup) gives the same answer in templates.
options:
  requests:
    description:
      - Names of flavors in the store, or requests as in the lookup
        P(drover.compute.schedule#lookup), with or without C(name).
      - By default all flavors, the smallest first.
    type: list
    elements: raw
  loss:
    description: Also count the loss of a host. V(false) does not read the instances, which is
      faster in a large fleet.
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
  - plugin: drover.compute.capacity
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show what still fits
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Count instances of one size
      drover.compute.capacity_info:
        requests:
          - {vcpus: 2, memory_mb: 2GiB, disk_gb: 20}
        show: true
      register: found

    - name: Stop if fewer than three fit
      ansible.builtin.assert:
        that: found.capacity[0].total >= 3
"""

RETURN = r"""
capacity:
  description: One answer per flavor or request.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: The name of the flavor or request., type: str, returned: always, sample:
      small}
    total: {description: The number of further instances that fit., type: int, returned: always,
      sample: 41}
    short:
      description: The resource class that runs out first on most of the nodes. Null if no node
        passes the host filters.
      type: str
      returned: always
      sample: MEMORY_MB
    hosts:
      description: Each compute node.
      type: list
      elements: dict
      returned: always
      contains:
        host: {description: The host., type: str, returned: always, sample: kvm1}
        node: {description: The compute node., type: str, returned: always, sample: kvm1}
        count: {description: The number of further instances that fit there., type: int, returned:
          always, sample: 14}
        short:
          description: The class that runs out first. Null if the node is rejected.
          type: str
          returned: always
          sample: MEMORY_MB
        rejected_by:
          description: The host filter, or the limit of the request, that rejects the node even if
            it is empty. Null if none does.
          type: str
          returned: always
          sample: ComputeFilter
        reason: {description: "Why it rejects the node, null if it gives no reason.", type: str,
          returned: always,
          sample: "disabled, 'new fan'"}
    with_loss:
      description: The result if the worst host is lost. Null without O(loss), or without any host.
      type: dict
      returned: always
      contains:
        total: {description: "The number that fit then, V(0) if its instances do not fit on the
          others.", type: int, returned: always,
          sample: 27}
        host: {description: The host that leaves the least capacity if it is lost., type: str,
          returned: always, sample: kvm3}
        survives: {description: All its instances fit on the other hosts., type: bool, returned:
          always, sample: true}
growth:
  description:
    - The dates on which resource classes are full, the first one first, by a line through the
      allocated amounts of the last 60 days (least squares). At least 7 of these days must have had
      a discovery. Classes that do not grow, or are full in more than two years, are left out.
  returned: success
  type: list
  elements: dict
  contains:
    zone: {description: The availability zone; empty for shared pools and hosts in none., type: str,
      returned: always, sample: a}
    resource_class: {description: The resource class., type: str, returned: always, sample:
      MEMORY_MB}
    days: {description: The number of days from today on., type: int, returned: always, sample: 43}
    first: {description: "The first day of the line, counted from 1970.", type: int, returned:
      always, sample: 20727}
    last: {description: Its last day., type: int, returned: always, sample: 20782}
    per_day: {description: "The additional allocation per day, in the unit of the class.", type:
      float, returned: always, sample: 12288.0}
lines:
  description: The counts as lines of text for people.
  returned: success
  type: list
  elements: str
  sample: ["SIZE   MORE FIT  RUNS OUT FIRST  IF THE WORST HOST IS LOST", "small        41  memory          27 without kvm3"]
"""
