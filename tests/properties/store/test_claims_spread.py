# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims and moves over several providers: children, sharing pools, and the scheduler's
decision.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations, claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import migrations_open
from ansible_collections.drover.compute.plugins.plugin_utils._store.providers import provider_arrays
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    domain,
    host,
    selection,
    uuid_of,
)

PROOF = certainty.word("a test")


def in_store(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def add_provider(connection, name, inventories, parent=None, traits=(), aggregates=None):
    table = tables.resource_providers
    rows = {row.name: row for row in connection.execute(sa.select(table))}
    above = rows[parent].id if parent else None
    root = (rows[parent].root_id or above) if parent else None
    connection.execute(
        sa.insert(table).values(
            uuid=uuid_of(name), name=name, generation=0, parent_id=above, root_id=root
        )
    )
    key = connection.execute(sa.select(table.c.id).where(table.c.name == name)).scalar_one()
    classes = bulk.ids_by(connection, tables.resource_classes.c.name, inventories)
    values = {
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 1000,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    bulk.insert(
        connection,
        tables.inventories,
        [
            {"provider_id": key, "class_id": classes[kind], "total": n, **values}
            for kind, n in inventories.items()
        ],
    )
    ids = bulk.ids_by(connection, tables.traits.c.name, traits)
    bulk.insert(
        connection,
        tables.provider_traits,
        [{"provider_id": key, "trait_id": ids[name]} for name in traits],
    )
    if aggregates:
        group = tables.placement_aggregates
        connection.execute(sa.insert(group).values(uuid=uuid_of("aggregate")))
        aggregate = connection.execute(sa.select(group.c.id)).scalar_one()
        members = [key, *(rows[each].id for each in aggregates)]
        bulk.insert(
            connection,
            tables.provider_aggregates,
            [{"provider_id": member, "aggregate_id": aggregate} for member in members],
        )


@pytest.fixture
def pool_url(prepared_url):
    """Fill a store: kvm1 to kvm3 have no local disks; kvm1 and kvm2 see one pool of 30 GiB; kvm1
    has a child with 2 VGPU."""
    fleets.discover(prepared_url, *(host(name, local_gb=0) for name in ("kvm1", "kvm2", "kvm3")))
    with Store.open(prepared_url).write() as connection:
        add_provider(connection, "kvm1-gpu", {"VGPU": 2}, parent="kvm1")
        add_provider(
            connection,
            "pool",
            {"DISK_GB": 30},
            traits=[provider_arrays.SHARES],
            aggregates=["kvm1", "kvm2"],
        )
    return prepared_url


def held(url):
    """Return dict consumer uuid -> dict provider name -> dict class -> amount; check the use beside
    the inventories."""
    with Store.open(url).read() as connection:
        providers, classes = tables.resource_providers, tables.resource_classes
        allocations, consumers = tables.allocations, tables.consumers
        query = (
            sa.select(
                consumers.c.uuid, providers.c.name, classes.c.name.label("kind"), allocations.c.used
            )
            .join(consumers, consumers.c.id == allocations.c.consumer_id)
            .join(providers, providers.c.id == allocations.c.provider_id)
            .join(classes, classes.c.id == allocations.c.class_id)
        )
        by_consumer, sums = {}, {}
        for uuid, name, kind, amount in connection.execute(query):
            by_consumer.setdefault(uuid, {}).setdefault(name, {})[kind] = amount
            sums[name, kind] = sums.get((name, kind), 0) + amount
        inventories = tables.inventories
        query = (
            sa.select(providers.c.name, classes.c.name, inventories.c.used)
            .join(providers, providers.c.id == inventories.c.provider_id)
            .join(classes, classes.c.id == inventories.c.class_id)
        )
        used = {(name, kind): amount for name, kind, amount in connection.execute(query) if amount}
    assert used == sums
    return by_consumer


def wanted(name, *places, disk_gb=10, **more):
    return selection(name, *places, disk_gb=disk_gb, **more)


def test_what_the_host_does_not_have_comes_from_its_pool(pool_url):
    fleets.claim(pool_url, wanted("web", "kvm1"))
    assert held(pool_url) == {
        uuid_of("web"): {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}, "pool": {"DISK_GB": 10}}
    }
    with pytest.raises(DroverError, match="kvm3: DISK_GB: asked 10, the host has none"):
        fleets.claim(pool_url, wanted("db", "kvm3"))
    with pytest.raises(DroverError, match="kvm2: DISK_GB: asked 30, used 10 of 30"):
        fleets.claim(pool_url, wanted("db", "kvm2", disk_gb=30))


def test_a_child_gives_what_it_has(pool_url):
    request = wanted("web", "kvm2", "kvm1")
    request["resources"]["VGPU"] = 1
    (found,) = fleets.claim(pool_url, request)
    assert found["host"] == "kvm1"
    assert held(pool_url)[uuid_of("web")]["kvm1-gpu"] == {"VGPU": 1}


def test_the_own_disk_comes_before_the_pool_and_the_pool_when_that_is_full(prepared_url):
    fleets.discover(prepared_url, host("kvm1", local_gb=10))
    with Store.open(prepared_url).write() as connection:
        add_provider(
            connection,
            "pool",
            {"DISK_GB": 30},
            traits=[provider_arrays.SHARES],
            aggregates=["kvm1"],
        )
    fleets.claim(prepared_url, wanted("a", "kvm1"), wanted("b", "kvm1"))
    found = held(prepared_url)
    assert found[uuid_of("a")]["kvm1"]["DISK_GB"] == found[uuid_of("b")]["pool"]["DISK_GB"] == 10


def test_what_the_scheduler_decided_is_taken_as_it_is(pool_url):
    request = wanted("web", "kvm1")
    with Store.open(pool_url).read() as connection:
        table = tables.resource_providers
        node = connection.execute(
            sa.select(table.c.uuid).where(table.c.name == "kvm1")
        ).scalar_one()
    request["allocations"] = {node: {"VCPU": 2, "DISK_GB": 0}, uuid_of("pool"): {"DISK_GB": 7}}
    fleets.claim(pool_url, request)
    assert held(pool_url) == {uuid_of("web"): {"kvm1": {"VCPU": 2}, "pool": {"DISK_GB": 7}}}
    request = {**wanted("db", "kvm1"), "allocations": {uuid_of("nosuch"): {"DISK_GB": 7}}}
    with pytest.raises(DroverError, match="Resource provider .* is not in the store") as caught:
        fleets.claim(pool_url, request)
    assert caught.value.details["cause"] == "unknown_provider"
    request = {**wanted("db", "kvm1"), "allocations": {uuid_of("pool"): {"CUSTOM_X": 7}}}
    with pytest.raises(DroverError, match="Resource class CUSTOM_X is not in the store") as caught:
        fleets.claim(pool_url, request)
    assert caught.value.details["cause"] == "unknown_class"


@pytest.fixture
def moving_url(pool_url):
    """Fill a store: web is on kvm1 and has 20 of the 30 GiB of the pool. There is no room to hold
    that twice."""
    fleets.claim(pool_url, wanted("web", "kvm1", disk_gb=20))
    fleets.build(pool_url)
    return pool_url


HERE = {"VCPU": 1, "MEMORY_MB": 64}
POOL = {"pool": {"DISK_GB": 20}}


def resized_from(url):
    """Return the facts about an open resize of web that a plan of moves gets."""
    web = {"uuid": uuid_of("web")}
    in_store(url, migrations_open.note_open_resizes, [web])
    return web.get("resized_from")


def begin(url, to="kvm2", kind="live-migration"):
    return in_store(url, migration_claims.begin, uuid_of("web"), to, None, kind, fleets.NOW)["uuid"]


def test_a_shared_pool_is_not_held_twice_during_a_move(moving_url):
    before = held(moving_url)
    move = begin(moving_url)
    during = {uuid_of("web"): {"kvm2": HERE, **POOL}, move: {"kvm1": HERE}}
    assert held(moving_url) == during
    for status in ("failed", "cancelled"):
        in_store(moving_url, migration_claims.undo, move, PROOF, "no", fleets.NOW, status)
        assert held(moving_url) == before
        move = begin(moving_url)
    in_store(moving_url, migration_claims.finish, move, PROOF, "running", fleets.NOW)
    assert held(moving_url) == {uuid_of("web"): {"kvm2": HERE, **POOL}}
    # And the move back.
    in_store(
        moving_url, migration_claims.finish, begin(moving_url, "kvm1"), PROOF, "running", fleets.NOW
    )
    assert held(moving_url) == before


def test_a_move_away_from_the_pool_frees_it_when_it_is_done(moving_url):
    with Store.open(moving_url).write() as connection:
        table = tables.resource_providers
        key = connection.execute(sa.select(table.c.id).where(table.c.name == "kvm3")).scalar_one()
        kind = bulk.ids_by(connection, tables.resource_classes.c.name, {"DISK_GB"})["DISK_GB"]
        values = {
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 1000,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
        bulk.insert(
            connection,
            tables.inventories,
            [{"provider_id": key, "class_id": kind, "total": 50, **values}],
        )
    move = begin(moving_url, "kvm3", "migration")
    assert held(moving_url) == {
        uuid_of("web"): {"kvm3": {**HERE, "DISK_GB": 20}},
        move: {"kvm1": HERE, **POOL},
    }
    in_store(moving_url, migration_claims.finish, move, PROOF, "shutoff", fleets.NOW)
    assert held(moving_url) == {uuid_of("web"): {"kvm3": {**HERE, "DISK_GB": 20}}}


# Resize

LARGE = {"flavor": "large", "resources": {"VCPU": 2, "MEMORY_MB": 128, "DISK_GB": 25}}


def sizes(url):
    table = tables.instances
    with Store.open(url).read() as connection:
        row = connection.execute(sa.select(table).where(table.c.uuid == uuid_of("web"))).one()
    return fleets.where(url)["web"], row.flavor, row.vcpus, row.memory_mb, row.disk_gb


@pytest.mark.parametrize("to", ["kvm1", "kvm2"])
@pytest.mark.parametrize("end", ["confirm", "revert", "undo"])
def test_a_resize_holds_both_until_it_is_confirmed(moving_url, to, end):
    before, size_before = held(moving_url), sizes(moving_url)
    move = in_store(
        moving_url, migration_claims.begin_resize, uuid_of("web"), to, None, LARGE, fleets.NOW
    )["uuid"]
    new = {to: {"VCPU": 2, "MEMORY_MB": 128}, "pool": {"DISK_GB": 25}}
    both = {uuid_of("web"): new, move: {"kvm1": HERE}}
    assert (held(moving_url), sizes(moving_url)) == (both, size_before)
    if end == "undo":
        in_store(moving_url, migration_claims.undo, move, PROOF, "no", fleets.NOW)
        assert (held(moving_url), sizes(moving_url)) == (before, size_before)
        return
    in_store(moving_url, migration_claims.finish, move, PROOF, "running", fleets.NOW)
    assert (held(moving_url), sizes(moving_url)) == (both, (to, "large", 2, 128, 25))
    with pytest.raises(DroverError, match="was resized and still holds"):
        begin(moving_url, "kvm2" if to == "kvm1" else "kvm1")
    assert resized_from(moving_url) == "kvm1"
    if end == "confirm":
        in_store(moving_url, migration_claims.confirm, move, PROOF, fleets.NOW)
        assert (held(moving_url), sizes(moving_url)) == (
            {uuid_of("web"): new},
            (to, "large", 2, 128, 25),
        )
        with pytest.raises(DroverError, match="is confirmed, not finished"):
            in_store(moving_url, migration_claims.revert, move, PROOF, "running", fleets.NOW)
        in_store(moving_url, migration_claims.confirm, move, PROOF, fleets.NOW)
    else:
        in_store(moving_url, migration_claims.revert, move, PROOF, "running", fleets.NOW)
        assert (held(moving_url), sizes(moving_url)) == (before, size_before)


def test_a_smaller_size_can_always_go_back(moving_url):
    small = {"flavor": "small", "resources": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 5}}
    move = in_store(
        moving_url, migration_claims.begin_resize, uuid_of("web"), "kvm2", None, small, fleets.NOW
    )["uuid"]
    in_store(moving_url, migration_claims.finish, move, PROOF, "running", fleets.NOW)
    assert held(moving_url)[uuid_of("web")]["pool"] == {"DISK_GB": 20}
    in_store(moving_url, migration_claims.confirm, move, PROOF, fleets.NOW)
    assert held(moving_url) == {uuid_of("web"): {"kvm2": HERE, "pool": {"DISK_GB": 5}}}


# Evacuation


def test_an_evacuation_holds_both_until_the_source_is_cleaned_up(moving_url):
    move = begin(moving_url, "kvm2", migration_claims.EVACUATION)
    both = {uuid_of("web"): {"kvm1": HERE, "kvm2": HERE, **POOL}}
    assert held(moving_url) == both
    in_store(moving_url, migration_claims.finish, move, PROOF, "running", fleets.NOW)
    assert (held(moving_url), fleets.where(moving_url)) == (both, {"web": "kvm2"})
    # A discovery of its new host leaves that as it is.
    fleets.discover(moving_url, host("kvm2", domain("web"), local_gb=0))
    assert held(moving_url) == both
    in_store(moving_url, migration_claims.clear_source, move, PROOF, fleets.NOW)
    assert held(moving_url) == {uuid_of("web"): {"kvm2": HERE, **POOL}}


def test_an_evacuation_that_failed(moving_url):
    before = held(moving_url)
    in_store(
        moving_url,
        migration_claims.undo,
        begin(moving_url, "kvm2", migration_claims.EVACUATION),
        PROOF,
        "no",
        fleets.NOW,
    )
    assert held(moving_url) == before


def test_reclaim_counts_a_failed_build_and_a_build_clears_it(pool_url):
    fleets.claim(pool_url, wanted("web", "kvm1", "kvm2"))
    in_store(pool_url, claims.reclaim, uuid_of("web"), [{"host": "kvm2"}], PROOF, fleets.NOW)
    assert held(pool_url) == {uuid_of("web"): {"kvm2": HERE, "pool": {"DISK_GB": 10}}}
    table = tables.compute_nodes
    with Store.open(pool_url).read() as connection:
        query = sa.select(table.c.host, table.c.failed_builds)
        assert dict(connection.execute(query).all()) == {"kvm1": 1, "kvm2": 0, "kvm3": 0}


def replace(url, name, wanted):
    """Let an instance hold exactly this: dict provider name -> dict class -> amount."""
    table = tables.resource_providers
    with Store.open(url).write() as connection:
        ids = {row.name: row.id for row in connection.execute(sa.select(table))}
        allocations.replace(
            connection,
            {uuid_of(name): {ids[key]: each for key, each in wanted.items()}},
            fleets.NOW,
        )


def test_discovery_leaves_what_libvirt_does_not_show_where_it_was_claimed(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    with Store.open(prepared_url).write() as connection:
        add_provider(connection, "kvm1-node0", {"VCPU": 4, "CUSTOM_NIC": 2}, parent="kvm1")
        add_provider(connection, "kvm1-gpu", {"CUSTOM_GPU": 1}, parent="kvm1")
        add_provider(
            connection,
            "licences",
            {"CUSTOM_LICENCE": 9},
            traits=[provider_arrays.SHARES],
            aggregates=["kvm1"],
        )
    amounts = {
        "kvm1": {"MEMORY_MB": 64},
        "kvm1-node0": {"VCPU": 2, "CUSTOM_NIC": 1},
        "kvm1-gpu": {"CUSTOM_GPU": 1},
    }
    amounts["licences"] = {"CUSTOM_LICENCE": 1}
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=2)))
    replace(prepared_url, "web", amounts)
    before = held(prepared_url)
    assert before[uuid_of("web")] == amounts
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=2)))
    assert held(prepared_url) == before
    # A person took it to another host by hand: it leaves the allocations of the old host's
    # providers.
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web", vcpus=2)))
    assert held(prepared_url)[uuid_of("web")] == {"kvm2": {"VCPU": 2, "MEMORY_MB": 64}}


def test_discovery_counts_dedicated_cpus_once(prepared_url):
    more = {"cpu_dedicated_set": "2-3", "cpu_shared_set": "0-1"}
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=2), **more))
    replace(prepared_url, "web", {"kvm1": {"PCPU": 2, "MEMORY_MB": 64}})
    before = held(prepared_url)
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=2), **more))
    assert held(prepared_url) == before
