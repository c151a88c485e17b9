# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One decision of the scheduler, in the form for pages and terminals. Data in, data out."""

from __future__ import annotations

from collections.abc import Sequence

from .._records.overview import DecisionRow, WeighedHost
from . import formatting
from .explanation import reasons
from .parts import Decision, RankedHost, WeigherPart
from .text import place

#: The purposes of decisions, in words.
PURPOSES = {"place": "placement", "resize": "resize", "migrate": "cold migration"}


def decision(row: DecisionRow) -> Decision:
    """Return a row of the store's decisions.newest(), with its explanation as figures."""
    explanation, where = row["explanation"], place(row)
    filters, top = (
        (explanation.get("filters") or [], explanation.get("top") or [])
        if explanation
        else ([], [])
    )
    hosts = explanation.get("hosts") if explanation else None
    return {
        "created_at": row["created_at"],
        "purpose": PURPOSES.get(row["purpose"], row["purpose"]),
        "actor": row["actor"],
        "name": row["instance_name"],
        "where": where,
        "alternates": [place(each) for each in row["alternates"] or ()],
        "message": row["message"],
        "hosts": hosts,
        "left": filters[-1]["after"] if filters else hosts,
        "filters": filters,
        "top": [_weighed(each, where, top) for each in top],
    }


def _weighed(each: WeighedHost, where: str | None, top: Sequence[WeighedHost]) -> RankedHost:
    parts: list[WeigherPart] = [
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


def short(found: Decision) -> str | None:
    """Return the reason of a result of decision(), in a few words."""
    if found["where"] is None and found["filters"]:
        rejected = ", ".join(f"{each['name']} {each['rejected']}" for each in found["filters"])
        return f"of {formatting.count(found['hosts'] or 0, 'host')} rejected: {rejected}"
    if found["message"]:
        return found["message"]
    if found["hosts"] is None:
        return None
    best = next((each for each in found["top"] if each["chosen"]), None)
    text = f"{found['left']} of {formatting.count(found['hosts'], 'host')} left by host filters"
    return text + (f"; {', '.join(best['reasons'])}" if best and best["reasons"] else "")
