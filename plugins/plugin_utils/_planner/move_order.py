# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of moves, and the moves that run at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from .._records.hosts import FleetColumns
from .._records.plans import MoveLimits, PlannedMove

#: A list of moves of one kind of plan.
AnyMove = TypeVar("AnyMove", bound=PlannedMove)
#: The number of moves of a wave that leave each host, that come to each host, and that each server
#: group has.
Wave = tuple[dict[str, int], dict[str, int], dict[str, int]]


def plan_waves(moves: list[AnyMove], fleet: FleetColumns, limits: MoveLimits | None) -> int:
    """Assign waves within the limits and the budgets of the fleet's server groups, see
    assign_waves().
    """
    budgets = {
        name: most
        for name, group in (fleet.get("server_groups") or {}).items()
        if (most := group.get("max_moving"))
    }
    return assign_waves(moves, limits, budgets)


def assign_waves(
    moves: list[AnyMove], limits: MoveLimits | None = None, budgets: Mapping[str, int] | None = None
) -> int:
    """Give each move its wave, order, stage and ``after``, in place, and sort the moves by their
    order.

    In a wave all destinations are claimed before any source is freed. So a move to a host that
    earlier moves leave waits for the wave after theirs, and moves to such a host begin in their
    order. Otherwise each move is in the earliest wave that keeps the limits. Stages keep these
    dependencies without the limits, for a conductor that keeps the limits itself.

    :param moves: moves in a possible order: each fits after the moves before it.
    :param budgets: {server group: the maximum of members that move at the same time}.
    :returns: the number of waves.
    """
    limits, budgets = limits or {}, budgets or {}
    busy: list[Wave] = []
    freed: dict[str, int] = {}
    latest: dict[str, int] = {}
    emptied = {(move["from_host"], move["from_node"]) for move in moves} & {
        (move["host"], move["node"]) for move in moves
    }
    freeing = {host for host, _node in emptied}
    for move in moves:
        wave = 0
        if move["host"] in freeing:
            wave = max(freed.get(move["host"], -1) + 1, latest.get(move["host"], 0))
        while True:
            while wave >= len(busy):
                busy.append(({}, {}, {}))
            if _fits_wave(busy[wave], move, limits, budgets):
                break
            wave += 1
        leaving, coming, groups = busy[wave]
        leaving[move["from_host"]] = leaving.get(move["from_host"], 0) + 1
        coming[move["host"]] = coming.get(move["host"], 0) + 1
        group = move["server_group"]
        if group:
            groups[group] = groups.get(group, 0) + 1
        freed[move["from_host"]] = max(freed.get(move["from_host"], -1), wave)
        latest[move["host"]] = max(latest.get(move["host"], 0), wave)
        move["wave"] = wave
    _assign_stages(moves)
    # Dependencies may leave a wave empty.
    numbers = {
        wave: number
        for number, wave in enumerate(sorted({move["wave"] for move in moves}), start=1)
    }
    for move in moves:
        move["wave"] = numbers[move["wave"]]
    moves.sort(key=lambda move: move["wave"])
    for number, move in enumerate(moves, start=1):
        move["order"] = number
    return len(numbers)


def _assign_stages(moves: Iterable[PlannedMove]) -> None:
    leaving: dict[str, list[str]] = {}
    stages: dict[str, int] = {}
    arrived: dict[str, int] = {}
    for move in moves:
        host = move["host"]
        move["after"] = list(leaving.get(host, ()))
        stage = max((stages[uuid] + 1 for uuid in move["after"]), default=1)
        # Moves to a host that is being freed keep their order.
        move["stage"] = max(stage, arrived.get(host, 1)) if move["after"] else stage
        arrived[host] = max(arrived.get(host, 1), move["stage"])
        stages[move["uuid"]] = move["stage"]
        leaving.setdefault(move["from_host"], []).append(move["uuid"])


def _fits_wave(
    busy: Wave, move: PlannedMove, limits: MoveLimits, budgets: Mapping[str, int]
) -> bool:
    leaving, coming, groups = busy
    per_source, per_destination, total = (
        limits.get("per_source"),
        limits.get("per_destination"),
        limits.get("total"),
    )
    if total is not None and sum(leaving.values()) >= total:
        return False
    if per_source is not None and leaving.get(move["from_host"], 0) >= per_source:
        return False
    if per_destination is not None and coming.get(move["host"], 0) >= per_destination:
        return False
    group = move["server_group"]
    return not group or group not in budgets or groups.get(group, 0) < budgets[group]
