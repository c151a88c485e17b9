# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After any claims and releases, the rooms are equal to a fresh computation."""

from __future__ import annotations

import random
import uuid

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    batch,
    query,
    response,
)
from ansible_collections.drover.compute.tests.benchmarks import topology_file
from ansible_collections.drover.compute.tests.unit.candidates.test_batch import provider

POOLS = [str(uuid.UUID(int=number)) for number in (1, 2)]
QUERIES = [
    {"resources": {"VCPU": 1, "DISK_GB": 2}},
    {"resources": {"VCPU": 2, "VGPU": 1}},
    {
        "resources": {"VCPU": 1},
        "groups": {"1": {"resources": {"VGPU": 1}}, "2": {"resources": {"VGPU": 1}}},
    },
    {
        "groups": {"1": {"resources": {"VGPU": 1}}, "2": {"resources": {"VGPU": 1}}},
        "group_policy": "isolate",
    },
]
QUERIES[2]["group_policy"] = "none"


def fleet(chance):
    """Return 12 nodes, half of them nested, on two pools and on none; the engine examines all of
    so few nodes at once."""
    providers = []
    for number in range(12):
        name = f"n{number:02}"
        pools = [POOLS[chance.randrange(2)]] if chance.random() < 0.8 else []
        own = {"VCPU": chance.randint(1, 4)} if chance.random() < 0.6 else {"DISK_GB": 3}
        providers.append(provider(name, own, aggregates=pools))
        for child in range(chance.randrange(3)):
            providers.append(provider(f"{name}-{child}", {"VGPU": 2, "VCPU": 2}, parent=name))
    for number, pool in enumerate(POOLS):
        providers.append(
            provider(
                f"pool{number}",
                {"DISK_GB": 9},
                traits=["MISC_SHARES_VIA_AGGREGATE"],
                aggregates=[pool],
            )
        )
    return providers


@pytest.mark.parametrize("seed", range(12))
def test_as_a_fresh_look(store, seed):
    chance = random.Random(seed)
    providers = fleet(chance)
    topology_file.load(store, {"providers": providers})
    queries = [query.from_mapping(each) for each in QUERIES]
    everything = query.from_mapping({"resources": {"VCPU": 1, "DISK_GB": 1, "VGPU": 1}})
    with store.read() as connection:
        read = response.read_providers(connection, everything)
    roots = [each["uuid"] for each in providers if not each["parent"]]
    capacity, takings = batch.CandidateCapacity(read, roots), []
    for _step in range(60):
        if takings and chance.random() < 0.3:
            capacity.count(takings.pop(chance.randrange(len(takings))), -1)
        else:
            one, node = chance.choice(queries), chance.randrange(len(roots))
            fits = bool(capacity.fits(one)[node])
            taken = capacity.take(one, node)
            assert (taken is not None) == fits
            if taken:
                takings.append(taken)
        fresh = batch.CandidateCapacity(read, roots)
        for one in queries:
            assert capacity.fits(one).tolist() == fresh.fits(one).tolist()
        for each in read.inventories.values():
            assert (each.used <= each.capacity).all() and (each.used >= 0).all()
