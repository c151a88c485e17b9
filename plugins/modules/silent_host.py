#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: silent_host
short_description: Say whether a host answers, and what to do about one that does not
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Weighs what is known of a host whose libvirt does not answer and says what to do next, in a word and a sentence. It changes
    nothing, and it is no proof that the host is off. The role P(drover.compute.evacuate#role) uses it before it cuts a host off.
options:
  host:
    description: The host, by its name in the inventory.
    type: str
    required: true
  state:
    description:
      - V(answered) says whether the host answers, from what came of a task on it (O(tried)) and of a TCP connection that this controller
        tries itself. V(asked) tells whom to ask about the host, and what. V(decided) weighs what they said.
    type: str
    choices: [answered, asked, decided]
    default: decided
  tried:
    description: With O(state=answered), the result of a module on the host that only reads something, as C(register) has it.
    type: dict
    default: {}
  others:
    description: With O(state=asked), the other hypervisors.
    type: list
    elements: str
    default: []
  ssh:
    description: Whether the host answers this controller over SSH.
    type: bool
    default: false
  refused:
    description: Whether it answers over SSH or TCP and lets nobody in.
    type: bool
    default: false
  unclear:
    description: What SSH says, where that is neither known for an answer nor for silence.
    type: str
    default: ''
  seen:
    description: The results of M(drover.compute.host_probe) in a loop over RV(peers), as C(register) has them.
    type: list
    elements: dict
    default: []
  power:
    description: What the host's power driver says; V(none) where it has no driver that can tell.
    type: str
    choices: ['on', 'off', unknown, none]
    default: none
  said:
    description: Whether a person says that it is off.
    type: bool
    default: false
  soft_fenced:
    description: Whether its libvirt was restarted already, in vain.
    type: bool
    default: false
  force:
    description:
      - Names of rules to lift, of V(driver_says_on), V(login_refused), V(unclear_answer), V(peers_reach), V(no_witness),
        V(storage_active), V(maintenance), V(many_down), V(just_started), V(too_early) and V(quiet_time).
    type: list
    elements: str
    default: []
  down_seconds:
    description: A host that was seen up since is not cut off, in seconds.
    type: int
    default: 60
  start_seconds:
    description: For so long after its start this controller has no host cut off, in seconds.
    type: int
    default: 300
  quiet_seconds:
    description: For so long after one host was fenced no other is, in seconds.
    type: int
    default: 180
  down_percent:
    description: When this share of the fleet looks dead at the same time, and more than one host, no host is cut off.
    type: int
    default: 50
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.host_probe
"""

EXAMPLES = r"""
- name: What to do about kvm1
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Try it
      ansible.builtin.slurp:
        src: /proc/sys/kernel/random/boot_id
      delegate_to: kvm1
      register: tried
      ignore_unreachable: true
      ignore_errors: true

    - name: See whether it answers
      drover.compute.silent_host:
        host: kvm1
        state: answered
        tried: "{{ tried }}"
      register: answered

    - name: Find out whom to ask
      drover.compute.silent_host:
        host: kvm1
        state: asked
        others: "{{ groups['hypervisors'] }}"
      register: asked

    - name: Ask them
      drover.compute.host_probe:
        addresses: "{{ asked.addresses }}"
        disks: "{{ asked.disks }}"
      delegate_to: "{{ item }}"
      loop: "{{ asked.peers }}"
      register: probed
      ignore_unreachable: true
      ignore_errors: true

    - name: Weigh it
      drover.compute.silent_host:
        host: kvm1
        ssh: "{{ answered.answer == 'login' }}"
        refused: "{{ answered.answer == 'refused' }}"
        unclear: "{{ answered.words if answered.answer == 'unclear' else '' }}"
        seen: "{{ probed.results }}"
      register: verdict

    - name: Show it
      ansible.builtin.debug:
        msg: "{{ verdict.sentence }}"
"""

RETURN = r"""
answer:
  description:
    - V(login) (it lets this controller in), V(refused) (it answers SSH or TCP in any way and does not), V(silent), or V(unclear) (what was
      said is not known for either).
  returned: with O(state=answered)
  type: str
reached:
  description: Whether it answers over TCP; null where that was not needed or could not be tried.
  returned: with O(state=answered)
  type: bool
words:
  description: What SSH and TCP said.
  returned: with O(state=answered)
  type: str
decision:
  description:
    - V(nothing) (it lives, or nobody knows), V(soft_fence) (restart its libvirt), V(wait), V(hard_fence), V(word) (a person has to go
      and see) or V(restart) (it is off; see that this is confirmed, then restart its instances elsewhere).
  returned: with O(state=decided)
  type: str
rule:
  description: The rule that holds fencing back, null where none does.
  returned: with O(state=decided)
  type: str
sentence:
  description: What is so, and what to do.
  returned: with O(state=decided)
  type: str
peers:
  description: Hypervisors to ask, those that were up when last read.
  returned: with O(state=asked)
  type: list
  elements: str
addresses:
  description: Where they may reach the host.
  returned: with O(state=asked)
  type: list
  elements: str
disks:
  description: Disks of its instances that nobody else should have in use.
  returned: with O(state=asked)
  type: list
  elements: str
"""
