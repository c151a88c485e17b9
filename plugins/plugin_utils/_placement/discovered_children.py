# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Providers that discovery creates below the providers of compute nodes, such as the providers of
devices, in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from .._common.resource_classes import POOL_PREFIX
from .._store.database import bulk
from .._store.database.sql import Connection
from .._store.schema import tables
from . import allocations, inventory, provider_trees, providers


class ChildProvider(NamedTuple):
    """A provider with one inventory, of whole pieces, or without any.

    parent: the uuid of another one of these; None for the root. total: None keeps the stored one,
    and no consumer gets more there. traits: that it has by discovery. reported: the traits that it
    had by the last discovery; all other traits belong to the operator. reserved: None keeps the
    stored amount, at first 0. allocation_ratio: None keeps the stored one, at first 1.0.
    """

    name: str
    parent: str | None
    resource_class: str | None
    total: int | None
    traits: Collection[str]
    reported: Collection[str]
    reserved: int | None = 0
    allocation_ratio: float | None = 1.0


def write(
    connection: Connection,
    wanted: Mapping[int, Mapping[str, ChildProvider]],
    is_ours: Callable[[int, str, str], bool],
) -> bool:
    """Write the providers below roots. A provider that is not wanted now is removed; while it has
    allocations, it stays, and no consumer gets more there.

    :param wanted: {id of a root: {uuid: child}}.
    :param is_ours: returns, for a root, uuid and name, True if discovery created the provider.
    :returns: True if any was added or removed, has moved, or has other traits or another size.
    """
    table = tables.resource_providers
    children = {uuid: child for each in wanted.values() for uuid, child in each.items()}
    query = bulk.select(table.c.id, table.c.uuid, table.c.name, table.c.parent_id, table.c.root_id)
    below = bulk.among(connection, query, table.c.root_id, wanted)
    if not children and not below:
        return False
    parents = {row.uuid: row.parent_id for row in below}
    ids = providers.ensure(connection, {uuid: child.name for uuid, child in children.items()})
    places = {
        uuid: ids[child.parent] if child.parent else root
        for root, each in wanted.items()
        for uuid, child in each.items()
    }
    new = [
        {"id": ids[uuid], "parent_id": places[uuid], "root_id": root}
        for root, each in wanted.items()
        for uuid in each
        if parents.get(uuid) != places[uuid]
    ]
    bulk.update(connection, table, new)
    reported = {ids[uuid]: child.reported for uuid, child in children.items()}
    keeping = [
        ids[uuid]
        for uuid, child in children.items()
        if None in (child.total, child.reserved, child.allocation_ratio)
    ]
    stored = (
        {row.provider_id: row for row in providers.inventories(connection, keeping)}
        if keeping
        else {}
    )
    resized = providers.set_inventories(
        connection,
        {ids[uuid]: _inventories(child, stored.get(ids[uuid])) for uuid, child in children.items()},
    )
    # The number of devices that can still be made of a type changes by itself.
    resized &= {
        ids[uuid]
        for uuid, child in children.items()
        if (child.resource_class or "").startswith(POOL_PREFIX)
    }
    changed = providers.set_traits(
        connection,
        {ids[uuid]: set(child.traits) for uuid, child in children.items()},
        owned=lambda provider, trait: trait in reported[provider],
    )
    stale = {
        row.id
        for row in below
        if row.uuid not in children and is_ours(row.root_id, row.uuid, row.name)
    }
    used = allocations.used_providers(connection, stale)
    # A provider that stays may be below one that is removed.
    bulk.update(
        connection,
        table,
        [{"id": row.id, "parent_id": row.root_id} for row in below if row.id in used],
    )
    provider_trees.remove(connection, stale - used)
    unused = [
        {"id": row.id, "reserved": row.total} for row in providers.inventories(connection, used)
    ]
    bulk.update(connection, tables.inventories, unused)
    return bool(new or stale - used or changed or resized)


def _inventories(child: ChildProvider, stored: Any) -> dict[str, Any]:
    """Return the inventory of a child by its resource class.

    :param stored: its row by now, or None.
    """
    total = child.total if child.total is not None else stored and stored.total
    if not child.resource_class or not total:
        return {}
    kept = inventory.reserved_of(stored) if stored else 0
    return {
        child.resource_class: {
            "total": total,
            "reserved": (
                total if child.total is None else kept if child.reserved is None else child.reserved
            ),
            "min_unit": 1,
            "max_unit": total,
            "step_size": 1,
            "allocation_ratio": float(
                child.allocation_ratio or (stored.allocation_ratio if stored else 1.0)
            ),
        }
    }
