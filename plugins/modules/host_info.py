#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Show hosts with their services, compute nodes and capacity
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Returns every host of the store with its service (up or down, enabled or disabled, forced down,
    maintenance), its compute nodes and their total, allocated and reserved amounts.
  - For one host it also returns the rows that Nova shows of a host, which are (total), (used_now),
    (used_max) and one for each project.
  - Figures of use are the allocations in the store. Capacity is (total - reserved) x allocation
    ratio.
options:
  host:
    description:
      - Show this host only, with its rows in RV(resources).
    type: str
    aliases: [name]
  selector:
    description:
      - Show the hosts with these labels only, such as V(rack=7,!old). A comma means and. V(rack!=7)
        and V(!old) are also met by hosts without that label. The variable C(drover_labels) of each
        host sets its labels, see M(drover.compute.compute_node).
      - Not together with O(host).
    type: str
  capacity:
    description:
      - With V(false) the module reads only the states of the services. RV(resources) and, in
        RV(hosts), everything from C(zones) on are left out.
      - Use this to find a host, or to see if it is disabled; it takes the same time in a fleet of
        any size.
    type: bool
    default: true
  service_down_time:
    description:
      - A service counts as down if its last heartbeat is older than this, in seconds. With V(0) the
        age does not count; then a service is down if the last discovery could not reach it, or if
        it is forced down.
      - The variable C(drover_service_down_time) sets it too.
    type: int
    default: 0
extends_documentation_fragment:
  - drover.compute.scheduler.show
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
    - name: Show them as a table
      drover.compute.host_info:
        show: true
      register: fleet
"""

RETURN = r"""
hosts:
  description: The hosts, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    host: {description: Its name in the inventory., type: str, returned: always, sample: kvm1}
    state: {description: "C(up), C(down), or C(unreported) if the host reports none of its compute
      nodes any more.", type: str,
      returned: always, sample: up}
    status: {description: C(enabled) or C(disabled)., type: str, returned: always, sample: enabled}
    maintenance: {description: True if it is in maintenance., type: bool, returned: always, sample:
      false}
    forced_down: {description: True if it was forced down., type: bool, returned: always, sample:
      false}
    drained: {description: True if a drain began and no undrain followed., type: bool, returned:
      always, sample: false}
    disabled_reason: {description: Why it is disabled., type: str, returned: always, sample: new
      fan}
    down_reason: {description: Why it is down., type: str, returned: always,
      sample: 'last seen 600 s ago, more than service_down_time (60 s)'}
    last_seen_up: {description: When discovery last reached it (seconds since 1970)., type: float,
      returned: always, sample: 1795337314.2}
    last_seen_up_iso: {description: "The same time in ISO 8601, or null.", type: str, returned:
      always, sample: "2026-11-22T08:48:34Z"}
    labels: {description: Its labels., type: dict, returned: always, sample: {rack: "7"}}
    zones: {description: Its availability zones., type: list, elements: str, returned:
      O(capacity=true), sample: [az1]}
    instances: {description: The number of instances on it., type: int, returned: O(capacity=true),
      sample: 1}
    nodes: {description: Its compute nodes with their own figures., type: list, elements: dict,
      returned: O(capacity=true),
      sample: [{node: kvm1, uri: 'qemu:///system', reported: true, hypervisor_type: QEMU, instances:
        2, vcpus: 16, vcpus_used: 2,
      vcpus_capacity: 64, vcpus_free: 62}]}
    vcpus:
      description:
        - The CPUs of the host. With the suffix C(_reserved) the amount that instances may not have,
          with C(_capacity) the amount that instances may have, which is (total - reserved) x
          allocation ratio, with C(_used) and C(_free) the allocated and the free part of it.
        - The inventory plugin P(drover.compute.fleet#inventory) gives the figures the same names.
      type: int
      returned: O(capacity=true)
      sample: 16
    memory_mb: {description: Memory in MiB. With the same four suffixes., type: int, returned:
      O(capacity=true), sample: 65536}
    disk_gb: {description: Disk in GiB. With the same four suffixes., type: int, returned:
      O(capacity=true), sample: 500}
    disk_pool:
      description:
        - The name of the resource provider of the shared pool, if the disk is in one. Every host of
          the pool shows the figures of the pool, so do not add them up over hosts. Nodes have it,
          too.
        - It is null for a host's own disk.
      type: str
      returned: O(capacity=true)
      sample: san
resources:
  description: The rows of one host.
  returned: when O(host) is given and O(capacity=true)
  type: list
  elements: dict
  contains:
    host: {description: The host., type: str, returned: always, sample: kvm1}
    project: {description: "C((total)), C((used_now)), C((used_max)) or the name of a project.",
      type: str, returned: always,
      sample: (total)}
    vcpus: {description: CPUs., type: int, returned: always, sample: 16}
    memory_mb: {description: Memory in MiB., type: int, returned: always, sample: 65536}
    disk_gb: {description: Disk in GiB., type: int, returned: always, sample: 500}
storage_pools:
  description: The storage pools of one host that C(drover_storage_pools) names.
  returned: when O(host) is given and O(capacity=true)
  type: list
  elements: dict
  contains:
    name: {description: The name of the pool in libvirt., type: str, returned: always, sample: fast}
    node: {description: The compute node., type: str, returned: always, sample: kvm1}
    type: {description: The type of the pool in libvirt., type: str, returned: always, sample: dir}
    state: {description: "Its state in libvirt, such as C(running).", type: str, returned: always,
      sample: running}
    drained: {description: True if it is drained and gets nothing new., type: bool, returned:
      always, sample: false}
    shared: {description: True if other hosts may reach it., type: bool, returned: always, sample:
      false}
    resource_class: {description: The resource class of its space., type: str, returned: always,
      sample: CUSTOM_DISK_GB_FAST}
    traits: {description: Its traits., type: list, elements: str, returned: always, sample:
      [STORAGE_DISK_SSD]}
    total_gb: {description: Its size in GiB., type: int, returned: always, sample: 1000}
    reserved_gb: {description: GiB that instances do not get., type: int, returned: always, sample:
      50}
    capacity_gb: {description: "GiB that may be promised, (total - reserved) x allocation ratio.",
      type: int, returned: always,
      sample: 1425}
    used_gb: {description: GiB that are promised to instances., type: int, returned: always, sample:
      500}
    physical_used_gb: {description: GiB that the storage itself has in use., type: float, returned:
      always, sample: 123.4}
table:
  description: The hosts as lines of a plain text table. O(show) shows them with as many columns as
    the terminal has room for.
  returned: success
  type: list
  elements: str
  sample: [HOST  STATE  VCPU       MEMORY           DISK               INSTANCES  SEEN,
    'kvm1  up     10/64 15%  20/62 GiB 32%  260/1,000 GiB 26%          3  just now']
"""
