#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance
short_description: Start, stop, reboot or remove instances
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Brings instances of the store to a state, on any host. Run it on localhost.
  - It works host after host, and takes the lease of each. A failure on one host does not stop the
    work on the others.
  - In a play on a hypervisor it works on the instances of that host only, and takes no lease. There
    take the lease first with M(drover.compute.lease).
  - The playbook C(drover.compute.place) creates instances.
options:
  name:
    description: The name of the instance. It is not changed if libvirt has its uuid under another
      name.
    type: str
  uuid:
    description: The uuid of the instance. With O(name), both must agree.
    type: str
  instances:
    description: Several instances. Each is a name, a uuid, or a mapping with C(name) and C(uuid),
      which must agree.
    type: list
    elements: raw
  selector:
    description:
      - Instances with these labels, such as V(project=web,tier!=db,backup,!old). A comma means and.
        V(tier!=db) and V(!old) are also met by instances without that label.
      - Not together with names. A selector that selects none is an error, and so is an excluded key
        that no instance has.
      - With O(state=absent) the task names the instances and fails, and changes nothing. Remove
        them by their names. In check mode it shows the objects that it would remove.
    type: str
  state:
    description:
      - V(running), V(stopped) and V(rebooted) work on the instances of a host at the same time. A
        stopped instance keeps its allocations.
      - V(absent) shuts instances down and removes their domains with libvirt's files for them,
        their disks (see M(drover.compute.domain), O(drover.compute.domain#module:remove_disks)),
        their allocations and their records. An instance that is not in the store is already absent.
        The module refuses an instance that is on several hosts, is moving, or has an unconfirmed
        resize.
    type: str
    choices: [running, stopped, rebooted, absent]
    default: running
  timeout:
    description: Seconds for a start, a shutdown or a reboot.
    type: int
    default: 60
  force:
    description: With O(state=stopped) and O(state=absent), cut the power of a guest that does not
      shut down in time.
    type: bool
    default: false
  hard:
    description: With O(state=rebooted), cut the power and start it again. An instance that is off
      is started.
    type: bool
    default: false
  keep_disks:
    description: With O(state=absent), keep all disks.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(state=rebooted) reboots each time.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.instance_info
  - module: drover.compute.instance_labels
  - module: drover.compute.instance_migrate
  - module: drover.compute.instance_resize
"""

EXAMPLES = r"""
- name: Instances of the fleet
  hosts: localhost
  gather_facts: false
  tasks:
    - name: See that one runs
      drover.compute.instance:
        name: web1
        state: running

    - name: Shut two down, and cut the power of a guest that ignores it
      drover.compute.instance:
        instances: [web2, web3]
        state: stopped
        timeout: 120
        force: true

    - name: Remove one, with its disks and its allocations
      drover.compute.instance:
        name: web4
        state: absent
"""

RETURN = r"""
host:
  description: The host of the instances.
  returned: success, in a play on a hypervisor
  type: str
  sample: kvm1
instances:
  description: The result for each instance.
  returned: always
  type: list
  elements: dict
  sample:
    - uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
      name: web1
      changed: true
      status: done
      message: ""
  contains:
    uuid: {description: The uuid., type: str, returned: always, sample:
      4678f48e-9e6e-53d3-9c13-dbd66056a5d1}
    name: {description: Its name., type: str, returned: always, sample: web}
    changed: {description: True if it was changed., type: bool, returned: always, sample: true}
    status: {description: "V(done), V(absent) (it is not on this host) or V(failed).", type: str,
      returned: always, sample: done}
    message: {description: The error., type: str, returned: always, sample: It is paused and cannot
      shut down.}
    domain: {description: The domain afterwards., type: dict, returned: for any O(state) but
      V(absent),
      sample: {uuid: 8302fec1-fe67-40ea-b14e-50b605f64716, name: web1, state: running, persistent:
        true, autostart: false, vcpus: 1,
      memory_mb: 32}}
    removed_disks: {description: The files that were removed., type: list, elements: str, returned:
      when O(state=absent),
      sample: [/srv/shared/instances/web4-0.qcow2]}
    kept_disks: {description: "The files that were kept, each with C(path) and C(reason).", type:
      list, elements: dict,
      returned: when O(state=absent), sample: [{path: /srv/clone, reason: clone on kvm2 uses it}]}
gone:
  description: The removed instances, each with C(uuid) and C(name), and the names that the store
    did not have.
  returned: when O(state=absent) and the task runs on localhost, after a failure too
  type: list
  elements: raw
  sample: [{uuid: 4e4e1278-63c3-4dba-b900-767aafe0b1b2, name: web4}]
"""
