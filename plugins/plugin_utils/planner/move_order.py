# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of moves, which of them run at the same time, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ansible_collections.drover.compute.plugins.plugin_utils.records.hosts import FleetColumns
from ansible_collections.drover.compute.plugins.plugin_utils.records.plans import DrainMove, MoveLimits, PlannedMove

#: A list of moves of one kind of plan.
AnyMove = TypeVar("AnyMove", bound=PlannedMove)
#: How many moves of a wave leave each host, come to each host, and are of each server group.
Wave = tuple[dict[str, int], dict[str, int], dict[str, int]]


def plan_waves(moves: list[AnyMove], fleet: FleetColumns, limits: MoveLimits | None) -> int:
    """Assign waves within the limits and the budgets of the fleet's server groups, see assign_waves()."""
    budgets = {name: most for name, group in (fleet.get("server_groups") or {}).items() if (most := group.get("max_moving"))}
    return assign_waves(moves, limits, budgets)


def assign_waves(moves: list[AnyMove], limits: MoveLimits | None = None, budgets: Mapping[str, int] | None = None) -> int:
    """Give each move its wave, order, stage and ``after``, in place, and sort the moves by their order.

    In a wave all destinations are claimed before any source is freed. So a move to a host from which earlier moves leave waits for
    the wave after theirs, and moves to such a host begin in their order. Apart from that each move is in the earliest wave in
    which the limits hold. Stages keep the same dependencies without the limits, for a conductor that keeps the limits itself.

    :param moves: in an order in which each fits when those before it are done.
    :param budgets: {server group: most members that move at the same time}.
    :returns: the number of waves.
    """
    limits, budgets = limits or {}, budgets or {}
    busy: list[Wave] = []
    freed: dict[str, int] = {}
    latest: dict[str, int] = {}
    emptied = {(move["from_host"], move["from_node"]) for move in moves} & {(move["host"], move["node"]) for move in moves}
    freeing = {host for host, _node in emptied}
    for move in moves:
        wave = 0
        if move["host"] in freeing:
            wave = max(freed.get(move["host"], -1) + 1, latest.get(move["host"], 0))
        while True:
            while wave >= len(busy):
                busy.append(({}, {}, {}))
            if _fits(busy[wave], move, limits, budgets):
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
    numbers = {wave: number for number, wave in enumerate(sorted({move["wave"] for move in moves}), start=1)}
    for move in moves:
        move["wave"] = numbers[move["wave"]]
    moves.sort(key=lambda move: move["wave"])
    for number, move in enumerate(moves, start=1):
        move["order"] = number
    return len(numbers)


def _assign_stages(moves: Iterable[PlannedMove]) -> None:
    left: dict[str, list[str]] = {}
    stages: dict[str, int] = {}
    arrived: dict[str, int] = {}
    for move in moves:
        host = move["host"]
        move["after"] = list(left.get(host, ()))
        stage = max((stages[uuid] + 1 for uuid in move["after"]), default=1)
        # Moves to a host that is being freed keep their order.
        move["stage"] = max(stage, arrived.get(host, 1)) if move["after"] else stage
        arrived[host] = max(arrived.get(host, 1), move["stage"])
        stages[move["uuid"]] = move["stage"]
        left.setdefault(move["from_host"], []).append(move["uuid"])


def _fits(busy: Wave, move: PlannedMove, limits: MoveLimits, budgets: Mapping[str, int]) -> bool:
    leaving, coming, groups = busy
    per_source, per_destination, total = limits.get("per_source"), limits.get("per_destination"), limits.get("total")
    if total is not None and sum(leaving.values()) >= total:
        return False
    if per_source is not None and leaving.get(move["from_host"], 0) >= per_source:
        return False
    if per_destination is not None and coming.get(move["host"], 0) >= per_destination:
        return False
    group = move["server_group"]
    return not group or group not in budgets or groups.get(group, 0) < budgets[group]


#: Default bandwidth of a migration, MiB per second: what one connection carries on 1 Gbit/s.
BANDWIDTH_MIB = 110
#: Default of the memory that a guest dirties, MiB per second.
DIRTY_MIB = 10
#: Seconds of a move beside the copying: checks, definition, claim, and the look whether it runs.
SETUP_SECONDS = 2.0
#: Seconds that a guest may be paused at the end (libvirt's default).
DOWNTIME_SECONDS = 0.3
#: Rounds of copying after which QEMU gains nothing more.
ROUNDS = 30


def move_seconds(memory_mb: int, live: bool, bandwidth_mib: float | None = None, dirty_mib: float | None = None) -> tuple[float, bool]:
    """Estimate the duration of one move in seconds, and whether it converges.

    A live migration copies the memory, then repeatedly what was dirtied meanwhile, until the rest can be sent while the guest is
    paused. A guest that dirties memory faster than it can be sent never gets there: it counts with the time of one copy, and needs
    a limit, post-copy or auto-converge.

    :param memory_mb: MiB.
    :param bandwidth_mib, dirty_mib: MiB per second; None for the defaults.
    """
    if not live:
        return SETUP_SECONDS, True
    bandwidth = float(bandwidth_mib or BANDWIDTH_MIB)
    dirty = float(DIRTY_MIB if dirty_mib is None else dirty_mib)
    rest, seconds = float(memory_mb), 0.0
    for _round in range(ROUNDS):
        if rest <= bandwidth * DOWNTIME_SECONDS:
            break
        spent = rest / bandwidth
        seconds += spent
        rest = min(dirty * spent, float(memory_mb))
        if dirty >= bandwidth:
            return round(SETUP_SECONDS + seconds, 1), False
    return round(SETUP_SECONDS + seconds + rest / bandwidth, 1), True


def count_disks(moves: Iterable[DrainMove], copied: Mapping[str, int]) -> None:
    """Count the disks that moves copy, in place: copies_mib, copies_disk_mib and seconds.

    :param copied: {uuid: MiB of disks that the move copies}; a move that is not in it stays as it is.
    """
    for move in moves:
        if move["uuid"] in copied:
            more = copied[move["uuid"]] - move["copies_disk_mib"]
            move["copies_disk_mib"] += more
            move["copies_mib"] += more
            move["seconds"] = round(move["seconds"] + more / move["bandwidth_mib"], 1)


def plan_seconds(moves: Iterable[PlannedMove]) -> float:
    """Estimate the duration of a plan in seconds: each wave takes as long as its longest move."""
    longest: dict[int, float] = {}
    for move in moves:
        longest[move["wave"]] = max(longest.get(move["wave"], 0.0), move["seconds"])
    return round(sum(longest.values()), 1)
