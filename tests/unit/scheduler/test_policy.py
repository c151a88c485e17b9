# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies: defaults, options, and the refusals with their texts."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import policy as policies
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import PolicyError

Policy = policies.Policy


def test_defaults():
    policy = Policy.from_mapping(None)
    assert tuple(each.name for each in policy.filters) == policies.DEFAULT_FILTERS
    assert [(each.name, multiplier) for each, multiplier in policy.weighers] == [
        ("BuildFailureWeigher", 1000000.0),
        ("CPUWeigher", 1.0),
        ("CrossCellWeigher", 1000000.0),
        ("DiskWeigher", 1.0),
        ("HypervisorVersionWeigher", 1.0),
        ("ImagePropertiesWeigher", 0.0),
        ("IoOpsWeigher", -1.0),
        ("MetricsWeigher", 1.0),
        ("NumInstancesWeigher", 0.0),
        ("PCIWeigher", 1.0),
        ("RAMWeigher", 1.0),
        ("ServerGroupSoftAffinityWeigher", 1.0),
        ("ServerGroupSoftAntiAffinityWeigher", 1.0),
    ]
    assert (policy.max_attempts, policy.host_subset_size) == (3, 1)


def test_every_filter_of_this_issue_is_found_and_documented():
    found = find("host_filters")
    assert set(policies.DEFAULT_FILTERS) <= set(found)
    for each in list(found.values()) + list(find("weighers").values()):
        assert any(f"Source: N{number}." in each.__doc__ for number in (2, 3, 11, 12))
        assert "Inputs:" in each.__doc__


def test_multipliers_by_name_and_by_nova_s_option():
    policy = Policy.from_mapping({"weighers": {"RAMWeigher": -1, "CPUWeigher": "0.5"}})
    assert [(each.name, multiplier) for each, multiplier in policy.weighers] == [
        ("CPUWeigher", 0.5),
        ("RAMWeigher", -1.0),
    ]
    policy = Policy.from_mapping({"weighers": ["RAMWeigher"], "ram_weight_multiplier": 2})
    assert [(each.name, multiplier) for each, multiplier in policy.weighers] == [
        ("RAMWeigher", 2.0)
    ]


def test_order_of_filters_is_the_user_s_and_requiring_adds_at_the_end():
    policy = Policy.from_mapping({"enabled_filters": ["RamFilter", "CoreFilter"]})
    assert [each.name for each in policy.filters] == ["RamFilter", "CoreFilter"]
    more = policy.requiring(["CoreFilter", "ComputeFilter"])
    assert [each.name for each in more.filters] == ["RamFilter", "CoreFilter", "ComputeFilter"]


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ([], "must be a mapping"),
        (
            {"filters": []},
            "unknown key filters (did you mean enabled_filters?). Known: enabled_filters, weighers",
        ),
        ({"enabled_filters": "RamFilter"}, "must be a list of names out of: AggregateCoreFilter"),
        (
            {"enabled_filters": ["RamFilter", "Nonsense"]},
            "names 'Nonsense' under 'enabled_filters'",
        ),
        ({"enabled_filters": ["RamFilter", "RamFilter"]}, "names RamFilter twice"),
        (
            {"enabled_filters": [["RamFilter"]]},
            "does not exist (did you mean RamFilter?); there are:",
        ),
        ({"weighers": ["RamFilter"]}, "there are: BuildFailureWeigher, CPUWeigher"),
        ({"weighers": {"RAMWeigher": "much"}}, "'weighers.RAMWeigher' must be a number"),
        ({"weighers": {"RAMWeigher": float("nan")}}, "must be a number"),
        (
            {"weighers": {"RAMWeigher": 1}, "ram_weight_multiplier": 2},
            "multiplier of RAMWeigher twice",
        ),
        ({"max_attempts": 0}, "'max_attempts' must be a whole number of at least 1"),
        ({"host_subset_size": 1.5}, "'host_subset_size' must be a whole number"),
        ({"default_availability_zone": 3}, "'default_availability_zone' must be text"),
    ],
)
def test_what_is_refused_names_the_key_and_what_exists(mapping, says):
    with pytest.raises(PolicyError) as caught:
        Policy.from_mapping(mapping)
    assert says in str(caught.value)
