#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: evacuate
short_description: Restart the instances of a dead host elsewhere
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - The role P(drover.compute.evacuate#role) and the playbook C(drover.compute.evacuate) call this
    module twice. Between the two calls the role P(drover.compute.power#role) cuts the power of the
    host and verifies that it is off.
  - It runs on the controller and reaches each hypervisor as a delegated task would. It holds the
    lease of the host from the beginning of the first call to the end of the second call.
  - The next run finishes a run that was killed.
options:
  host:
    description: The dead host, by its name in the inventory.
    type: str
    required: true
    aliases: [name]
  state:
    description:
      - V(judged) verifies that the host is dead. It tries to read the host, has other hypervisors
        probe it, and restarts its libvirt if only libvirt is dead. It fails if the host answers
        (then it first closes the restarts that an earlier evacuation left open there) or if a rule
        forbids it. With O(said) it records that a person says that the host is off.
      - V(restarted) fails unless this run has verified that the power of the host is off. It forces
        the host down, reads the other hosts, closes the open orders and migrations, claims room,
        and starts the instances. The module records an instance on the host that already shows it.
        The module leaves an instance alone if two hosts show it, or if it has not read a host that
        may have it.
    type: str
    choices: [judged, restarted]
    required: true
  others:
    description: The other hypervisors of the inventory.
    type: list
    elements: str
    required: true
  read:
    description:
      - For V(restarted), the hosts that M(drover.compute.compute_node) has read since V(judged).
        The module leaves instances alone that any other host may have.
      - Without it, the module reads O(others) one after the other.
    type: list
    elements: str
  refused:
    description:
      - For V(restarted) with O(plan_only), the RV(refused) of V(judged). The plan is shown, and
        then the task fails as the real run would.
    type: str
    default: ''
  power:
    description: For V(judged), the power state from the host's power driver; V(none) if it has no
      driver that can report it.
    type: str
    choices: ['on', 'off', unknown, none]
    default: none
  said:
    description: The confirmation, in place of fencing, of a person who has checked it, exactly
      C(HOST is powered off). The store keeps the words with the name of the user.
    type: str
    default: ''
  reason:
    description: The reason, which the store keeps.
    type: str
    default: evacuated by drover.compute
  force:
    description:
      - Names of rules to lift, of V(driver_says_on), V(login_refused), V(unclear_answer),
        V(peers_reach), V(no_witness), V(storage_active), V(maintenance), V(many_down),
        V(just_started), V(too_early), V(quiet_time), V(unread_hosts) and V(open_disk_change). Each
        refusal names its rule.
    type: list
    elements: str
    default: []
  unmovable:
    description:
      - The result of the task if instances could not be restarted. V(fail) names them and fails,
        V(skip) succeeds. In both cases all other instances are restarted first.
    type: str
    choices: [fail, skip]
    default: fail
  plan_only:
    description: Show the plan and stop; nothing is restarted or fenced. It fails if the real run
      would fail. Check mode does the same.
    type: bool
    default: false
  rounds:
    description: The number of destinations to try for an instance that does not start.
    type: int
    default: 3
  max_evacuations:
    description:
      - The most instances that start at the same time at a destination.
      - The variable C(drover_max_evacuations) sets it too.
    type: int
    default: 4
  start_timeout:
    description: Seconds that the start of an instance may take. The variable
      C(drover_start_timeout) sets it too.
    type: int
    default: 60
  call_timeout:
    description: The time limit for each call of a hypervisor, in seconds. After it the hypervisor
      counts as not answering.
    type: int
    default: 200
attributes:
  check_mode:
    support: full
    details:
      - Reads the hosts and shows the plan.
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.fencing
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute._silent_host
  - module: drover.compute._domain_restart
"""

EXAMPLES = r"""
- name: Show where the instances of kvm1, which is down, would be restarted
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan
      drover.compute.evacuate:
        host: kvm1
        state: restarted
        others: "{{ groups['hypervisors'] }}"
        plan_only: true
      register: planned

    - name: Show it
      ansible.builtin.debug:
        var: planned.plan.restarts
"""

RETURN = r"""
fence:
  description: True if the role must cut its power, and verify that it is off, before the restarts.
    False if a person says that it is off.
  returned: O(state=judged)
  type: bool
  sample: true
refused:
  description: With O(plan_only), why the real run would restart nothing now; else empty.
  returned: O(state=judged)
  type: str
  sample: kvm1 answers and refuses the login
plan:
  description:
    - The last plan, as lists of instances. C(restarts) will be restarted, each with C(uuid),
      C(name), C(host) and C(provider), the highest priority first. C(found) are on another host
      already, each with C(uuid), C(name), C(host) and C(state). C(left) are left alone or have no
      destination, and C(lost) have disks on the dead host only, each with C(uuid), C(name) and
      C(reason).
  returned: O(state=restarted)
  type: dict
  sample: {restarts: [{uuid: f9639148-e40a-430f-a45c-3ed54ff79954, name: web1, host: kvm3,
    provider: 92916cb8-ade9-4263-ae96-c7f7040de74f}], found: [], left: [], lost: []}
restarted:
  description: The instances that were restarted, or are recorded where they were found, each with
    C(uuid), C(name), C(host), C(provider), C(state) and C(message).
  returned: O(state=restarted)
  type: list
  elements: dict
  sample: [{uuid: f9639148-e40a-430f-a45c-3ed54ff79954, name: web1, host: kvm3, provider:
    92916cb8-ade9-4263-ae96-c7f7040de74f,
    state: running, message: ''}]
remaining:
  description: The instances that are not restarted, each with C(uuid), C(name) and C(reason).
  returned: O(state=restarted)
  type: list
  elements: dict
  sample: [{uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01, name: app11, reason: the store has no XML of
    it; define it elsewhere by hand}]
message:
  description: The result, in a sentence.
  returned: always
  type: str
  sample: 'kvm1: 1 instance restarted, 0 not.'
"""
