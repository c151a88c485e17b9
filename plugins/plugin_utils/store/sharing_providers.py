# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What compute nodes have that is not their own provider's: sharing providers and nested ones (N10.4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.store import tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

# The trait of a provider that serves every tree with a provider in one of its aggregates.
SHARES = "MISC_SHARES_VIA_AGGREGATE"


@dataclass
class Lenders:
    """The sharing providers: ids, uuids and names, by id; serves: the ids of the roots that each one serves."""

    ids: list = field(default_factory=list)
    uuids: list = field(default_factory=list)
    names: list = field(default_factory=list)
    serves: list = field(default_factory=list)


def lenders(connection):
    """The Lenders of the store; one query where nothing is shared."""
    members, owned, traits = tables.provider_aggregates, tables.provider_traits, tables.traits
    providers = tables.resource_providers
    shares = sa.select(traits.c.id).where(traits.c.name == SHARES).scalar_subquery()
    query = (
        sa.select(members.c.provider_id, members.c.aggregate_id, providers.c.uuid, providers.c.name)
        .join(owned, owned.c.provider_id == members.c.provider_id)
        .join(providers, providers.c.id == members.c.provider_id)
        .where(owned.c.trait_id == shares)
        .order_by(members.c.provider_id)
    )
    found, aggregates = Lenders(), {}
    for provider, aggregate, uuid, name in connection.execute(query):
        if provider not in aggregates:
            found.ids.append(provider)
            found.uuids.append(uuid)
            found.names.append(name)
        aggregates.setdefault(provider, set()).add(aggregate)
    if not found.ids:
        return found
    query = (
        sa.select(members.c.aggregate_id, sa.func.coalesce(providers.c.root_id, providers.c.id))
        .join(providers, providers.c.id == members.c.provider_id)
        .where(members.c.aggregate_id.in_(sorted(set().union(*aggregates.values()))))
    )
    roots = {}
    for aggregate, root in connection.execute(query):
        roots.setdefault(aggregate, set()).add(root)
    found.serves = [sorted(set().union(*(roots[each] for each in aggregates[provider]))) for provider in found.ids]
    return found


def parents(connection):
    """{id of a nested provider: id of its root}."""
    table = tables.resource_providers
    return dict(connection.execute(sa.select(table.c.id, table.c.root_id).where(table.c.root_id.is_not(None))).all())


def lend(columns, size, places, found):
    """Give nodes without an inventory of their own that of the sharing provider with the most free room.

    :param columns: {class: {field: array}} of ``size`` nodes and after them the lenders that are none; written.
        Where something is lent, a class gets the field ``pool`` (int64): rows with the same number, 0 or
        more, have one inventory, -1 is a node's own.
    :param places: function of a list of provider ids, giving their rows, -1 where there is none.
    :param found: Lenders.
    :returns: the classes in which some node has more than one provider to choose from.
    """
    rows = places(found.ids)
    several = set()
    for name, column in columns.items():
        total = column["total"]
        own = total[:size] > 0
        most = np.full(size, -np.inf)
        pool = np.full(len(total), -1, dtype=np.int64)
        count = np.zeros(size, dtype=np.int64)
        for row, served in zip(rows.tolist(), found.serves):
            if row < 0 or not total[row]:
                continue
            free = (total[row] - column["reserved"][row]) * column["ratio"][row] - column["used"][row]
            where = places(served)
            where = where[(where >= 0) & (where < size) & (where != row)]
            count[where] += 1
            better = where[~own[where] & (free > most[where])]
            most[better], pool[better] = free, row
        taking = np.flatnonzero(pool >= 0)
        if (count + own > 1).any():
            several.add(name)
        if len(taking):
            for values in column.values():
                values[taking] = values[pool[taking]]
            lending = np.unique(pool[taking])
            pool[lending] = lending
            column["pool"] = pool
    return several


def nested(table, class_ids, root_of, places):
    """The classes that some node has in a provider below its own.

    :param table: rows that begin with provider id and class id.
    :param class_ids: {id: class}.
    :param root_of: see parents().
    """
    if not root_of:
        return set()
    children = np.isin(table[:, 0], list(root_of))
    found = set()
    for provider, number in table[children, :2].astype(np.int64).tolist():
        if number in class_ids and places([root_of[provider]])[0] >= 0:
            found.add(class_ids[number])
    return found
