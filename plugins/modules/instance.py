#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance
short_description: Build the instance of a claim on its hypervisor; start, stop, reboot or remove instances
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Works on the hypervisor that the task runs on, so delegate it to the host that the instances are on, or where
    M(drover.compute.allocation) claimed the room of one that is built. What came of it is recorded in the store.
  - What a failed build made is removed again. Whatever else fails in the middle of a build (a time limit, a lost host, a store that
    cannot be written) proves nothing. Only where RV(uncertain) is false is it certain that nothing of the instance is there;
    O(state=settled) finds out.
  - The roles take the lease of the host first (M(drover.compute.lease)); this module does not.
options:
  state:
    description:
      - V(built) makes the disks, defines and starts the domain of a claim, sees it running, and records that it is there.
      - V(settled) finds out what became of a build that failed or was cut off. It withdraws what the hypervisor was ordered to do and looks.
        An instance that runs there is recorded. Where nothing of it is there, its room is claimed on the first of O(alternates), or given
        back where there is none, which fails with O(message). Where that cannot be told it fails and changes nothing.
      - V(started), V(stopped) and V(rebooted) work on O(instances), all at the same time. One that is stopped keeps its room.
      - V(absent) shuts O(instances) down and removes their domains with what libvirt keeps beside them, their disks (see
        M(drover.compute.domain), O(drover.compute.domain#module:remove_disks)), the room they hold and their record. One that the store
        does not have is absent already. One that is on several hosts, is moving, or waits for its resize to be confirmed is refused.
    type: str
    choices: [built, settled, started, stopped, rebooted, absent]
    default: built
  instances:
    description:
      - Instances on this host, for any O(state) but V(built) and V(settled). Each is a name, a uuid, or a mapping with C(name) and C(uuid), which must
        agree.
      - One that is given by its name is left alone when libvirt has its uuid under another name.
    type: list
    elements: raw
  uuid:
    description: The uuid of the instance to build or to settle.
    type: str
  name:
    description: Its name.
    type: str
  xml:
    description: The domain XML, with the same uuid and name.
    type: str
  disks:
    description:
      - Disks to make, as the option of the same name of M(drover.compute.domain).
    type: list
    elements: dict
    default: []
  seed:
    description:
      - A cloud-init seed to write, as the option of the same name of M(drover.compute.domain).
    type: dict
  autostart:
    description: Whether the domain starts with its host.
    type: bool
    default: false
  uri:
    description: The libvirt URI of the instance to build. That of O(instances) is in the store.
    type: str
    default: qemu:///system
  timeout:
    description: How long starting, shutting down or rebooting may take, in seconds.
    type: int
    default: 60
  alternates:
    description: With O(state=settled), where else it may be built, as M(drover.compute.allocation) returns them with a claim.
    type: list
    elements: dict
    default: []
  expires:
    description: With O(state=settled), seconds until a new claim is over; 0 for never.
    type: int
    default: 3600
  message:
    description: With O(state=settled), why it was not built, a sentence for the failure.
    type: str
    default: It was not built.
  force:
    description: With O(state=stopped) and O(state=absent), cut the power of a guest that does not shut down in time.
    type: bool
    default: false
  hard:
    description: With O(state=rebooted), cut the power and start it again.
    type: bool
    default: false
  keep_disks:
    description: With O(state=absent), leave all disks where they are.
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
"""

EXAMPLES = r"""
- name: An instance on libvirt's test driver
  hosts: localhost
  gather_facts: false
  vars:
    xml: >-
      <domain type='test'><name>web1</name><uuid>5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01</uuid>
      <memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>
  tasks:
    - name: Record the fake host
      drover.compute.compute_node:
        uris: ["test:///default"]

    - name: Claim the room
      drover.compute.allocation:
        selections:
          - name: web1
            uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
            host: localhost
            resources: {VCPU: 1}

    - name: Build it
      drover.compute.instance:
        name: web1
        uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
        uri: test:///default
        xml: "{{ xml }}"

- name: Remove an instance of a hypervisor
  hosts: kvm1
  gather_facts: false
  tasks:
    - name: Shut it down
      drover.compute.instance:
        state: stopped
        force: true
        instances: [web1]

    - name: Remove it, with the room it holds
      drover.compute.instance:
        state: absent
        force: true
        instances: [web1]
"""

RETURN = r"""
host:
  description: The host it is on.
  returned: success
  type: str
domain:
  description: The domain, as M(drover.compute.hypervisor_info) shows it.
  returned: when O(state=built); none where another run had built it
  type: dict
built:
  description: Whether it was built after all.
  returned: when O(state=settled)
  type: bool
claim:
  description: Where to build it now, as M(drover.compute.allocation) returns a claim; none where it is built.
  returned: when O(state=settled)
  type: dict
instances:
  description: What became of each of O(instances).
  returned: for any O(state) but V(built) and V(settled), after a failure too
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid., type: str, returned: always}
    name: {description: Its name., type: str, returned: always}
    changed: {description: Whether anything was done., type: bool, returned: always}
    status: {description: "V(done), V(absent) (it is not on this host) or V(failed).", type: str, returned: always}
    message: {description: What failed., type: str, returned: always}
    domain: {description: The domain afterwards., type: dict, returned: for any O(state) but V(absent)}
    removed_disks: {description: The files that were removed., type: list, elements: str, returned: when O(state=absent)}
    kept_disks: {description: "The files that were kept, each with C(path) and C(reason).", type: list, elements: dict, returned: when O(state=absent)}
uncertain:
  description:
    - False where it is certain that nothing of the instance is there.
    - True, or missing, means that it may run there, and must not be built elsewhere.
  returned: failure with O(state=built) or O(state=settled)
  type: bool
"""
