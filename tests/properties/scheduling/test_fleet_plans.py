# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling batches, rebalancing, capacity and forecasts, by example."""

from __future__ import annotations

import random

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils._planner import capacity
from ansible_collections.drover.compute.plugins.plugin_utils._planner.capacity import plan_capacity
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rebalance import (
    plan_rebalance,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rolling import plan_rolling
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.planner.guests import guest
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host

POLICY = Policy.from_mapping(None)
FOUR = [host(f"kvm{i}", vcpus=8, memory_mb=100) for i in (1, 2, 3, 4)]


def half_full(count=4, **more):
    return [guest(f"vm{i}", host=f"kvm{i}", memory_mb=50, **more) for i in range(1, count + 1)]


def test_half_full_hosts_go_down_by_halves():
    guests = half_full()
    plan = plan_rolling(fleet(*FOUR, instances=guests), guests, POLICY)
    assert plan == {"batches": [["kvm1", "kvm2"], ["kvm3", "kvm4"]], "blocked": [], "bound": 2}


def test_a_spare_host_makes_batches_smaller():
    guests = [guest(f"vm{i}", host=f"kvm{i}", memory_mb=30) for i in (1, 2, 3, 4)]
    columns = fleet(*FOUR, instances=guests)
    assert len(plan_rolling(columns, guests, POLICY)["batches"]) == 2
    assert len(plan_rolling(columns, guests, POLICY, spare_hosts=1)["batches"]) == 4
    assert len(plan_rolling(columns, guests, POLICY, batch_size=1)["batches"]) == 4


def test_anti_affinity_keeps_batches_small():
    guests = half_full(group="web")
    plan = plan_rolling(
        fleet(*FOUR, host("kvm5"), instances=guests, groups={"web": ("anti-affinity", 1)}),
        guests,
        POLICY,
    )
    assert max(len([name for name in batch if name != "kvm5"]) for batch in plan["batches"]) == 1


def test_a_host_with_an_unmovable_instance_is_in_no_batch():
    guests = [
        guest("pinned", host="kvm1", move_policy="never"),
        guest("off", host="kvm2", move_policy="shutdown"),
    ]
    plan = plan_rolling(fleet(*FOUR, instances=guests), guests, POLICY, hosts=["kvm1", "kvm2"])
    assert plan["batches"] == [["kvm2"]]
    assert plan["blocked"] == [
        {"host": "kvm1", "reason": "pinned cannot move: its migration policy is 'never'"}
    ]
    with pytest.raises(PlanError, match="Host kvm9 is not in the store"):
        plan_rolling(fleet(*FOUR), [], POLICY, hosts=["kvm9"])


def test_rebalancing_evens_out_and_stops():
    guests = [guest(f"vm{i}", memory_mb=20) for i in range(4)]
    columns = fleet(*FOUR, instances=guests)
    plan = plan_rebalance(columns, guests, POLICY)
    assert sorted(move["host"] for move in plan["moves"]) == ["kvm2", "kvm3", "kvm4"]
    assert plan["score_after"] == 0 and plan["waves"] == 1
    assert all(move["gain"] > 0 for move in plan["moves"])
    assert len(plan_rebalance(columns, guests, POLICY, max_moves=1)["moves"]) == 1
    assert plan_rebalance(columns, guests, POLICY, threshold=9.0)["moves"] == []
    dear = plan_rebalance(columns, guests, POLICY, cost_per_gib=1000.0)
    assert dear["moves"] == [] and dear["reason"] == "no further move gains more than it costs"


@pytest.mark.parametrize(
    ("more", "rejected"),
    [
        ({}, [None, None, None, None]),
        (
            {"availability_zone": "east"},
            [
                (
                    "AvailabilityZoneFilter",
                    "zone: asked east, which no host is in (no host is in any zone)",
                )
            ]
            * 4,
        ),
        (
            {"flavor": {"name": "f", "extra_specs": {"trait:HW_CPU_X86_AVX": "required"}}},
            [("required_traits", "asked HW_CPU_X86_AVX")] * 4,
        ),
        (
            {"node": "kvm2"},
            [
                ("node", "not the requested node kvm2"),
                None,
                *[("node", "not the requested node kvm2")] * 2,
            ],
        ),
        ({"resources": {"VGPU": 1}}, [("VGPU", "VGPU: asked 1, the host reports none at all")] * 4),
        (
            {"server_group": "web"},
            [None, *[("ServerGroupAffinityFilter", "its server group web is on other hosts")] * 3],
        ),
    ],
)
def test_capacity_names_what_rejects_a_node(more, rejected):
    columns = fleet(*FOUR, instances=[guest("vm1", group="web")], groups={"web": ("affinity", 1)})
    request = {"name": "new", "vcpus": 1, "memory_mb": 25, "disk_gb": 0, **more}
    hosts = plan_capacity(columns, request, POLICY)["hosts"]
    assert [
        (each["rejected_by"], each["reason"]) if each["rejected_by"] else None for each in hosts
    ] == rejected
    assert [each["short"] is None for each in hosts] == [each is not None for each in rejected]


def test_capacity_with_and_without_the_loss_of_a_host():
    guests = half_full()
    answer = plan_capacity(
        fleet(*FOUR, instances=guests),
        {"name": "new", "vcpus": 1, "memory_mb": 25, "disk_gb": 0},
        POLICY,
        guests,
    )
    assert [each["count"] for each in answer["hosts"]] == [2, 2, 2, 2]
    assert {each["short"] for each in answer["hosts"]} == {"MEMORY_MB"}
    assert answer["total"] == 8
    assert answer["with_loss"] == {"total": 4, "host": "kvm1", "survives": True}


def test_capacity_when_a_loss_cannot_be_borne():
    guests = [guest("huge", memory_mb=90), guest("b", host="kvm2", memory_mb=20)]
    answer = plan_capacity(
        fleet(*FOUR[:2], instances=guests),
        {"name": "new", "vcpus": 1, "memory_mb": 10, "disk_gb": 0},
        POLICY,
        guests,
    )
    assert answer["with_loss"] == {"total": 0, "host": "kvm1", "survives": False}


def test_the_worst_loss_is_the_same_without_looking_at_every_host(monkeypatch):
    """The bound never hides a host with a worse loss."""
    rng = random.Random(5)
    nodes = [
        (f"kvm{number:02}", rng.choice([8, 16]), rng.choice([100, 200])) for number in range(12)
    ]
    guests = [
        guest(f"vm{number}", host=rng.choice(nodes)[0], memory_mb=rng.choice([5, 10, 20]))
        for number in range(40)
    ]
    columns = fleet(
        *[host(name, vcpus=cpus, memory_mb=memory) for name, cpus, memory in nodes],
        instances=guests,
    )
    request = {"name": "new", "vcpus": 1, "memory_mb": 15, "disk_gb": 0}
    loss = plan_capacity(columns, request, POLICY, guests)["with_loss"]
    monkeypatch.setattr(capacity._Losses, "_room", lambda self, item: None)  # each is computed
    assert (
        plan_capacity(columns, request, POLICY, guests)["with_loss"]["total"] == loss["total"]
        and loss["survives"]
    )
