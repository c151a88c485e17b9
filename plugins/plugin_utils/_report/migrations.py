# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrations as rows and by day. Data in, data out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from .._records.overview import DayCount, MigrationRow
from .._records.statuses import MigrationStatus
from . import formatting
from .parts import Bar, Day, Days, MigrationView

#: The number of days of migrations in the picture.
DAYS = 30
#: The y coordinate of the foot of their bars.
HEIGHT = 106
ENDED_WELL: tuple[MigrationStatus, ...] = ("completed", "confirmed", "done")
UNDER_WAY: tuple[MigrationStatus, ...] = ("accepted", "running", "finished")
#: A person, or a check before the move, requested this.
UNDONE: tuple[MigrationStatus, ...] = ("cancelled", "reverted")
Outcome = Literal["well", "open", "undone", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: The names of the types for people.
TYPES = {"live-migration": "live", "migration": "cold"}


def migration(row: MigrationRow) -> MigrationView:
    """Return a row of the store's migrations with its outcome, its type in words, and the seconds
    it took (None while under way).
    """
    took = row["updated_at"] - row["created_at"]
    return {
        **row,
        "outcome": outcome(row["status"]),
        "type": TYPES.get(row["type"], row["type"]),
        "took": None if row["status"] in UNDER_WAY else took,
    }


def outcome(status: MigrationStatus) -> Outcome:
    """Return well, open (under way), undone (cancelled or reverted, no reason for alarm) or
    failed.
    """
    if status in ENDED_WELL:
        return "well"
    return "open" if status in UNDER_WAY else "undone" if status in UNDONE else "failed"


def days(rows: Sequence[DayCount]) -> Days:
    """Count migrations by day, up to the newest.

    Bars are drawn in a picture 360 wide, upwards from HEIGHT.
    """
    if not rows:
        return {"days": [], "most": 0, "dropped": 0}
    last = max(row["day"] for row in rows)
    counts: dict[int, Day] = {
        day: {
            "day": day,
            "date": formatting.date(day),
            "well": 0,
            "open": 0,
            "undone": 0,
            "failed": 0,
            "total": 0,
            "x": 0.0,
            "bars": [],
        }
        for day in range(last - DAYS + 1, last + 1)
    }
    dropped = 0
    for row in rows:
        if row["day"] not in counts:
            dropped += row["count"]
            continue
        counts[row["day"]][outcome(row["status"])] += row["count"]
        counts[row["day"]]["total"] += row["count"]
    most = max(each["total"] for each in counts.values())
    for number, bar in enumerate(counts.values()):
        bar["x"] = round(26 + number * 11.1, 1)
        bar["bars"] = _bars(bar, most)
    return {"days": list(counts.values()), "most": most, "dropped": dropped}


def _bars(day: Day, most: int) -> list[Bar]:
    bars: list[Bar] = []
    top: float = HEIGHT
    for name in OUTCOMES:
        if day[name]:
            height = (HEIGHT - 8) * day[name] / most
            top -= height
            bars.append({"outcome": name, "y": round(top, 1), "height": round(height, 1)})
    return bars
