#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Empty living hosts by migration, or a storage pool
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - First it finishes or undoes the open moves of an earlier run, and reads the hosts. It plans all
    moves as one batch, has the hypervisors check them, and shows the plan. None of the hosts is a
    destination.
  - Then it disables the hosts, moves the instances, shuts instances down if their policy or
    O(unmovable) requires it, and reads the hosts again. If no instance runs on a host, it sets this
    host to maintenance.
  - The instances of one host leave before the instances of the next.
  - If a move fails, its instance stays, and a later round moves it to another host.
  - If the drain of one host fails, it continues with the others. The task fails in the end and
    names it. With O(unmovable=fail) the task stops instead if it sees this before anything moves.
  - It runs on the controller, reaches each hypervisor as a delegated task would, and holds the
    leases of all hosts against other runs. If another run has one of them, the module does nothing.
  - The next run finishes a run that was killed.
  - With O(pool) it empties a storage pool instead, on the hosts O(host) or on all that have a pool
    of that name. Every disk in it moves to another counted pool of its host, while its guest runs.
    The pool gets nothing new from then on, until M(drover.compute.undrain) brings it back. It is
    empty if each host lists it, no domain needs anything in it, and nothing in it has the name of
    an instance. The task fails if something remains.
  - The role P(drover.compute.drain#role) and the playbook C(drover.compute.drain) call this module.
options:
  host:
    description:
      - The host to empty, by its name in the inventory; or several, as a list or as V(kvm1,kvm2).
        Required without O(pool).
      - With O(pool), the hosts of a pool that is not shared. By default the module empties it on
        all hosts that have it. A pool that hosts share is emptied for all of them.
    type: list
    elements: str
    default: []
    aliases: [name]
  pool:
    description: A storage pool to empty, by its name. It must be one of C(drover_storage_pools), or
      the pool of C(drover_instances_path).
    type: str
  destination_pool:
    description: With O(pool), the only pool that disks may go to. By default each goes to the
      emptiest one that has its traits and space for it.
    type: str
  reason:
    description: The reason, which the store keeps.
    type: str
    default: drained by drover.compute
  unmovable:
    description:
      - The action for instances that cannot move. V(fail) stops before anything is changed, on all
        hosts. V(skip) leaves them running; then their host stays disabled and is not set to
        maintenance. V(shutdown) shuts them down cleanly after the others have moved.
      - A host that does not answer, or that has a move with an unknown end, stops V(fail) too. With
        V(skip) and V(shutdown) it is disabled like the others, and left alone.
      - With O(pool) V(skip) moves all disks that can move, and then fails, as the pool is not
        empty. V(shutdown) is refused.
    type: str
    choices: [fail, skip, shutdown]
    default: fail
  rounds:
    description: The maximum number of rounds of planning and moving. Only failed moves need another
      round.
    type: int
    default: 3
attributes:
  check_mode:
    support: full
    details:
      - Reads the host and shows the plan.
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.plans.moves
  - drover.compute.migration_options.drain
  - drover.compute.migration_options.limits
  - drover.compute.scheduler
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.plan_drain_info
  - module: drover.compute._migration
"""

EXAMPLES = r"""
- name: Empty a host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Show what would be done
      drover.compute.drain:
        host: kvm1
        plan_only: true

    - name: Empty kvm1
      drover.compute.drain:
        host: kvm1
        reason: new kernel
      register: drained

    - name: Empty two hosts with one plan
      drover.compute.drain:
        host: [kvm2, kvm3]
        reason: new kernel

    - name: Show the result
      ansible.builtin.debug:
        msg: "{{ drained.message }}"
"""

RETURN = r"""
hosts:
  description: The result for each host. The result of a failure has it too.
  returned: always
  type: list
  elements: dict
  contains:
    host: {description: The host., type: str, returned: always, sample: kvm1}
    status:
      description: V(maintenance) if no instance runs there. V(disabled) if instances that cannot
        move still run there. V(failed) if it was not drained. V(planned) in check mode and with
        O(plan_only). With O(pool) V(empty) if its pool is empty.
      type: str
      returned: always
      sample: maintenance
    message:
      description: The same in a sentence. Empty if the drain of a single host failed; its error
        says it.
      type: str
      returned: always
      sample: kvm1 is empty and in maintenance. Bring it back with drover.compute.undrain.
plan:
  description:
    - The last plan, as M(drover.compute.plan_drain_info) returns it. A failure does not return it,
      but it is shown before.
  returned: success
  type: dict
  sample: {host: kvm1, hosts: [kvm1], status: ok, moves: [{uuid:
    425519c8-859e-488e-96e3-46439d6e2f07, name: web1, live: true, from_host: kvm1,
    host: kvm3, wave: 1}], unmovable: [], shutdowns: [], waves: 1, seconds: 2.6}
migrations:
  description:
    - The result of each move, with C(uuid) and C(name) of the instance, C(source), C(destination),
      C(provider) (the uuid of the resource provider there), C(status) (V(completed), V(failed),
      V(cancelled), V(conflict) or V(lost)), C(message) (mostly the cause of a failure), C(storage)
      (V(shared), V(copied) or V(none)), C(elapsed_s) (its seconds) and C(ignores_shutdown) (true if
      the guest did not shut down for its move).
  returned: always
  type: list
  elements: dict
  sample: [{uuid: 425519c8-859e-488e-96e3-46439d6e2f07, name: web1, source: kvm1, destination: kvm3,
    provider: 92916cb8-ade9-4263-ae96-c7f7040de74f, status: completed, message: '', storage: shared,
      elapsed_s: 1.9, ignores_shutdown: false}]
shut_down:
  description: Instances that were shut down, each with C(uuid), C(name) and C(host).
  returned: always
  type: list
  elements: dict
  sample: [{uuid: 425519c8-859e-488e-96e3-46439d6e2f07, name: web1}]
staying:
  description: Instances that cannot move, each with C(uuid), C(name), C(host) and C(reason).
  returned: always
  type: list
  elements: dict
  sample: [{uuid: 6695eb01-f6a4-8304-79aa-97f2502e193f, name: test, reason: fits on no other host}]
pool:
  description: The storage pool.
  returned: with O(pool)
  type: str
  sample: fast
disks:
  description:
    - The disks with a move that was begun, each with C(uuid) and C(name) of its instance, C(disk),
      C(host), C(source), C(destination), C(status), which is V(moved) or V(failed), and C(message).
    - RV(plan) then has C(pool), C(hosts), C(moves), C(unmovable) and C(lines), and RV(staying) has
      C(disk), which is null for another file, and C(way_out) too.
  returned: with O(pool), also by a failure
  type: list
  elements: dict
  sample: [{uuid: 425519c8-859e-488e-96e3-46439d6e2f07, name: web1, disk: vda, host: kvm1, source:
    /srv/fast/web1.qcow2,
    destination: /srv/slow/web1.qcow2, status: moved, message: ''}]
kept:
  description: Files in the pool that no disk needs and that stay, each with C(host), C(path) and
    C(reason), which is null if nothing speaks for it.
  returned: with O(pool), also by a failure
  type: list
  elements: dict
  sample: [{host: kvm1, path: /srv/fast/notes.txt, reason: null}]
message:
  description: The result, in a sentence.
  returned: always
  type: str
  sample: kvm1 is empty and in maintenance. Bring it back with drover.compute.undrain.
"""
