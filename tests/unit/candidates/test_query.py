# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The query language of allocation candidates, as a mapping and as a query string."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    query,
    query_string,
)

A, B, C = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "mapping"),
    [
        ("resources=VCPU:1,MEMORY_MB:512", {"resources": {"VCPU": 1, "MEMORY_MB": "512"}}),
        (
            "?resources=VCPU:1&required=X,!Y&required=in:P,Q&limit=5&root_required=R,!S",
            {
                "resources": {"VCPU": 1},
                "required": ["X", "!Y", ["P", "Q"]],
                "limit": 5,
                "root_required": ["R", "!S"],
            },
        ),
        (
            f"resources=VCPU:1&member_of={A}&member_of=in:{A},{B}&member_of=!{C}&member_of=!in:{A},{B}&in_tree={C}",
            {
                "resources": {"VCPU": 1},
                "member_of": [A, [A, B], f"!{C}", f"!{A}", f"!{B}"],
                "in_tree": C,
            },
        ),
        (
            "resources=VCPU:1&resources_N=VCPU:2&required_G=T&resources1=VGPU:1&group_policy=isolate&same_subtree=_N,_G&same_subtree=_G,1",
            {
                "groups": {
                    "_N": {"resources": {"VCPU": 2}},
                    "_G": {"required": "T"},
                    "1": {"resources": {"VGPU": 1}},
                },
                "resources": {"VCPU": 1},
                "group_policy": "isolate",
                "same_subtree": [["_N", "_G"], ["_G", "1"]],
            },
        ),
    ],
)
def test_both_forms_are_one_query(text, mapping):
    assert query_string.parse(text) == query.from_mapping(mapping)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The query asks for no resources"),
        ("required=T", "The query asks for no resources"),
        ("resources=", "resources is ''; expected CLASS:AMOUNT,CLASS:AMOUNT."),
        ("resources=VCPU", "resources is 'VCPU'; expected CLASS:AMOUNT"),
        (
            "resources_N=VCPU:0",
            "resources_N: the amount of VCPU must be a whole number of at least 1, not 0.",
        ),
        ("resources=VCPU:-1", "the amount of VCPU must be a whole number of at least 1, not -1"),
        (
            "resources=VCPU:1.5",
            "the amount of VCPU must be a whole number of at least 1, not '1.5'",
        ),
        ("resources=VCPU:1,VCPU:2", "expected VCPU once"),
        ("resources=VCPU:1&resources=DISK_GB:1", "resources is given twice"),
        ("resources=VCPU:1&limit=0", "limit must be a whole number of at least 1, not 0."),
        ("resources=VCPU:1&limit=x", "limit must be a whole number of at least 1, not 'x'"),
        ("resources=VCPU:1&what=1", "Unknown parameter 'what' with value '1'"),
        ("resources=VCPU:1&required_!=T", "Unknown parameter 'required_!'"),
        ("resources=VCPU:1&required=T,!T", "required both requires and forbids T"),
        (
            "resources=VCPU:1&required=in:T,U&required=!T,!U",
            "required both requires and forbids T, U",
        ),
        (
            "resources=VCPU:1&required=T,",
            "required is 'T,'; expected TRAIT,!TRAIT without an empty name.",
        ),
        ("resources=VCPU:1&required=in:T,!U", "without '!'"),
        (
            "resources=VCPU:1&member_of=x",
            "member_of must be a uuid such as 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not 'x'.",
        ),
        (f"resources=VCPU:1&member_of={A},{B}", "expected in: or !in: before several uuids."),
        (
            "resources=VCPU:1&in_tree=kvm1",
            "in_tree must be a uuid such as 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not 'kvm1'.",
        ),
        ("resources_A=VCPU:1&resources_B=VCPU:1", "group_policy is missing"),
        ("resources=VCPU:1&group_policy=both", "group_policy is 'both'; expected none or isolate."),
        ("resources=VCPU:1&required_B=T", "The group '_B' asks for no resources."),
        ("resources_A=VCPU:1&required=T", "The group without a suffix asks for no resources."),
        (
            "resources_A=VCPU:1&same_subtree=_A,_B",
            "same_subtree is '_B'; expected suffixes of groups of this query: _A.",
        ),
        ("resources_A=VCPU:1&same_subtree=_A,", "the group without one cannot be named"),
        ("resources=VCPU:1&root_required=T&root_required=U", "root_required is given twice"),
        ("resources=VCPU:1&root_required=T,!T", "root_required both requires and forbids T"),
        ("resources=VCPU:1&root_required=in:T,U", "any of several is not possible here"),
    ],
)
def test_a_query_string_that_is_refused(text, says):
    with pytest.raises(DroverError) as caught:
        query_string.parse(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ([], "the query is '[]'; expected a mapping or a query string."),
        ({}, "The query asks for no resources"),
        (
            {"resource": {"VCPU": 1}},
            "unknown key resource (did you mean resources?). Known: resources, required",
        ),
        ({"resources": ["VCPU"]}, "expected a mapping of resource classes to amounts"),
        (
            {"resources": {"VCPU": None}},
            "the amount of VCPU must be a whole number of at least 1, not None",
        ),
        (
            {"resources": {"VCPU": True}},
            "the amount of VCPU must be a whole number of at least 1, not True",
        ),
        ({"resources": {"VCPU": 1}, "required": [[]]}, "at least one name in an inner list"),
        ({"resources": {"VCPU": 1}, "required": [["!T"]]}, "no '!' in a list of which any will do"),
        (
            {"resources": {"VCPU": 1}, "required": [5]},
            "required is '5'; expected the name of a trait",
        ),
        ({"resources": {"VCPU": 1}, "required": {"T": 1}}, "expected a list."),
        ({"resources": {"VCPU": 1}, "groups": []}, None),
        (
            {"groups": {"a b": {"resources": {"VCPU": 1}}}},
            "groups is 'a b'; expected suffixes of 1 to 64",
        ),
        ({"groups": {"a": 1}}, "groups.a is '1'; expected a mapping"),
        ({"groups": {"a": {"limit": 1}}}, "groups.a: unknown key limit"),
        (
            {"resources": {"VCPU": 1}, "root_required": [["T", "U"]]},
            "any of several is not possible here",
        ),
        (
            {"groups": {"a": {"resources": {"VCPU": 1}}}, "same_subtree": [[]]},
            "expected a list of suffixes",
        ),
        (
            {"resources": {"VCPU": 1}, "limit": -1},
            "limit must be a whole number of at least 1, not -1",
        ),
    ],
)
def test_a_mapping_that_is_refused(mapping, says):
    if says is None:
        assert query.from_mapping(mapping)
        return
    with pytest.raises(DroverError) as caught:
        query.from_mapping(mapping)
    assert says in str(caught.value)
