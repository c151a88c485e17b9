# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way home: instances back to where they were before a maintenance."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.planner.destinations import packing_state_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movability import is_to_shut_down, why_unmovable
from ansible_collections.drover.compute.plugins.plugin_utils.planner.move_order import plan_seconds, plan_waves
from ansible_collections.drover.compute.plugins.plugin_utils.planner.rebalance import move_of
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates


def plan_return(fleet, instances, policy, homes, limits=None):
    """Moves that bring instances back to their own compute nodes, as far as these have room for them.

    Instances that are at home, or gone, are left out.

    :param fleet: columns as the store's read_fleet returns them.
    :param instances: all instances as the store gives them, with host.
    :param policy: scheduler Policy; its host filters hold, its weighers are not asked.
    :param homes: {instance uuid: (host, node)}.
    :param limits: None, or a dict per_source, per_destination, total: most moves at once.
    :returns: a dict moves (as those of plan_rebalance, without gain and cost), waves, seconds, staying
        [{uuid, name, reason}].
    """
    states = HostStates(fleet)
    rows = {(states.host[row], states.node[row]): row for row in range(states.size)}
    away = [each for each in instances if each["uuid"] in homes and (each["host"], each["node"]) != tuple(homes[each["uuid"]])]
    staying, going = {}, []
    for each in sorted(away, key=lambda each: (-(each["memory_mb"] or 0), each["name"], each["uuid"])):
        reason = why_unmovable(each) or ("it is to be shut down instead of moved" if is_to_shut_down(each) else None)
        if reason is None and tuple(homes[each["uuid"]]) not in rows:
            reason = f"the compute node {homes[each['uuid']][1]} is not in the store any more"
        if reason is None:
            going.append(each)
        else:
            staying[each["uuid"]] = reason
    packing_state, items = packing_state_of(states, policy, going)
    item_of = {packing_state.candidates[item][0].instance["uuid"]: item for item in items}
    moves, left, moved = [], going, True
    # One that has gone home may have made the room that another one needs.
    while moved:
        moved, rest = False, []
        for each in left:
            item, home = item_of[each["uuid"]], rows[tuple(homes[each["uuid"]])]
            if packing_state.fits(item)[home]:
                moves.append(move_of(packing_state, item, home))
                packing_state.move(item, home)
                moved = True
            else:
                rest.append(each)
        left = rest
    for each in left:
        staying[each["uuid"]] = f"{homes[each['uuid']][0]} has no room for it now, or a host filter or server group keeps it away"
    waves = plan_waves(moves, fleet, limits)
    return {
        "moves": moves,
        "waves": waves,
        "seconds": plan_seconds(moves),
        "staying": [
            {"uuid": each["uuid"], "name": each["name"], "reason": staying[each["uuid"]]}
            for each in sorted(away, key=lambda each: (each["name"], each["uuid"]))
            if each["uuid"] in staying
        ],
    }
