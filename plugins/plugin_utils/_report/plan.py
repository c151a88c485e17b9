# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan on the page: the hosts before, the moves, the hosts after. Data in, data out.

plans.py has plans for the terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from .._common.errors import DroverError, as_sentence, natural
from .._records.instances import ListedInstance
from . import formatting
from .parts import (
    ChangedHost,
    Drawing,
    DrawnHost,
    DrawnMoves,
    FigureChange,
    HostView,
    PlanBatch,
    PlannedRow,
    PlanView,
)
from .view import FIGURES

#: The number of hosts in the picture: the hosts with the most changes.
DRAWN = 24
#: The names of FIGURES.
_AMOUNTS: tuple[Literal["vcpus", "memory_mb", "disk_gb"], ...] = ("vcpus", "memory_mb", "disk_gb")
#: The distance of the rows of the picture.
ROW = 50
_KINDS = (
    ("rolling", "batches", "Rolling maintenance"),
    ("rebalance", "score_before", "Rebalance"),
    ("home", "staying", "The way home after maintenance"),
    ("drain", "unmovable", "Drain"),
    ("moves", "moves", "Moves"),
)


def plan_view(
    plan: Mapping[str, Any],
    hosts: Sequence[HostView],
    instances: Sequence[ListedInstance],
) -> PlanView:
    """Return the parts of the page about a plan.

    :param plan: a plan of plan_drain_info, plan_rebalance_info, plan_home_info or
        plan_rolling_info.
    :param instances: rows of the store's instances.listing(), for values that a plan does not have.
    :raises DroverError: the mapping is not a plan.
    """
    kind, title = _kind(plan)
    by_uuid = {each["uuid"]: each for each in instances}
    at = {host["host"]: host for host in hosts}
    moves = [
        _view_of_move(each, by_uuid) for each in _rows(plan, "moves", ("name", "from_host", "host"))
    ]
    changed = _changed(moves, at)
    return {
        "kind": kind,
        "title": f"{title} of {plan['host']}" if kind == "drain" and plan.get("host") else title,
        "facts": _facts(plan, moves),
        "notes": _notes(plan),
        "hosts": changed,
        "drawing": drawing(moves, changed),
        "moves": moves,
        "batches": [_batch(each, at) for each in plan.get("batches") or ()],
        "shutdowns": _rows(plan, "shutdowns", ("name",)),
        "staying": (
            _rows(plan, "unmovable", ("name", "reason"))
            + _rows(plan, "staying", ("name", "reason"))
        ),
        "blocked": _rows(plan, "blocked", ("host", "reason")),
        "stale": _stale(moves, by_uuid, at),
    }


def _kind(plan: Any) -> tuple[str, str]:
    if isinstance(plan, dict):
        for kind, key, title in _KINDS:
            if key in plan:
                return kind, title
    raise DroverError(
        "The plan for the report is no plan. Give the plan that one of the modules plan_drain_info,"
        " plan_rebalance_info, plan_rolling_info and plan_home_info of drover.compute returns, a"
        " mapping with moves or batches."
    )


def _rows(plan: Mapping[str, object], key: str, needed: Collection[str]) -> list[dict[str, Any]]:
    rows = plan.get(key) or []
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and set(needed) <= set(row) for row in rows
    ):
        raise DroverError(
            f"The plan for the report is damaged: {key} must be a list of mappings with"
            f" {', '.join(needed)}. Give the plan of the module as it is."
        )
    return rows


def _view_of_move(move: Mapping[str, Any], known: Mapping[str, ListedInstance]) -> PlannedRow:
    row: Mapping[str, object] = known.get(move.get("uuid") or "") or {}
    size = {name: move.get(name, row.get(name)) or 0 for name, _label, _text_of in FIGURES}
    return {
        "uuid": move.get("uuid"),
        "name": move["name"],
        "from_host": move["from_host"],
        "host": move["host"],
        "wave": move.get("wave"),
        "live": move.get("live"),
        "extra": bool(move.get("extra")),
        "seconds": move.get("seconds"),
        "vcpus": size["vcpus"],
        "memory_mb": size["memory_mb"],
        "disk_gb": size["disk_gb"],
        "memory": formatting.memory(size["memory_mb"]),
        "took": formatting.duration(move.get("seconds")),
    }


def _facts(plan: Mapping[str, Any], moves: Sequence[PlannedRow]) -> list[tuple[str, str]]:
    tiles: list[tuple[str, str]] = []
    if "moves" in plan:
        tiles.append(("Moves", str(len(moves))))
    for key, label, text_of in (
        ("status", "Status", str),
        ("waves", "Waves", str),
        ("seconds", "Expected to take", formatting.duration),
        ("score_before", "Imbalance before", "{:.4f}".format),
        ("score_after", "Imbalance after", "{:.4f}".format),
        ("extra_moves", "Moves of other hosts' instances", str),
    ):
        if plan.get(key) is not None and (key != "extra_moves" or plan[key]):
            tiles.append((label, text_of(plan[key]) or ""))
    if "batches" in plan:
        tiles.append(("Batches", str(len(plan["batches"]))))
    return tiles


def _notes(plan: Mapping[str, object]) -> list[str]:
    """Return the sentences of a plan, which are too long for the tiles of its figures."""
    sentences = [
        f"{words} {as_sentence(plan[key])}"
        for key, words in (("proof", "It cannot be done:"), ("reason", "No more moves:"))
        if plan.get(key)
    ]
    # The first line is the time, which is a figure.
    estimate = plan.get("estimate")
    return sentences + [str(line) for line in (estimate[1:] if isinstance(estimate, list) else ())]


def _changed(moves: Sequence[PlannedRow], at: Mapping[str, HostView]) -> list[ChangedHost]:
    """Return the hosts that moves leave or reach, in the order of the page, with their amounts
    before and after.
    """
    delta: dict[str, dict[str, int]] = {}
    for move in moves:
        amounts = {key: move[key] for key in _AMOUNTS}
        for name, sign in ((move["from_host"], -1), (move["host"], 1)):
            host = delta.setdefault(
                name, {"instances": 0, "vcpus": 0, "memory_mb": 0, "disk_gb": 0, "moves": 0}
            )
            host["instances"] += sign
            host["moves"] += 1
            for figure in _AMOUNTS:
                host[figure] += sign * amounts[figure]
    names = sorted(delta, key=lambda name: (delta[name]["instances"] >= 0, natural(name)))
    return [_before_and_after(name, delta[name], at.get(name)) for name in names]


def _before_and_after(name: str, delta: Mapping[str, int], host: HostView | None) -> ChangedHost:
    figures: list[FigureChange] = []
    for number, (figure, label, text_of) in enumerate(FIGURES):
        now = host["figures"][number] if host else None
        used, capacity = (now["used"], now["capacity"]) if now else (0, 0)
        shared = now is not None and now["shared"]
        # Disks on a shared pool stay there.
        after = used + (0 if shared else delta[figure])
        figures.append(
            {
                "name": figure,
                "label": label,
                "capacity": capacity,
                "shared": shared,
                "before": used,
                "after": after,
                "before_percent": formatting.percent(used, capacity),
                "after_percent": formatting.percent(after, capacity),
                "before_text": text_of(used),
                "after_text": text_of(after),
                "capacity_text": text_of(capacity),
            }
        )
    count = host["instances"] if host else 0
    return {
        "host": name,
        "known": host is not None,
        "moves": delta["moves"],
        "before": count,
        "after": count + delta["instances"],
        "figures": figures,
    }


def _batch(names: list[str], at: Mapping[str, HostView]) -> PlanBatch:
    drained = [at[name] for name in names if name in at]
    return {
        "hosts": names,
        "instances": sum(host["instances"] for host in drained),
        "memory": formatting.memory(sum(host["figures"][1]["used"] for host in drained)),
    }


def _stale(
    moves: Sequence[PlannedRow],
    known: Mapping[str, ListedInstance],
    at: Mapping[str, HostView],
) -> list[str]:
    sentences = []
    for move in moves:
        row = known.get(move["uuid"] or "")
        if move["uuid"] is not None and row is None:
            sentences.append(f"{move['name']} is no longer in the store.")
        elif row is not None and row["host"] != move["from_host"]:
            sentences.append(
                f"{move['name']} is on {row['host'] or 'no host'} now, not on {move['from_host']}."
            )
    sentences += [
        f"{name} is no longer in the store."
        for name in sorted({m["host"] for m in moves} - set(at), key=natural)
    ]
    return sentences


def drawing(moves: Sequence[PlannedRow], hosts: Sequence[ChangedHost]) -> Drawing:
    """Return the positions of the bars and of the lines between them, in units of a picture 360
    wide.

    :param hosts: the changed hosts, from _changed().
    """
    drawn = sorted(hosts, key=lambda host: -host["moves"])[:DRAWN]
    names = {host["host"] for host in drawn}
    drawn = [host for host in hosts if host["host"] in names]
    rows: list[DrawnHost] = [
        {
            "host": host["host"],
            "y": 30 + ROW * number,
            "before": host["figures"][1]["before_percent"] or 0,
            "after": host["figures"][1]["after_percent"] or 0,
            "instances_before": host["before"],
            "instances_after": host["after"],
        }
        for number, host in enumerate(drawn)
    ]
    y = {row["host"]: row["y"] + 20 for row in rows}
    flows: dict[tuple[str, str], int] = {}
    for move in moves:
        if move["from_host"] in y and move["host"] in y:
            key = (move["from_host"], move["host"])
            flows[key] = flows.get(key, 0) + 1
    lines: list[DrawnMoves] = [
        {
            "from_host": source,
            "host": target,
            "count": count,
            "width": min(1 + count, 8),
            "path": f"M124 {y[source]}C180 {y[source]} 180 {y[target]} 232 {y[target]}",
        }
        for (source, target), count in flows.items()
    ]
    return {
        "height": 34 + ROW * len(rows),
        "rows": rows,
        "lines": lines,
        "left_out": len(hosts) - len(rows),
    }
