# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way home: moves that bring instances back to the nodes that they had before a maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .._records.hosts import FleetColumns
from .._records.instances import PlannedInstance
from .._records.plans import HomePlan, MoveLimits, PlannedMove
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .destinations import packing_state_of
from .movability import is_to_shut_down, why_unmovable
from .move_order import plan_waves
from .move_times import Rates, expect
from .rebalance import move_of


def plan_return(
    fleet: FleetColumns,
    instances: Iterable[PlannedInstance],
    policy: Policy,
    homes: Mapping[str, tuple[str, str]],
    limits: MoveLimits | None = None,
) -> HomePlan:
    """Plan moves that bring instances back to their own compute nodes, as far as these have
    capacity.

    Instances that are at home, or gone, are left out.

    :param instances: all instances.
    :param policy: its host filters apply, its weighers do not.
    :param homes: {instance uuid: (host, node)}.
    """
    states = HostStates(fleet)
    rows = {(states.host[row], states.node[row]): row for row in range(states.size)}
    away = [
        each
        for each in instances
        if each["uuid"] in homes and (each["host"], each["node"]) != homes[each["uuid"]]
    ]
    staying: dict[str, str] = {}
    going: list[PlannedInstance] = []
    for instance in sorted(
        away, key=lambda each: (-(each["memory_mb"] or 0), each["name"], each["uuid"])
    ):
        reason = why_unmovable(instance) or (
            "it is to be shut down instead of moved" if is_to_shut_down(instance) else None
        )
        if reason is None and homes[instance["uuid"]] not in rows:
            reason = f"the compute node {homes[instance['uuid']][1]} is not in the store any more"
        if reason is None:
            going.append(instance)
        else:
            staying[instance["uuid"]] = reason
    packing_state, items = packing_state_of(states, policy, going)
    item_of = {packing_state.candidates[item][0].spec.key: item for item in items}
    moves: list[PlannedMove] = []
    waiting, moved = going, True
    # An instance that goes home may free the capacity that another one needs.
    while moved:
        moved, rest = False, []
        for instance in waiting:
            item, home = item_of[instance["uuid"]], rows[homes[instance["uuid"]]]
            if packing_state.fits(item)[home]:
                moves.append(move_of(packing_state, item, home, instance))
                packing_state.move(item, home)
                moved = True
            else:
                rest.append(instance)
        waiting = rest
    for instance in waiting:
        staying[instance["uuid"]] = (
            f"{homes[instance['uuid']][0]} has no room for it now, or a host filter or server group"
            " keeps it away"
        )
    waves = plan_waves(moves, fleet, limits)
    return {
        "moves": moves,
        "waves": waves,
        "seconds": expect(moves, Rates(), {}),
        "staying": [
            {"uuid": each["uuid"], "name": each["name"], "reason": staying[each["uuid"]]}
            for each in sorted(away, key=lambda each: (each["name"], each["uuid"]))
            if each["uuid"] in staying
        ],
    }
