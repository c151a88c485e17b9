# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The day when a fleet is full: a line through the use of the last days (least squares). Data in,
data out.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._common.arrays import np
from .._records.history import DayTotal, UseForecast

#: The number of days for the line, and the smallest number of them with data.
DAYS, LEAST = 60, 7
#: Days; a later day is not reported.
FARTHEST = 730


def find(history: Iterable[DayTotal], today: int) -> list[UseForecast]:
    """Return the days until resource classes are full, the earliest first; a class that does not
    grow, or not soon enough, is left out.

    :param history: the totals of days; the last DAYS days count.
    """
    points_of: dict[tuple[str, str], list[DayTotal]] = {}
    for each in history:
        if today - DAYS < each.day <= today:
            points_of.setdefault((each.zone, each.resource_class), []).append(each)
    growing: list[UseForecast] = []
    for (zone, name), points in points_of.items():
        points.sort()
        # Old totals do not show the use of today.
        if len(points) < LEAST or today - points[-1].day > LEAST or points[-1].capacity <= 0:
            continue
        per_day, at_today = _line(points, today)
        if per_day <= 0:
            continue
        days = max(0.0, (points[-1].capacity - at_today) / per_day)
        if days <= FARTHEST:
            growing.append(
                {
                    "zone": zone,
                    "resource_class": name,
                    "days": int(days),
                    "first": points[0].day,
                    "last": points[-1].day,
                    "per_day": per_day,
                }
            )
    return sorted(growing, key=lambda each: (each["days"], each["zone"], each["resource_class"]))


def _line(points: list[DayTotal], today: int) -> tuple[float, float]:
    """Return the growth of the line in each day, and its height today."""
    days = np.array([each.day - today for each in points], dtype=np.float64)
    used = np.array([each.used for each in points], dtype=np.float64)
    offset = days - days.mean()
    slope = float((offset * (used - used.mean())).sum() / (offset**2).sum())
    return slope, float(used.mean() - slope * days.mean())
