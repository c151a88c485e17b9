# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images in the store: properties with a name, and where their files come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import Connection, sa

#: What of an image has one value; None where it is not known.
TEXTS = ("disk_format", "source", "checksum")
FIELDS = (*TEXTS, "properties")


def read_images(connection: Connection, named: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Read images.

    :param named: only those of these names; None for all.
    :returns: {name: {one of FIELDS: value}}.
    """
    table = tables.images
    query = sa.select(table)
    rows = connection.execute(query) if named is None else bulk.among(connection, query, table.c.name, named)
    return {row.name: {field: getattr(row, field) for field in FIELDS} for row in rows}


def find(connection: Connection, name: str) -> dict[str, Any] | None:
    """Read an image as ensure() returns it."""
    table = tables.images
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    return None if row is None else {"name": name, "uuid": row.uuid, **{field: getattr(row, field) for field in FIELDS}}


def merged(before: Mapping[str, Any] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image after a change.

    :param before: by FIELDS; None for a new image.
    :param values: by FIELDS. None, or a missing key, keeps what is stored. In properties a value of None deletes its key, and keys that
        are not named are kept.
    """
    after = {field: (before or {}).get(field) for field in TEXTS}
    after.update({field: values[field] for field in TEXTS if values.get(field) is not None})
    properties = {**((before or {}).get("properties") or {}), **(values.get("properties") or {})}
    return {**after, "properties": {str(key): value for key, value in properties.items() if value is not None}}


def ensure(connection: Connection, name: str, values: Mapping[str, Any], now: float) -> tuple[dict[str, Any], bool]:
    """Make an image or change it, see merged().

    :returns: the image, a dict with name, uuid and FIELDS; and whether it changed.
    """
    table = tables.images
    before = find(connection, name)
    after = merged(before, values)
    if before is None:
        uuid = bulk.new_uuid()
        connection.execute(sa.insert(table).values(uuid=uuid, name=name, created_at=now, **after))
        return {"name": name, "uuid": uuid, **after}, True
    changed = after != {field: before[field] for field in FIELDS}
    if changed:
        connection.execute(sa.update(table).where(table.c.name == name).values(**after))
    return {"name": name, "uuid": before["uuid"], **after}, changed


def delete(connection: Connection, name: str) -> bool:
    """Delete an image, whose name and properties instances keep.

    :returns: whether it existed.
    """
    table = tables.images
    return bool(connection.execute(sa.delete(table).where(table.c.name == name)).rowcount)
