#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: evacuate
short_description: Restart the instances of a dead host elsewhere
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - What the role P(drover.compute.evacuate#role) and the playbook C(drover.compute.evacuate) are made of, in two halves. Between them the
    role P(drover.compute.power#role) cuts the power of the host and sees that it is off.
  - It runs on the controller and reaches each hypervisor as the inventory says, as a task does that is delegated to it. One lease keeps other
    runs off the host from the beginning of the first half to the end of the second one.
  - A run that was killed is finished by the next one.
options:
  host:
    description: The dead host, by its name in the inventory.
    type: str
    required: true
  state:
    description:
      - V(judged) sees that the host is dead. It reads the host, asks other hypervisors about it, and restarts its libvirt where only that is
        dead. It refuses where the host answers, after it has closed what an earlier evacuation left open there, and where a rule holds it
        back. With O(said) it writes down that a person says that the host is off.
      - V(restarted) refuses unless this run has seen the power of the host off. It forces the host down, reads the other hosts, closes what an earlier
        run or a migration left open, claims room, and starts the instances. An instance that another host has already is recorded there.
        One that two hosts show, or that a host may have that was not read, is left alone.
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
      - For V(restarted), the hosts that were read with M(drover.compute.compute_node) since V(judged). What others may have is left alone.
      - Without it O(others) are read, one after the other.
    type: list
    elements: str
  power:
    description: For V(judged), what the host's power driver says; V(none) where it has no driver that can tell.
    type: str
    choices: ['on', 'off', unknown, none]
    default: none
  said:
    description: In place of fencing, the words of a person who has seen it, exactly C(HOST is powered off).
    type: str
    default: ''
  reason:
    description: Why, for those who look later.
    type: str
    default: evacuated by drover.compute
  force:
    description:
      - Names of rules to lift, of V(driver_says_on), V(login_refused), V(unclear_answer), V(peers_reach), V(no_witness),
        V(storage_active), V(maintenance), V(many_down), V(just_started), V(too_early), V(quiet_time) and V(unread_hosts). Each refusal names
        its own.
    type: list
    elements: str
    default: []
  unmovable:
    description:
      - What to do in the end when instances could not be restarted. V(fail) names them and fails, V(skip) takes it as it is. All others are
        restarted first.
    type: str
    choices: [fail, skip]
    default: fail
  plan_only:
    description: Show the plan and stop. Nothing is restarted or fenced. Check mode does the same.
    type: bool
    default: false
  rounds:
    description: How many destinations to try for an instance that does not start.
    type: int
    default: 3
  max_evacuations:
    description:
      - The most instances that start at the same time at a destination.
      - The variable C(drover_max_evacuations) sets it too.
    type: int
    default: 4
  start_timeout:
    description: Seconds that the start of an instance may take. The variable C(drover_start_timeout) sets it too.
    type: int
    default: 60
  call_timeout:
    description: Seconds in which a hypervisor has to answer; one that takes longer does not answer.
    type: int
    default: 200
  down_seconds:
    description: A host that was seen up since is not cut off, in seconds.
    type: int
    default: 60
  start_seconds:
    description: For so long after the start of this controller no host is cut off, in seconds.
    type: int
    default: 300
  quiet_seconds:
    description: For so long after a host was fenced no other is, in seconds.
    type: int
    default: 180
  down_percent:
    description: When this share of the fleet looks dead at the same time, and more than one host, no host is cut off.
    type: int
    default: 50
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
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.silent_host
  - module: drover.compute.domain_restart
"""

EXAMPLES = r"""
- name: See where everything on kvm1, which is down, would be restarted
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
  description: Whether its power is to be cut, and seen to be off, before anything is restarted. False where a person says that it is off.
  returned: O(state=judged)
  type: bool
plan:
  description:
    - The last plan. C(restarts) is what is to be restarted, each with C(uuid), C(name), C(host) and C(provider), the most important first.
      C(found) is what another host has already, each with C(uuid), C(name), C(host) and C(state). C(left) is left alone or has no
      destination, and C(lost) is what the dead host alone has, each with C(uuid), C(name) and C(reason).
  returned: O(state=restarted)
  type: dict
restarted:
  description: What is at its destination now, each with C(uuid), C(name), C(host), C(provider), C(state) and C(message).
  returned: O(state=restarted)
  type: list
  elements: dict
remaining:
  description: What is not restarted, each with C(uuid), C(name) and C(reason).
  returned: O(state=restarted)
  type: list
  elements: dict
message:
  description: What is so, in a sentence.
  returned: always
  type: str
"""
