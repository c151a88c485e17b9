# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One decision of the scheduler, in the form for pages and terminals. Data in, data out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import formatting
from .explanation import reasons
from .text import place

#: The purposes of decisions, in words.
PURPOSES = {"place": "placement", "resize": "resize", "migrate": "cold migration"}


def decision(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the store's decisions.newest(), with its explanation as figures.

    :returns: a dict: created_at, purpose, actor, name, where (host, or host/node; None without a
        host), alternates, message, hosts (the number of examined hosts; None without a stored
        explanation), left (the number of them after the host filters), filters [{name, before,
        after, rejected}], top [{where, chosen, weight, parts [{name, value}], reasons}].
    """
    explanation = row["explanation"] or {}
    filters, where = explanation.get("filters") or [], place(row)
    return {
        "created_at": row["created_at"],
        "purpose": PURPOSES.get(row["purpose"], row["purpose"]),
        "actor": row["actor"],
        "name": row["instance_name"],
        "where": where,
        "alternates": [place(each) for each in row["alternates"]],
        "message": row["message"],
        "hosts": explanation.get("hosts"),
        "left": filters[-1]["after"] if filters else explanation.get("hosts"),
        "filters": filters,
        "top": [_weighed(each, where, explanation["top"]) for each in explanation.get("top") or ()],
    }


def _weighed(
    each: Mapping[str, Any], where: str | None, top: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    parts = [
        {"name": name, "value": part["normalised"] * part["multiplier"]}
        for name, part in each["weighers"].items()
    ]
    return {
        "where": place(each),
        "chosen": place(each) == where,
        "weight": each["weight"],
        "parts": parts,
        "reasons": reasons(each, top),
    }


def short(found: Mapping[str, Any]) -> str | None:
    """Return the reason of a result of decision(), in a few words."""
    if found["where"] is None and found["filters"]:
        rejected = ", ".join(f"{each['name']} {each['rejected']}" for each in found["filters"])
        return f"of {formatting.count(found['hosts'], 'host')} rejected: {rejected}"
    if found["message"]:
        return found["message"]
    if found["hosts"] is None:
        return None
    best = next((each for each in found["top"] if each["chosen"]), None)
    text = f"{found['left']} of {formatting.count(found['hosts'], 'host')} left by host filters"
    return text + (f"; {', '.join(best['reasons'])}" if best and best["reasons"] else "")
