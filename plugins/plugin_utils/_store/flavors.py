# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flavors in the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import Connection, sa

FIELDS = ("vcpus", "memory_mb", "disk_gb", "extra_specs")


def read_flavors(connection: Connection, named: Collection[str]) -> dict[str, dict[str, Any]]:
    """Read flavors by name; all flavors, for a message, where one of the names is unknown.

    :returns: {name: {one of FIELDS: value}}.
    """
    table = tables.flavors
    query = sa.select(table)
    rows = bulk.among(connection, query, table.c.name, named)
    if len(rows) < len(set(named)):
        rows = list(connection.execute(query))
    return {row.name: {field: getattr(row, field) for field in FIELDS} for row in rows}


def read_all(connection: Connection) -> dict[str, dict[str, Any]]:
    """Read all flavors, as read_flavors() does."""
    return {row.name: {field: getattr(row, field) for field in FIELDS} for row in connection.execute(sa.select(tables.flavors))}


def find(connection: Connection, name: str) -> dict[str, Any] | None:
    """Read a flavor as ensure() returns it."""
    table = tables.flavors
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    return None if row is None else {"name": name, "uuid": row.uuid, **{field: getattr(row, field) for field in FIELDS}}


def merged(name: str, before: Mapping[str, Any] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flavor after a change, see ensure().

    :param before: by FIELDS; None for a new flavor.
    """
    after = dict(before or {"vcpus": None, "memory_mb": None, "disk_gb": 0, "extra_specs": {}})
    after.update({field: values[field] for field in FIELDS[:3] if values.get(field) is not None})
    specs = {**after["extra_specs"], **(values.get("extra_specs") or {})}
    after["extra_specs"] = {key: value for key, value in specs.items() if value is not None}
    for field, least in (("vcpus", 1), ("memory_mb", 1), ("disk_gb", 0)):
        if after[field] is None or after[field] < least:
            raise DroverError(f"Flavor {name}: {field} must be given and be {least} or more.")
    return after


def ensure(connection: Connection, name: str, values: Mapping[str, Any], now: float) -> tuple[dict[str, Any], bool]:
    """Make a flavor or change it.

    :param values: by FIELDS; None keeps the stored value. In extra_specs a value of None deletes its key, and keys that are
        not named are kept.
    :returns: the flavor, a dict with name, uuid and FIELDS; and whether it changed.
    :raises DroverError: a new flavor without vcpus or memory_mb.
    """
    table = tables.flavors
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    before = {field: getattr(row, field) for field in FIELDS} if row is not None else None
    after = merged(name, before, values)
    if row is None:
        uuid = bulk.new_uuid()
        connection.execute(sa.insert(table).values(uuid=uuid, name=name, created_at=now, **after))
    else:
        uuid = row.uuid
        if after != before:
            connection.execute(sa.update(table).where(table.c.id == row.id).values(**after))
    return {"name": name, "uuid": uuid, **after}, after != before


def delete(connection: Connection, name: str) -> bool:
    """Delete a flavor, whose name instances keep.

    :returns: whether it existed.
    """
    table = tables.flavors
    return bool(connection.execute(sa.delete(table).where(table.c.name == name)).rowcount)
