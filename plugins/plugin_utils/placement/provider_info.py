# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource providers with all that is known of them, in a number of queries that does not grow with them."""

from __future__ import annotations

import functools

from ansible_collections.drover.compute.plugins.plugin_utils.placement import classes_and_traits, provider_query, providers
from ansible_collections.drover.compute.plugins.plugin_utils.placement.inventory import ProviderInventory
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def listing(connection, name=None, uuid=None, in_tree=None, group=None):
    """The providers that are meant, sorted by name, as dicts of plain types.

    :param in_tree: the uuid of any provider; those of its tree are meant.
    :param group: a query.Group of traits, aggregates and room.
    :returns: a list of dicts: uuid, name, generation, parent and parent_uuid (None for a root), root and
        root_uuid, compute_node (host and hypervisor_hostname of the one in whose tree it is, or None),
        inventories (providers.INVENTORY_FIELDS, capacity rounded down, used), traits, aggregates.
    :raises DroverError: the query names an unknown trait or class.
    """
    group = group or provider_query.parse()
    asked = group.forbidden.union(*group.required)
    if asked:
        classes_and_traits.check_known(connection, classes_and_traits.TRAIT, asked, "required")
    if group.resources:
        classes_and_traits.check_known(connection, classes_and_traits.RESOURCE_CLASS, group.resources, "resources")
    rows = connection.execute(_providers(name, uuid, in_tree)).all()
    ids = [row.id for row in rows]
    held = _held_by_provider(connection, ids)
    traits = _traits(connection, ids)
    aggregates = _aggregates(connection, ids)
    found = []
    for row in sorted(rows, key=lambda row: row.name):
        mine = held.get(row.id, {}), traits.get(row.id, set()), aggregates.get(row.id, set())
        fits = functools.partial(_fits, mine[0])
        if provider_query.matches(group, mine[1], mine[2], fits):
            found.append(_described(row, *mine))
    return found


def _providers(name, uuid, in_tree):
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
            root.c.id == sa.select(sa.func.coalesce(member.c.root_id, member.c.id)).where(member.c.uuid == in_tree).scalar_subquery()
        )
    return query


def _held_by_provider(connection, ids):
    held = {}
    for row in providers.inventories(connection, ids):
        held.setdefault(row.provider_id, {})[row.name] = ProviderInventory(row)
    return held


def _traits(connection, ids):
    table = tables.provider_traits
    # A fleet has few traits and many rows of them: each name is read once.
    known = {row.id: row.name for row in connection.execute(sa.select(tables.traits))}
    traits = {}
    for row in bulk.among(connection, sa.select(table.c.provider_id, table.c.trait_id), table.c.provider_id, ids):
        traits.setdefault(row.provider_id, set()).add(known[row.trait_id])
    return traits


def _aggregates(connection, ids):
    table, aggregates = tables.provider_aggregates, tables.placement_aggregates
    query = sa.select(table.c.provider_id, aggregates.c.uuid).join(aggregates, aggregates.c.id == table.c.aggregate_id)
    found = {}
    for row in bulk.among(connection, query, table.c.provider_id, ids):
        found.setdefault(row.provider_id, set()).add(row.uuid)
    return found


def _fits(held, name, amount):
    return name in held and held[name].refusal(name, amount) is None


def _described(row, held, traits, aggregates):
    return {
        "uuid": row.uuid,
        "name": row.name,
        "generation": row.generation,
        "parent": row.parent,
        "parent_uuid": row.parent_uuid,
        "root": row.root,
        "root_uuid": row.root_uuid,
        "compute_node": {"host": row.host, "hypervisor_hostname": row.hypervisor_hostname} if row.host else None,
        "inventories": {
            name: {
                **{field: getattr(inventory_row, field) for field in providers.INVENTORY_FIELDS},
                "capacity": int(inventory_row.capacity),
                "used": inventory_row.used,
            }
            for name, inventory_row in sorted(held.items())
        },
        "traits": sorted(traits),
        "aggregates": sorted(aggregates),
    }
