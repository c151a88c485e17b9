# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each host filter, a row of the reference (N2) at a time."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_fields import (
    ServerGroupRequest,
)
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import (
    fleet,
    host,
    request,
    uuid_of,
)


def passing(name, columns, spec, options=None):
    """Return the hosts that pass one host filter, and its rejection reasons for the others."""
    states = HostStates(columns)
    host_filter = find("host_filters")[name](options)
    mask = host_filter.passes(states, spec)
    assert len(mask) == states.size
    passed = [states.label(i) for i in range(states.size) if mask[i]]
    rejection_reason = {
        states.label(i): host_filter.rejection_reason(states, spec, i)
        for i in range(states.size)
        if not mask[i]
    }
    return passed, rejection_reason


def test_compute_filter_wants_enabled_and_up():
    columns = fleet(
        host("a"),
        host("b", disabled="patching"),
        host("c", down="forced down"),
        host("d", disabled="", down="unreachable"),
    )
    passed, rejection_reason = passing("ComputeFilter", columns, request())
    assert passed == ["a"]
    assert rejection_reason == {
        "b": "disabled, 'patching'",
        "c": "down, forced down",
        "d": "disabled and down, unreachable",
    }


ZONED = [host("a", zones=["az1"]), host("b", zones=["az1", "az2"]), host("c")]


@pytest.mark.parametrize(
    ("zone", "passes"),
    [(None, ["a", "b", "c"]), ("az1", ["a", "b"]), ("az2", ["b"]), ("nova", ["c"]), ("az9", [])],
)
def test_availability_zone(zone, passes):
    passed, rejection_reason = passing(
        "AvailabilityZoneFilter", fleet(*ZONED), request(availability_zone=zone)
    )
    assert passed == passes
    if zone == "az9":
        assert rejection_reason["a"] == "zone: asked az9, which no host is in (zones: az1, az2)"
    if zone == "az2":
        assert rejection_reason["a"] == "zone: asked az2, the host is in az1"
        assert rejection_reason["c"] == "zone: asked az2, the host is in none"


def test_the_zone_of_hosts_without_one_is_an_option():
    options = {"default_availability_zone": "az2"}
    passed, _lacks = passing(
        "AvailabilityZoneFilter", fleet(*ZONED), request(availability_zone="az2"), options
    )
    assert passed == ["b", "c"]


CAPACITY = [("CoreFilter", "vcpus"), ("RamFilter", "memory_mb"), ("DiskFilter", "disk_gb")]


@pytest.mark.parametrize(("name", "key"), CAPACITY)
@pytest.mark.parametrize(
    ("columns", "amount", "fits"),
    [
        # used + requested <= (total - reserved) * ratio, to the last unit
        ({"total": 8, "used": 4}, 4, True),
        ({"total": 8, "used": 4}, 5, False),
        ({"total": 8, "reserved": 1, "used": 4}, 4, False),
        ({"total": 8, "reserved": 2, "ratio": 2.0, "used": 8}, 4, True),
        ({"total": 8, "reserved": 2, "ratio": 2.0, "used": 9}, 4, False),
        # the product is not rounded: 3 * 1.5 = 4.5 holds 4 and not 5
        ({"total": 3, "ratio": 1.5, "max_unit": 9}, 4, True),
        ({"total": 3, "ratio": 1.5, "max_unit": 9}, 5, False),
        # limits of one allocation
        ({"total": 8, "ratio": 4.0}, 9, False),
        ({"total": 8, "min_unit": 4}, 2, False),
        ({"total": 8, "step_size": 3}, 4, False),
        ({"total": 8, "step_size": 3}, 6, True),
        # no inventory, and more used than there is
        ({"total": 0}, 1, False),
        ({"total": 8, "used": 20}, 1, False),
    ],
)
def test_capacity_is_placement_s(name, key, columns, amount, fits):
    more = {field: {key: value} for field, value in columns.items() if field != "total"}
    node = host("a", **{key: columns["total"]}, **more)
    passed, rejection_reason = passing(name, fleet(node), request(**{key: amount}))
    assert passed == (["a"] if fits else [])
    assert fits or f"asked {amount} " in rejection_reason["a"]


def test_what_capacity_filters_say():
    nodes = [
        host("a", used={"memory_mb": 7168}),
        host("b", memory_mb=0),
        host("c", ratio={"memory_mb": 4.0}, max_unit={"memory_mb": 2048}),
        host("d", min_unit={"memory_mb": 8000}),
        host("e", step_size={"memory_mb": 1000}),
    ]
    _passed, rejection_reason = passing("RamFilter", fleet(*nodes), request(memory_mb=4096))
    assert rejection_reason == {
        "a": "RAM: asked 4096 MiB, 1024 MiB free of 8192",
        "b": "RAM: asked 4096 MiB, the host reports none at all",
        "c": "RAM: asked 4096 MiB, one instance may have 2048 MiB at most",
        "d": "RAM: asked 4096 MiB, one instance must take 8000 MiB at least",
        "e": "RAM: asked 4096 MiB, the host gives multiples of 1000 MiB only",
    }


def test_disk_of_zero_is_not_asked_for():
    passed, _lacks = passing("DiskFilter", fleet(host("a", disk_gb=0)), request(disk_gb=0))
    assert passed == ["a"]


PEERS = fleet(
    host("a"),
    host("b"),
    host("c"),
    instances=[
        {"name": "db1", "host": "a"},
        {"name": "db2", "host": "b"},
        {"name": "twin", "host": "b", "uuid": uuid_of("t1")},
        {"name": "twin", "host": "c", "uuid": uuid_of("t2")},
    ],
)


@pytest.mark.parametrize(
    ("named", "same", "different"),
    [
        (None, ["a", "b", "c"], ["a", "b", "c"]),
        ("db1", ["a"], ["b", "c"]),
        (uuid_of("db1"), ["a"], ["b", "c"]),
        (uuid_of("db1").upper(), ["a"], ["b", "c"]),
        (["db1", "db2"], ["a", "b"], ["c"]),
        ("twin", ["b", "c"], ["a"]),
        ("nobody", [], ["a", "b", "c"]),
        (["nobody", "db1"], ["a"], ["b", "c"]),
    ],
)
def test_same_host_and_different_host(named, same, different):
    spec = request(hints={"same_host": named, "different_host": named} if named else None)
    passed, rejection_reason = passing("SameHostFilter", PEERS, spec)
    assert passed == same
    assert all(text.startswith("same_host: ") for text in rejection_reason.values())
    passed, rejection_reason = passing("DifferentHostFilter", PEERS, spec)
    assert passed == different
    assert all(
        text.startswith("different_host: the host holds ") for text in rejection_reason.values()
    )


def test_a_hint_nobody_can_follow_says_so():
    _passed, rejection_reason = passing(
        "SameHostFilter", PEERS, request(hints={"same_host": "nobody"})
    )
    assert rejection_reason["a"] == "same_host: no host holds nobody"


def grouped(policy, most=None):
    members = [
        {"name": "m1", "host": "a", "group": "g"},
        {"name": "m2", "host": "a", "group": "g"},
        {"name": "m3", "host": "b", "group": "g"},
    ]
    return fleet(host("a"), host("b"), host("c"), instances=members, groups={"g": (policy, most)})


@pytest.mark.parametrize(
    ("most", "passes"), [(None, ["c"]), (1, ["c"]), (2, ["b", "c"]), (3, ["a", "b", "c"])]
)
def test_anti_affinity(most, passes):
    passed, rejection_reason = passing(
        "ServerGroupAntiAffinityFilter", grouped("anti-affinity", most), request(server_group="g")
    )
    assert passed == passes
    if most == 2:
        assert rejection_reason == {
            "a": "anti-affinity: the host holds 2 of server group g, 2 allowed"
        }


def test_anti_affinity_lets_an_instance_stay_where_it_is():
    spec = request("m3", uuid=uuid_of("m3"), server_group="g")
    assert passing("ServerGroupAntiAffinityFilter", grouped("anti-affinity"), spec)[0] == ["b", "c"]


def test_affinity():
    passed, rejection_reason = passing(
        "ServerGroupAffinityFilter", grouped("affinity"), request(server_group="g")
    )
    assert passed == ["a", "b"]
    assert rejection_reason == {"c": "affinity: server group g is on a, b"}


@pytest.mark.parametrize("name", ["ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"])
@pytest.mark.parametrize("policy", ["affinity", "anti-affinity", "soft-affinity"])
def test_the_first_member_may_go_anywhere(name, policy):
    columns = fleet(host("a"), host("b"), groups={"g": (policy, None)})
    assert passing(name, columns, request(server_group="g"))[0] == ["a", "b"]
    assert passing(name, columns, request())[0] == ["a", "b"]


@pytest.mark.parametrize(
    ("policy", "other"), [("affinity", "anti-affinity"), ("anti-affinity", "affinity")]
)
def test_each_group_filter_minds_its_own_policy(policy, other):
    name = {
        "affinity": "ServerGroupAffinityFilter",
        "anti-affinity": "ServerGroupAntiAffinityFilter",
    }[other]
    assert passing(name, grouped(policy), request(server_group="g"))[0] == ["a", "b", "c"]


def test_members_count_per_host_and_not_per_compute_node():
    columns = fleet(
        host("a", node="a-1"),
        host("a", node="a-2"),
        host("b"),
        groups={"g": ("anti-affinity", 1)},
        instances=[{"name": "m1", "host": "a", "node": "a-1", "group": "g"}],
    )
    assert passing("ServerGroupAntiAffinityFilter", columns, request(server_group="g"))[0] == ["b"]
    assert passing("SameHostFilter", columns, request(hints={"same_host": "m1"}))[0] == [
        "a/a-1",
        "a/a-2",
    ]


def test_a_new_group_counts_its_members_of_the_batch():
    states = HostStates(fleet(host("a"), host("b")))
    assert states.add_group(ServerGroupRequest("g", "anti-affinity"))
    spec = request(server_group="g")
    host_filter = find("host_filters")["ServerGroupAntiAffinityFilter"]()
    states.consume(0, spec)
    other = request("web2", server_group="g")
    assert host_filter.passes(states, other).tolist() == [False, True]
    states.release(0, spec)
    assert host_filter.passes(states, other).tolist() == [True, True]
