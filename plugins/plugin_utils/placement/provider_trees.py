# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which providers an amount may come from: a node's own tree, then what it shares (N10.4).

The order is fixed: the node's own provider, its children by id, sharing providers by id. Each class may
come from another one.

The tree of providers: parents, roots, and moving a part of it (N10.1).
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.placement import providers
from ansible_collections.drover.compute.plugins.plugin_utils.placement.providers import inventories
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.provider_arrays import SHARES
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


class Supply:
    """The providers of one compute node.

    :ivar tree: ids of its own tree, the node's own first.
    :ivar sharing: ids of those that share with it.
    """

    __slots__ = ("tree", "sharing", "classes")

    def __init__(self, tree, sharing=(), classes=None):
        self.tree, self.sharing, self.classes = list(tree), list(sharing), classes

    def of(self, name):
        """The ids of the providers that may give a class, the first choice first."""
        if self.classes is None:
            return self.tree
        return [key for key in (*self.tree, *self.sharing) if name in self.classes.get(key, ())]


def has_more(providers):
    """Columns that tell whether a provider is all that its node has: for the query of the nodes."""
    children, members = tables.resource_providers.alias("children"), tables.provider_aggregates
    return (
        sa.exists().where(children.c.root_id == providers.c.id).label("nested"),
        sa.exists().where(members.c.provider_id == providers.c.id).label("in_aggregates"),
    )


def read(connection, nodes):
    """The supply of compute nodes; without a query for those that have their own provider only.

    :param nodes: rows with provider_id, nested, in_aggregates.
    :returns: dict provider id of the node -> Supply.
    """
    supplies = {node.provider_id: Supply([node.provider_id]) for node in nodes}
    more = {node.provider_id for node in nodes if node.nested or node.in_aggregates}
    if not more:
        return supplies
    below = trees(connection, more)
    own = {root: [root, *sorted(below.get(root, set()) - {root})] for root in more}
    root_of = {key: root for root, keys in own.items() for key in keys}
    served = {root: set() for root in more}
    for sharing, reached in reachable(connection, root_of).items():
        for root in {root_of[key] for key in reached}:
            served[root].add(sharing)
    shared = {root: sorted(keys - set(own[root])) for root, keys in served.items()}
    classes = _classes(connection, {key for keys in (*own.values(), *shared.values()) for key in keys})
    supplies.update({root: Supply(own[root], shared[root], classes) for root in more})
    return supplies


def tree(connection, uuid):
    """The ids of a node's own providers, as a set."""
    table = tables.resource_providers
    mine = sa.select(table.c.id).where(table.c.uuid == uuid).scalar_subquery()
    query = sa.select(table.c.id).where(sa.or_(table.c.uuid == uuid, table.c.root_id == mine))
    return set(connection.execute(query).scalars())


def reachable(connection, provider_ids, sharing_ids=None):
    """Which providers each sharing provider serves.

    :param sharing_ids: the only ones that matter, of which those without the trait are left out; None for all.
    :returns: dict sharing provider id -> set of those of ``provider_ids`` that it serves, without empty ones.
    """
    members, traits, names = tables.provider_aggregates, tables.provider_traits, tables.traits
    query = (
        sa.select(members.c.aggregate_id, members.c.provider_id)
        .join(traits, traits.c.provider_id == members.c.provider_id)
        .join(names, names.c.id == traits.c.trait_id)
        .where(names.c.name == SHARES)
    )
    by_aggregate, found = {}, {}
    rows = connection.execute(query) if sharing_ids is None else bulk.among(connection, query, members.c.provider_id, sharing_ids)
    for row in rows:
        by_aggregate.setdefault(row.aggregate_id, set()).add(row.provider_id)
    if by_aggregate:
        for row in bulk.among(connection, sa.select(members), members.c.provider_id, provider_ids):
            for sharing in by_aggregate.get(row.aggregate_id, ()):
                found.setdefault(sharing, set()).add(row.provider_id)
    return found


def _classes(connection, provider_ids):
    found = {}
    for row in inventories(connection, provider_ids):
        found.setdefault(row.provider_id, set()).add(row.name)
    return found


def below(connection, provider):
    """The ids of all providers below one (a row), in one query.

    :returns: a list, parents before their children.
    """
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.parent_id).where(table.c.root_id == (provider.root_id or provider.id))
    children = {}
    for row in connection.execute(query):
        children.setdefault(row.parent_id, []).append(row.id)
    found = []
    rest = list(children.get(provider.id, ()))
    while rest:
        found.append(rest.pop())
        rest.extend(children.get(found[-1], ()))
    return found


def move(connection, provider, parent):
    """Hang a provider with everything below it under another one, which is not below it.

    :param provider: its row.
    :param parent: the row of the new parent, or None to make the provider a root.
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


def trees(connection, root_ids):
    """The providers below roots: dict root id -> set of ids, without the root and without empty ones."""
    table = tables.resource_providers
    found = {}
    for row in bulk.among(connection, sa.select(table.c.id, table.c.root_id), table.c.root_id, root_ids):
        found.setdefault(row.root_id, set()).add(row.id)
    return found


def remove(connection, ids):
    """Remove providers below roots that nothing is allocated on, in whatever order."""
    table = tables.resource_providers
    # Cut loose first: none may go while another one has it for its parent.
    bulk.update(connection, table, [{"id": key, "parent_id": None, "root_id": None} for key in sorted(ids)])
    providers.remove(connection, ids)


def roots(connection, provider_ids):
    """The roots of those providers that have one above them: dict id -> set of the one root's id."""
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.root_id).where(table.c.root_id.is_not(None))
    return {row.id: {row.root_id} for row in bulk.among(connection, query, table.c.id, provider_ids) if row.root_id != row.id}
