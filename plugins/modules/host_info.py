#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Show hosts with their services, compute nodes and room
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Returns every host of the store with its service (up or down, enabled or disabled, forced down, maintenance), its
    compute nodes and what is there, allocated and reserved.
  - For one host it also returns the rows that Nova shows of a host, which are (total), (used_now), (used_max) and one
    per project.
  - Figures of use are what is allocated in the store. Capacity is (total - reserved) x allocation ratio.
options:
  host:
    description:
      - Show this host only, with its rows in RV(resources).
    type: str
  service_down_time:
    description:
      - A service counts as down when its last heartbeat is older than this, in seconds. V(0) does not look at the age;
        then a service is down when the last discovery could not reach it, or when it is forced down.
      - The variable C(drover_service_down_time) sets it too.
    type: int
    default: 0
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
- name: Show the hosts
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read the hosts
      drover.compute.host_info:
      register: fleet

    - name: Show them as a table
      ansible.builtin.debug:
        var: fleet.table
"""

RETURN = r"""
hosts:
  description: The hosts, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    host: {description: Its name in the inventory., type: str, returned: always}
    state: {description: C(up) or C(down)., type: str, returned: always}
    status: {description: C(enabled) or C(disabled)., type: str, returned: always}
    maintenance: {description: Whether it is in maintenance., type: bool, returned: always}
    forced_down: {description: Whether it was forced down., type: bool, returned: always}
    drained: {description: Whether a drain began and no undrain followed., type: bool, returned: always}
    disabled_reason: {description: Why it is disabled., type: str, returned: always}
    down_reason: {description: Why it is down., type: str, returned: always}
    last_seen_up: {description: When discovery last reached it (seconds since 1970)., type: float, returned: always}
    zones: {description: Its availability zones., type: list, elements: str, returned: always}
    instances: {description: How many instances are on it., type: int, returned: always}
    nodes: {description: Its compute nodes with their own figures., type: list, elements: dict, returned: always}
    vcpus: {description: CPUs. With C(_used) and C(_reserved) and C(_capacity) appended likewise., type: int, returned: always}
    memory_mb: {description: Memory in MiB. With the same three suffixes., type: int, returned: always}
    disk_gb: {description: Disk in GiB. With the same three suffixes., type: int, returned: always}
    disk_pool:
      description:
        - The shared pool whose figures those of the disk are, by the name of its resource provider. Every host of the pool shows them,
          so that they must not be added up over hosts. Nodes have it, too.
        - It is null for a disk of its own.
      type: str
      returned: always
resources:
  description: The rows of one host.
  returned: when O(host) is given
  type: list
  elements: dict
  contains:
    host: {description: The host., type: str, returned: always}
    project: {description: "C((total)), C((used_now)), C((used_max)) or the name of a project.", type: str, returned: always}
    vcpus: {description: CPUs., type: int, returned: always}
    memory_mb: {description: Memory in MiB., type: int, returned: always}
    disk_gb: {description: Disk in GiB., type: int, returned: always}
table:
  description: The hosts as lines of a plain text table.
  returned: success
  type: list
  elements: str
"""
