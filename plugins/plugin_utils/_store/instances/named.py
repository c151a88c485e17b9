# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows that people know by a name: flavors and images. ``fields`` are the columns that people
set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..database import bulk
from ..database.sql import Connection, sa


def read(
    connection: Connection,
    table: sa.Table,
    fields: Sequence[str],
    names: Collection[str] | None = None,
) -> dict[str, Any]:
    """Read rows.

    :param names: only rows with these names; None for all.
    :returns: {name: {one of fields: value}}.
    """
    query = bulk.select(table)
    rows = (
        connection.execute(query)
        if names is None
        else bulk.among(connection, query, table.c.name, names)
    )
    return {row.name: {field: getattr(row, field) for field in fields} for row in rows}


def find(
    connection: Connection, table: sa.Table, fields: Sequence[str], name: str
) -> dict[str, Any] | None:
    """Read one row: a dict with name, uuid and fields; None if there is none."""
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    return (
        None
        if row is None
        else {"name": name, "uuid": row.uuid, **{field: getattr(row, field) for field in fields}}
    )


def keep(
    connection: Connection,
    table: sa.Table,
    before: Mapping[str, object] | None,
    name: str,
    after: Mapping[str, object],
    now: float,
) -> tuple[dict[str, object], bool]:
    """Make a row or change it.

    :param before: the result of find().
    :param after: all fields.
    :returns: the row, as find() would return it; and True if it changed.
    """
    kept = {
        "name": name,
        "uuid": before["uuid"] if before is not None else bulk.new_uuid(),
        **after,
    }
    if before is None:
        connection.execute(sa.insert(table).values(created_at=now, **kept))
    elif kept != before:
        connection.execute(sa.update(table).where(table.c.name == name).values(**after))
    return kept, kept != before


def delete(connection: Connection, table: sa.Table, name: str) -> bool:
    """Delete a row; return whether it existed."""
    return bool(connection.execute(sa.delete(table).where(table.c.name == name)).rowcount)
