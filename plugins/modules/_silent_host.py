#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _silent_host
short_description: Determine if a host answers, and decide the action for a silent host
author:
  - The drover.compute authors (@drover-compute)
description:
  - Decides the next action for a host without an answer of libvirt, and returns it as a word and a
    sentence. It changes nothing, and its result is not a proof that the host is off. The role
    P(drover.compute.evacuate#role) uses it before it fences a host.
options:
  host:
    description: The host, by its name in the inventory.
    type: str
    required: true
  state:
    description:
      - V(answered) determines if the host answers, from the result of a task on it (O(tried)) and
        from a TCP connection that this controller tries itself. V(asked) returns the hypervisors
        that have to probe the host, and the arguments. V(decided) decides from their results.
        V(looked) does all of this by itself, and asks the hypervisors at the same time.
    type: str
    choices: [answered, asked, decided, looked]
    default: decided
  tried:
    description: With O(state=answered), the registered result of a module on the host that only
      reads.
    type: dict
    default: {}
  boot_id:
    description: With O(state=answered), the boot id of the last answer.
    type: str
    default: ''
  others:
    description: With O(state=asked) and O(state=looked), the other hypervisors.
    type: list
    elements: str
    default: []
  ssh:
    description: The host answers this controller over SSH.
    type: bool
    default: false
  refused:
    description: The host answers over SSH or TCP and accepts no login.
    type: bool
    default: false
  refusal:
    description: How it does so, the C(refusal) of O(state=answered).
    type: str
    default: login
  unclear:
    description: The message of SSH, if it is neither a known answer nor a known silence.
    type: str
    default: ''
  seen:
    description: The registered results of M(drover.compute._host_probe) in a loop over C(peers).
    type: list
    elements: dict
    default: []
  power:
    description: The power state from the host's power driver; V(none) if it has no driver that can
      report it.
    type: str
    choices: ['on', 'off', unknown, none]
    default: none
  said:
    description: A person confirms that the host is off.
    type: bool
    default: false
  soft_fenced:
    description: Its libvirt was already restarted, without success.
    type: bool
    default: false
  force:
    description:
      - Names of rules to lift. They are V(driver_says_on), V(login_refused), V(unclear_answer),
        V(peers_reach), V(no_witness), V(storage_active), V(maintenance), V(many_down),
        V(just_started), V(too_early) and V(quiet_time).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.fencing
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute._host_probe
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
