#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: migration
short_description: Move instances off a host by live or cold migration
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Carries out the moves of a plan from the host the task runs on or is delegated to, several at a time, and shows a line when one begins,
    goes on and ends.
  - Each move is written into the store before it begins and when it has ended, that is when the instance is seen at its destination and
    gone from its source. While it is under way both hosts hold the room.
  - Moves that an earlier run left open, because it was killed for instance, are finished or undone first. With no O(moves) that is all it does.
  - An instance that runs and is to move cold is shut down in good order, moved and started again. If it does not move, it is started where
    it was.
  - A move that fails leaves the instance at its source. It is listed in RV(failed_moves) and the task goes on with the others.
options:
  moves:
    description:
      - Moves as the lookup P(drover.compute.drain_plan#lookup) returns them, each C(uuid), C(name), C(from_host), C(host), C(node),
        C(live).
    type: list
    elements: dict
    default: []
  max_migrations:
    description:
      - The most migrations at a time from this host. This limit and those below count all runs that work on the store, and so does
        C(max_moving) of a server group.
      - The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
  max_migrations_per_destination:
    description:
      - The most migrations at a time to one host. The variable C(drover_max_migrations_per_destination) sets it too.
    type: int
  max_migrations_overall:
    description:
      - The most migrations at a time in all. The variable C(drover_max_migrations_overall) sets it too.
    type: int
  max_wait:
    description:
      - How long to wait, in seconds, while other runs have all that the limits allow and nothing of this one is under way. What then has
        not begun has failed, and says who was in the way.
      - The variable C(drover_max_wait) sets it too.
    type: int
    default: 3600
  shutdown_timeout:
    description:
      - How long an instance that runs and moves cold may take to shut down, in seconds. After that it goes on running where it is and its
        move has failed.
      - The variable C(drover_shutdown_timeout) sets it too.
    type: int
    default: 300
  bandwidth_mib:
    description: The most each migration may send, in MiB per second. Without it libvirt decides.
    type: int
  options:
    description:
      - How each migration is carried out, suboptions of O(drover.compute.domain_migration#module:start). What the policy of an instance
        says under C(migration) goes before it.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Move one instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan
      ansible.builtin.set_fact:
        plan: "{{ lookup('drover.compute.drain_plan', 'kvm1') }}"

    - name: Carry out the first move of the plan
      drover.compute.migration:
        moves: "{{ plan.moves[:1] }}"
      delegate_to: kvm1
"""

RETURN = r"""
migrations:
  description: What became of each move.
  returned: always
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid of the instance., type: str, returned: always}
    name: {description: Its name., type: str, returned: always}
    source: {description: The host it was on., type: str, returned: always}
    destination: {description: The host it moved to., type: str, returned: always}
    provider: {description: The uuid of the resource provider it moved to., type: str, returned: always}
    status: {description: "C(completed), C(failed), C(conflict) or C(lost).", type: str, returned: always}
    message: {description: What there is to say., type: str, returned: always}
    storage: {description: "C(shared), C(copied) or C(none).", type: str, returned: always}
    elapsed_s: {description: "How long it took, in seconds.", type: float, returned: always}
failed_moves:
  description: Those of them that did not complete.
  returned: always
  type: list
  elements: dict
"""
