# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Providers below those of compute nodes that discovery makes, such as those of devices, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations, provider_trees, providers
from ansible_collections.drover.compute.plugins.plugin_utils._store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import Connection, sa


class Child(NamedTuple):
    """A provider with one inventory, of whole pieces, or without any.

    parent: the uuid of another one of these; None for the root. traits: that it has by discovery. reported: those that it had so; all others
    are the operator's. keeps_reserved: what is reserved there stays so.
    """

    name: str
    parent: str | None
    resource_class: str | None
    total: int
    traits: Collection[str]
    reported: Collection[str]
    keeps_reserved: bool = False


def write(connection: Connection, wanted: Mapping[int, Mapping[str, Child]], is_ours: Callable[[int, str, str], bool]) -> bool:
    """Write the providers below roots. One that is no longer wanted goes; while something is allocated on it, nobody gets more there.

    :param wanted: {id of a root: {uuid: child}}.
    :param is_ours: tells by root, uuid and name whether discovery made a provider.
    :returns: whether any came, went, moved or has other traits.
    """
    table = tables.resource_providers
    children = {uuid: child for each in wanted.values() for uuid, child in each.items()}
    query = sa.select(table.c.id, table.c.uuid, table.c.name, table.c.parent_id, table.c.root_id)
    below = bulk.among(connection, query, table.c.root_id, wanted)
    parents = {row.uuid: row.parent_id for row in below}
    ids = providers.ensure(connection, {uuid: child.name for uuid, child in children.items()})
    places = {uuid: ids[child.parent] if child.parent else root for root, each in wanted.items() for uuid, child in each.items()}
    new = [
        {"id": ids[uuid], "parent_id": places[uuid], "root_id": root}
        for root, each in wanted.items()
        for uuid in each
        if parents.get(uuid) != places[uuid]
    ]
    bulk.update(connection, table, new)
    reported = {ids[uuid]: child.reported for uuid, child in children.items()}
    kept = _reserved(connection, [ids[uuid] for uuid, child in children.items() if child.keeps_reserved])
    providers.set_inventories(
        connection,
        {
            ids[uuid]: {child.resource_class: _inventory(child.total, kept.get(ids[uuid], 0))} if child.resource_class else {}
            for uuid, child in children.items()
        },
    )
    changed = providers.set_traits(
        connection,
        {ids[uuid]: set(child.traits) for uuid, child in children.items()},
        owned=lambda provider, trait: trait in reported[provider],
    )
    stale = {row.id for row in below if row.uuid not in children and is_ours(row.root_id, row.uuid, row.name)}
    used = allocations.used_providers(connection, stale)
    # One that stays may be below one that goes.
    bulk.update(connection, table, [{"id": row.id, "parent_id": row.root_id} for row in below if row.id in used])
    provider_trees.remove(connection, stale - used)
    left = [{"id": row.id, "reserved": row.total} for row in providers.inventories(connection, used)]
    bulk.update(connection, tables.inventories, left)
    return bool(new or stale - used or changed)


def _reserved(connection: Connection, provider_ids: Collection[int]) -> dict[int, int]:
    return {row.provider_id: row.reserved for row in providers.inventories(connection, provider_ids)} if provider_ids else {}


def _inventory(total: int, reserved: int) -> Any:
    return {"total": total, "reserved": reserved, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": 1.0}
