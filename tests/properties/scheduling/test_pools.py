# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that share their disk: a batch never takes more than the pool has, and all figures
agree.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    schedule,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import (
    fleet,
    host,
    provide,
    request,
    uuid_of,
)

POLICY = Policy.from_mapping({})
ROOM_ONLY = Policy.from_mapping({"enabled_filters": ["ComputeFilter"]})


def pooled(pools, *hosts, instances=()):
    """Return columns with pools: list of (number, total, used) by host, None for a local disk."""
    columns = fleet(*hosts, instances=instances)
    by_pool = {}
    for row, pool in enumerate(pools):
        if pool is not None:
            columns["resources"]["DISK_GB"]["total"][row] = 0
            by_pool.setdefault(pool, []).append(columns["host"][row])
    shared = [
        {
            "name": f"pool{number}",
            "total": total,
            "used": used,
            "max_unit": total,
            "hosts": names,
            "shared": True,
        }
        for (number, total, used), names in by_pool.items()
    ]
    return provide(columns, "DISK_GB", *shared)


def test_what_one_host_takes_is_gone_for_all():
    states = HostStates(
        pooled([(7, 10, 0), (7, 10, 0), None], host("a"), host("b"), host("c", disk_gb=5))
    )
    made = schedule(states, [request(f"web{n}", disk_gb=5) for n in range(3)], POLICY)
    assert sorted(each["host"] for each in made if each["host"] == "c") == ["c"]
    disk = states.resources["DISK_GB"]
    assert disk.used.tolist() == [10, 10, 5]
    assert all("allocations" not in each for each in made)
    with pytest.raises(NoValidHost, match="disk: asked 5 GiB, 0 GiB free of 10"):
        schedule(states, [request("web9", disk_gb=5)], POLICY)


def test_a_move_within_a_pool_needs_no_room_in_it():
    instances = [{"name": "web", "host": "a", "disk_gb": 0}]
    states = HostStates(
        pooled(
            [(0, 10, 10), (0, 10, 10), (1, 10, 5)],
            host("a"),
            host("b"),
            host("c"),
            instances=instances,
        )
    )
    spec = request("web", disk_gb=6, uuid=uuid_of("web"))
    assert states.fits(spec, "DISK_GB").tolist() == [True, True, False]
    used = states.resources["DISK_GB"].used
    states.consume(1, spec)
    assert used.tolist() == [10, 10, 5]
    states.release(0, spec)
    assert used.tolist() == [10, 10, 5]
    states.consume(2, spec)
    assert used.tolist() == [10, 10, 11]
    states.release(1, spec)
    assert used.tolist() == [4, 4, 11]


@given(
    st.lists(st.sampled_from([None, 0, 1]), min_size=1, max_size=5),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.sampled_from([POLICY, ROOM_ONLY]),
)
def test_never_over_capacity_and_always_the_same_figure(pools, totals, disks, policy):
    hosts = [host(f"kvm{number}", disk_gb=4) for number in range(len(pools))]
    states = HostStates(pooled([None if p is None else (p, totals[p], 0) for p in pools], *hosts))
    disk = states.resources["DISK_GB"]
    placed, by_key = {}, {}
    for number, amount in enumerate(disks):
        spec = request(f"web{number}", disk_gb=amount)
        before = disk.used.copy()
        try:
            (selection,) = schedule(states, [spec], policy)
        except NoValidHost:
            assert disk.used.tolist() == before.tolist()
            continue
        place = pools[states.host.index(selection["host"])]
        key = selection["host"] if place is None else place
        placed[key] = placed.get(key, 0) + amount
        by_key[spec.key] = (states.host.index(selection["host"]), spec)
    assert (disk.used <= disk.capacity).all()
    for row, pool in enumerate(pools):
        assert disk.used[row] == placed.get(states.host[row] if pool is None else pool, 0)
    for row, spec in by_key.values():
        states.release(row, spec)
    assert not disk.used.any()
