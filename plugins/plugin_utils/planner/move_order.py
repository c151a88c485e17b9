# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves run at the same time.

How long moves take, from memory, dirty rate and bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def plan_waves(moves, fleet, limits):
    """assign_waves() within the budgets of a fleet's server groups.

    :param fleet: columns with server_groups, of which those with ``max_moving`` have a budget.
    :param limits: dict of per_source, per_destination and total, each None or missing for no limit; or None.
    """
    budgets = {name: group["max_moving"] for name, group in (fleet.get("server_groups") or {}).items() if group.get("max_moving")}
    most = {key: (limits or {}).get(key) for key in ("per_source", "per_destination", "total")}
    return assign_waves(moves, budgets=budgets, **most)


def assign_waves(moves, per_source=None, per_destination=None, total=None, budgets=None):
    """Give every move a wave and an order, in place, and sort by them.

    The moves are given in an order in which each finds room when those before it are done. In a wave
    every destination is booked before any source is freed, so a move onto a node waits for the wave
    after the moves away from that node that come before it, and moves onto such a node begin in
    their order. Within that every move goes into the earliest wave in which the limits hold.

    Each move also gets ``after``, the uuids of the moves before it that leave its destination, and ``stage``: the
    first is 1, and each move is in a later stage than those in its ``after``. Whoever keeps the limits by himself
    may go on from stage to stage instead of from wave to wave.

    :param moves: a list of dicts with uuid, from_host, from_node, host, node, server_group.
    :param per_source, per_destination, total: most moves at once from a host, to a host, in all; None for no limit.
    :param budgets: {server group: most members that move at the same time}.
    :returns: the number of waves.
    """
    budgets = budgets or {}
    busy = []
    freed = {}
    latest = {}
    freeing = {(move["from_host"], move["from_node"]) for move in moves} & {(move["host"], move["node"]) for move in moves}
    freeing = {host for host, _node in freeing}
    for move in moves:
        wave = 0
        if move["host"] in freeing:
            wave = max(freed.get(move["host"], -1) + 1, latest.get(move["host"], 0))
        while True:
            while wave >= len(busy):
                busy.append(({}, {}, {}))
            if _fits(busy[wave], move, per_source, per_destination, total, budgets):
                break
            wave += 1
        leaving, coming, groups = busy[wave]
        leaving[move["from_host"]] = leaving.get(move["from_host"], 0) + 1
        coming[move["host"]] = coming.get(move["host"], 0) + 1
        for group in groups_of(move):
            groups[group] = groups.get(group, 0) + 1
        freed[move["from_host"]] = max(freed.get(move["from_host"], -1), wave)
        latest[move["host"]] = max(latest.get(move["host"], 0), wave)
        move["wave"] = wave
    _assign_stages(moves)
    # A dependency may leave a wave empty.
    numbers = {wave: number for number, wave in enumerate(sorted({move["wave"] for move in moves}), start=1)}
    for move in moves:
        move["wave"] = numbers[move["wave"]]
    moves.sort(key=lambda move: move["wave"])
    for number, move in enumerate(moves, start=1):
        move["order"] = number
    return len(numbers)


def _assign_stages(moves):
    left, stages, arrived = {}, {}, {}
    for move in moves:
        host = move["host"]
        move["after"] = list(left.get(host, ()))
        stage = max((stages[uuid] + 1 for uuid in move["after"]), default=1)
        # Those who come to a host that is being freed come in their order.
        move["stage"] = max(stage, arrived.get(host, 1)) if move["after"] else stage
        arrived[host] = max(arrived.get(host, 1), move["stage"])
        stages[move["uuid"]] = move["stage"]
        left.setdefault(move["from_host"], []).append(move["uuid"])


def groups_of(move):
    """The server groups of a move or instance, as a tuple of none or one."""
    return (move["server_group"],) if move.get("server_group") else ()


def _fits(busy, move, per_source, per_destination, total, budgets):
    leaving, coming, groups = busy
    if total is not None and sum(leaving.values()) >= total:
        return False
    if per_source is not None and leaving.get(move["from_host"], 0) >= per_source:
        return False
    if per_destination is not None and coming.get(move["host"], 0) >= per_destination:
        return False
    return all(group not in budgets or groups.get(group, 0) < budgets[group] for group in groups_of(move))


#: MiB per second and migration where nothing is said: what one connection carries on 1 Gbit/s.
BANDWIDTH_MIB = 110
#: MiB per second that a guest dirties where nothing is known.
DIRTY_MIB = 10
#: Seconds a move costs beside the copying: checks, define, the claim, the look whether it runs.
SETUP_SECONDS = 2.0
#: Seconds a guest may stand still at the end (libvirt's default).
DOWNTIME_SECONDS = 0.3
#: Rounds of copying after which QEMU gains nothing more.
ROUNDS = 30


def move_seconds(memory_mb, live, bandwidth_mib=None, dirty_mib=None):
    """(seconds, converges) of one move.

    Live migration copies the memory, then again and again what was dirtied meanwhile, until the rest
    can be sent while the guest stands still. A guest that dirties faster than can be sent does not
    get there: its time is that of one copy and it needs a limit, post-copy or auto-converge.

    :param memory_mb: MiB; dirty_mib, bandwidth_mib: MiB per second or None for the defaults.
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


def count_disks(moves: Iterable[dict[str, Any]], copied: Mapping[str, int]) -> None:
    """Count the disks that are copied, in place: copies_mib, copies_disk_mib and seconds.

    :param moves: moves of planner.drain.
    :param copied: dict uuid -> MiB of disks that its move copies; a move that is not in it stays as it is.
    """
    for move in moves:
        if move["uuid"] in copied:
            more = copied[move["uuid"]] - move["copies_disk_mib"]
            move["copies_disk_mib"] += more
            move["copies_mib"] += more
            move["seconds"] = round(move["seconds"] + more / move["bandwidth_mib"], 1)


def plan_seconds(moves):
    """Seconds of a plan whose waves follow each other: each takes as long as its longest move."""
    longest = {}
    for move in moves:
        longest[move["wave"]] = max(longest.get(move["wave"], 0.0), move["seconds"])
    return round(sum(longest.values()), 1)
