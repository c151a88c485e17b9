#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_info
short_description: Show instances and their hosts
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Returns the instances of the store, all of them or only those of a host, name, uuid, state or
    project.
options:
  host:
    description: Only instances on this host. A host that is not in the store is refused.
    type: str
  name:
    description: Only instances of this name.
    type: str
  uuid:
    description: Only the instance of this uuid.
    type: str
  instances:
    description:
      - Only these instances, in this order. Each is a name, a uuid, or a mapping with C(name) and
        C(uuid), which must agree.
      - An instance that is not in the store, or a name of several instances, is an error.
    type: list
    elements: raw
  allow_unknown:
    description: Only list O(instances) that are not in the store, in RV(unknown), instead of an
      error.
    type: bool
    default: false
  state:
    description: Only instances in this state. All but V(building) and V(missing) are libvirt's.
    type: str
    choices: [nostate, running, blocked, paused, shutdown, shutoff, crashed, pmsuspended, building,
      missing]
  project:
    description: Only instances of this project.
    type: str
  selector:
    description:
      - Only instances with these labels, such as V(project=web,tier!=db,backup,!old). A comma means
        and. V(tier!=db) and V(!old) are also met by instances without that label.
      - Not together with O(name), O(uuid) or O(instances).
    type: str
extends_documentation_fragment:
  - drover.compute.scheduler.show
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
- name: Show the instances of one host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Show the instances of kvm1 as a table
      drover.compute.instance_info:
        host: kvm1
        show: true
      register: here

    - name: Read those with two labels
      drover.compute.instance_info:
        selector: project=web,tier!=db
      register: web
"""

RETURN = r"""
instances:
  description: The instances, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid of the instance and of its domain., type: str, returned: always,
      sample: 4678f48e-9e6e-53d3-9c13-dbd66056a5d1}
    name: {description: Its name., type: str, returned: always, sample: web}
    host: {description: The host it is on., type: str, returned: always, sample: kvm1}
    node: {description: The compute node it is on., type: str, returned: always, sample: kvm1}
    state: {description: "The state of its domain, or C(building) or C(missing).", type: str,
      returned: always, sample: running}
    vcpus: {description: Its CPUs., type: int, returned: always, sample: 1}
    memory_mb: {description: Its memory in MiB., type: int, returned: always, sample: 64}
    disk_gb: {description: Its disks in GiB., type: int, returned: always, sample: 1}
    server_group: {description: Its server group., type: str, returned: always, sample: web}
    availability_zone: {description: The requested zone., type: str, returned: always, sample: az1}
    project: {description: Its project., type: str, returned: always, sample: shop}
    labels: {description: Its labels., type: dict, returned: always, sample: {project: web, tier:
      db}}
    user: {description: Its user., type: str, returned: always, sample: ann}
    addresses:
      description: Its addresses at the last discovery, the first interface first. drover knows only
        addresses that libvirt's networks gave.
      type: list
      elements: str
      returned: always
      sample: [192.168.122.17]
    autostart: {description: True if its domain starts with its host., type: bool, returned: always,
      sample: false}
    uri: {description: The libvirt URI of its compute node., type: str, returned: with O(instances),
      sample: 'qemu:///system'}
    flavor: {description: Its flavor., type: str, returned: with O(instances), sample: large}
    nodes: {description: All compute nodes that showed its domain at their last discovery., type:
      list, elements: str,
      returned: with O(instances), sample: [kvm1]}
    asked: {description: "Its C(uuid), and its C(name) if O(instances) named it.", type: dict,
      returned: with O(instances),
      sample: {uuid: 4678f48e-9e6e-53d3-9c13-dbd66056a5d1, name: web}}
    migration:
      description:
        - The migration that holds allocations for it, with C(uuid), C(type), C(status), C(source)
          and C(destination); null if there is none.
      type: dict
      returned: with O(instances)
      sample: {uuid: 70fc4cfe-2359-43d2-8279-c613dede1731, type: live-migration, status: running,
        source: kvm1, destination: kvm3}
    migrations:
      description:
        - Its five newest migrations, the newest first, with C(uuid), C(type), C(status), C(source),
          C(destination), C(message), C(created_at) and C(updated_at) (seconds since 1970),
          C(created_at_iso) and C(updated_at_iso).
      type: list
      elements: dict
      returned: with O(instances)
      sample: [{uuid: 70fc4cfe-2359-43d2-8279-c613dede1731, type: live-migration, status: completed,
        source: kvm1, destination: kvm3,
        message: null, created_at: 1795337314.2, updated_at: 1795337316.1, created_at_iso:
          '2026-11-22T08:48:34Z',
        updated_at_iso: '2026-11-22T08:48:36Z'}]
    request: {description: "The request for P(drover.compute.schedule#lookup) to find another host
      for it.", type: dict,
      returned: with O(instances), sample: {name: web, uuid: 4678f48e-9e6e-53d3-9c13-dbd66056a5d1,
        vcpus: 1, memory_mb: 64, disk_gb: 0}}
    moves_cold: {description: "True if it runs, and its policy requires a shutdown for a
      migration.", type: bool,
      returned: with O(instances), sample: true}
    kept_by_policy: {description: "Why its policy forbids a move, null if it allows it.", type: str,
      returned: with O(instances),
      sample: its migration policy is 'never'}
unknown:
  description: The O(instances) that are not in the store.
  returned: success
  type: list
  elements: str
  sample: [web9]
table:
  description: The instances as lines of a plain text table. O(show) shows them with as many columns
    as the terminal has room for.
  returned: success
  type: list
  elements: str
  sample: [INSTANCE  STATE    HOST  VCPU  MEMORY   DISK  GROUP  PROJECT, web       running  kvm1     1  64 MiB  0 GiB  -      -]
lines:
  description: Each of O(instances) as lines of text, with the command that opens its console, and
    its newest migrations.
  returned: with O(instances)
  type: list
  elements: str
  sample: [web (4678f48e-9e6e-53d3-9c13-dbd66056a5d1), '  state          running on kvm1 (seen just
    now)', '  addresses      none known', '  console        -', '  size           1 vCPU, 64 MiB
    memory, 1 GiB disk', '  server group   -', '  zone           -', '  project, user  -', '  definition     -', '  autostart      no']
"""
