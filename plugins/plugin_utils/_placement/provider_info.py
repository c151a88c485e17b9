# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource providers with all that is known of them, by a fixed number of queries."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TypedDict

from .._store.database import bulk
from .._store.database.sql import Connection, Row, Select, sa
from .._store.schema import tables
from . import classes_and_traits, provider_query, providers
from .candidates.query import RequestGroup
from .inventory import InventoryFields, ProviderInventory, fields_of


class InventoryDescription(InventoryFields):
    """An inventory; its capacity is rounded down."""

    capacity: int
    used: int


class ProviderDescription(TypedDict):
    """A resource provider as the module resource_provider_info returns it."""

    uuid: str
    name: str
    generation: int
    #: None for a root.
    parent: str | None
    parent_uuid: str | None
    root: str
    root_uuid: str
    #: host and hypervisor_hostname of the node of the tree that the provider is in.
    compute_node: dict[str, str] | None
    inventories: dict[str, InventoryDescription]
    traits: list[str]
    #: Uuids.
    aggregates: list[str]


def listing(
    connection: Connection,
    name: str | None = None,
    uuid: str | None = None,
    in_tree: str | None = None,
    group: RequestGroup | None = None,
) -> list[ProviderDescription]:
    """List the providers that meet all conditions, sorted by name.

    :param in_tree: the uuid of any provider of a tree.
    :param group: traits, aggregates and room.
    :raises DroverError: the query names an unknown trait or class.
    """
    group = group or provider_query.parse()
    asked = group.traits()
    if asked:
        classes_and_traits.check_known(connection, classes_and_traits.TRAIT, asked, "required")
    if group.resources:
        classes_and_traits.check_known(
            connection, classes_and_traits.RESOURCE_CLASS, group.resources, "resources"
        )
    rows = connection.execute(_providers(name, uuid, in_tree)).all()
    ids = [row.id for row in rows]
    inventories = _held_by_provider(connection, ids)
    traits = _traits(connection, ids)
    aggregates = _aggregates(connection, ids)
    described = []
    for row in sorted(rows, key=lambda row: row.name):
        mine = inventories.get(row.id, {}), traits.get(row.id, set()), aggregates.get(row.id, set())
        fits = functools.partial(_fits_amount, mine[0])
        if provider_query.matches(group, mine[1], mine[2], fits):
            described.append(_describe_provider(row, *mine))
    return described


def _providers(name: str | None, uuid: str | None, in_tree: str | None) -> Select:
    table, nodes = tables.resource_providers, tables.compute_nodes
    parent, root = table.alias("parent"), table.alias("root")
    query = (
        sa.select(
            table.c.id,
            table.c.uuid,
            table.c.name,
            table.c.generation,
            parent.c.uuid.label("parent_uuid"),
            parent.c.name.label("parent"),
            root.c.uuid.label("root_uuid"),
            root.c.name.label("root"),
            nodes.c.host,
            nodes.c.hypervisor_hostname,
        )
        .select_from(table)
        .outerjoin(parent, parent.c.id == table.c.parent_id)
        .join(root, root.c.id == sa.func.coalesce(table.c.root_id, table.c.id))
        .outerjoin(nodes, nodes.c.uuid == root.c.uuid)
    )
    if name is not None:
        query = query.where(table.c.name == name)
    if uuid is not None:
        query = query.where(table.c.uuid == uuid)
    if in_tree is not None:
        member = table.alias("member")
        query = query.where(
            root.c.id
            == sa.select(sa.func.coalesce(member.c.root_id, member.c.id))
            .where(member.c.uuid == in_tree)
            .scalar_subquery()
        )
    return query


def _held_by_provider(
    connection: Connection, ids: Iterable[int]
) -> dict[int, dict[str, ProviderInventory]]:
    by_provider: dict[int, dict[str, ProviderInventory]] = {}
    for row in providers.inventories(connection, ids):
        by_provider.setdefault(row.provider_id, {})[row.name] = ProviderInventory(row)
    return by_provider


def _traits(connection: Connection, ids: Iterable[int]) -> dict[int, set[str]]:
    table = tables.provider_traits
    # A fleet has few traits and many rows of them: each name is read once.
    known = {row.id: row.name for row in connection.execute(sa.select(tables.traits))}
    links = providers.links(connection, table.c.trait_id, ids)
    return {provider: {known[trait] for trait in traits} for provider, traits in links.items()}


def _aggregates(connection: Connection, ids: Iterable[int]) -> dict[int, set[str]]:
    table, aggregates = tables.provider_aggregates, tables.placement_aggregates
    query = sa.select(table.c.provider_id, aggregates.c.uuid).join(
        aggregates, aggregates.c.id == table.c.aggregate_id
    )
    return providers.grouped(bulk.among(connection, query, table.c.provider_id, ids))


def _fits_amount(held: Mapping[str, ProviderInventory], name: str, amount: int) -> bool:
    return name in held and held[name].refusal(name, amount) is None


def _describe_provider(
    row: Row,
    held: Mapping[str, ProviderInventory],
    traits: Iterable[str],
    aggregates: Iterable[str],
) -> ProviderDescription:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "generation": row.generation,
        "parent": row.parent,
        "parent_uuid": row.parent_uuid,
        "root": row.root,
        "root_uuid": row.root_uuid,
        "compute_node": (
            {"host": row.host, "hypervisor_hostname": row.hypervisor_hostname} if row.host else None
        ),
        "inventories": {
            name: {**fields_of(each), "capacity": int(each.capacity), "used": each.used}
            for name, each in sorted(held.items())
        },
        "traits": sorted(traits),
        "aggregates": sorted(aggregates),
    }
