# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts for instances, and the number of instances that fit, as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import natural, node_labels
from .._common.resource_classes import words_of
from .._records.claims import Selection
from .explanation import reasons
from .text import align

_WORDS = {"VCPU": "vCPUs", "PCPU": "dedicated CPUs", "MEMORY_MB": "memory", "DISK_GB": "disk"}


def schedule_lines(selections: Sequence[Selection]) -> list[str]:
    """Return the lines of selections: the host of each instance, and its alternates."""
    if not selections:
        return ["There is nothing to schedule."]
    label = _labels(part for each in selections for part in (each, *each["alternates"]))
    rows = [
        [each["name"], label(each), [label(other) for other in each["alternates"]]]
        for each in selections
    ]
    return [
        *align(["INSTANCE", "HOST", "ELSE"], rows, name="INSTANCE"),
        *(
            f"{each['name']} on {label(each)}: {why}."
            for each in selections
            for why in _why_best(each)
        ),
        "Nothing was claimed: another run may take the room first.",
    ]


def _why_best(selection: Mapping[str, Any]) -> list[str]:
    """Return the reason why the host of a selection is the best, in a few words; nothing without an
    explanation.
    """
    top = (selection.get("explanation") or {}).get("top") or []
    chosen = [each for each in top if _host_and_node(each) == _host_and_node(selection)]
    return (
        [", ".join(reasons(chosen[0], top)) or "no weigher prefers another host"] if chosen else []
    )


def capacity_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines about the number of further instances that fit; for a single flavor or
    request also by host.
    """
    if not found:
        return ["There is nothing to count."]
    rows = [
        [each["name"], each["total"], _word(each["short"]), after_loss(each["with_loss"])]
        for each in found
    ]
    lines = align(
        ["SIZE", "MORE FIT", "RUNS OUT FIRST", "IF THE WORST HOST IS LOST"],
        rows,
        right=("MORE FIT",),
    )
    if len(found) == 1:
        hosts = sorted(
            found[0]["hosts"], key=lambda each: (natural(each["host"]), natural(each["node"]))
        )
        label = _labels(hosts)
        rows = [
            [label(each), each["count"], _word(each["short"]) or _rejection(each)] for each in hosts
        ]
        lines += ["", *align(["HOST", "MORE FIT", "RUNS OUT FIRST"], rows, right=("MORE FIT",))]
    return lines


def _rejection(each: Mapping[str, object]) -> str | None:
    if each["rejected_by"] is None:
        return None
    return f"rejected by {each['rejected_by']}" + (f": {each['reason']}" if each["reason"] else "")


def after_loss(loss: Mapping[str, object] | None) -> str | None:
    """Return the number of further instances that fit after the worst loss, as a clause; None if it
    was not counted.
    """
    if loss is None:
        return None
    if not loss["survives"]:
        return f"the instances of {loss['host']} do not fit on the others"
    return f"{loss['total']} without {loss['host']}"


def _word(resource_class: str | None) -> str | None:
    return _WORDS.get(resource_class, words_of(resource_class)) if resource_class else None


def _host_and_node(each: Mapping[str, Any]) -> tuple[str, str]:
    return each["host"], each["node"]


def _labels(places: Iterable[Mapping[str, object]]) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that names a place for people."""
    label = node_labels(map(_host_and_node, places))
    return lambda each: label(*_host_and_node(each))
