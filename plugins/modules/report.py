#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write what the store holds as one HTML page
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Writes one HTML page that needs no other file and fetches nothing. It shows hosts, a heat map, zones and aggregates, shared pools,
    instances, migrations over time, decisions of the scheduler with their reasons, power actions, and what the loss of a host would do.
  - Figures are those of the store, which the playbook drover.compute.discover brings up to date. No host is asked.
  - The same store gives the same page but for the time in it. A page that would say nothing else is left as it is, with its time.
  - The file is replaced as a whole. A new one can be read by its owner only, as it tells what runs where. One that is there
    keeps its mode.
  - It shows a summary of a few lines, for terminals and job logs.
  - No secret is in the page, and neither is the URL of the store.
options:
  path:
    description: Where to write the page, on the controller. A relative path begins in the current folder.
    type: path
    default: drover-report.html
  plans:
    description:
      - Plans to draw as before, moves and after, each as P(drover.compute.drain_plan#lookup), P(drover.compute.rebalance_plan#lookup),
        P(drover.compute.rolling_plan#lookup) or P(drover.compute.home_plan#lookup) returns one.
      - A plan that no longer fits the store is drawn with a warning.
    type: list
    elements: dict
    default: []
  policy:
    description: How instances are placed, as the lookup P(drover.compute.schedule#lookup) takes it. How many more fit depends on it.
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
      - Pages longer than Ansible shows differences of are only named.
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
      register: report

    - name: Say where it is
      ansible.builtin.debug:
        msg: "{{ report.summary.hosts }} hosts are in {{ report.path }}"

- name: Draw a plan
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the report with the drain of a host
      drover.compute.report:
        path: drain-kvm1.html
        plans:
          - "{{ lookup('drover.compute.drain_plan', 'kvm1') }}"
"""

RETURN = r"""
path:
  description: The absolute path of the page.
  returned: success
  type: str
summary:
  description: The figures of the whole fleet, shared pools counted once.
  returned: success
  type: dict
  contains:
    hosts: {description: How many hosts there are., type: int, returned: always}
    up: {description: How many of them are up., type: int, returned: always}
    down: {description: How many are down., type: int, returned: always}
    maintenance: {description: How many are in maintenance., type: int, returned: always}
    disabled: {description: How many are disabled and not in maintenance., type: int, returned: always}
    instances: {description: How many instances there are., type: int, returned: always}
    missing: {description: How many of them no host shows any more., type: int, returned: always}
    building: {description: How many are claimed and have no domain yet., type: int, returned: always}
    pools: {description: How many shared pools there are., type: int, returned: always}
    vcpus: {description: The capacity in CPUs. With C(_used) appended what is allocated., type: int, returned: always}
    memory_mb: {description: The same in MiB. With C(_physical) appended what is in use on the hosts that told it., type: int, returned: always}
    disk_gb: {description: The same in GiB., type: int, returned: always}
table:
  description: A summary as lines of plain text, with the hosts that need a look, the fullest ones and the newest decisions.
  returned: success
  type: list
  elements: str
"""
