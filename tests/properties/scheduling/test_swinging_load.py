# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing while the load swings (rule S15): a swing below the threshold moves nothing, one
above it moves nothing twice.
"""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._planner.rebalance import (
    plan_rebalance,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.planner.guests import guest
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host

POLICY = Policy.from_mapping(None)
FOUR = [host(f"kvm{number}", vcpus=64, memory_mb=1000) for number in (1, 2, 3, 4)]
COOLDOWN = 6


def steady():
    """An even fleet: four instances on each host."""
    return [
        guest(f"vm{number}", host=f"kvm{number % 4 + 1}", memory_mb=100) for number in range(16)
    ]


def swing(tick, memory_mb, move_policy):
    """Return a batch of jobs of a user. It comes to one host after the other, and leaves again. The
    jobs never move."""
    return [
        guest(f"job{tick}", host=f"kvm{tick % 4 + 1}", memory_mb=memory_mb, move_policy=move_policy)
    ]


@pytest.mark.parametrize("memory_mb", [10, 40, 90])
def test_a_swing_below_the_threshold_moves_nothing(memory_mb):
    for tick in range(24):
        guests = steady() + swing(tick, memory_mb, "never")
        plan = plan_rebalance(fleet(*FOUR, instances=guests), guests, POLICY, threshold=0.2)
        assert plan["moves"] == [] and "not above the threshold" in plan["reason"], tick


@pytest.mark.parametrize("memory_mb", [150, 300, 450])
def test_a_swing_above_it_moves_no_instance_twice_within_the_cool_down(memory_mb):
    guests, moved = steady(), {}
    for tick in range(24):
        crowd = guests + swing(tick, memory_mb, "never")
        cooling = {name for name, when in moved.items() if tick - when < COOLDOWN}
        candidates = [each for each in crowd if each["name"] not in cooling]
        plan = plan_rebalance(fleet(*FOUR, instances=crowd), candidates, POLICY)
        assert plan["score_after"] <= plan["score_before"]
        for move in plan["moves"]:
            assert move["name"] not in cooling and move["gain"] > 0
            moved[move["name"]] = tick
            next(each for each in guests if each["name"] == move["name"]).update(
                host=move["host"], node=move["host"]
            )
    assert moved, "the swing is not above the threshold"


def test_an_even_fleet_stays_as_it_is_however_often_it_is_asked():
    guests = steady()
    for _dummy in range(5):
        assert (
            plan_rebalance(fleet(*FOUR, instances=guests), guests, POLICY, threshold=0, margin=0)[
                "moves"
            ]
            == []
        )
