# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing judges fleets of any size in the same way, and takes the steps that a comparison of
all moves takes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._planner.rebalance import (
    plan_rebalance,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.planner.guests import guest
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host

POLICY = Policy.from_mapping(None)
SIZES = ((1, 4), (2, 8), (4, 16), (8, 32))


def copies(count):
    """Return the given number of groups of five hosts with one load."""
    hosts = [
        host(f"kvm{number}", vcpus=64, memory_mb=1000, disk_gb=1000) for number in range(5 * count)
    ]
    guests = [
        guest(f"vm{number}-{each}", host=f"kvm{number}", memory_mb=100, disk_gb=10)
        for number in range(5 * count)
        for each in range((6, 3, 3, 3, 1)[number % 5])
    ]
    return fleet(*hosts, instances=guests), guests


@pytest.mark.parametrize("count", [10, 100])
def test_the_margin_is_the_same_judgement_in_a_fleet_of_any_size(count):
    few = plan_rebalance(*copies(1), POLICY, max_moves=1, margin=0, threshold=0)
    worth = 5 * few["moves"][0]["gain"]
    # The first move is worth the same to each host, except for its small change of the mean.
    for margin, moves in ((0.8 * worth, 1), (1.25 * worth, 0)):
        plan = plan_rebalance(*copies(count), POLICY, max_moves=1, margin=margin, threshold=0)
        assert len(plan["moves"]) == moves, (margin, plan["reason"])
    assert len(plan_rebalance(*copies(count), POLICY, max_moves=3)["moves"]) == 3
    costs = plan_rebalance(
        *copies(count), POLICY, max_moves=1, cost_per_gib=1.25 * worth / (100 / 1024), margin=0
    )
    assert costs["moves"] == []


def crowd(seed, count):
    """A fleet of different hosts, filled from 20 to 90 %."""
    draw = random.Random(seed)
    hosts, guests = [], []
    for number in range(count):
        vcpus, memory = draw.choice(((32, 128), (48, 256), (64, 256)))
        hosts.append(host(f"kvm{number}", vcpus=vcpus, memory_mb=memory, disk_gb=4000))
        full, used = draw.uniform(0.2, 0.9), [0, 0]
        while used[1] < full * memory:
            cpus, size = draw.choice(SIZES)
            if used[0] + cpus > vcpus or used[1] + size > memory:
                break
            used = [used[0] + cpus, used[1] + size]
            guests.append(
                guest(
                    f"vm{len(guests)}",
                    host=f"kvm{number}",
                    vcpus=cpus,
                    memory_mb=size,
                    disk_gb=10 * cpus,
                )
            )
    return hosts, guests


def best_gain(columns, guests):
    """Return the greatest gain of one move that fits; the function compares all moves."""
    row = {name: number for number, name in enumerate(columns["host"])}
    best = 0.0
    capacity = np.array(
        [columns["resources"][rc]["total"] for rc in ("VCPU", "MEMORY_MB", "DISK_GB")], dtype=float
    )
    used = np.array(
        [columns["resources"][rc]["used"] for rc in ("VCPU", "MEMORY_MB", "DISK_GB")], dtype=float
    )
    count = len(row)
    share = 1 - used / capacity
    total, squares = share.sum(axis=1), (share**2).sum(axis=1)
    before = np.sqrt(squares / count - (total / count) ** 2).sum()
    for instance in guests:
        need, at = (
            np.array([instance["vcpus"], instance["memory_mb"], instance["disk_gb"]], dtype=float),
            row[instance["host"]],
        )
        leaving, arriving = need / capacity[:, at], need[:, None] / capacity
        change = leaving[:, None] - arriving
        more = (
            ((share[:, at] + leaving) ** 2 - share[:, at] ** 2)[:, None]
            + (share - arriving) ** 2
            - share**2
        )
        after = np.sqrt(
            ((squares[:, None] + more) / count - ((total[:, None] + change) / count) ** 2).clip(
                min=0
            )
        ).sum(axis=0)
        fits = (used + need[:, None] <= capacity).all(axis=0)
        fits[at] = False
        if fits.any():
            best = max(best, before - after[fits].min())
    return best


@pytest.mark.parametrize(("seed", "count"), [(1, 5), (2, 30), (3, 150), (4, 400)])
def test_a_step_gains_what_the_best_of_all_moves_gains(seed, count):
    hosts, guests = crowd(seed, count)
    columns = fleet(*hosts, instances=guests)
    # The default ratio of a column is 1.
    plan = plan_rebalance(columns, guests, POLICY, max_moves=1, margin=0, threshold=0)
    assert plan["moves"][0]["gain"] == pytest.approx(best_gain(columns, guests), abs=2e-6)


def test_many_sources_without_a_destination_do_not_hide_the_moves_of_others():
    """The largest instances gain most, but each host already has a member of their groups."""
    hosts = [host(f"kvm{number:03}", vcpus=640, memory_mb=1000) for number in range(900)]
    guests = [
        guest(
            f"{group}{number}",
            host=f"kvm{number:03}",
            memory_mb=(10, 10, 150)[number % 3],
            group=group,
        )
        for number in range(900)
        for group in ("web", "db")
    ]
    guests.append(guest("plain", host="kvm152", memory_mb=20))
    columns = fleet(
        *hosts, instances=guests, groups={"web": ("anti-affinity", 1), "db": ("anti-affinity", 1)}
    )
    plan = plan_rebalance(columns, guests, POLICY, max_moves=3)
    assert [move["name"] for move in plan["moves"]] == ["plain"]
