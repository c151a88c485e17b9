# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key ``scheduler`` of a request: policy keys for that request alone."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import drivers
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    NoValidHost,
    RequestError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy, merged
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host, request

NODES = fleet(host("a", memory_mb=2048), host("b", memory_mb=4096), host("c", memory_mb=8192))
PACK = {"ram_weight_multiplier": -1.0}


def decide(*specs, states=None, **policy):
    chosen = drivers.schedule(states or HostStates(NODES), list(specs), Policy.from_mapping(policy))
    return [each["host"] for each in chosen]


def test_it_goes_over_the_policy_of_the_call_for_that_request_alone():
    batch = [request("spread"), request("packed", scheduler=PACK), request("spread2")]
    assert decide(*batch, weighers=["RAMWeigher"]) == ["c", "a", "c"]
    assert decide(*batch, **PACK, weighers=["RAMWeigher"]) == ["a", "a", "a"]


def test_keys_that_it_does_not_name_stay_those_of_the_call():
    spec = request(scheduler={"max_attempts": 2})
    (chosen,) = drivers.schedule(
        HostStates(NODES), [spec], Policy.from_mapping({"weighers": {"RAMWeigher": -1}})
    )
    assert (chosen["host"], [each["host"] for each in chosen["alternates"]]) == ("a", ["b"])


@pytest.mark.parametrize(
    ("base", "over", "found"),
    [
        ({"weighers": {"RAMWeigher": 1}}, PACK, -1.0),
        ({"ram_weight_multiplier": 1}, {"weighers": {"RAMWeigher": -1}}, -1.0),
        (
            {"weighers": {"RAMWeigher": 1}},
            {"weighers": ["RAMWeigher"], "ram_weight_multiplier": -2},
            -2.0,
        ),
        ({"weighers": ["RAMWeigher"], "ram_weight_multiplier": 3}, {"max_attempts": 1}, 3.0),
    ],
)
def test_one_multiplier_said_in_two_ways(base, over, found):
    multipliers = {
        each.name: number for each, number in Policy.from_mapping(merged(base, over)).weighers
    }
    assert multipliers["RAMWeigher"] == found


def test_host_filters_and_drivers_differ_within_a_batch():
    batch = [
        request("weighed"),
        request("fewest", scheduler={"driver": "simple"}),
        request(
            "any",
            scheduler={"driver": "least_cost", "least_cost_functions": {"compute_fill_first": 1.0}},
        ),
        request("huge", memory_mb=8000, scheduler={"enabled_filters": ["ComputeFilter"]}),
    ]
    assert decide(*batch, weighers=["RAMWeigher"]) == ["c", "a", "a", "c"]


def test_a_mixed_batch_is_all_or_nothing():
    states = HostStates(NODES)
    batch = [
        request("one", server_group={"name": "g", "policy": "affinity"}),
        request("two", scheduler={"driver": "chance"}),
        request("three", memory_mb=9000, scheduler={"driver": "least_cost"}),
    ]
    with pytest.raises(NoValidHost, match="It is number 3 of 3 in the batch"):
        decide(*batch, states=states)
    assert not states.num_instances.any() and states.group("g") is None
    assert not states.resources["MEMORY_MB"].used.any()


def test_alike_instances_of_a_request_share_it():
    from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
        RequestSpec,
    )

    asked = {"name": "w", "vcpus": 1, "memory_mb": 64, "num_instances": 3, "scheduler": PACK}
    specs = RequestSpec.expand(asked)
    assert decide(*specs, weighers=["RAMWeigher"]) == ["a", "a", "a"]
    assert specs[0].is_equivalent(specs[1]) and not specs[0].is_equivalent(request())


def test_what_it_reads_is_wanted():
    bare = Policy.from_mapping({"weighers": [], "enabled_filters": []})
    assert bare.needs([request()]) == set()
    assert bare.needs([request(scheduler={"enabled_filters": ["IoOpsFilter"]})]) == {"num_io_ops"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("x", "Request 'web1': 'scheduler' must be a mapping of policy keys, not 'x'"),
        (
            {"colour": 1},
            "Request 'web1', under 'scheduler': The scheduler policy: unknown key colour",
        ),
        (
            {"max_attempts": 0},
            "Request 'web1', under 'scheduler': .*'max_attempts' must be a whole number",
        ),
        (
            {"enabled_filters": ["Nonsense"]},
            "Request 'web1', under 'scheduler': .*there are: AggregateCoreFilter",
        ),
        (
            {"least_cost_functions": {"x": 1}},
            "under 'scheduler': .*'x' under 'least_cost_functions'",
        ),
    ],
)
def test_refusals_name_the_request(value, says):
    with pytest.raises(RequestError, match=says):
        decide(request(scheduler=value))
