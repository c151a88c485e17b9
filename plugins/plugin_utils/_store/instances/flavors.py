# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flavors in the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..._common.errors import DroverError
from ..._records.flavors import FlavorFields
from ..database.sql import Connection
from ..schema import tables
from . import named

FIELDS = ("vcpus", "memory_mb", "disk_gb", "extra_specs")
#: Before its values are set.
_NEW: Mapping[str, Any] = {"vcpus": None, "memory_mb": None, "disk_gb": 0, "extra_specs": {}}


def read_flavors(connection: Connection, names: Collection[str]) -> dict[str, FlavorFields]:
    """Read flavors by name, as named.read() does; all flavors, for a message, if one of the names
    is unknown.
    """
    found = named.read(connection, tables.flavors, FIELDS, names)
    return found if len(found) == len(set(names)) else read_all(connection)


def read_all(connection: Connection) -> dict[str, FlavorFields]:
    """Read all flavors, as named.read() does."""
    return named.read(connection, tables.flavors, FIELDS)


def find(connection: Connection, name: str) -> dict[str, Any] | None:
    """Read a flavor as ensure() returns it."""
    return named.find(connection, tables.flavors, FIELDS, name)


def merged(name: str, before: Mapping[str, Any] | None, values: Mapping[str, Any]) -> FlavorFields:
    """Return a flavor after a change, see ensure().

    :param before: by FIELDS; None for a new flavor.
    """
    after = {field: (before or _NEW)[field] for field in FIELDS}
    after.update({field: values[field] for field in FIELDS[:3] if values.get(field) is not None})
    specs = {**after["extra_specs"], **(values.get("extra_specs") or {})}
    for field, least in (("vcpus", 1), ("memory_mb", 1), ("disk_gb", 0)):
        if after[field] is None or after[field] < least:
            raise DroverError(f"Flavor {name}: {field} must be given and be {least} or more.")
    return {
        "vcpus": after["vcpus"],
        "memory_mb": after["memory_mb"],
        "disk_gb": after["disk_gb"],
        "extra_specs": {key: value for key, value in specs.items() if value is not None},
    }


def ensure(
    connection: Connection, name: str, values: Mapping[str, object], now: float
) -> tuple[dict[str, object], bool]:
    """Make a flavor or change it.

    :param values: by FIELDS; None keeps the stored value. In extra_specs a value of None deletes
        its key, and keys that are not named are kept.
    :returns: the flavor, a dict with name, uuid and FIELDS; and whether it changed.
    :raises DroverError: a new flavor without vcpus or memory_mb.
    """
    before = find(connection, name)
    return named.keep(connection, tables.flavors, before, name, merged(name, before, values), now)


def delete(connection: Connection, name: str) -> bool:
    """Delete a flavor; instances keep its name.

    :returns: True if it existed.
    """
    return named.delete(connection, tables.flavors, name)
