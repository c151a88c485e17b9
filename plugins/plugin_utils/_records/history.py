# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity and the use of a fleet over time. Days are counted from 1970 (UTC)."""

from __future__ import annotations

from typing import NamedTuple, TypedDict


class DayTotal(NamedTuple):
    """A resource class in a zone on a day, in its unit. capacity: (total - reserved) x ratio. The
    zone is empty for hosts without a zone.
    """

    day: int
    zone: str
    resource_class: str
    capacity: float
    used: int


class UseForecast(TypedDict):
    """The forecast of the day when a resource class is full in a zone: a line through the use of
    some days.

    days: from today on. first, last: the days that the line is drawn through. per_day: how much
    more is used each day, in the unit of the class.
    """

    zone: str
    resource_class: str
    days: int
    first: int
    last: int
    per_day: float
