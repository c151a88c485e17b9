# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans as lines of text, for the terminal. plan.py has a plan for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._common.errors import as_sentence, node_labels, said_once
from .._planner.drain_solver import AS_WEIGHED
from .._planner.infeasibility import nearest_text
from .._planner.movability import LIVE_STATES
from .._planner.move_times import ASSUMED, BETWEEN_HOSTS, CONFIGURED, DIRTY_MIB, DISKS, FLEET
from .._records.plans import (
    BlockedHost,
    Copying,
    DrainMove,
    DrainPlan,
    EvacuationPlan,
    HomePlan,
    PlannedMove,
    RebalancePlan,
    RollingPlan,
    UnmovableInstance,
)
from .formatting import duration, memory
from .text import SIZES, align, sizes

#: The origin of a rate, in words.
BASES = {
    BETWEEN_HOSTS: "measured over {} between these hosts",
    FLEET: "measured over {} of the fleet",
    CONFIGURED: "the limit bandwidth_mib",
    ASSUMED: "assumed",
}
#: The maximum of names in the list of a line; the moves of the plan have all.
SHOWN = 10


def drain_lines(plan: DrainPlan) -> list[str]:
    """Return the lines of a drain: the moves, the instances that are shut down, and the instances
    that cannot move.
    """
    moves, unmovable = plan["moves"], plan["unmovable"]
    several = len(plan["hosts"]) > 1
    down = _lines_of_down_hosts(
        plan.get("down") or (),
        "Only a host that answers can be drained; drover.compute.evacuate is for a dead one.",
    )
    if not moves and not unmovable and not plan["shutdowns"]:
        return [
            (
                f"{plan['host']} {'hold' if several else 'holds'} no instances; there is nothing to"
                " move."
            ),
            *down,
        ]
    extra = plan["extra_moves"]
    head = f"Drain of {plan['host']}: {_count_of(len(moves) - extra, 'instance')} to move"
    if extra:
        head += f" and {extra} elsewhere to make room"
    if moves:
        head += f" in {_count_of(plan['waves'], 'wave')}"
    lines = [head + (f", {len(unmovable)} cannot move." if unmovable else "."), *down]
    if moves:
        label = node_labels(
            pair
            for move in moves
            for pair in ((move["from_host"], move["from_node"]), (move["host"], move["node"]))
        )
        rows = [
            [
                move["wave"],
                move["name"],
                move["state"],
                *sizes(move),
                label(move["from_host"], move["from_node"]),
                "->",
                label(move["host"], move["node"]),
                _how(move),
            ]
            for move in moves
        ]
        headings = ["WAVE", "INSTANCE", "STATE", *SIZES, "FROM", "", "TO", "HOW"]
        lines.extend(align(headings, rows, right=("WAVE", *SIZES), indent="  ", name="INSTANCE"))
        lines.extend(estimate_lines(plan))
        if plan["method"] != AS_WEIGHED:
            lines.append(
                "The destinations are not the ones with the highest weights. The method that found"
                f" them: {plan['method']}."
            )
    off = [
        f"{each['name']} on {each['host']}" if several else each["name"]
        for each in plan["shutdowns"]
    ]
    if off:
        lines.append(f"To be shut down by their policy: {', '.join(off)}.")
    restless = {
        known: [
            move["name"]
            for move in moves
            if not move["converges"] and (move.get("dirty_mib") is not None) == known
        ]
        for known in (True, False)
    }
    if restless[True]:
        lines.append(
            "Dirty memory faster than it can be sent, and need auto-converge or post-copy:"
            f" {', '.join(restless[True])}."
        )
    if restless[False]:
        lines.append(
            f"If they dirty memory with the assumed {DIRTY_MIB:g} MiB/s, faster than it can be"
            f" sent, they need auto-converge or post-copy: {_join_names(restless[False])}."
        )
    if unmovable:
        lines.append("Cannot move:")
        for text in said_once((each["name"], _stays(each, several)) for each in unmovable):
            lines += text.split("\n")
    if plan["proof"]:
        lines.append(f"It cannot be done: {plan['proof']}.")
    if plan["hint"]:
        lines.append(plan["hint"])
    return lines


def _stays(each: UnmovableInstance, several: bool) -> str:
    """Return the lines about an instance that cannot move, as one text."""
    where = f" on {each['host']}" if several else ""
    lines = [f"  {each['name']} ({each['state']}{where}): {each['reason']}"]
    if each["nearest"] and "the nearest is" not in (each["way_out"] or ""):
        lines.append(f"    But {nearest_text(each['nearest'])}.")
    if each["way_out"]:
        lines.append(f"    Way out: {each['way_out']}")
    return "\n".join(lines)


def estimate_lines(plan: DrainPlan | RebalancePlan | HomePlan) -> list[str]:
    """Return the lines about the expected time of moves, the rates, and the unknown parts; nothing
    without moves.
    """
    moves: Sequence[PlannedMove] = plan["moves"]
    if not moves:
        return []
    lines = [f"Expected to take about {duration(round(plan['seconds']))}."]
    copied: dict[str, list[tuple[str, Copying]]] = {}
    for move in moves:
        of_disks = (
            f"disks of {'running instances' if move['live'] else 'instances that are shut off'}"
        )
        for part in move["copying"]:
            hosts = " ".join(sorted((move["from_host"], move["host"])))
            copied.setdefault(of_disks if part["what"] == DISKS else part["what"], []).append(
                (hosts, part)
            )
    if copied:
        total = memory(sum(move["copies_mib"] for move in moves))
        same: dict[str, list[str]] = {}
        for what, parts in copied.items():
            same.setdefault(_rates(parts), []).append(what)
        parted = [f"{', '.join(kinds)} {rates}" for rates, kinds in same.items()]
        lines.append(f"Copies {total}: {'; '.join(parted)}.")
    empty = sum(
        each["mib"] - move["copies_disk_mib"]
        for move in moves
        for each in move["copying"]
        if each["what"] == DISKS
    )
    if empty > 0:
        lines.append(
            f"Under the limit bandwidth_mib {memory(empty)} of thin disks that nobody has written"
            " count too."
        )
    unknown: dict[str, list[str]] = {}
    for move in moves:
        for words in [
            *move["unknown"],
            *(["how long it takes to shut down and to start"] if _stops(move) else []),
        ]:
            unknown.setdefault(words, []).append(move["name"])
    if unknown:
        lines.append(
            "Not known, so not counted:"
            f" {'; '.join(f'{what} ({_join_names(names)})' for what, names in unknown.items())}."
        )
    return lines


def _rates(parts: Sequence[tuple[str, Copying]]) -> str:
    """Return the rates of a copy with their origin: ``at 96 MiB/s, measured over 12 moves``."""
    rates_text = []
    for basis, words in BASES.items():
        rates = sorted(round(each["rate"]) or 1 for _hosts, each in parts if each["basis"] == basis)
        if rates:
            # The measurements of the fleet are the same for all hosts.
            counts = {
                hosts if basis == BETWEEN_HOSTS else basis: each["moves"]
                for hosts, each in parts
                if each["basis"] == basis
            }
            span = f"{rates[0]}" if rates[0] == rates[-1] else f"{rates[0]} to {rates[-1]}"
            rates_text.append(
                f"at {span} MiB/s, {words.format(_count_of(sum(counts.values()), 'move'))}"
            )
    return " and ".join(rates_text)


def rolling_lines(plan: RollingPlan) -> list[str]:
    """Return the lines of a rolling plan: the batches, and the hosts in none of them."""
    batches, blocked = plan["batches"], plan["blocked"]
    count = sum(len(batch) for batch in batches)
    lines = [
        f"{count} host{'' if count == 1 else 's'} in {len(batches)}"
        f" batch{'' if len(batches) == 1 else 'es'}."
    ]
    down = plan.get("down") or []
    hosts_down = {each["host"] for each in down}
    named = [
        [f"{host} (down)" if host in hosts_down else host for host in batch] for batch in batches
    ]
    lines.extend(f"  {number}. {', '.join(batch)}" for number, batch in enumerate(named, start=1))
    lines.extend(
        _lines_of_down_hosts(down, "A rolling maintenance does not take it until it answers.")
    )
    if blocked:
        lines.append("In no batch:")
        lines.extend(f"  {each['host']}: {each['reason']}" for each in blocked)
    return lines


def rebalance_lines(plan: RebalancePlan) -> list[str]:
    """Return the lines of a rebalance: the score, the moves with their gains, and the reason why
    there are not more.
    """
    moves = plan["moves"]
    lines = [f"Score {plan['score_before']:.4f}, {plan['score_after']:.4f} after {_moves(moves)}."]
    if moves:
        rows = [
            [
                each["wave"],
                each["name"],
                memory(each["memory_mb"]),
                f"{each['from_host']} -> {each['host']}",
                "live" if each["live"] else "cold",
                _gain(each["gain"]),
            ]
            for each in moves
        ]
        lines.extend(
            align(
                ("WAVE", "INSTANCE", "MEMORY", "FROM -> TO", "HOW", "GAIN"),
                rows,
                right=("WAVE", "MEMORY", "GAIN"),
                indent="  ",
                name="INSTANCE",
            )
        )
        lines.extend(estimate_lines(plan))
    lines.append(f"No more, as {plan['reason']}.")
    if plan.get("cooling"):
        lines.append(f"Moved too recently: {', '.join(plan['cooling'])}.")
    return lines


def _gain(gain: float) -> str:
    """Write a gain, which is small in a large fleet."""
    return f"{gain:.4f}" if gain >= 0.001 else f"{gain:.6f}"


def home_lines(plan: HomePlan) -> list[str]:
    """Return the lines of the way home after a maintenance."""
    lines = [f"{_moves(plan['moves'])} home.".capitalize()]
    lines.extend(
        f"  {each['name']}: {each['from_host']} -> {each['host']}" for each in plan["moves"]
    )
    lines.extend(estimate_lines(plan))
    lines.extend(f"  {each['name']} stays: {each['reason']}" for each in plan["staying"])
    return lines


def evacuation_lines(host: str, plan: EvacuationPlan) -> list[str]:
    """Return the lines about the new hosts of the instances of a dead host, in the order of their
    priorities.
    """
    restarts = plan["restarts"]
    if not restarts:
        return [f"No instance of {host} is to be restarted."]
    label = node_labels((each["host"], each.get("node")) for each in restarts)
    rows = [[each["name"], host, "->", label(each["host"], each.get("node"))] for each in restarts]
    table = align(("INSTANCE", "FROM", "", "TO"), rows, indent="  ", name="INSTANCE")
    return [f"Evacuation of {host}: {_count_of(len(restarts), 'instance')} to restart.", *table]


def _lines_of_down_hosts(hosts: Iterable[BlockedHost], advice: str) -> list[str]:
    return [f"{each['host']} is down: {as_sentence(each['reason'])} {advice}" for each in hosts]


def _moves(moves: Sequence[PlannedMove]) -> str:
    return "no move" if not moves else "1 move" if len(moves) == 1 else f"{len(moves)} moves"


def _how(move: DrainMove) -> str:
    how = "live" if move["live"] else "cold"
    if _stops(move):
        how += ", shut down and started again"
    if move["extra"]:
        how += ", to make room"
    return how + (f", copies {memory(move['copies_mib'])}" if move["copies_mib"] else "")


def _stops(move: PlannedMove) -> bool:
    """Return True if an instance is shut down for its move."""
    return not move["live"] and move["state"] in LIVE_STATES


def _join_names(names: Sequence[str]) -> str:
    """Join names; a long list only shows the first ones."""
    more = len(names) - SHOWN
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:SHOWN])} and {more} more"


def _count_of(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
