# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions of the scheduler as lines for people: the reasons, and the numbers on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._common.errors import node_labels
from .._records.overview import StageCount, WeighedHost
from .._scheduler.components import Weigher, find
from . import formatting

#: The least normalised value of the best host; values are kept with six digits.
_HIGHEST = 1 - 1e-6


def render(selection: Mapping[str, Any], numbers: bool = False) -> list[str]:
    """Return the explanation of a selection as a list of lines.

    :param selection: a dict that the lookup schedule returns, or an explanation of a failure.
    :param numbers: add the host filters that rejected nothing, and the figures of the weighers.
    """
    explanation = selection.get("explanation", selection)
    lines = []
    parts = [selection] if "host" in selection else []
    for candidate in (
        selection.get("alternates"),
        explanation.get("top"),
        explanation.get("nearest"),
    ):
        parts += candidate or []
    label = node_labels((each["host"], each["node"]) for each in parts)

    def _label_of_node(each: Mapping[str, Any]) -> str:
        return label(each["host"], each["node"])

    if "host" in selection:
        spares = (
            ", ".join(_label_of_node(each) for each in selection.get("alternates") or []) or "none"
        )
        weight = f" (weight {selection['weight']:g})" if numbers else ""
        lines.append(
            f"{selection['name']} goes to {_label_of_node(selection)}{weight}; alternates: {spares}"
        )
    stages = explanation.get("filters") or []
    if stages:
        lines += [f"hosts: {explanation['hosts']}", *_stages(stages, numbers)]
    top = explanation.get("top") or []
    for place, candidate in enumerate(top, start=1):
        if numbers:
            lines.append(f"{place}. {_label_of_node(candidate)}: weight {candidate['weight']:g}")
            lines += _figures(candidate["weighers"])
        else:
            lines.append(
                f"{place}. {_label_of_node(candidate)}:"
                f" {', '.join(reasons(candidate, top)) or 'no weigher prefers it'}"
            )
    for candidate in explanation.get("nearest") or []:
        lines.append(
            f"near miss {_label_of_node(candidate)}: "
            + "; ".join(lack["text"] for lack in candidate["lacks"])
        )
    return lines


def reasons(host: WeighedHost, top: Sequence[WeighedHost]) -> list[str]:
    """Return the reasons of weighers for a host, such as ``most free memory (404 GiB)``.

    :param host: one of top, with its weighers {name: {raw, normalised, multiplier}}.
    :param top: the best hosts.
    """
    weighers = find("weighers")
    texts = []
    for name, part in host["weighers"].items():
        same = not any(each["weighers"].get(name, part)["normalised"] for each in top)
        # A weigher that adds nothing to any weight, or the same to all, gives no reason.
        if not part["multiplier"] or same:
            continue
        if name not in weighers:
            texts.append(f"{name} {part['raw']:g}")
            continue
        text = _reason(weighers[name], part)
        if text:
            texts.append(text)
    return texts


def _reason(weigher: type[Weigher], part: Mapping[str, float]) -> str | None:
    value = (
        None
        if weigher.unit is None
        else formatting.memory(part["raw"])
        if weigher.unit
        else formatting.size(part["raw"])
    )
    highest, lowest = weigher.extremes
    extreme = None
    if part["multiplier"] > 0 and part["normalised"] >= _HIGHEST:
        extreme = highest
    elif part["multiplier"] < 0 and not part["normalised"]:
        extreme = lowest
    if extreme is None:
        return None if value is None else f"{weigher.measures} {value}"
    return f"{extreme} {weigher.measures}".rstrip() + ("" if value is None else f" ({value})")


def _stages(stages: Sequence[StageCount], numbers: bool) -> list[str]:
    shown = [stage for stage in stages if numbers or stage["rejected"]]
    width = max((len(stage["name"]) for stage in shown), default=0)
    lines = [
        f"  {stage['name']:<{width}}  {stage['after']} left, {stage['rejected']} rejected"
        for stage in shown
    ]
    silent = len(stages) - len(shown)
    return lines + (
        [f"  {silent} filter{'' if silent == 1 else 's'} rejected none"] if silent else []
    )


def _figures(weighers: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"     {name}: {part['raw']:g}, normalised {part['normalised']:.3f}, times"
        f" {part['multiplier']:g}"
        for name, part in weighers.items()
        # A weigher that adds nothing to a weight gives no reason.
        if part["normalised"] and part["multiplier"]
    ]
