# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.errors import node_label


def render(selection: Mapping[str, Any]) -> list[str]:
    """What a selection's explanation says, as a list of lines.

    :param selection: a dict as the lookup schedule returns it, or an explanation of a failure.
    """
    explanation = selection.get("explanation", selection)
    lines = []
    if "host" in selection:
        spares = ", ".join(_place(each) for each in selection.get("alternates") or []) or "none"
        lines.append(f"{selection['name']} goes to {_place(selection)} (weight {selection['weight']:g}); alternates: {spares}")
    stages = explanation.get("filters") or []
    if stages:
        lines.append(f"hosts: {explanation['hosts']}")
        width = max(len(stage["name"]) for stage in stages)
        for stage in stages:
            lines.append(f"  {stage['name']:<{width}}  {stage['after']} left, {stage['rejected']} rejected")
    for place, each in enumerate(explanation.get("top") or [], start=1):
        lines.append(f"{place}. {_place(each)}: weight {each['weight']:g}")
        for name, part in each["weighers"].items():
            # What adds nothing to any weight is no reason.
            if part["normalised"] and part["multiplier"]:
                lines.append(f"     {name}: {part['raw']:g}, normalised {part['normalised']:.3f}, times {part['multiplier']:g}")
    for each in explanation.get("nearest") or []:
        lines.append(f"near miss {_place(each)}: " + "; ".join(lack["text"] for lack in each["lacks"]))
    return lines


def _place(each: Mapping[str, Any]) -> str:
    return node_label(each["host"], each["node"])
