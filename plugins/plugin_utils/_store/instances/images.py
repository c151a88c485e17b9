# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images in the store: properties with a name, and the sources of their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..._records.flavors import ImageFields
from ..database.sql import Connection
from ..schema import tables
from . import named

#: The single values of an image; each is None if it is not known.
TEXTS = ("disk_format", "source", "checksum")
FIELDS = (*TEXTS, "properties")


def read_images(
    connection: Connection, names: Collection[str] | None = None
) -> dict[str, ImageFields]:
    """Read images, as named.read() does."""
    return named.read(connection, tables.images, FIELDS, names)


def find(connection: Connection, name: str) -> dict[str, Any] | None:
    """Read an image as ensure() returns it."""
    return named.find(connection, tables.images, FIELDS, name)


def merged(before: Mapping[str, Any] | None, values: Mapping[str, Any]) -> ImageFields:
    """Return an image after a change.

    :param before: by FIELDS; None for a new image.
    :param values: by FIELDS. None, or a missing key, keeps the stored value. In properties a value
        of None deletes its key, and keys that are not named are kept.
    """
    after = {field: (before or {}).get(field) for field in TEXTS}
    after.update({field: values[field] for field in TEXTS if values.get(field) is not None})
    properties = {**((before or {}).get("properties") or {}), **(values.get("properties") or {})}
    return {
        "disk_format": after["disk_format"],
        "source": after["source"],
        "checksum": after["checksum"],
        "properties": {str(key): value for key, value in properties.items() if value is not None},
    }


def ensure(
    connection: Connection, name: str, values: Mapping[str, object], now: float
) -> tuple[dict[str, object], bool]:
    """Make an image or change it, see merged().

    :returns: the image, a dict with name, uuid and FIELDS; and whether it changed.
    """
    before = find(connection, name)
    return named.keep(connection, tables.images, before, name, merged(before, values), now)


def delete(connection: Connection, name: str) -> bool:
    """Delete an image; instances keep its name and properties.

    :returns: True if it existed.
    """
    return named.delete(connection, tables.images, name)
