# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sharing providers of discovery, such as a pool of disks that several compute nodes see (N10.4).

A sharing provider has the uuid of its placement aggregate. A node is put into the aggregate as soon
as it sees the pool, so the aggregate shows which nodes see it even before there is a provider.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypedDict

from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.providers.provider_arrays import SHARES
from .._store.schema import tables
from . import allocations, inventory, providers

PREFIXES = ("pool/", "ip/")
#: The most characters of the name of a provider that an operator creates.
LONGEST_NAME = 200


class SharingProvider(TypedDict):
    """A sharing provider as discovery wants it; None keeps the stored value (the ratio is 1.0 at
    first).
    """

    name: str
    #: The resource class.
    resource: str
    total: int | None
    allocation_ratio: float | None
    #: GiB or pieces.
    reserved: int | None


def set_members(
    connection: Connection,
    wanted: Mapping[int, Collection[str]],
    leaving: Mapping[int, Collection[str]],
) -> tuple[dict[str, set[int]], bool]:
    """Put providers into aggregates, and remove them from others; they stay in all the rest.

    :param wanted: {provider id: uuids of aggregates}, which are made if they are new.
    :param leaving: {provider id: uuids of aggregates}.
    :returns: {uuid: ids of the providers that are new in it}, and whether anything changed.
    """
    table = tables.provider_aggregates
    uuids = {uuid for each in (wanted, leaving) for names in each.values() for uuid in names}
    if not uuids:
        return {}, False
    column = tables.placement_aggregates.c.uuid
    ids = bulk.ids_by(connection, column, {uuid for names in wanted.values() for uuid in names})
    ids.update(bulk.ids_by(connection, column, uuids - set(ids), make=False))
    query = bulk.select(table.c.provider_id, table.c.aggregate_id)
    have = {
        (row.provider_id, row.aggregate_id)
        for row in bulk.among(connection, query, table.c.provider_id, {*wanted, *leaving})
    }
    joined: dict[str, set[int]] = {}
    for provider, names in wanted.items():
        for uuid in names:
            if (provider, ids[uuid]) not in have:
                joined.setdefault(uuid, set()).add(provider)
    new = sorted((provider, ids[uuid]) for uuid, members in joined.items() for provider in members)
    bulk.insert(
        connection, table, [{"provider_id": provider, "aggregate_id": key} for provider, key in new]
    )
    gone = {
        (provider, ids[uuid])
        for provider, names in leaving.items()
        for uuid in names
        if uuid in ids
    } & have
    for aggregate in sorted({key for dummy, key in gone}):
        members = sorted(provider for provider, key in gone if key == aggregate)
        _leave(connection, aggregate, members)
    providers.bump(connection, {provider for provider, dummy in [*new, *gone]})
    return joined, bool(new or gone)


def _leave(connection: Connection, aggregate: int, members: Sequence[int]) -> None:
    table = tables.provider_aggregates
    for start in range(0, len(members), bulk.NAMED_VALUES):
        some = members[start : start + bulk.NAMED_VALUES]
        connection.execute(
            sa.delete(table).where(table.c.aggregate_id == aggregate, table.c.provider_id.in_(some))
        )


def count_members(connection: Connection, uuids: Iterable[str]) -> dict[str, int]:
    """Count the providers in aggregates, without their sharing providers, by their uuids."""
    table, aggregates, nodes = (
        tables.provider_aggregates,
        tables.placement_aggregates,
        tables.resource_providers,
    )
    query = (
        sa.select(aggregates.c.uuid, sa.func.count().label("members"))
        .join(table, table.c.aggregate_id == aggregates.c.id)
        .join(nodes, nodes.c.id == table.c.provider_id)
        .where(nodes.c.uuid != aggregates.c.uuid)
        .group_by(aggregates.c.uuid)
    )
    return {
        row.uuid: row.members for row in bulk.among(connection, query, aggregates.c.uuid, uuids)
    }


def members(connection: Connection, uuids: Iterable[str]) -> dict[str, set[int]]:
    """Return the ids of the providers in aggregates, without their sharing providers, by their
    uuids.
    """
    table, aggregates, nodes = (
        tables.provider_aggregates,
        tables.placement_aggregates,
        tables.resource_providers,
    )
    query = (
        sa.select(aggregates.c.uuid, table.c.provider_id)
        .join(table, table.c.aggregate_id == aggregates.c.id)
        .join(nodes, nodes.c.id == table.c.provider_id)
        .where(nodes.c.uuid != aggregates.c.uuid)
    )
    return providers.grouped(bulk.among(connection, query, aggregates.c.uuid, uuids))


def latest_reporter(connection: Connection, uuid: str, hosts: Iterable[str]) -> Row | None:
    """Return the compute node in an aggregate that reported last, of other hosts than these."""
    table, aggregates, owners = (
        tables.provider_aggregates,
        tables.placement_aggregates,
        tables.resource_providers,
    )
    nodes = tables.compute_nodes
    query = (
        sa.select(nodes.c.host, nodes.c.facts)
        .join(owners, owners.c.uuid == nodes.c.uuid)
        .join(table, table.c.provider_id == owners.c.id)
        .join(aggregates, aggregates.c.id == table.c.aggregate_id)
        .where(aggregates.c.uuid == uuid, nodes.c.host.not_in(sorted(hosts)))
        .order_by(nodes.c.updated_at.desc(), nodes.c.host)
        .limit(1)
    )
    return connection.execute(query).one_or_none()


def classes(connection: Connection, uuids: Collection[str]) -> list[tuple[str, str]]:
    """Return the resource classes of sharing providers that exist: pairs of uuid and class."""
    by_id = {key: uuid for uuid, key in providers.ids(connection, uuids).items()}
    return [(by_id[row.provider_id], row.name) for row in providers.inventories(connection, by_id)]


def ensure(
    connection: Connection, pools: Mapping[str, SharingProvider]
) -> tuple[dict[str, int], bool]:
    """Make sharing providers, each a root in its own aggregate, or update their inventories.

    :param pools: by uuid.
    :returns: {uuid: provider id}, and whether anything changed.
    """
    if not pools:
        return {}, False
    ids_before = providers.ids(connection, pools)
    new = sorted(set(pools) - set(ids_before))
    ids = {
        **ids_before,
        **providers.ensure(
            connection, _unique_names(connection, {uuid: pools[uuid]["name"] for uuid in new})
        ),
    }
    trait = bulk.ids_by(connection, tables.traits.c.name, {SHARES})[SHARES]
    bulk.insert(
        connection,
        tables.provider_traits,
        [{"provider_id": ids[uuid], "trait_id": trait} for uuid in new],
    )
    set_members(connection, {ids[uuid]: {uuid} for uuid in pools}, {})
    changed = _write_inventories(
        connection, {ids[uuid]: pool for uuid, pool in pools.items() if pool["total"]}
    )
    return ids, bool(new or changed)


def _unique_names(connection: Connection, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return names that no other provider has, by uuid; a name that is taken gets a short hash."""
    table = tables.resource_providers
    plain = {uuid: name[:LONGEST_NAME] for uuid, name in wanted.items()}
    query = bulk.select(table.c.name)
    taken = {row.name for row in bulk.among(connection, query, table.c.name, plain.values())}
    names = {}
    for uuid, name in sorted(plain.items()):
        if name in taken or name != wanted[uuid]:
            mark = hashlib.sha256(uuid.encode()).hexdigest()[:8]
            name = f"{name[: LONGEST_NAME - 9]}-{mark}"
        taken.add(name)
        names[uuid] = name
    return names


def _write_inventories(connection: Connection, wanted: Mapping[int, SharingProvider]) -> set[int]:
    """Write the inventories of sharing providers; return the ids of the changed providers."""
    table = tables.inventories
    classes = bulk.ids_by(
        connection, tables.resource_classes.c.name, {pool["resource"] for pool in wanted.values()}
    )
    rows = bulk.among(connection, bulk.select(table), table.c.provider_id, wanted)
    stored = {(row.provider_id, row.class_id): row for row in rows}
    new: list[dict[str, object]] = []
    different: list[dict[str, object]] = []
    changed: set[int] = set()
    for provider, pool in sorted(wanted.items()):
        row = stored.get((provider, classes[pool["resource"]]))
        ratio = pool["allocation_ratio"]
        values: dict[str, object] = {"total": pool["total"], "max_unit": pool["total"]}
        if row is None:
            fixed = {
                "reserved": pool["reserved"] or 0,
                "min_unit": 1,
                "step_size": 1,
                "allocation_ratio": float(ratio or 1.0),
            }
            new.append(
                {"provider_id": provider, "class_id": classes[pool["resource"]], **fixed, **values}
            )
            changed.add(provider)
            continue
        values["allocation_ratio"] = float(ratio or row.allocation_ratio)
        values["reserved"] = (
            inventory.reserved_of(row) if pool["reserved"] is None else pool["reserved"]
        )
        values = inventory.while_drained(row, values)
        if any(getattr(row, name) != value for name, value in values.items()):
            different.append({"id": row.id, **values})
            changed.add(provider)
    inventory.insert(connection, new)
    bulk.update(connection, table, different)
    providers.bump(connection, changed)
    return changed


def move(connection: Connection, wanted: Mapping[int, int], resource: str, now: float) -> None:
    """Move the allocations of a class from providers to others, and remove the inventories there.

    All consumers are moved: instances, claims that are not built yet, migrations.

    :param wanted: {provider id: id of the provider that has the class from now on}.
    """
    class_id = bulk.ids_by(connection, tables.resource_classes.c.name, {resource})[resource]
    _lock_inventories(connection, wanted, class_id)
    table, consumers = tables.allocations, tables.consumers
    query = (
        sa.select(consumers.c.uuid)
        .join(table, table.c.consumer_id == consumers.c.id)
        .where(table.c.class_id == class_id)
    )
    uuids = {row.uuid for row in bulk.among(connection, query, table.c.provider_id, wanted)}
    changes: dict[str, allocations.Held] = {}
    for uuid, held in allocations.read(connection, uuids).items():
        changes[uuid] = after = {provider: dict(amounts) for provider, amounts in held.items()}
        for provider in sorted(set(held) & set(wanted)):
            amount = after[provider].pop(resource, 0)
            there = after.setdefault(wanted[provider], {})
            there[resource] = there.get(resource, 0) + amount
    allocations.replace(connection, changes, now)
    table = tables.inventories
    query = sa.select(table.c.id, table.c.provider_id).where(table.c.class_id == class_id)
    rows = bulk.among(connection, query, table.c.provider_id, wanted)
    bulk.delete(connection, table, table.c.id, [row.id for row in rows])
    providers.bump(connection, {row.provider_id for row in rows})


def _lock_inventories(connection: Connection, provider_ids: Iterable[int], class_id: int) -> None:
    """Lock inventories before their removal, in the same order as claims."""
    if connection.dialect.name == "sqlite":
        return
    table = tables.inventories
    query = (
        sa.select(table.c.id)
        .where(table.c.class_id == class_id)
        .order_by(table.c.provider_id, table.c.class_id)
    )
    bulk.among(connection, query.with_for_update(), table.c.provider_id, provider_ids)


def remove_unused(connection: Connection, left: Iterable[str]) -> bool:
    """Remove sharing providers of discovery without nodes and without allocations; return whether
    there were any.

    :param left: uuids of aggregates that nodes left; empty ones are removed.
    """
    owners, aggregates, table = (
        tables.resource_providers,
        tables.placement_aggregates,
        tables.provider_aggregates,
    )
    ours = {
        row.uuid: row.id
        for row in connection.execute(
            sa.select(owners.c.uuid, owners.c.id)
            .join(aggregates, aggregates.c.uuid == owners.c.uuid)
            .where(
                sa.or_(*(owners.c.name.startswith(prefix, autoescape=True) for prefix in PREFIXES))
            )
        )
    }
    empty = set(ours) - set(count_members(connection, ours))
    unused: set[str] = set()
    if empty:
        used = allocations.used_providers(connection, [ours[uuid] for uuid in empty])
        unused = {uuid for uuid in empty if ours[uuid] not in used}
        providers.remove(connection, [ours[uuid] for uuid in unused])
    query = sa.select(table.c.aggregate_id, aggregates.c.uuid).join(
        aggregates, aggregates.c.id == table.c.aggregate_id
    )
    candidates = unused | set(left)
    inhabited = {
        row.uuid for row in bulk.among(connection, query.distinct(), aggregates.c.uuid, candidates)
    }
    bulk.delete(connection, aggregates, aggregates.c.uuid, sorted(candidates - inhabited))
    return bool(unused)
