#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: metrics
short_description: Write the figures of the fleet as OpenMetrics
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Writes the figures of the store for Prometheus. These are hosts by state, capacity by resource
    class, zone and project, instances by state, the age of the facts, hosts that the others cannot
    replace, moves, decisions of the scheduler, and findings of the audit.
  - It reads only the store. The playbook drover.compute.discover brings the store up to date.
  - All metrics are gauges, so that the textfile collector of node_exporter and the Pushgateway can
    read the text too.
  - The file is replaced as a whole. A new file has the mode 0644. An existing file keeps its mode.
    If nothing but the time of the figures differs, the task reports no change.
options:
  path:
    description:
      - The path of the file on the controller. A relative path begins in the current folder. The
        textfile collector reads files with names that end with C(.prom).
      - Without it no file is written.
    type: path
  policy:
    description: The scheduler's policy, as in the lookup P(drover.compute.schedule#lookup). It
      decides where the instances of a lost host could go.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
requirements:
  - prometheus_client
seealso:
  - module: drover.compute.report
"""

EXAMPLES = r"""
- name: Metrics
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the metrics
      drover.compute.metrics:
        path: drover.prom
      register: metrics

    - name: Show where they are
      ansible.builtin.debug:
        msg: "{{ metrics.path }}"
"""

RETURN = r"""
path:
  description: The absolute path of the file; null without one.
  returned: success
  type: str
  sample: /var/lib/prometheus/node-exporter/drover.prom
metrics:
  description: The metrics as text.
  returned: success
  type: str
  sample: "# HELP drover_hosts Hosts by state.\n# TYPE drover_hosts
    gauge\ndrover_hosts{state=\"up\"} 3.0\n# EOF\n"
"""
