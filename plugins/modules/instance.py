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
  - Works on the hypervisor of the task, so delegate the task to the host of the instances. For a build this is the host of the claim of
    M(drover.compute.allocation). The result is recorded in the store.
  - The files and the domain of a failed build are removed again. Any other failure during a build (a time limit, a lost host, a store that
    cannot be written) proves nothing. Only if RV(uncertain) is false, nothing of the instance is there for certain;
    O(state=settled) finds out.
  - On localhost it works on O(instances) wherever they are, host after host, and takes the lease of each; one that fails stops no other. On a
    hypervisor it does not. There take its lease first with M(drover.compute.lease).
options:
  state:
    description:
      - V(built) creates the disks, defines and starts the domain of a claim, checks that it runs, and records it.
      - V(settled) finds out the result of a build that failed or was interrupted. It withdraws the orders on the hypervisor and reads the domain.
        An instance that runs there is recorded. If nothing of it is there, its resources are claimed on the first of O(alternates). Without
        alternates they are released, and the module fails with O(message). If the result is not certain, it fails and changes nothing.
      - V(started), V(stopped) and V(rebooted) work on O(instances), all at the same time. A stopped instance keeps its allocations.
      - V(absent) shuts O(instances) down and removes their domains with libvirt's files for them, their disks (see
        M(drover.compute.domain), O(drover.compute.domain#module:remove_disks)), their allocations and their records. An instance that is not in
        the store is already absent. An instance that is on several hosts, is moving, or has an unconfirmed resize is refused.
    type: str
    choices: [built, settled, started, stopped, rebooted, absent]
    default: built
  instances:
    description:
      - Instances on this host, or on any host if the task runs on localhost, for any O(state) but V(built) and V(settled).
      - Each is a name, a uuid, or a mapping with C(name) and C(uuid), which must agree.
      - An instance that is given by its name is not changed if libvirt has its uuid under another name.
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
      - Disks to create, as in the option of the same name of M(drover.compute.domain).
    type: list
    elements: dict
    default: []
  seed:
    description:
      - A cloud-init seed to write, as in the option of the same name of M(drover.compute.domain).
    type: dict
  autostart:
    description: Start the domain with its host.
    type: bool
    default: false
  uri:
    description: The libvirt URI of the instance to build. The store has the URI of O(instances).
    type: str
    default: qemu:///system
  timeout:
    description: Seconds for a start, a shutdown or a reboot.
    type: int
    default: 60
  alternates:
    description: With O(state=settled), the alternates for the build, as M(drover.compute.allocation) returns them with a claim.
    type: list
    elements: dict
    default: []
  expires:
    description: With O(state=settled), seconds until a new claim expires; 0 for never.
    type: int
    default: 3600
  message:
    description: With O(state=settled), the reason of the failed build, a sentence for the error.
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

    - name: Claim its resources
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

    - name: Remove it, with its allocations
      drover.compute.instance:
        state: absent
        force: true
        instances: [web1]
"""

RETURN = r"""
host:
  description: The host it is on.
  returned: success, but for instances of several hosts
  type: str
domain:
  description: The domain, as M(drover.compute.hypervisor_info) shows it.
  returned: when O(state=built); none if another run had built it
  type: dict
built:
  description: True if it was built.
  returned: when O(state=settled)
  type: bool
claim:
  description: The new claim to build it with, as from M(drover.compute.allocation); none if it is built.
  returned: when O(state=settled)
  type: dict
instances:
  description: The result for each of O(instances).
  returned: for any O(state) but V(built) and V(settled), after a failure too
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid., type: str, returned: always}
    name: {description: Its name., type: str, returned: always}
    changed: {description: True if it was changed., type: bool, returned: always}
    status: {description: "V(done), V(absent) (it is not on this host) or V(failed).", type: str, returned: always}
    message: {description: The error., type: str, returned: always}
    domain: {description: The domain afterwards., type: dict, returned: for any O(state) but V(absent)}
    removed_disks: {description: The files that were removed., type: list, elements: str, returned: when O(state=absent)}
    kept_disks: {description: "The files that were kept, each with C(path) and C(reason).", type: list, elements: dict, returned: when O(state=absent)}
gone:
  description: Those that were removed, each with C(uuid) and C(name), and the names of those that the store did not have.
  returned: when O(state=absent) and the task runs on localhost, after a failure too
  type: list
  elements: raw
uncertain:
  description:
    - False if nothing of the instance is there for certain.
    - True, or missing, means that it may run there and must not be built elsewhere.
  returned: failure with O(state=built) or O(state=settled)
  type: bool
"""
