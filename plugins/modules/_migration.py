#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _migration
short_description: Move instances off a host by live or cold migration, or abort that
author:
  - The drover.compute authors (@drover-compute)
description:
  - Carries out the moves of a plan, several at a time, and shows a line when a move begins, makes
    progress and ends.
  - If all moves start at the host of the task (see C(delegate_to)), it works on that host only. On
    localhost it works on one host after the other, in the stages of the plan, and skips a move if a
    move that it waits for was not done.
  - The store records a move before it begins, and again when the destination shows the instance and
    the source no longer does. Between the two, the instance has allocations on both hosts.
  - First it finishes or undoes the moves that an earlier run left open. Without O(moves) it does
    only this.
  - For a cold move, a running instance is shut down cleanly, moved, and started again. If the move
    fails, it is started where it was.
  - If a move fails, the instance stays at its source, C(failed_moves) lists it, and the task
    continues with the other moves.
  - With O(state=aborted) it aborts the moves off the host, whichever run began them. Each instance
    continues at its source with its allocations, and its migration is C(cancelled).
  - An abort needs no lease. The hypervisor aborts the move. The run that began it then frees the
    room at the destination, continues with the others, and does not move the instance again. If no
    run has the lease, this task frees the room.
options:
  state:
    description:
      - V(done) first ends the open migrations of an earlier run on this host, then carries out
        O(moves). An open migration that has not begun on the hypervisor begins now, unless its
        destination is now disabled or down.
      - V(settled) only ends open migrations. A move that has not begun is undone.
      - V(aborted) aborts the migrations that have begun.
    type: str
    choices: [done, settled, aborted]
    default: done
  moves:
    description:
      - Moves as M(drover.compute.plan_drain_info) returns them, each with C(uuid), C(name),
        C(from_host), C(host), C(node), C(live).
      - A move may have C(migration), a mapping like O(options), which overrides them for this move.
    type: list
    elements: dict
    default: []
  purpose:
    description:
      - The purpose of the moves. Other runs show it if they wait for one of the hosts.
      - It has no effect if all moves start at the host of the task.
    type: str
    default: moving instances
  instances:
    description:
      - With O(state=aborted), the instances of the moves to abort, by name or uuid. By default all
        moves off the host are aborted.
    type: list
    elements: str
    default: []
  selector:
    description:
      - With O(state=aborted), the labels of the instances of the moves to abort, in place of
        O(instances).
    type: str
  options:
    description:
      - The options of the moves. Roles set them from the variable C(drover_migration).
      - Before the first move, the module refuses options that contradict each other, and options
        that the libvirt of one of the hosts does not know.
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
# Only the roles and playbooks of this collection call this module.
[]
"""
