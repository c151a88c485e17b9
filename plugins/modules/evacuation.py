#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: evacuation
short_description: Restart the instances of a dead host elsewhere, step by step
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - What the role P(drover.compute.evacuate#role) does once the host is known to be off, in steps. It does not see to that itself.
  - V(claimed) first closes what an earlier run or a migration left open, by what the living hosts show. What was only being built on the dead
    host gives its claim back. An instance that runs elsewhere
    already is recorded there. One that two hosts show, or that a host may have that was not read, is left alone.
  - It needs the lease of the host, see M(drover.compute.lease).
options:
  host:
    description: The dead host, by its name in the inventory.
    type: str
    required: true
  state:
    description:
      - V(planned) finds destinations and writes nothing.
      - V(begun) lists the destinations that were told to start something of which it is not known what became of it.
      - V(withdrawn) runs on such a destination, or is delegated to it. It withdraws those starts and closes them by what is there. Do it
        before V(claimed) and V(settled), for what is not closed is left alone.
      - V(claimed) settles, finds destinations and claims the room there. Important instances have their places first.
      - V(restarted) runs on a destination, or is delegated to it. It defines and starts O(migrations) there and records what became of them.
        The claim of one that does not start is given back.
      - V(settled) is for a host that answers again after an evacuation that was cut short. It closes what that has left open.
    type: str
    choices: [planned, begun, withdrawn, claimed, restarted, settled]
    default: planned
  read:
    description: The hosts that were read in this run with M(drover.compute.compute_node). What others may have is left alone.
    type: list
    elements: str
    default: []
  force:
    description:
      - Rules that the operator lifts, by name. V(unread_hosts) is the one that leaves an instance alone while a host that sees its
        disks was not read, for it may run there. Other names are those of M(drover.compute.silent_host) and have no effect here.
    type: list
    elements: str
    default: []
  failed:
    description:
      - Where a start has failed, so that it is not tried there again. A mapping of the uuid of the instance to a list of uuids of providers.
    type: dict
    default: {}
  migrations:
    description: For V(restarted), the evacuations to this destination, in the order in which to start them.
    type: list
    elements: str
    default: []
  max_evacuations:
    description:
      - The most instances that start at the same time at a destination.
      - The variable C(drover_max_evacuations) sets it too.
    type: int
    default: 4
  timeout:
    description: Seconds that the start of an instance may take.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
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
  - module: drover.compute.domain_restart
"""

EXAMPLES = r"""
- name: See where everything on kvm1 would be restarted
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan
      drover.compute.evacuation:
        host: kvm1
        read: [kvm2, kvm3]
      register: planned

    - name: Show it
      ansible.builtin.debug:
        var: planned.restarts
"""

RETURN = r"""
restarts:
  description: What is to be restarted, each with C(migration), C(uuid), C(name), C(host) and C(provider), the most important first.
  returned: O(state=planned) and O(state=claimed)
  type: list
  elements: dict
found:
  description: What another host has already, each with C(uuid), C(name), C(host) and C(state).
  returned: O(state=planned) and O(state=claimed)
  type: list
  elements: dict
left:
  description: What is left alone or has no destination, each with C(uuid), C(name) and C(reason).
  returned: O(state=planned), O(state=claimed) and O(state=settled)
  type: list
  elements: dict
lost:
  description: What the dead host alone has, each with C(uuid), C(name) and C(reason).
  returned: O(state=planned) and O(state=claimed)
  type: list
  elements: dict
settled:
  description: What was closed, in sentences.
  returned: for any O(state) but V(begun) and V(restarted)
  type: list
  elements: str
begun:
  description: The destinations, by their names in the inventory.
  returned: O(state=begun)
  type: list
  elements: str
restarted:
  description: What is at this destination now, each with C(uuid), C(name), C(host), C(provider), C(state) and C(message).
  returned: O(state=restarted)
  type: list
  elements: dict
failed_restarts:
  description: What did not start, as RV(restarted). Its claim was given back.
  returned: O(state=restarted)
  type: list
  elements: dict
uncertain:
  description: What it is not known of whether it started, as RV(restarted). Its claim is kept; the next run finds out.
  returned: O(state=restarted)
  type: list
  elements: dict
"""
