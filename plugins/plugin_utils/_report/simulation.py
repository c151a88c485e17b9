# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a simulation, for people. Data in, data out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._common.errors import natural, some
from .._common.resource_classes import KEYS, unit_of, words_of
from .._records.simulation import FleetState, Replay, Simulation
from . import formatting
from .placing import after_loss
from .text import align
from .view import FIGURES

#: The name of a class for people, and the form of its amounts, by its key.
_WORDS = {key: (label, text_of) for key, label, text_of in FIGURES}
#: The maximum of instances without a place in the lines; the answer has them all.
_SHOWN = 20


def simulation_lines(found: Simulation) -> list[str]:
    """Return the lines about the answer of a simulation."""
    before, after = found["before"], found["after"]
    lines = []
    if found["changes"]:
        rows = [
            [each["text"], each["placed"] or None, each["moved"] or None, left_out(each) or None]
            for each in found["changes"]
        ]
        lines += [
            *align(
                ["CHANGE", "PLACED", "MOVED", "WITHOUT A PLACE"],
                rows,
                right=("PLACED", "MOVED", "WITHOUT A PLACE"),
                name="CHANGE",
            ),
            "",
        ]
    without = [each for change in found["changes"] for each in change["left_out"]]
    if without:
        lines += [
            "Without a place:",
            *(f"  {_label_of_request(each)}: {each['reason']}" for each in without[:_SHOWN]),
        ]
        lines += (
            [f"  and {len(without) - _SHOWN} more, see the answer"] if len(without) > _SHOWN else []
        )
        lines.append("")
    lines += [*align(["", "BEFORE", "AFTER"], facts(before, after)), ""]
    lines += [*align(["ZONE", "CLASS", "BEFORE", "AFTER"], fill(before, after)), ""]
    counted = sizes(before, after)
    if counted:
        headings = ["SIZE", "MORE FIT BEFORE", "AFTER", "AFTER, IF THE WORST HOST IS LOST"]
        lines += [*align(headings, counted, right=("MORE FIT BEFORE", "AFTER"), name="SIZE"), ""]
    return [*lines, *balance(found), "Nothing was written, and no host was read or changed."]


def left_out(change: Mapping[str, Any]) -> int:
    """Return the number of instances without a place after a change."""
    return sum(each["count"] for each in change["left_out"])


def facts(before: FleetState, after: FleetState) -> list[list[Any]]:
    """Return rows of facts of the fleet: name, before, after."""
    return [
        ["Hosts", *(_hosts(each) for each in (before, after))],
        ["Instances", *(formatting.number(each["instances"]) for each in (before, after))],
        ["Hosts that may not be lost", *(_unbearable(each) for each in (before, after))],
    ]


def fill(before: FleetState, after: FleetState) -> list[list[Any]]:
    """Return rows of the fill of each class in each zone: zone, class, before, after."""
    keyed = [
        {(each["zone"], each["resource_class"]): each for each in state["totals"]}
        for state in (before, after)
    ]
    keys = sorted({*keyed[0], *keyed[1]}, key=lambda key: (key[0] == "", natural(key[0]), key[1]))
    rows = []
    for zone, name in keys:
        if any(state.get((zone, name), {}).get("capacity") for state in keyed):
            rows.append(
                [
                    zone or None,
                    _words(name)[0],
                    *(_amounts(state.get((zone, name))) for state in keyed),
                ]
            )
    return rows


def sizes(before: FleetState, after: FleetState) -> list[list[Any]]:
    """Return rows of the number of further instances that fit, for each size: name, before, after,
    after the loss of the worst host.
    """
    return [
        [one["name"], one["total"], two["total"], after_loss(two["with_loss"])]
        for one, two in zip(before["capacity"], after["capacity"])
    ]


def balance(found: Simulation) -> list[str]:
    """Return a sentence on the moves of a rebalance; nothing if no rebalance was requested."""
    if found["moves"] is None:
        return []
    before, after = (found[when]["score"] or 0.0 for when in ("before", "after"))
    then = f"The score of the load is {before:.3f} before and {after:.3f} after (0 is even)."
    if not found["moves"]:
        return [f"{then} A rebalance would move nothing."]
    return [
        f"{then} A rebalance would move {formatting.count(found['moves'], 'instance')}, and bring"
        f" it to {found['score']:.3f}."
    ]


def replay_lines(found: Replay) -> list[str]:
    """Return the lines about decisions that were repeated with another policy."""
    if not found["decided"]:
        return ["The store has no decision of which the instance is still there."]
    lines = list(_replayed(found))
    shown = found["elsewhere"][:_SHOWN]
    if shown:
        rows = [[each["name"], each["host"], each["would"]] for each in shown]
        lines += ["", *align(["INSTANCE", "WENT TO", "WOULD GO TO"], rows, name="INSTANCE")]
        lines += (
            [f"and {len(found['elsewhere']) - _SHOWN} more, see the answer"]
            if len(found["elsewhere"]) > _SHOWN
            else []
        )
    if found["refused"]:
        lines += [
            "",
            "Refused:",
            *(
                f"  {_label_of_request(each)}: {each['reason']}"
                for each in found["refused"][:_SHOWN]
            ),
        ]
    return [*lines, "", "Nothing was written."]


def _replayed(found: Replay) -> Iterator[str]:
    same = (
        found["decided"] - len(found["elsewhere"]) - sum(each["count"] for each in found["refused"])
    )
    yield (
        f"{formatting.count(found['decided'], 'decision')} decided again: {formatting.number(same)}"
        f" the same, {formatting.number(len(found['elsewhere']))} elsewhere,"
        f" {formatting.number(sum(each['count'] for each in found['refused']))} refused."
    )
    if found["skipped"]:
        yield f"{formatting.count(found['skipped'], 'decision')} left out, as the instance is gone."
    yield (
        f"The score of the load is {found['score_before']:.3f} now, and would be"
        f" {found['score_after']:.3f} (0 is even)."
    )


def _hosts(state: FleetState) -> str:
    off = state["hosts"] - state["taking"]
    return f"{formatting.number(state['hosts'])}{f', {formatting.number(off)} take none' if off else ''}"


def _unbearable(state: FleetState) -> str:
    names = state["unbearable"]
    return f"{formatting.number(len(names))} ({some(names, 3)})" if names else "none"


def _amounts(each: Mapping[str, Any] | None) -> str | None:
    if each is None:
        return None
    text_of = _words(each["resource_class"])[1]
    share = f", {round(100 * each['used'] / each['capacity'])} %" if each["capacity"] else ""
    return f"{text_of(each['used'])} of {text_of(each['capacity'])}{share}"


def _words(resource_class: str) -> tuple[str, Callable[[Any], str | None]]:
    unknown = (
        words_of(resource_class),
        formatting.disk if unit_of(resource_class) == "GiB" else formatting.number,
    )
    return _WORDS.get(KEYS.get(resource_class, ""), unknown)


def _label_of_request(each: Mapping[str, Any]) -> str:
    return (
        each["name"]
        if each["count"] == 1
        else f"{each['name']} ({formatting.count(each['count'], 'instance')})"
    )
