# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sharing providers of discovery: made once, counted once, and allocations keep their amounts."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    allocations,
    providers,
    sharing,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    node_data,
    record,
    sharing_facts,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    NOW,
    domain,
    host,
    selection,
    uuid_of,
)

NFS = "nfs:filer:/vms"
POOL = {"name": "nfs", "path": "/srv/vms", "shared_id": NFS, "state": "running"}


def on_pool(name, *domains, pool=None, **more):
    """Return a node with its instances in a pool; local_gb is the pool's size, as the host sees
    it.
    """
    return host(name, *domains, instances_path="/srv/vms/images", pools=[pool or POOL], **more)


def at_hand(url):
    """Return every provider: name -> dict class -> (total, reserved, ratio, used)."""
    provider_table, table, classes = (
        tables.resource_providers,
        tables.inventories,
        tables.resource_classes,
    )
    query = (
        sa.select(provider_table.c.name, classes.c.name, table)
        .outerjoin(table, table.c.provider_id == provider_table.c.id)
        .outerjoin(classes, classes.c.id == table.c.class_id)
    )
    by_name = {}
    with Store.open(url).read() as connection:
        for row in connection.execute(query):
            rows = by_name.setdefault(row[0], {})
            if row[1]:
                rows[row[1]] = (row.total, row.reserved, row.allocation_ratio, row.used)
    return by_name


def disks(url):
    """Return the DISK_GB of every provider that has any: name -> (total, used)."""
    return {
        name: (rows["DISK_GB"][0], rows["DISK_GB"][3])
        for name, rows in at_hand(url).items()
        if "DISK_GB" in rows
    }


def held(url):
    """Return the allocations of consumers: (name or uuid) -> dict provider -> dict class ->
    amount.
    """
    table, consumers, provider_table = (
        tables.allocations,
        tables.consumers,
        tables.resource_providers,
    )
    query = (
        sa.select(
            consumers.c.uuid,
            provider_table.c.name,
            tables.resource_classes.c.name,
            table.c.used,
            tables.instances.c.name,
        )
        .join(consumers, consumers.c.id == table.c.consumer_id)
        .join(provider_table, provider_table.c.id == table.c.provider_id)
        .join(tables.resource_classes, tables.resource_classes.c.id == table.c.class_id)
        .outerjoin(tables.instances, tables.instances.c.uuid == consumers.c.uuid)
    )
    by_consumer = {}
    with Store.open(url).read() as connection:
        for uuid, provider, resource, used, name in connection.execute(query):
            by_consumer.setdefault(name or uuid, {}).setdefault(provider, {})[resource] = used
    return by_consumer


def in_aggregates(url):
    """Return the members of the placement aggregates: uuid -> set of names of providers."""
    table, provider_table, aggregates = (
        tables.provider_aggregates,
        tables.resource_providers,
        tables.placement_aggregates,
    )
    query = (
        sa.select(aggregates.c.uuid, provider_table.c.name)
        .outerjoin(table, table.c.aggregate_id == aggregates.c.id)
        .outerjoin(provider_table, provider_table.c.id == table.c.provider_id)
    )
    members = {}
    with Store.open(url).read() as connection:
        for uuid, name in connection.execute(query):
            members.setdefault(uuid, set()).add(name)
    return members


def counted(url):
    """Check that the use beside every inventory is the sum of its allocations."""
    inventories, table = tables.inventories, tables.allocations
    sums = (
        sa.select(table.c.provider_id, table.c.class_id, sa.func.sum(table.c.used).label("sum"))
        .group_by(table.c.provider_id, table.c.class_id)
        .subquery()
    )
    query = sa.select(inventories.c.used, sums.c.sum).outerjoin(
        sums,
        sa.and_(
            sums.c.provider_id == inventories.c.provider_id,
            sums.c.class_id == inventories.c.class_id,
        ),
    )
    with Store.open(url).read() as connection:
        rows = connection.execute(query).all()
    assert all(used == int(total or 0) for used, total in rows)
    return True


def again(url, *nodes, **options):
    """Check that a repeated discovery changes nothing, not even a generation."""
    before, generations = at_hand(url), fleets.generations(url)
    assert fleets.discover(url, *nodes, **options)["changed"] is False
    assert (at_hand(url), fleets.generations(url)) == (before, generations)


# Storage pools


def test_one_host_keeps_its_own_disk(prepared_url):
    nodes = [on_pool("kvm1", domain("web", disk_gb=10))]
    fleets.discover(prepared_url, *nodes)
    assert disks(prepared_url) == {"kvm1": (100, 10)}
    again(prepared_url, *nodes)


def test_two_hosts_at_once_share_one(prepared_url):
    nodes = [
        on_pool("kvm1", domain("a", 1, 64, 10)),
        on_pool("kvm2", domain("b", 1, 64, 20)),
        host("kvm3"),
    ]
    fleets.discover(prepared_url, *nodes)
    assert disks(prepared_url) == {"pool/nfs": (100, 30), "kvm3": (100, 0)}
    assert held(prepared_url) == {
        "a": {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}, "pool/nfs": {"DISK_GB": 10}},
        "b": {"kvm2": {"VCPU": 1, "MEMORY_MB": 64}, "pool/nfs": {"DISK_GB": 20}},
    }
    uuid = sharing_facts.uuid_of(NFS)
    assert in_aggregates(prepared_url) == {uuid: {"kvm1", "kvm2", "pool/nfs"}}
    with Store.open(prepared_url).read() as connection:
        (key,) = providers.ids(connection, [uuid]).values()
        traits = (
            sa.select(tables.traits.c.name)
            .join(tables.provider_traits, tables.provider_traits.c.trait_id == tables.traits.c.id)
            .where(tables.provider_traits.c.provider_id == key)
        )
        assert connection.execute(traits).scalars().all() == ["MISC_SHARES_VIA_AGGREGATE"]
    assert counted(prepared_url)
    again(prepared_url, *nodes)
    # A discovery of one host at a time changes nothing either.
    again(prepared_url, nodes[0])
    again(prepared_url, nodes[1])


def test_the_second_host_takes_the_first_ones_along(prepared_url):
    first = on_pool(
        "kvm1", domain("a", 1, 64, 10), domain("gone", 1, 64, 5), domain("moving", 1, 64, 3)
    )
    fleets.discover(prepared_url, first, host("kvm9"))
    fleets.claim(prepared_url, selection("claimed", "kvm1", disk_gb=7))
    with Store.open(prepared_url).write() as connection:
        migration_claims.begin(connection, uuid_of("moving"), "kvm9", None, "live-migration", NOW)
    first["domains"] = first["domains"][:1]
    fleets.discover(prepared_url, first)
    before = held(prepared_url)
    assert disks(prepared_url) == {"kvm1": (100, 25), "kvm9": (100, 3)}
    fleets.discover(prepared_url, on_pool("kvm2", domain("b", 1, 64, 20)))
    assert disks(prepared_url) == {"pool/nfs": (100, 45), "kvm9": (100, 3)}
    after = held(prepared_url)
    for consumer, places in before.items():
        moved = {name: dict(amounts) for name, amounts in places.items()}
        if "kvm1" in moved:
            moved["pool/nfs"] = {"DISK_GB": moved["kvm1"].pop("DISK_GB")}
        assert after[consumer] == moved
    assert counted(prepared_url)
    again(prepared_url, first)
    # A third host finds the pool made.
    fleets.discover(prepared_url, on_pool("kvm3", domain("c", disk_gb=1)))
    assert disks(prepared_url) == {"pool/nfs": (100, 46), "kvm9": (100, 3)}
    assert counted(prepared_url)


def test_a_host_that_had_its_own_disk_joins_with_what_it_holds(prepared_url):
    fleets.discover(prepared_url, on_pool("kvm1"), on_pool("kvm2"))
    fleets.discover(prepared_url, host("kvm3", domain("c", disk_gb=4)))
    fleets.claim(prepared_url, selection("claimed", "kvm3", disk_gb=7))
    fleets.discover(prepared_url, on_pool("kvm3", domain("c", disk_gb=4)))
    assert disks(prepared_url) == {"pool/nfs": (100, 11)}
    assert counted(prepared_url)


def test_a_host_that_leaves_the_pool_has_its_own_disk_again(prepared_url):
    fleets.discover(
        prepared_url,
        on_pool("kvm1", domain("a", disk_gb=10)),
        on_pool("kvm2", domain("b", disk_gb=20)),
    )
    fleets.discover(prepared_url, host("kvm1", domain("a", disk_gb=10), local_gb=50))
    assert disks(prepared_url) == {"pool/nfs": (100, 20), "kvm1": (50, 10)}
    # The pool stays a pool with only one host left, so that providers do not change back and forth.
    again(prepared_url, on_pool("kvm2", domain("b", disk_gb=20)))
    # The last host leaves: no host sees the pool and it has no allocations.
    found = fleets.discover(prepared_url, host("kvm2", domain("b", disk_gb=20), local_gb=60))
    assert found["changed"] is True
    assert disks(prepared_url) == {"kvm1": (50, 10), "kvm2": (60, 20)}
    assert in_aggregates(prepared_url) == {}
    assert counted(prepared_url)
    again(prepared_url, host("kvm2", domain("b", disk_gb=20), local_gb=60))


def test_from_one_pool_to_another(prepared_url):
    other = {**POOL, "shared_id": "nfs:other:/vms"}
    fleets.discover(prepared_url, on_pool("kvm1", domain("a", disk_gb=10)), on_pool("kvm2"))
    fleets.discover(prepared_url, on_pool("kvm1", domain("a", disk_gb=10), pool=other))
    assert disks(prepared_url) == {"pool/nfs": (100, 0), "kvm1": (100, 10)}
    fleets.discover(prepared_url, on_pool("kvm2", pool=other))
    # Both hosts have left the first pool, so its name is free after its removal; the new pool got
    # another name before.
    (name,) = disks(prepared_url)
    assert name.startswith("pool/nfs-")
    assert disks(prepared_url) == {name: (100, 10)}
    assert counted(prepared_url)


def test_a_retired_node_leaves(prepared_url):
    two = [on_pool("kvm1", hypervisor_hostname=name) for name in ("a", "b")]
    fleets.discover(prepared_url, *two, on_pool("kvm2", domain("web", disk_gb=3)))
    assert disks(prepared_url) == {"pool/nfs": (100, 3)}
    assert fleets.discover(prepared_url, two[0])["removed"] == ["b"]
    assert in_aggregates(prepared_url)[sharing_facts.uuid_of(NFS)] == {"kvm1/a", "kvm2", "pool/nfs"}
    # A pool with allocations stays, even if no host sees it.
    fleets.claim(prepared_url, selection("claimed", "kvm2", vcpus=1))
    with Store.open(prepared_url).write() as connection:
        (key,) = providers.ids(connection, [sharing_facts.uuid_of(NFS)]).values()
        allocations.replace(connection, {uuid_of("stranger"): {key: {"DISK_GB": 9}}}, NOW)
    fleets.discover(
        prepared_url, host("kvm1", hypervisor_hostname="a"), host("kvm2", domain("web", disk_gb=3))
    )
    assert disks(prepared_url)["pool/nfs"] == (100, 9)
    with Store.open(prepared_url).write() as connection:
        allocations.replace(connection, {uuid_of("stranger"): {}}, NOW)
    fleets.discover(prepared_url, host("kvm1", hypervisor_hostname="a"))
    assert "pool/nfs" not in at_hand(prepared_url)


def test_a_moved_domain_leaves_its_disk_where_it_is(prepared_url):
    fleets.discover(prepared_url, on_pool("kvm1", domain("web", 2, 64, 10)), on_pool("kvm2"))
    fleets.discover(prepared_url, on_pool("kvm1"), on_pool("kvm2", domain("web", 2, 64, 10)))
    assert held(prepared_url) == {
        "web": {"kvm2": {"VCPU": 2, "MEMORY_MB": 64}, "pool/nfs": {"DISK_GB": 10}}
    }


def test_declared_pools_are_one_by_name_or_id(prepared_url):
    local = {"name": "san", "path": "/srv/vms", "state": "running"}
    cloned = [
        host(name, instances_path="/srv/vms", pools=[local])
        for name in ("kvm1", "kvm2", "kvm3", "kvm4")
    ]
    fleets.discover(prepared_url, *cloned)
    # Cloned hosts have pools that look equal. That is not a proof.
    assert set(disks(prepared_url)) == {"kvm1", "kvm2", "kvm3", "kvm4"}
    told = [["san"], ["san"], {"san": "rack2"}, {"san": "rack2"}]
    nodes = [{**node, "shared_pools": value} for node, value in zip(cloned, told)]
    fleets.discover(prepared_url, *nodes)
    names = sorted(disks(prepared_url))
    assert names[0] == "pool/san" and names[1].startswith("pool/san-") and len(names) == 2
    again(prepared_url, *nodes)


def test_names_are_short_and_unique(prepared_url):
    pools = [
        {**POOL, "name": "n" * 250, "shared_id": f"nfs:filer{number}:/"} for number in range(3)
    ]
    fleets.discover(
        prepared_url,
        host("pool/nfs"),
        *(
            on_pool(f"kvm{number}{half}", pool=pool)
            for number, pool in enumerate(pools)
            for half in "ab"
        ),
        *(on_pool(f"kvm9{half}") for half in "ab"),
    )
    names = sorted(set(disks(prepared_url)) - {"pool/nfs"})
    assert len(names) == 4 and max(map(len, names)) == sharing.LONGEST_NAME


def test_size_ratio_and_reserve(prepared_url):
    nodes = [on_pool("kvm1", local_gb=100), on_pool("kvm2", local_gb=100)]
    fleets.discover(prepared_url, *nodes, reserved_host_disk_mb=10240)
    # Space that is reserved for a host is not part of a pool.
    assert at_hand(prepared_url)["pool/nfs"]["DISK_GB"] == (100, 0, 1.0, 0)
    with Store.open(prepared_url).write() as connection:
        connection.execute(
            sa.update(tables.inventories)
            .where(tables.inventories.c.total == 100)
            .values(reserved=7)
        )
    fleets.discover(prepared_url, *nodes, disk_allocation_ratio=2.0)
    assert at_hand(prepared_url)["pool/nfs"]["DISK_GB"] == (100, 7, 2.0, 0)
    again(prepared_url, *nodes)
    fleets.discover(prepared_url, on_pool("kvm1", local_gb=150))
    assert at_hand(prepared_url)["pool/nfs"]["DISK_GB"] == (150, 7, 2.0, 0)
    # A pool that is stopped on one host keeps its size.
    stopped = on_pool("kvm1", local_gb=5, pool={**POOL, "state": "inactive"})
    again(prepared_url, stopped)


def test_an_operators_aggregates_stay(prepared_url):
    fleets.discover(prepared_url, on_pool("kvm1"), on_pool("kvm2"))
    mine = uuid_of("mine")
    with Store.open(prepared_url).write() as connection:
        ids = {row.name: row.id for row in connection.execute(sa.select(tables.resource_providers))}
        sharing.set_members(connection, {ids["kvm1"]: {mine}}, {})
    again(prepared_url, on_pool("kvm1"))
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    assert in_aggregates(prepared_url) == {mine: {"kvm1"}}


def test_a_dry_run_writes_nothing(prepared_url):
    fleets.discover(prepared_url, on_pool("kvm1", domain("a", disk_gb=10)))
    before = fleets.snapshot(prepared_url)
    with Store.open(prepared_url, check_mode=True).write() as connection:
        report = node_data.reports([on_pool("kvm2")], "unused", {})
        assert record.record(connection, report, NOW)["changed"] is True
    assert fleets.snapshot(prepared_url) == before


def test_discoveries_at_the_same_moment_make_one_provider(prepared_url):
    names = [f"kvm{number}" for number in range(6)]
    answers = fleets.race(
        *(
            lambda name=name: fleets.discover(prepared_url, on_pool(name, domain(name, disk_gb=2)))
            for name in names
        )
    )
    assert all(isinstance(answer, dict) for answer in answers), answers
    assert disks(prepared_url) == {"pool/nfs": (100, 12)}
    assert counted(prepared_url)


# Pools of addresses


def routed(name, *domains, pools=(("floating", ["192.0.2.0/28"]),), **more):
    given = [{"name": pool, "addresses": addresses} for pool, addresses in pools]
    return host(name, *domains, ip_pools=given, **more)


def test_a_pool_of_addresses(prepared_url):
    nodes = [routed("kvm1"), routed("kvm2"), host("kvm3")]
    fleets.discover(prepared_url, *nodes)
    assert at_hand(prepared_url)["ip/floating"] == {"IPV4_ADDRESS": (14, 0, 1.0, 0)}
    names = list(in_aggregates(prepared_url).values())
    assert names == [{"kvm1", "kvm2", "ip/floating"}]
    again(prepared_url, *nodes)
    fleets.discover(prepared_url, host("kvm1"))
    names = list(in_aggregates(prepared_url).values())
    assert names == [{"kvm2", "ip/floating"}]
    fleets.discover(prepared_url, host("kvm2"))
    assert in_aggregates(prepared_url) == {} and "ip/floating" not in at_hand(prepared_url)


def test_an_address_that_was_claimed_is_kept(prepared_url):
    fleets.discover(prepared_url, routed("kvm1", domain("web", 2)), routed("kvm2"), host("kvm3"))
    with Store.open(prepared_url).write() as connection:
        ids = {row.name: row.id for row in connection.execute(sa.select(tables.resource_providers))}
        has = {ids["kvm1"]: {"VCPU": 2, "MEMORY_MB": 64}, ids["ip/floating"]: {"IPV4_ADDRESS": 1}}
        allocations.replace(connection, {uuid_of("web"): has}, NOW)
    again(prepared_url, routed("kvm1", domain("web", 2)))
    # The address stays with the instance on a host that reaches the pool, and is released on a host
    # that does not.
    fleets.discover(prepared_url, routed("kvm1"), routed("kvm2", domain("web", 2)))
    assert held(prepared_url)["web"] == {
        "kvm2": {"VCPU": 2, "MEMORY_MB": 64},
        "ip/floating": {"IPV4_ADDRESS": 1},
    }
    fleets.discover(prepared_url, routed("kvm2"), host("kvm3", domain("web", 2)))
    assert held(prepared_url)["web"] == {"kvm3": {"VCPU": 2, "MEMORY_MB": 64}}
    assert counted(prepared_url)


def test_an_operators_own_sharing_provider_keeps_the_disk_that_was_claimed_there(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", disk_gb=5)))
    with Store.open(prepared_url).write() as connection:
        mine, shared = (
            uuid_of("mine"),
            {
                "name": "mine",
                "resource": "DISK_GB",
                "total": 50,
                "allocation_ratio": None,
                "reserved": None,
            },
        )
        ids = {row.name: row.id for row in connection.execute(sa.select(tables.resource_providers))}
        made, dummy = sharing.ensure(connection, {mine: shared})
        sharing.set_members(connection, {ids["kvm1"]: {mine}}, {})
        has = {ids["kvm1"]: {"VCPU": 1, "MEMORY_MB": 64}, made[mine]: {"DISK_GB": 5}}
        allocations.replace(connection, {uuid_of("web"): has}, NOW)
    again(prepared_url, host("kvm1", domain("web", disk_gb=5)))
    fleets.discover(prepared_url, host("kvm1", domain("web", disk_gb=6)))
    assert disks(prepared_url) == {"kvm1": (100, 0), "mine": (50, 6)}


A, B = (("floating", ["192.0.2.0/28"]),), (("floating", ["192.0.2.16/28"]),)


def test_contradicting_definitions_are_refused_with_both(prepared_url):
    with pytest.raises(
        DroverError,
        match=r"floating .*kvm1 has 192.0.2.1-192.0.2.14, kvm2 has 192.0.2.17-192.0.2.30",
    ):
        fleets.discover(prepared_url, routed("kvm1", pools=A), routed("kvm2", pools=B))
    fleets.discover(prepared_url, routed("kvm1", pools=A))
    before = fleets.snapshot(prepared_url)
    with pytest.raises(
        DroverError,
        match=r"kvm1 has 192.0.2.1-192.0.2.14, kvm2 has 192.0.2.17-192.0.2.30.*nothing was",
    ):
        fleets.discover(prepared_url, routed("kvm2", pools=B))
    assert fleets.snapshot(prepared_url) == before
    # Another spelling of the same range is not a change.
    fleets.discover(prepared_url, routed("kvm2", pools=(("floating", ["192.0.2.1-192.0.2.14"]),)))


def test_a_definition_is_changed_host_by_host(prepared_url):
    fleets.discover(prepared_url, *(routed(name, pools=A) for name in ("kvm1", "kvm2", "kvm3")))
    larger = (("floating", ["192.0.2.0/27"]),)
    fleets.discover(prepared_url, routed("kvm1", pools=larger), now=NOW + 1)
    assert at_hand(prepared_url)["ip/floating"]["IPV4_ADDRESS"][0] == 30
    fleets.discover(prepared_url, routed("kvm2", pools=larger), now=NOW + 2)
    # The message names the hosts that still have the old range.
    with pytest.raises(
        DroverError, match=r"kvm2 has 192.0.2.1-192.0.2.30, kvm3 has 192.0.2.1-192.0.2.14"
    ):
        fleets.discover(prepared_url, routed("kvm3", pools=A), now=NOW + 3)
    fleets.discover(prepared_url, routed("kvm3", pools=larger), now=NOW + 4)
    again(
        prepared_url,
        *(routed(name, pools=larger) for name in ("kvm1", "kvm2", "kvm3")),
        now=NOW + 5,
    )


# Large


@pytest.mark.long
def test_ten_thousand_nodes_in_fifty_pools(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    pools = [
        {**POOL, "name": f"p{number}", "shared_id": f"nfs:filer{number}:/"} for number in range(50)
    ]
    nodes = [
        on_pool(
            f"kvm{number:05}",
            domain(f"web{number}", disk_gb=1),
            pool=pools[number % 50],
            local_gb=1000,
        )
        for number in range(10_000)
    ]
    began = time.monotonic()
    fleets.discover(url, *nodes)
    took = time.monotonic() - began
    assert disks(url) == {f"pool/p{number}": (1000, 200) for number in range(50)}
    began = time.monotonic()
    assert fleets.discover(url, *nodes)["changed"] is False
    print(f"10,000 nodes in 50 pools: {took:.1f} s, again {time.monotonic() - began:.1f} s")
