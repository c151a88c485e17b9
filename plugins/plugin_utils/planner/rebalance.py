# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing: a score of imbalance, and the few moves that better it most."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.planner.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils.planner.forecast import move_seconds, plan_seconds
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movable import is_live
from ansible_collections.drover.compute.plugins.plugin_utils.planner.reach import board_of, may_step_aside
from ansible_collections.drover.compute.plugins.plugin_utils.planner.waves import assign_waves
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates

try:
    import numpy as np
except ImportError:
    np = None

#: The fleet is left alone while its score is not above this.
THRESHOLD = 0.01
#: Least gain of a move.
MARGIN = 0.0005
#: What a move costs, in units of the score, for each GiB of its memory.
COST_PER_GIB = 0.0


def plan_rebalance(
    fleet, instances, policy, max_moves=10, threshold=THRESHOLD, margin=MARGIN, cost_per_gib=COST_PER_GIB, limits=None
):
    """Moves that even the load out, best first, none that costs more than it gains.

    The score is the sum, over resource classes, of the standard deviation of the free share of the
    hosts' capacity (as in Ganeti's hbal), over hosts that are enabled and up. 0 is even. Step by step
    the move with the greatest gain over its cost is taken; each finds room when those before it are
    done. An instance moves once.

    :param fleet: columns as the store's read_fleet returns them.
    :param instances: all instances as the store gives them, with host.
    :param policy: scheduler Policy; its host filters hold, its weighers are not asked.
    :param max_moves: most moves.
    :param threshold: nothing is planned while the score is not above this.
    :param margin: least gain of a move.
    :param cost_per_gib: how much a move must gain more for each GiB of its memory.
    :param limits: None, or a dict per_source, per_destination, total: most moves at once.
    :returns: a dict score_before, score_after, moves [{uuid, name, from_host, from_node, host, node,
        provider, live, memory_mb, server_group, gain, cost, seconds, wave, order}], waves, seconds, reason
        (why nothing more is done).
    :raises PlanError: max_moves is negative.
    """
    if max_moves < 0:
        raise PlanError(f"max_moves of a rebalance must be 0 or more, not {max_moves}.")
    states = HostStates(fleet)
    board, items = board_of(states, policy, may_step_aside(states, instances))
    rows = np.flatnonzero(states.enabled & states.up)
    before = score = imbalance(board, rows)
    moves, done = [], set()
    reason = f"the score is not above the threshold of {threshold:g}"
    if board.changing:
        reason, max_moves = f"the host filters {', '.join(sorted(board.changing))} depend on the load", 0
    while score > threshold and len(moves) < max_moves:
        waiting = [item for item in items if item not in done]
        found = _best(board, rows, waiting, score, margin, cost_per_gib)
        if found is None:
            reason = "no move gains more than it costs"
            break
        item, node, gain, cost = found
        instance = board.movers[item][0].instance
        origin = int(board.at[item])
        live = is_live(instance)
        seconds = move_seconds(int(instance.get("memory_mb") or 0), live, None, instance.get("dirty_mib"))[0]
        moves.append(
            {
                "uuid": instance["uuid"],
                "name": instance["name"],
                "from_host": states.host[origin],
                "from_node": states.node[origin],
                "host": states.host[node],
                "node": states.node[node],
                "provider": states.uuid[node],
                "live": live,
                "memory_mb": int(instance.get("memory_mb") or 0),
                "server_group": instance.get("server_group"),
                "gain": round(gain, 6),
                "cost": round(cost, 6),
                "seconds": seconds,
            }
        )
        board.move(item, node)
        done.add(item)
        score = imbalance(board, rows)
    else:
        if score > threshold and max_moves:
            reason = f"{max_moves} moves are as many as are allowed"
    limits = limits or {}
    budgets = {name: group["max_moving"] for name, group in (fleet.get("server_groups") or {}).items() if group.get("max_moving")}
    waves = assign_waves(moves, limits.get("per_source"), limits.get("per_destination"), limits.get("total"), budgets)
    return {
        "score_before": round(before, 6),
        "score_after": round(score, 6),
        "moves": moves,
        "waves": waves,
        "seconds": plan_seconds(moves),
        "reason": reason,
    }


def imbalance(board, rows):
    """The score of the rows: the standard deviations of the free shares, summed over the classes."""
    if not len(rows):
        return 0.0
    share = _shares(board, rows)
    return float(share.std(axis=0).sum())


def _shares(board, rows):
    return board.free[rows] / np.maximum(board.capacity[rows], 1)


def _best(board, rows, items, score, margin, cost_per_gib):
    """(item, node, gain, cost) of the move with the greatest gain over its cost, or None."""
    here = np.zeros(board.size, dtype=bool)
    here[rows] = True
    alike = {}
    for item in items:
        if here[board.at[item]]:
            alike.setdefault((int(board.at[item]), int(board.kind[item]), board.groups[item]), item)
    if not alike:
        return None
    chosen = list(alike.values())
    at, need = board.at[chosen], board.need[chosen]
    capacity = np.maximum(board.capacity, 1)
    share = board.free / capacity
    count = len(rows)
    total, squares = share[rows].sum(axis=0), (share[rows] ** 2).sum(axis=0)
    new_from = share[at] + need / capacity[at]
    after = np.zeros((len(chosen), count))
    for number in range(len(board.classes)):
        new_to = share[rows, number][None, :] - need[:, number, None] / capacity[rows, number][None, :]
        change = (new_from[:, number] - share[at, number])[:, None] + new_to - share[rows, number][None, :]
        square = (new_from[:, number] ** 2 - share[at, number] ** 2)[:, None] + new_to**2 - share[rows, number][None, :] ** 2
        mean = (total[number] + change) / count
        after += np.sqrt(np.maximum((squares[number] + square) / count - mean**2, 0))
    gain = score - after
    memory = board.classes.index("MEMORY_MB") if "MEMORY_MB" in board.classes else None
    cost = (need[:, memory] / 1024 if memory is not None else np.zeros(len(chosen))) * cost_per_gib
    worth = gain - cost[:, None]
    limit = max(margin, 1e-9)
    while True:
        position = int(np.argmax(worth))
        one, row = divmod(position, count)
        if worth[one, row] < limit:
            return None
        fits = board.fits(chosen[one])[rows]
        if fits[row]:
            return chosen[one], int(rows[row]), float(gain[one, row]), float(cost[one])
        worth[one, ~fits] = -np.inf
