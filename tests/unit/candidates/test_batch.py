# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on compute nodes: flat, nested and sharing, with the resources that a batch takes."""

from __future__ import annotations

import uuid

from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    batch,
    query,
    response,
    search,
)
from ansible_collections.drover.compute.tests.benchmarks import topology_file

POOL = str(uuid.UUID(int=1))


def provider(name, inventories, parent=None, traits=(), aggregates=()):
    return {
        "uuid": f"uuid-{name}",
        "name": name,
        "parent": parent,
        "inventories": {key: {"total": total} for key, total in inventories.items()},
        "traits": list(traits),
        "aggregates": list(aggregates),
    }


def made(store, asked, *providers):
    topology_file.load(store, {"providers": list(providers)})
    with store.read() as connection:
        read = response.read_providers(connection, asked)
    roots = [each["uuid"] for each in providers if not each["parent"]]
    return batch.CandidateCapacity(read, [*roots, "uuid-unknown"])


def test_flat_nodes_and_a_custom_class(store):
    wish = query.from_mapping({"resources": {"VCPU": 2, "CUSTOM_LICENSE": 1}})
    capacity = made(
        store,
        wish,
        provider("b", {"VCPU": 4, "CUSTOM_LICENSE": 9}),
        provider("a", {"VCPU": 2, "CUSTOM_LICENSE": 1}),
    )
    assert capacity.fits(wish).tolist() == [True, True, False]
    assert capacity.take(wish, 1) == {"uuid-a": {"VCPU": 2, "CUSTOM_LICENSE": 1}}
    assert capacity.fits(wish).tolist() == [True, False, False]
    taken = capacity.take(wish, 0)
    assert (
        capacity.take(wish, 0) and capacity.take(wish, 0) is None and capacity.take(wish, 2) is None
    )
    capacity.count(taken, -1)
    assert capacity.fits(wish).tolist() == [True, False, False]


def test_nodes_that_share_a_pool_use_it_up_together(store):
    wish = query.from_mapping({"resources": {"VCPU": 1, "DISK_GB": 6}})
    capacity = made(
        store,
        wish,
        provider("a", {"VCPU": 4}, aggregates=[POOL]),
        provider("b", {"VCPU": 4}, aggregates=[POOL]),
        provider("c", {"VCPU": 4}),
        provider("pool", {"DISK_GB": 10}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[POOL]),
    )
    assert capacity.fits(wish).tolist() == [True, True, False, False, False]
    assert capacity.take(wish, 0) == {"uuid-a": {"VCPU": 1}, "uuid-pool": {"DISK_GB": 6}}
    assert not capacity.fits(wish).any()


def test_a_nested_node_gives_from_the_part_that_has_room(store):
    wish = query.from_mapping(
        {"resources": {"DISK_GB": 1}, "groups": {"numa": {"resources": {"VCPU": 3}}}}
    )
    capacity = made(
        store,
        wish,
        provider("a", {"DISK_GB": 10}),
        provider("a0", {"VCPU": 4}, parent="a"),
        provider("a1", {"VCPU": 4}, parent="a"),
    )
    assert capacity.take(wish, 0) == {"uuid-a": {"DISK_GB": 1}, "uuid-a0": {"VCPU": 3}}
    assert capacity.take(wish, 0) == {"uuid-a": {"DISK_GB": 1}, "uuid-a1": {"VCPU": 3}}
    assert capacity.fits(wish).tolist() == [False, False]


def test_groups_that_are_alike_are_not_told_apart(store):
    """All ways to take three functions of three cards are found, each once: the amount per card
    counts."""
    suffixes = [f"_{number}" for number in range(3)]
    wish = query.from_mapping(
        {
            "groups": {each: {"resources": {"CUSTOM_VF": 1}} for each in suffixes},
            "group_policy": "none",
        }
    )
    every = made(
        store,
        wish,
        provider("a", {"VCPU": 4}),
        *(provider(name, {"CUSTOM_VF": 2}, parent="a") for name in ("b", "c", "d")),
    )
    apart = {
        tuple(sorted(map(str, each["allocations"].items()))) for each in every.candidates(wish, 0)
    }
    alike = query.Query(wish.groups, wish.group_policy, equal_groups=[suffixes])
    solutions = [
        tuple(sorted(map(str, each["allocations"].items()))) for each in every.candidates(alike, 0)
    ]
    assert len(solutions) == len(set(solutions)) == 7 and set(solutions) == apart
    assert every.fits(alike).tolist() == [True, False]
    taken = every.take(alike, 0)
    assert taken is not None and every.take(alike, 0) is not None and every.take(alike, 0) is None
    assert every.fits(alike).tolist() == [False, False]


def test_very_many_candidates_of_groups_that_are_alike_take_no_measureless_time(store):
    """Twelve groups over twelve cards: 1,352,078 ways without order. The search returns enough of
    them."""
    suffixes = [f"_{number:02}" for number in range(12)]
    groups = {each: query.RequestGroup(each, {"CUSTOM_VF": 1}) for each in suffixes}
    wish = query.Query(groups, "none", equal_groups=[suffixes])
    cards = [provider(f"card{number:02}", {"CUSTOM_VF": 8}, parent="a") for number in range(12)]
    capacity = made(store, wish, provider("a", {"VCPU": 4}), *cards)
    rows = list(capacity.candidates(wish, 0))
    assert 1 < len(rows) <= search.MOST_ALIKE
    assert all(
        sum(each["resources"]["CUSTOM_VF"] for each in row["allocations"].values()) == 12
        for row in rows
    )
    for _number in range(8):
        assert capacity.take(wish, 0) is not None
    assert capacity.take(wish, 0) is None
