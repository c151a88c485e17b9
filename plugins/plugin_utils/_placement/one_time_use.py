# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices for one use only (``one_time_use``): after an instance has had one, no other instance
gets it until an operator frees it (N12.7).

The inventory of its provider is reserved in the transaction that gives the device away. This
collection never takes that back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._store.database import bulk
from .._store.database.sql import Connection
from .._store.schema import tables
from . import providers


def is_marked(device: Mapping[str, Any]) -> bool:
    """Return True if a device is for one use only."""
    return device["tags"].get("one_time_use") == "true"


def reserve(connection: Connection, uuids: Collection[str]) -> bool:
    """Reserve all that providers have; return whether that was not so before."""
    if not uuids:
        return False
    inventories = providers.inventories(connection, providers.ids(connection, uuids).values())
    changes = [
        {"id": row.id, "reserved": row.total} for row in inventories if row.reserved < row.total
    ]
    bulk.update(connection, tables.inventories, changes)
    providers.bump(connection, {row.provider_id for row in inventories if row.reserved < row.total})
    return bool(changes)
