# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time when a fleet is full, from a line through the last days."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._planner.growth import (
    DAYS,
    FARTHEST,
    find,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.history import DayTotal
from ansible_collections.drover.compute.plugins.plugin_utils._report.growth import growth_lines

TODAY = 20782


def history(used, capacity=1000, zone="a", name="VCPU", last=TODAY):
    return [
        DayTotal(last - len(used) + 1 + number, zone, name, float(capacity), each)
        for number, each in enumerate(used)
    ]


@given(st.integers(1, 50), st.integers(0, 300), st.integers(7, DAYS))
def test_a_straight_line_is_found_and_ends_at_the_capacity(slope, start, days):
    used = [start + slope * number for number in range(days)]
    trends = find(history(used, capacity=5000), TODAY)
    days_left = (5000 - used[-1]) / slope
    if days_left > FARTHEST:
        assert trends == []
        return
    (line,) = trends
    assert line["per_day"] == pytest.approx(slope) and abs(line["days"] - days_left) <= 1
    assert (line["first"], line["last"]) == (TODAY - days + 1, TODAY)


def test_what_does_not_grow_or_is_known_too_short_is_not_said():
    assert find(history([5] * 30), TODAY) == [] and find(history(range(30, 0, -1)), TODAY) == []
    assert find(history(range(6)), TODAY) == [] and find([], TODAY) == []
    # Older days do not count: it has stopped growing.
    assert find(history(list(range(100)) + [99] * DAYS), TODAY) == []


def test_what_was_long_ago_says_nothing_of_today():
    """Discovery has not run since."""
    assert find(history(range(0, 1000, 100), last=TODAY - 40), TODAY) == []
    assert find(history(range(0, 500, 50), last=TODAY - 7), TODAY) != []


def test_the_first_is_first_and_each_zone_has_its_own_line():
    trends = find(
        history(range(100, 200, 10), zone="b", name="MEMORY_MB")
        + history(range(900, 910))
        + history(range(990, 1000), zone="", name="DISK_GB"),
        TODAY,
    )
    assert [(each["zone"], each["resource_class"], each["days"]) for each in trends] == [
        ("", "DISK_GB", 1),
        ("b", "MEMORY_MB", 81),
        ("a", "VCPU", 91),
    ]
    assert growth_lines(trends) == [
        "Disk is full in 1 day, if it goes on as from 2026-11-16 to 2026-11-25: 1 GiB more a day.",
        (
            "Memory in the zone b is full in 81 days, if it goes on as from 2026-11-16 to"
            " 2026-11-25: 10 MiB more a day."
        ),
        (
            "vCPU in the zone a is full in 91 days, if it goes on as from 2026-11-16 to 2026-11-25:"
            " 1 more a day."
        ),
    ]


def test_what_is_full_already():
    (line,) = find(history(range(1000, 1010)), TODAY)
    assert line["days"] == 0 and " is full now, " in growth_lines([line])[0]
