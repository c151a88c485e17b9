#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _rolling
short_description: Run the phases of a rolling maintenance
author:
  - The drover.compute authors (@drover-compute)
description:
  - Drains, reboots and brings back hypervisors, in batches as large as the capacity of the others
    allows. The role P(drover.compute.rolling#role) calls it for each phase and carries out the
    steps that it returns. Use the role, or the playbook C(drover.compute.rolling_maintenance).
  - The store has the last step begun on each host (M(drover.compute._rolling_host)), and each call
    continues there. So the next run continues a run that was stopped or killed.
  - It runs on the controller and reaches each hypervisor as a delegated task would.
options:
  state:
    description:
      - The phase. V(begun) checks the options and takes the lease of the fleet. V(looked) reads the
        host of the task. V(planned) selects the hosts, plans the batches, shows the plan and
        records it.
      - Then, in each round of C(rounds), V(next) plans the next batch. V(step) carries out O(step)
        on the host of the task, or returns the work that the role has to do. V(failed) records a
        failure on the host of the task. V(closed) moves the instances of O(batch) back and ends the
        batch.
      - V(reported) releases the lease and returns a summary.
    type: str
    choices: [begun, looked, planned, next, step, failed, closed, reported]
    required: true
  hosts:
    description: The hypervisors of the play, by their names in the inventory.
    type: list
    elements: str
    default: []
  hypervisors:
    description: The pattern that selected O(hosts), for messages. The variable
      C(drover_hypervisors) sets it too.
    type: str
    default: hypervisors
  seen:
    description: With O(state=planned), the results of O(state=looked), one for each host.
    type: list
    elements: dict
    default: []
  batch:
    description: With O(state=closed), the hosts of the batch.
    type: list
    elements: str
    default: []
  step:
    description: With O(state=step), the step.
    type: str
    choices: [before_drain, disable, drain, after_drain, startup, reboot, after_reboot, enable,
      after_enable, back]
  task:
    description: With O(state=failed), the name of the task that failed.
    type: str
  message:
    description: With O(state=failed), its message.
    type: str
  left_out:
    description: With O(state=reported), the hosts that were left out, as C(left_out).
    type: list
    elements: dict
    default: []
  hooks:
    description: Task files to run on each host, by the names V(before_drain), V(after_drain),
      V(after_reboot) and V(after_enable).
    type: dict
    default: {}
  reboot:
    description:
      - V(needed) reboots a host if it needs a reboot after the hook V(after_drain), see
        M(drover.compute._reboot_info). Hosts that need none at the beginning are left out, unless
        O(all_hosts) is true. V(always) and V(never) select all hosts.
      - With V(needed) the run stops before it begins if it is unknown whether a host needs a
        reboot.
    type: str
    choices: [needed, always, never]
    default: needed
  reboot_sentinels:
    description: Files on the host. If one exists, the host needs a reboot. Without them the signs
      of the system of the host count.
    type: list
    elements: str
    default: []
  all_hosts:
    description: Also select hosts that need no reboot at the beginning. For hooks that install
      updates with a reboot.
    type: bool
    default: false
  blocked:
    description: The action if a host cannot be emptied. V(fail) stops before anything is changed,
      V(skip) leaves the host out.
    type: str
    choices: [fail, skip]
    default: fail
  bring_back:
    description: After each batch, move the instances back to the hosts where they were.
    type: bool
    default: false
  restart:
    description: Discard the recorded state of an earlier run and start again.
    type: bool
    default: false
  reason:
    description: The reason, which the store shows during the maintenance.
    type: str
    default: rolling maintenance
  spare_hosts:
    description:
      - The number of further hosts that may fail while a batch is down, with enough capacity left
        for their instances.
      - The variable C(drover_rolling_spare_hosts) sets it too.
    type: int
    default: 0
  batch_size:
    description: The most hosts in a batch, V(0) for no limit. The variable
      C(drover_rolling_batch_size) sets it too.
    type: int
    default: 0
  drain_rounds:
    description: The maximum number of rounds of planning and moving of each drain. The variable
      C(drover_drain_rounds) sets it too.
    type: int
    default: 3
  unmovable:
    description: V(shutdown) shuts down instances that cannot move, after the others have moved.
      They stay off.
    type: str
    choices: [fail, shutdown]
    default: fail
attributes:
  check_mode:
    support: partial
    details:
      - The phases up to V(planned) read the hosts and show the plan. The role calls no other one
        then.
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.migration_options.drain
  - drover.compute.migration_options.limits
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.plan_rolling_info
  - module: drover.compute._rolling_host
  - module: drover.compute.drain
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
