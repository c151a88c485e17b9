# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains of hosts on a shared pool: the disk stays in its place."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._planner.capacity import plan_capacity
from ansible_collections.drover.compute.plugins.plugin_utils._planner.destinations import (
    packing_state_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils._planner.packing_state import (
    PackingState,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.planner.guests import guest
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import (
    fleet,
    host,
    provide,
    request,
)

POLICY = Policy.from_mapping({})


def on_pools(pools, nodes, guests):
    """Return the columns. ``pools``: {host: (number, total)}; the disks of the guests there count
    as used."""
    columns = fleet(*nodes, instances=guests)
    shared = []
    for pool in sorted(set(pools.values())):
        names = [name for name in columns["host"] if pools.get(name) == pool]
        for name in names:
            columns["resources"]["DISK_GB"]["total"][columns["host"].index(name)] = 0
        used = sum(each["disk_gb"] for each in guests if each["host"] in names)
        number, total = pool
        shared.append(
            {
                "name": f"pool{number}",
                "total": total,
                "used": used,
                "max_unit": total,
                "hosts": names,
                "shared": True,
            }
        )
    return provide(columns, "DISK_GB", *shared)


def drained(columns, guests, **more):
    here = [each for each in guests if each["host"] == "kvm1"]
    return plan_drain(
        columns, here, "kvm1", POLICY, others=[each for each in guests if each not in here], **more
    )


def test_a_full_pool_is_drained_from_one_host_to_the_other():
    guests = [guest(f"g{n}", disk_gb=10, memory_mb=64) for n in range(5)]
    columns = on_pools({"kvm1": (0, 50), "kvm2": (0, 50)}, [host("kvm1"), host("kvm2")], guests)
    plan = drained(columns, guests)
    assert plan["status"] == "ok" and {move["host"] for move in plan["moves"]} == {"kvm2"}


def test_packing_and_making_room_in_a_full_pool():
    # 3 + 2 vCPU fit into the rest only if the instances are placed well and one other instance
    # moves.
    guests = [
        guest("a", vcpus=3, disk_gb=10),
        guest("b", vcpus=2, disk_gb=10),
        guest("c", host="kvm2", vcpus=2, disk_gb=10),
        guest("d", host="kvm3", vcpus=1, disk_gb=10),
    ]
    nodes = [host("kvm1", vcpus=8), host("kvm2", vcpus=4), host("kvm3", vcpus=4)]
    columns = on_pools(dict.fromkeys(("kvm1", "kvm2", "kvm3"), (3, 40)), nodes, guests)
    plan = drained(columns, guests, extra_moves=2)
    assert plan["status"] == "ok" and len(plan["moves"]) == 2
    tight = [host("kvm1", vcpus=8), host("kvm2", vcpus=4), host("kvm3", vcpus=3)]
    more = [*guests[:1], guest("b", vcpus=1, disk_gb=10), *guests[2:]]
    columns = on_pools(dict.fromkeys(("kvm1", "kvm2", "kvm3"), (3, 40)), tight, more)
    plan = drained(columns, more, extra_moves=2)
    assert plan["status"] == "ok" and plan["extra_moves"] == 1


def test_no_false_proof_and_no_room_in_another_pool():
    guests = [guest("a", disk_gb=10), guest("b", host="kvm3", disk_gb=15)]
    nodes = [host("kvm1"), host("kvm2", memory_mb=8), host("kvm3")]
    columns = on_pools({"kvm1": (0, 10), "kvm2": (0, 10), "kvm3": (1, 20)}, nodes, guests)
    plan = drained(columns, guests)
    assert plan["status"] == "partial" and plan["proof"] is None
    columns = on_pools({"kvm1": (0, 10), "kvm2": (0, 10), "kvm3": (1, 25)}, nodes, guests)
    assert [move["host"] for move in drained(columns, guests)["moves"]] == ["kvm3"]


def test_the_board_counts_a_pool_once():
    guests = [guest("a", disk_gb=10), guest("b", host="kvm3", disk_gb=4)]
    nodes = [host("kvm1"), host("kvm2"), host("kvm3", disk_gb=4)]
    columns = on_pools({"kvm1": (0, 20), "kvm2": (0, 20)}, nodes, guests)
    packing_state, (a, b) = packing_state_of(HostStates(columns), POLICY, guests)
    disk = packing_state.classes.index("DISK_GB")
    assert isinstance(packing_state, PackingState) and packing_state.free[:, disk].tolist() == [
        10,
        10,
        0,
    ]
    assert packing_state.fits(a).tolist() == [False, True, False] and packing_state.fits(
        b
    ).tolist() == [True, True, False]
    packing_state.put(b, 1)
    assert packing_state.free[:, disk].tolist() == [6, 6, 0]
    packing_state.take(b, 1)
    packing_state.move(a, 1)
    assert packing_state.free[:, disk].tolist() == [10, 10, 0]
    packing_state.move(b, 0)
    assert packing_state.free[:, disk].tolist() == [6, 6, 4]
    packing_state.move(b, 2)
    packing_state.move(a, 0)
    assert packing_state.free[:, disk].tolist() == [10, 10, 0]


def test_what_more_fits_counts_a_pool_once():
    columns = on_pools({"kvm1": (0, 20), "kvm2": (0, 20)}, [host("kvm1"), host("kvm2")], [])
    assert plan_capacity(columns, request("x", disk_gb=5), POLICY)["total"] == 4
