#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: migration
short_description: Move instances off a host by live or cold migration, or abort that
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Carries out the moves of a plan, several at a time, and shows a line when one begins, goes on and ends.
  - Where all start at the host that the task runs on, or is delegated to, it works on that host alone. Otherwise, as on localhost, it works on
    the hosts one after the other, stage by stage of the plan, and leaves out a move that waits for one that was not done.
  - Each move is written into the store before it begins and when it has ended, that is when the instance is seen at its destination and
    gone from its source. While it is under way both hosts hold the room.
  - Moves that an earlier run left open, because it was killed for instance, are finished or undone first. With no O(moves) that is all it does.
  - An instance that runs and is to move cold is shut down in good order, moved and started again. If it does not move, it is started where
    it was.
  - A move that fails leaves the instance at its source. It is listed in RV(failed_moves) and the task goes on with the others.
  - With O(state=aborted) it aborts the moves off the host, whichever run began them. Each instance goes on at its source, with its
    room as before, and its migration is C(cancelled).
  - An abort takes no lease away. It is sent to the hypervisor. If a run follows the move, that run frees the room at the destination,
    goes on with the others and does not move the instance again. If no run has the lease, this task frees the room.
options:
  state:
    description:
      - V(done) first ends what an earlier run left open on this host, then carries O(moves) out. A migration that was never begun is
        begun now, unless its destination is disabled or down by now.
      - V(settled) only ends what is open, and begins nothing. A migration that was never begun is undone.
      - V(aborted) aborts what is under way.
    type: str
    choices: [done, settled, aborted]
    default: done
  moves:
    description:
      - Moves as the lookup P(drover.compute.drain_plan#lookup) returns them, each C(uuid), C(name), C(from_host), C(host), C(node),
        C(live).
      - What a move has as C(migration) is a mapping like O(options), and is laid over them for that instance.
    type: list
    elements: dict
    default: []
  purpose:
    description:
      - What the moves are for, in words. Other runs that want one of the hosts show it.
      - It counts only where moves start at other hosts than the task's own.
    type: str
    default: moving instances
  instances:
    description:
      - With O(state=aborted), the names or uuids of the instances whose moves are to be aborted. Without any it is all moves off the host.
    type: list
    elements: str
    default: []
  options:
    description:
      - How live moves are carried out. Roles take it from the variable C(drover_migration).
      - What contradicts itself is refused before anything is moved, and so is what the libvirt of one of the hosts does not know.
    type: dict
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.limits
  - drover.compute.migration_options
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

    - name: Carry out the others, gently, and pause those that cannot be moved in time
      drover.compute.migration:
        moves: "{{ plan.moves[1:] }}"
        options:
          bandwidth_mib: 500
          auto_converge: true
          timeout_per_gib: 60
          on_timeout: pause
      delegate_to: kvm1

# In another terminal, while that is under way
- name: Abort the move of one instance
  hosts: kvm1
  gather_facts: false
  tasks:
    - name: Let it go on where it is
      drover.compute.migration:
        state: aborted
        instances: [web-1]
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
    status: {description: "C(completed), C(failed), C(cancelled), C(conflict) or C(lost).", type: str, returned: always}
    message: {description: What there is to say., type: str, returned: always}
    storage: {description: "C(shared), C(copied) or C(none).", type: str, returned: always}
    elapsed_s: {description: "How long it took, in seconds.", type: float, returned: always}
failed_moves:
  description: Those of them that did not complete.
  returned: always
  type: list
  elements: dict
skipped_moves:
  description: Moves that were not begun, as a move that they wait for was not done.
  returned: when moves start at other hosts than the task's own
  type: list
  elements: dict
"""
