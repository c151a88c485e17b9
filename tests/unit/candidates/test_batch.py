# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on compute nodes: flat, nested and sharing, with what a batch takes."""

from __future__ import annotations

import uuid

from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import batch, query, response
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
    asked = query.from_mapping({"resources": {"VCPU": 2, "CUSTOM_LICENSE": 1}})
    found = made(store, asked, provider("b", {"VCPU": 4, "CUSTOM_LICENSE": 9}), provider("a", {"VCPU": 2, "CUSTOM_LICENSE": 1}))
    assert found.fits(asked).tolist() == [True, True, False]
    assert found.take(asked, 1) == {"uuid-a": {"VCPU": 2, "CUSTOM_LICENSE": 1}}
    assert found.fits(asked).tolist() == [True, False, False]
    taken = found.take(asked, 0)
    assert found.take(asked, 0) and found.take(asked, 0) is None and found.take(asked, 2) is None
    found.count(taken, -1)
    assert found.fits(asked).tolist() == [True, False, False]


def test_nodes_that_share_a_pool_use_it_up_together(store):
    asked = query.from_mapping({"resources": {"VCPU": 1, "DISK_GB": 6}})
    found = made(
        store,
        asked,
        provider("a", {"VCPU": 4}, aggregates=[POOL]),
        provider("b", {"VCPU": 4}, aggregates=[POOL]),
        provider("c", {"VCPU": 4}),
        provider("pool", {"DISK_GB": 10}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[POOL]),
    )
    assert found.fits(asked).tolist() == [True, True, False, False, False]
    assert found.take(asked, 0) == {"uuid-a": {"VCPU": 1}, "uuid-pool": {"DISK_GB": 6}}
    assert not found.fits(asked).any()


def test_a_nested_node_gives_from_the_part_that_has_room(store):
    asked = query.from_mapping({"resources": {"DISK_GB": 1}, "groups": {"numa": {"resources": {"VCPU": 3}}}})
    found = made(
        store,
        asked,
        provider("a", {"DISK_GB": 10}),
        provider("a0", {"VCPU": 4}, parent="a"),
        provider("a1", {"VCPU": 4}, parent="a"),
    )
    assert found.take(asked, 0) == {"uuid-a": {"DISK_GB": 1}, "uuid-a0": {"VCPU": 3}}
    assert found.take(asked, 0) == {"uuid-a": {"DISK_GB": 1}, "uuid-a1": {"VCPU": 3}}
    assert found.fits(asked).tolist() == [False, False]
