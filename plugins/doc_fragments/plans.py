# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules that plan."""

from __future__ import annotations


class ModuleDocFragment:
    """The documentation fragments ``drover.compute.plans.*``: the options of a plan."""

    HOME = r"""
options:
  max_migrations:
    description:
      - The most moves from a host, and to a host, at one time. It only decides the waves.
      - The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
"""

    MOVES = r"""
options:
  extra_moves:
    description:
      - The number of instances of other hosts that may move to make room, if the host cannot be
        emptied otherwise.
      - The variable C(drover_extra_moves) sets it too.
    type: int
    default: 0
"""

    DRAIN = r"""
options:
  max_migrations:
    description:
      - The most instances that leave the host at a time. It only decides the waves that the plan
        shows.
      - The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
  max_migrations_per_destination:
    description: The most instances that go to one host at a time. The variable
      C(drover_max_migrations_per_destination) sets it too.
    type: int
  max_migrations_overall:
    description: The most instances that move at a time in the fleet. The variable
      C(drover_max_migrations_overall) sets it too.
    type: int
  solver_seconds:
    description:
      - Seconds for an exact model, if no other method places all instances. It needs the Python
        package highspy.
      - The variable C(drover_solver_seconds) sets it too.
    type: float
    default: 0
  migration:
    description:
      - The options of the migrations. C(bandwidth_mib) counts for the expected time. The variable
        C(drover_migration) sets it too.
    type: dict
    default: {}
  excluded:
    description:
      - Compute nodes that an instance must not go to, because a move there has failed before. A
        mapping of the uuid of the instance to a mapping of the uuids of their providers to the
        reason.
    type: dict
    default: {}
"""

    REBALANCE = r"""
options:
  max_moves:
    description: The most moves. The variable C(drover_rebalance_max_moves) sets it too.
    type: int
    default: 10
  threshold:
    description: Moves are planned only if the score is above this. The variable
      C(drover_rebalance_threshold) sets it too.
    type: float
    default: 0.01
  margin:
    description:
      - The smallest gain of a move, times the number of compute nodes that share the load, because
        the gain of a move is smaller in a larger fleet.
      - The variable C(drover_rebalance_margin) sets it too.
    type: float
    default: 0.005
  cost_per_gib:
    description:
      - Additional gain that a move needs for each GiB of the memory of its instance, times the
        number of compute nodes as in O(margin).
      - The variable C(drover_rebalance_cost_per_gib) sets it too.
    type: float
    default: 0.0
  cooldown:
    description: The seconds after a move before the same instance may move again. The variable
      C(drover_rebalance_cooldown) sets it too.
    type: int
    default: 3600
  weights:
    description: The weight of each resource class in the score, V(1) by default. The variable
      C(drover_rebalance_weights) sets it too.
    type: dict
    default: {}
  despite_maintenance:
    description:
      - Also plan while hosts are drained, among the other hosts. The variable
        C(drover_rebalance_despite_maintenance) sets it too.
    type: bool
    default: false
"""

    ROLLING = r"""
options:
  spare_hosts:
    description:
      - The number of further hosts, the fullest ones, that may be lost while a batch
        is down, so that their instances still fit on the others.
      - The variable C(drover_rolling_spare_hosts) sets it too.
    type: int
    default: 0
  batch_size:
    description: The most hosts in a batch. V(0) sets no limit. The variable
      C(drover_rolling_batch_size) sets it too.
    type: int
    default: 0
  back:
    description:
      - The instances return before the next batch, so that each batch starts with the present
        fleet. With V(false) they stay at their destinations.
    type: bool
    default: true
  unmovable:
    description: With V(shutdown) instances that cannot move count as shut down on their host.
    type: str
    choices: [fail, shutdown]
    default: fail
  empty:
    description: Hosts that count as empty, although they may have instances, for example instances
      that an earlier batch shut down there.
    type: list
    elements: str
    default: []
"""
