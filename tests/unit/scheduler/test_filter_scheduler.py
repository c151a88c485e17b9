# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole decisions: weights computed by hand, batches, alternates, failures."""

from __future__ import annotations

import json
import random

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    NoValidHost,
    RequestError,
)
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
    request,
    uuid_of,
)

# Raw values of N3.2, worked out by hand:
#      CPU total*ratio-(reserved+used)   RAM total-reserved-used    disk 1024*min(free, least)
#   a  8*4-4 = 28                        16384-512-8192 = 7680      1024*60 = 61440
#   b  16*1-(2+0) = 14                   32768-1024-0 = 31744       1024*min(200, 50) = 51200
#   c  8*2-8 = 8                         8192-0-4096 = 4096         1024*400 = 409600
THREE = [
    host(
        "a",
        8,
        16384,
        100,
        ratio={"vcpus": 4.0},
        reserved={"memory_mb": 512},
        used={"vcpus": 4, "memory_mb": 8192, "disk_gb": 40},
    ),
    host("b", 16, 32768, 200, reserved={"vcpus": 2, "memory_mb": 1024}, disk_available_least_gb=50),
    host(
        "c",
        8,
        8192,
        500,
        ratio={"vcpus": 2.0},
        used={"vcpus": 8, "memory_mb": 4096, "disk_gb": 100},
    ),
]


def decide(columns, *specs, **policy):
    return schedule(HostStates(columns), list(specs), Policy.from_mapping(policy))


def hosts_of(selections):
    return [each["host"] for each in selections]


def shown(selection):
    return {each["host"]: each["weight"] for each in selection["explanation"]["top"]}


def near(expected):
    return pytest.approx(expected, abs=1e-9)


def test_weights_by_nova_s_formulas():
    (chosen,) = decide(fleet(*THREE), request())
    assert shown(chosen) == {
        "a": near(28 / 28 + 7680 / 31744 + 61440 / 409600),
        "b": near(14 / 28 + 31744 / 31744 + 51200 / 409600),
        "c": near(8 / 28 + 4096 / 31744 + 409600 / 409600),
    }
    assert list(shown(chosen)) == ["b", "c", "a"]
    assert (chosen["host"], chosen["weight"]) == ("b", near(1.625))
    assert [each["host"] for each in chosen["alternates"]] == ["c", "a"]
    assert chosen["provider"] == uuid_of("b/b")
    best = chosen["explanation"]["top"][0]["weighers"]
    assert best["CPUWeigher"] == {"raw": 14.0, "normalised": near(0.5), "multiplier": 1.0}
    assert best["DiskWeigher"] == {"raw": 51200.0, "normalised": near(0.125), "multiplier": 1.0}


def test_multipliers_and_packing():
    (chosen,) = decide(fleet(*THREE), request(), weighers={"RAMWeigher": -1, "CPUWeigher": 1})
    assert shown(chosen) == {
        "a": near(1 - 7680 / 31744),
        "c": near(8 / 28 - 4096 / 31744),
        "b": near(0.5 - 1),
    }
    assert chosen["host"] == "a"


def test_consumption_between_instances_of_a_batch():
    first = request("first", vcpus=4, memory_mb=16384, disk_gb=10)
    chosen = decide(fleet(*THREE), first, request("second"), max_attempts=1)
    assert hosts_of(chosen) == ["b", "a"]
    # b now: CPU 10, RAM 15360 (still the largest), disk 1024*min(190, 40) = 40960, one build under
    # way
    assert shown(chosen[1]) == {
        "a": near(1 + 7680 / 15360 + 0.15),
        "b": near(10 / 28 + 1 + 0.1 - 1),
        "c": near(8 / 28 + 4096 / 15360 + 1),
    }


def test_overcommitted_hosts_weigh_nothing_and_the_scale_starts_at_zero():
    nodes = [
        host("a", memory_mb=8192, ratio={"memory_mb": 2.0}, used={"memory_mb": 9000}),
        host("b", memory_mb=8192, used={"memory_mb": 4096}),
        host("c", memory_mb=8192),
    ]
    (chosen,) = decide(fleet(*nodes), request(), weighers=["RAMWeigher"])
    assert shown(chosen) == {"c": near(1), "b": near(0.5), "a": near(0)}


def test_only_hosts_that_passed_are_normalised_over():
    huge = host("z", 128, 1048576, 9000, disabled="new")
    assert shown(decide(fleet(*THREE, huge), request())[0]) == shown(
        decide(fleet(*THREE), request())[0]
    )


def test_one_host_is_not_weighed():
    (chosen,) = decide(fleet(THREE[0]), request())
    assert (chosen["weight"], chosen["alternates"]) == (0.0, [])


def test_equal_weights_go_by_host_and_node_whatever_the_order_of_the_columns():
    nodes = [host("c"), host("a", node="a-2"), host("b"), host("a", node="a-1")]
    columns = fleet(*nodes, instances=[{"name": "old", "host": "b"}])
    batch = [request("x", hints={"different_host": "old"}), request("y"), request("z", vcpus=8)]
    expected = [(each["host"], each["node"]) for each in decide(columns, *batch)]
    assert expected[0] == ("a", "a-1")
    for seed in range(5):
        order = list(range(4))
        random.Random(seed).shuffle(order)
        mixed = {
            **columns,
            "instances": {key: order.index(old) for key, old in columns["instances"].items()},
        }
        for key in columns:
            if isinstance(columns[key], list):
                mixed[key] = [columns[key][old] for old in order]
        mixed["resources"] = {
            rc: {field: [values[old] for old in order] for field, values in column.items()}
            for rc, column in columns["resources"].items()
        }
        assert [(each["host"], each["node"]) for each in decide(mixed, *batch)] == expected


def test_counts_of_each_filter_in_the_order_in_which_they_ran():
    nodes = [host("a", disabled="x"), host("b", memory_mb=16), host("c"), host("Dd")]
    (chosen,) = decide(
        fleet(*nodes), request(ignore_hosts=["dD"]), enabled_filters=["RamFilter", "ComputeFilter"]
    )
    assert chosen["explanation"]["filters"] == [
        {"name": "ignore_hosts", "before": 4, "after": 3, "rejected": 1},
        {"name": "RamFilter", "before": 3, "after": 2, "rejected": 1},
        {"name": "ComputeFilter", "before": 2, "after": 1, "rejected": 1},
    ]
    assert chosen["host"] == "c"


def test_requested_host_by_name_of_host_or_node():
    columns = fleet(
        host("a", node="a-1"), host("a", node="a-2", memory_mb=64), host("b", memory_mb=65536)
    )
    assert decide(columns, request(host="a"))[0]["node"] == "a-1"
    assert decide(columns, request(host="a-2"))[0]["node"] == "a-2"
    with pytest.raises(NoValidHost, match="there is no host q: there are a, b"):
        decide(columns, request(host="q"))
    # A requested host is validated like any other host: there is no force.
    with pytest.raises(NoValidHost, match="RAM: asked 128 MiB, 64 MiB free of 64"):
        decide(columns, request(host="a-2", memory_mb=128))


def test_alternates_stay_in_the_cell_and_are_max_attempts_less_one():
    nodes = [host(name, cell=name[0]) for name in ("x1", "x2", "x3", "x4", "y1", "y2")]
    (chosen,) = decide(fleet(*nodes), request())
    assert (chosen["host"], [each["host"] for each in chosen["alternates"]]) == ("x1", ["x2", "x3"])
    assert decide(fleet(*nodes), request(), max_attempts=1)[0]["alternates"] == []
    assert len(decide(fleet(*nodes), request(), max_attempts=9)[0]["alternates"]) == 3


def test_alternates_of_a_batch_still_pass_the_filters_when_the_batch_is_placed():
    nodes = [host(name, memory_mb=128) for name in ("a", "b", "c")]
    batch = [
        request("big", memory_mb=128),
        request("small1", memory_mb=64),
        request("small2", memory_mb=64),
    ]
    chosen = decide(fleet(*nodes), *batch)
    assert hosts_of(chosen) == ["a", "b", "c"]
    # No other host leaves room for big; the small ones have each other's half-empty host.
    assert [[each["host"] for each in one["alternates"]] for one in chosen] == [[], ["c"], ["b"]]


def test_alternates_keep_the_server_group_s_policy():
    apart = {"name": "g", "policy": "anti-affinity"}
    batch = [request(f"vm{i}", server_group=apart) for i in range(2)]
    chosen = decide(fleet(host("a"), host("b"), host("c")), *batch)
    assert hosts_of(chosen) == ["a", "b"]
    assert [[each["host"] for each in one["alternates"]] for one in chosen] == [["c"], ["c"]]
    together = {"name": "g", "policy": "affinity"}
    (alone,) = decide(fleet(host("a"), host("b")), request(server_group=together))
    assert [each["host"] for each in alone["alternates"]] == ["b"]
    batch = [request(f"vm{i}", server_group=together) for i in range(2)]
    chosen = decide(fleet(host("a"), host("b")), *batch)
    assert [(one["host"], one["alternates"]) for one in chosen] == [("a", []), ("a", [])]


def test_server_groups_grow_inside_a_batch():
    apart = {"name": "g", "policy": "anti-affinity"}
    nodes = [host("a", memory_mb=65536), host("b"), host("c")]
    batch = [
        request("vm0", server_group="g"),
        request("vm1", server_group=apart),
        request("vm2", server_group="g"),
    ]
    chosen = decide(fleet(*nodes), *batch)
    assert sorted(hosts_of(chosen)) == ["a", "b", "c"]
    assert chosen[0]["server_group"] == {
        "name": "g",
        "policy": "anti-affinity",
        "max_server_per_host": 1,
    }
    with pytest.raises(NoValidHost, match="number 4 of 4 in the batch; the 3 before it would fit"):
        decide(fleet(*nodes), *batch, request("vm3", server_group="g"))


def test_hints_see_the_instances_of_the_batch():
    batch = [
        request("db"),
        request("app", hints={"different_host": "db"}),
        request("log", hints={"same_host": "app"}),
    ]
    chosen = decide(fleet(host("a"), host("b")), *batch)
    assert hosts_of(chosen) == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("h", "Server group 'h' is not in the store (it has: g)"),
        ({"name": "h"}, "give name and policy"),
        (
            {"name": "g", "policy": "affinity"},
            "has policy anti-affinity in the store, but a request says affinity",
        ),
        (
            {"name": "g", "policy": "anti-affinity", "max_server_per_host": 3},
            "max_server_per_host 2 in the store",
        ),
    ],
)
def test_groups_that_contradict_the_store(group, says):
    columns = fleet(host("a"), groups={"g": ("anti-affinity", 2)})
    with pytest.raises(RequestError) as caught:
        decide(columns, request(server_group=group))
    assert says in str(caught.value)


def test_groups_that_contradict_each_other_in_a_batch():
    batch = [
        request(f"vm{p}", server_group={"name": "g", "policy": p})
        for p in ("affinity", "anti-affinity")
    ]
    with pytest.raises(RequestError, match="in another request"):
        decide(fleet(host("a")), *batch)


def test_two_requests_with_one_name_or_uuid():
    with pytest.raises(RequestError, match="Two requests have the name 'web1'"):
        decide(fleet(host("a")), request(), request())
    same = uuid_of("x")
    with pytest.raises(RequestError, match="Two requests have the uuid"):
        decide(fleet(host("a")), request("v1", uuid=same), request("v2", uuid=same))


def test_a_dropped_host_is_looked_at_again_for_the_next_instance():
    nodes = [host("a", memory_mb=64), host("b", memory_mb=128)]
    chosen = decide(fleet(*nodes), request("big", memory_mb=128), request("small", memory_mb=64))
    assert hosts_of(chosen) == ["b", "a"]


def test_a_batch_is_all_or_nothing_and_leaves_the_states_as_they_were():
    states = HostStates(fleet(host("a", memory_mb=128), host("b", memory_mb=128)))
    before = snapshot(states)
    batch = [
        request(f"vm{i}", memory_mb=128, server_group={"name": "g", "policy": "anti-affinity"})
        for i in range(3)
    ]
    with pytest.raises(NoValidHost):
        schedule(states, batch, Policy.from_mapping())
    assert snapshot(states) == before
    assert states.group("g") is None
    assert states.where("vm0") == ()


def snapshot(states):
    return {
        "used": {rc: column.used.tolist() for rc, column in states.resources.items()},
        "instances": states.num_instances.tolist(),
        "least": states.disk_available_least.tolist(),
    }


def test_host_subset_spreads_over_instances_and_is_the_same_every_time():
    columns = fleet(*[host(f"kvm{i}") for i in range(8)])

    def picks():
        return [
            decide(columns, request(f"vm{i}"), host_subset_size=4)[0]["host"] for i in range(40)
        ]

    assert picks() == picks()
    assert set(picks()) == {"kvm0", "kvm1", "kvm2", "kvm3"}


def test_selections_are_plain_data():
    columns = fleet(*THREE, groups={"g": ("affinity", None)})
    chosen = decide(columns, request(server_group="g"), request("two"), host_subset_size=2)
    assert json.loads(json.dumps(chosen)) == chosen
    for value in flat(chosen):
        assert type(value) in (str, int, float, bool, type(None)), value


def flat(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    elif isinstance(value, list):
        for item in value:
            yield from flat(item)
    else:
        yield value


# The texts that people read if there is no host


def refusal(columns, spec, **policy):
    with pytest.raises(NoValidHost) as caught:
        decide(columns, spec, **policy)
    return caught.value


def test_failure_names_the_counts_and_the_nearest_misses():
    nodes = [
        host("kvm1", disabled="bad fan"),
        host("kvm2", memory_mb=96, used={"memory_mb": 64}),
        host("kvm3", memory_mb=128, used={"memory_mb": 112}),
    ]
    failure = refusal(fleet(*nodes), request("web3"))
    assert (
        str(failure)
        == "No valid host for web3 (1 vCPU, 64 MiB, 1 GiB): of 3 hosts, ComputeFilter rejected 1, "
        "RamFilter rejected 2; nearest misses: kvm2 (RAM: asked 64 MiB, 32 MiB free of 96), "
        "kvm3 (RAM: asked 64 MiB, 16 MiB free of 128), kvm1 (disabled, 'bad fan')."
    )
    assert failure.explanation["nearest"][0] == {
        "host": "kvm2",
        "node": "kvm2",
        "lacks": [{"filter": "RamFilter", "text": "RAM: asked 64 MiB, 32 MiB free of 96"}],
    }
    assert [each["name"] for each in failure.explanation["filters"]][-1] == "RamFilter"
    assert json.loads(json.dumps(failure.explanation)) == failure.explanation
    assert failure.details["explanation"] is failure.explanation


def test_a_few_rejected_hosts_that_are_not_near_are_named_with_the_count():
    nodes = [host("a", disabled="bad fan")] + [host(name, memory_mb=60) for name in "bcd"]
    assert "ComputeFilter rejected 1 (a: disabled, 'bad fan'), RamFilter rejected 3;" in str(
        refusal(fleet(*nodes), request())
    )


def test_nearest_is_who_falls_at_the_fewest_filters_and_by_the_least():
    nodes = [
        host("a", vcpus=1, memory_mb=1000),
        host("b", memory_mb=4000),
        host("c", memory_mb=2000),
    ]
    failure = refusal(fleet(*nodes), request(vcpus=2, memory_mb=4096))
    assert [each["host"] for each in failure.explanation["nearest"]] == ["b", "c", "a"]
    assert [lack["filter"] for lack in failure.explanation["nearest"][2]["lacks"]] == [
        "CoreFilter",
        "RamFilter",
    ]


def test_ignored_hosts_are_no_near_misses():
    failure = refusal(fleet(host("a"), host("b", memory_mb=16)), request(ignore_hosts=["a"]))
    assert "ignore_hosts rejected 1 (a)" in str(failure)
    assert [each["host"] for each in failure.explanation["nearest"]] == ["b"]


def test_a_request_no_host_could_ever_hold():
    nodes = [host("small", memory_mb=1024), host("big", 16, 4096, 50, used={"memory_mb": 4000})]
    failure = refusal(fleet(*nodes), request(memory_mb=8192))
    assert failure.explanation["never"]
    assert (
        "no host could ever hold it: the biggest for it, big, has 16 vCPU, 4096 MiB, 50 GiB when it"
        " is empty" in str(failure)
    )
    assert not refusal(fleet(*nodes), request(memory_mb=2048)).explanation["never"]


def test_an_empty_store_says_what_to_do():
    failure = refusal(fleet(), request())
    assert "the store has no compute node; run the playbook drover.compute.discover first" in str(
        failure
    )


def test_a_zone_nobody_has_lists_the_zones():
    failure = refusal(fleet(host("a", zones=["az1"])), request(availability_zone="az9"))
    assert "zone: asked az9, which no host is in (zones: az1)" in str(failure)


def test_a_large_fleet_still_gives_one_readable_sentence():
    columns = fleet(*[host(f"kvm{i:04d}", memory_mb=16 + i) for i in range(500)])
    failure = refusal(columns, request(memory_mb=1024))
    assert len(str(failure)) < 600
    assert [each["host"] for each in failure.explanation["nearest"]] != []
