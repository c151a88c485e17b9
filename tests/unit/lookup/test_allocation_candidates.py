# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup allocation_candidates, as Ansible calls it, over a real store."""

from __future__ import annotations

import json

import pytest

from ansible_collections.drover.compute.tests.properties.lookups.test_lookups import (
    ask,
    contents,
    refusal,
)

SMALL = {"resources": {"VCPU": 1, "MEMORY_MB": 300}}


def names(answer):
    summaries = answer["provider_summaries"]
    return [
        [summaries[uuid]["name"] for uuid in request["allocations"]]
        for request in answer["allocation_requests"]
    ]


def test_it_answers_in_plain_data_and_writes_nothing(fleet_url):
    before = contents(fleet_url)
    (answer,) = ask("allocation_candidates", SMALL, store_url=fleet_url)
    # kvm3 has 256 MiB.
    assert names(answer) == [["kvm1"], ["kvm2"]]
    ((uuid, allocation),) = answer["allocation_requests"][0]["allocations"].items()
    assert allocation == {"resources": {"VCPU": 1, "MEMORY_MB": 300}}
    assert answer["allocation_requests"][0]["mappings"] == {"": [uuid]}
    summary = answer["provider_summaries"][uuid]
    assert summary["resources"]["MEMORY_MB"] == {"capacity": 1024, "used": 448}
    assert summary["root_provider_uuid"] == uuid and summary["parent_provider_uuid"] is None
    assert json.loads(json.dumps(answer)) == answer
    assert contents(fleet_url) == before


def test_a_query_string_is_the_same_query(fleet_url):
    text = "resources=VCPU:1,MEMORY_MB:300"
    assert ask("allocation_candidates", text, store_url=fleet_url) == ask(
        "allocation_candidates", SMALL, store_url=fleet_url
    )
    one, none = ask(
        "allocation_candidates", text + "&limit=1", {"resources": {"VGPU": 1}}, store_url=fleet_url
    )
    assert names(one) == [["kvm1"]] and len(one["provider_summaries"]) == 1
    assert none == {"allocation_requests": [], "provider_summaries": {}}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            {"resources": {"VCPU": 0}},
            "resources: the amount of VCPU must be a whole number of at least 1, not 0.",
        ),
        (
            {"resources": {"NOPE": 1}},
            "resources names the resource class 'NOPE', which does not exist",
        ),
        ("resources=VCPU:1&required=NOPE", "required names the trait 'NOPE', which does not exist"),
        (
            "resources=VCPU:1&nope=1",
            (
                "Unknown parameter 'nope' with value '1'; there are resources[SUFFIX],"
                " required[SUFFIX]"
            ),
        ),
        (7, "the query is '7'; expected a mapping or a query string."),
    ],
)
def test_it_refuses_in_a_sentence(fleet_url, query, says):
    assert says in refusal("allocation_candidates", query, store_url=fleet_url)
