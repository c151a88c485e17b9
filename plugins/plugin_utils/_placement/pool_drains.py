# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drained storage pools, in the caller's transaction: all space of a drained pool is reserved, so
that no claim and no plan gets any of it.

The former reserved amount is stored beside it, and is restored at the end of the drain. Discovery
writes there too while the pool is drained, see inventory.while_drained().
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .._store.database import bulk
from .._store.database.sql import Connection, Row
from .._store.schema import tables
from . import inventory, providers

#: The uuid of a provider, and its resource class.
Place = tuple[str, str]


def begin(connection: Connection, places: Collection[Place], reason: str) -> bool:
    """Reserve all space in pools, so that no new disk gets any; return True if that is new. A pool
    that is drained already keeps its reason.
    """
    rows = [
        row for row in _lock_inventories(connection, places) if row.reserved_before_drain is None
    ]
    table = tables.inventories
    bulk.update(
        connection,
        table,
        [
            {
                "id": row.id,
                "reserved": row.total,
                "reserved_before_drain": row.reserved,
                "drain_reason": reason,
            }
            for row in rows
        ],
    )
    providers.bump(connection, {row.provider_id for row in rows})
    return bool(rows)


def end(connection: Connection, places: Collection[Place]) -> set[Place]:
    """Restore the reserved amounts of pools; return the pools that were drained."""
    rows = {
        place: row
        for place, row in _by_place(
            connection, _lock_inventories(connection, places), places
        ).items()
        if row.reserved_before_drain is not None
    }
    table = tables.inventories
    new = {"reserved_before_drain": None, "drain_reason": None}
    bulk.update(
        connection,
        table,
        [{"id": row.id, "reserved": inventory.reserved_of(row), **new} for row in rows.values()],
    )
    providers.bump(connection, {row.provider_id for row in rows.values()})
    return set(rows)


def reasons(connection: Connection, places: Collection[Place]) -> dict[Place, str]:
    """Return the reasons of the drains of pools, without pools that are not drained."""
    rows = _by_place(connection, _rows(connection, places), places)
    return {
        place: row.drain_reason or ""
        for place, row in rows.items()
        if row.reserved_before_drain is not None
    }


def read(
    connection: Connection, places: Collection[Place]
) -> dict[Place, inventory.ProviderInventory]:
    """Return the inventories of pools, without pools that have none."""
    return {
        place: inventory.ProviderInventory(row)
        for place, row in _by_place(connection, _rows(connection, places), places).items()
    }


def _rows(connection: Connection, places: Collection[Place]) -> list[Row]:
    ids = providers.ids(connection, {uuid for uuid, _name in places})
    keys = {(ids[uuid], name) for uuid, name in places if uuid in ids}
    return [
        row
        for row in providers.inventories(connection, ids.values())
        if (row.provider_id, row.name) in keys
    ]


def _by_place(
    connection: Connection, rows: Collection[Row], places: Collection[Place]
) -> Mapping[Place, Row]:
    uuids = {
        key: uuid
        for uuid, key in providers.ids(connection, {uuid for uuid, _name in places}).items()
    }
    return {(uuids[row.provider_id], row.name): row for row in rows}


def _lock_inventories(connection: Connection, places: Collection[Place]) -> list[Row]:
    """Lock the inventories, in the same order as claims, and read them."""
    ids = providers.ids(connection, {uuid for uuid, _name in places})
    inventory.hold(connection, ids.values(), {name for _uuid, name in places})
    return _rows(connection, places)
