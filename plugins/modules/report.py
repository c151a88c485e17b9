#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write the content of the store as one HTML page
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Writes one HTML page that needs no other file and loads nothing. It shows hosts, a heat map,
    zones and aggregates, shared pools, instances, migrations over time, decisions of the scheduler
    with their reasons, power actions, and the effect of the loss of a host.
  - It reads only the store. The playbook drover.compute.discover brings the store up to date.
  - The page begins with the age of its data. It has the commands that help with hosts and instances
    that need attention, and a search.
  - Every run writes the page, so its time is always the time of the last run. If nothing but times
    differs, the task reports no change.
  - The file is replaced as a whole. A new file has the mode 0600, because it shows the host of each
    instance. An existing file keeps its mode.
  - It returns a short summary for terminals and job logs.
  - No secret is in the page, and neither is the URL of the store.
options:
  path:
    description: The path of the page on the controller. A relative path begins in the current
      folder.
    type: path
    default: drover-report.html
  fleet:
    description: The name of the fleet, for the headline of the page. The variable C(drover_fleet)
      sets it too.
    type: str
  plans:
    description:
      - Plans to draw as before, moves and after, each RV(ignore:plan) of
        M(drover.compute.plan_drain_info), M(drover.compute.plan_rebalance_info),
        M(drover.compute.plan_rolling_info) or M(drover.compute.plan_home_info).
      - If a plan no longer fits the store, the page has a warning.
    type: list
    elements: dict
    default: []
  policy:
    description: The scheduler's policy, as in the lookup P(drover.compute.schedule#lookup). The
      module counts with it the instances that still fit.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Pages that are too long for Ansible's diff are only named.
  idempotent:
    support: full
seealso:
  - module: drover.compute.host_info
"""

EXAMPLES = r"""
- name: Report
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the report
      drover.compute.report:
        path: fleet.html
        fleet: prod-fra
      register: report

    - name: Show its path
      ansible.builtin.debug:
        msg: "{{ report.summary.hosts }} hosts are in {{ report.path }}"

- name: Draw a plan
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan the drain of a host
      drover.compute.plan_drain_info:
        host: kvm1
      register: drain

    - name: Write the report with it
      drover.compute.report:
        path: drain-kvm1.html
        plans: ["{{ drain.plan }}"]
"""

RETURN = r"""
path:
  description: The absolute path of the page.
  returned: success
  type: str
  sample: /home/you/fleet/drover-report.html
summary:
  description: The figures of the whole fleet, shared pools counted once.
  returned: success
  type: dict
  contains:
    hosts: {description: The number of hosts., type: int, returned: always, sample: 3}
    up: {description: The number of hosts that are up., type: int, returned: always, sample: 3}
    down: {description: The number of hosts that are down., type: int, returned: always, sample: 0}
    maintenance: {description: The number of hosts in maintenance., type: int, returned: always,
      sample: 0}
    disabled: {description: The number of hosts that are disabled and not in maintenance., type:
      int, returned: always, sample: 0}
    instances: {description: The number of instances., type: int, returned: always, sample: 6}
    missing: {description: The number of instances that no host shows any more., type: int,
      returned: always, sample: 0}
    building: {description: The number of instances that are claimed and have no domain yet., type:
      int, returned: always, sample: 0}
    pools: {description: The number of shared pools., type: int, returned: always, sample: 0}
    vcpus: {description: The capacity in CPUs. With the suffix C(_used) the allocated amount., type:
      int, returned: always, sample: 192}
    memory_mb: {description: The same in MiB. With the suffix C(_physical) the real use of the hosts
      that report it., type: int,
      returned: always, sample: 190464}
    disk_gb: {description: The same in GiB., type: int, returned: always, sample: 3000}
table:
  description: A summary as lines of plain text, with the age of the figures, the hosts that need
    attention, the fullest hosts and the newest decisions.
  returned: success
  type: list
  elements: str
  sample: ['3 hosts: 3 up; 6 instances', 'Discovered less than a minute ago (oldest: kvm1, less than
    a minute ago)', 'vCPU: 16 of 192 allocated (8 %)']
"""
