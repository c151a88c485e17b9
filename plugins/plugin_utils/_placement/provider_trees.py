# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trees of providers (N10.1), and which providers a compute node takes an amount from (N10.4).

The order is fixed: the node's own provider, the providers below it by id, sharing providers by id.
Each class may be from another provider.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.providers.provider_arrays import SHARES
from .._store.schema import tables
from . import providers
from .providers import grouped, inventories


class Supply:
    """The providers of one compute node.

    :param tree: ids of the providers in its tree, its root first.
    :param sharing: ids of the sharing providers that it reaches.
    :param classes: {provider id: classes that it has}; None if the node has one provider.
    """

    __slots__ = ("tree", "sharing", "classes")

    def __init__(
        self,
        tree: Iterable[int],
        sharing: Iterable[int] = (),
        classes: Mapping[int, Collection[str]] | None = None,
    ) -> None:
        self.tree, self.sharing, self.classes = list(tree), list(sharing), classes

    def of(self, name: str) -> list[int]:
        """Return the ids of the providers that may give a class, the first choice first."""
        if self.classes is None:
            return self.tree
        return [key for key in (*self.tree, *self.sharing) if name in self.classes.get(key, ())]


def has_more(providers: sa.Table) -> tuple[sa.Label[bool], sa.Label[bool]]:
    """Return columns for read(): True if there are providers below one, and True if it is in
    aggregates.
    """
    children, members = tables.resource_providers.alias("children"), tables.provider_aggregates
    return (
        sa.exists().where(children.c.root_id == providers.c.id).label("nested"),
        sa.exists().where(members.c.provider_id == providers.c.id).label("in_aggregates"),
    )


def read(connection: Connection, nodes: Collection[Row]) -> dict[int, Supply]:
    """Read the supplies of compute nodes; a node with one provider needs no query.

    :param nodes: rows with provider_id, nested, in_aggregates.
    :returns: {provider id of the node: its supply}.
    """
    supplies = {node.provider_id: Supply([node.provider_id]) for node in nodes}
    more = {node.provider_id for node in nodes if node.nested or node.in_aggregates}
    if not more:
        return supplies
    below = trees(connection, more)
    own = {root: [root, *sorted(below.get(root, set()) - {root})] for root in more}
    root_of = {key: root for root, keys in own.items() for key in keys}
    served: dict[int, set[int]] = {root: set() for root in more}
    for sharing, reached in reachable(connection, root_of).items():
        for root in {root_of[key] for key in reached}:
            served[root].add(sharing)
    shared = {root: sorted(keys - set(own[root])) for root, keys in served.items()}
    classes = _classes(
        connection, {key for keys in (*own.values(), *shared.values()) for key in keys}
    )
    supplies.update({root: Supply(own[root], shared[root], classes) for root in more})
    return supplies


def tree(connection: Connection, uuid: str) -> set[int]:
    """Return the ids of a node's own providers.

    :param uuid: the uuid of the node.
    """
    table = tables.resource_providers
    mine = sa.select(table.c.id).where(table.c.uuid == uuid).scalar_subquery()
    query = sa.select(table.c.id).where(sa.or_(table.c.uuid == uuid, table.c.root_id == mine))
    return set(connection.execute(query).scalars())


def reachable(
    connection: Connection, provider_ids: Iterable[int], sharing_ids: Iterable[int] | None = None
) -> dict[int, set[int]]:
    """Return the providers that each sharing provider serves.

    :param sharing_ids: the only sharing providers that matter; providers without the trait are left
        out. None for all.
    :returns: {sharing provider id: ids among ``provider_ids`` that it serves}, without empty sets.
    """
    members, traits, names = tables.provider_aggregates, tables.provider_traits, tables.traits
    query = (
        sa.select(members.c.aggregate_id, members.c.provider_id)
        .join(traits, traits.c.provider_id == members.c.provider_id)
        .join(names, names.c.id == traits.c.trait_id)
        .where(names.c.name == SHARES)
    )
    reached: dict[int, set[int]] = {}
    rows: Iterable[Any] = (
        connection.execute(query)
        if sharing_ids is None
        else bulk.among(connection, query, members.c.provider_id, sharing_ids)
    )
    by_aggregate = grouped(rows)
    if by_aggregate:
        for row in bulk.among(
            connection, bulk.select(members), members.c.provider_id, provider_ids
        ):
            for sharing in by_aggregate.get(row.aggregate_id, ()):
                reached.setdefault(sharing, set()).add(row.provider_id)
    return reached


def _classes(connection: Connection, provider_ids: Iterable[int]) -> dict[int, set[str]]:
    return grouped((row.provider_id, row.name) for row in inventories(connection, provider_ids))


def below(connection: Connection, provider: Row) -> list[int]:
    """Return the ids of all providers below one, parents before their children, by one query."""
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.parent_id).where(
        table.c.root_id == (provider.root_id or provider.id)
    )
    children: dict[int | None, list[int]] = {}
    for row in connection.execute(query):
        children.setdefault(row.parent_id, []).append(row.id)
    descendants: list[int] = []
    rest = list(children.get(provider.id, ()))
    while rest:
        descendants.append(rest.pop())
        rest.extend(children.get(descendants[-1], ()))
    return descendants


def move(connection: Connection, provider: Row, parent: Row | None) -> None:
    """Move a provider and all providers below it under another one, which is not below it.

    :param parent: None to make the provider a root.
    """
    table = tables.resource_providers
    root = None if parent is None else (parent.root_id or parent.id)
    moved = below(connection, provider)
    bulk.update(
        connection,
        table,
        [{"id": provider.id, "parent_id": None if parent is None else parent.id, "root_id": root}],
    )
    new_root = root or provider.id
    if new_root != provider.root_id:
        bulk.update(connection, table, [{"id": key, "root_id": new_root} for key in moved])


def trees(connection: Connection, root_ids: Iterable[int]) -> dict[int, set[int]]:
    """Return the ids of the providers below roots: {root id: ids}, without the root and without
    empty sets.
    """
    table = tables.resource_providers
    return grouped(
        bulk.among(connection, bulk.select(table.c.root_id, table.c.id), table.c.root_id, root_ids)
    )


def remove(connection: Connection, ids: Collection[int]) -> None:
    """Remove providers that are below roots and have no allocations, in any order."""
    table = tables.resource_providers
    # The providers become roots first: a provider cannot be removed while it is the parent of
    # another one.
    bulk.update(
        connection, table, [{"id": key, "parent_id": None, "root_id": None} for key in sorted(ids)]
    )
    providers.remove(connection, ids)


def roots(connection: Connection, provider_ids: Iterable[int]) -> dict[int, set[int]]:
    """Return the roots of the providers that are below one: {id: set of the root's id}."""
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.root_id).where(table.c.root_id.is_not(None))
    return {
        row.id: {row.root_id}
        for row in bulk.among(connection, query, table.c.id, provider_ids)
        if row.root_id != row.id
    }
