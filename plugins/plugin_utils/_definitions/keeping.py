# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a definitions file that are kept in the store: flavors, images, aggregates and
server groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._placement import server_groups
from .._records.flavors import FlavorFields, ImageFields
from .._store.engine import Connection
from .._store.hosts import aggregates
from .._store.instances import flavors, images
from . import check

#: Each stored section -> the function that checks it, in the order of storage.
CHECKS = {
    "flavors": check.flavors,
    "images": check.images,
    "aggregates": check.aggregates,
    "server_groups": check.server_groups,
}

#: The modules that write each section to the store.
_KEEPERS: Mapping[str, Any] = {
    "flavors": flavors,
    "images": images,
    "aggregates": aggregates,
    "server_groups": server_groups,
}

#: {section: its items}, as check.py returns them.
Sections = Mapping[str, Sequence[Mapping[str, Any]]]


class DefinitionChange(NamedTuple):
    """An item that was created or changed in the store; ``before`` is None for a created item."""

    name: str
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None


def keep(connection: Connection, sections: Sections, now: float) -> list[DefinitionChange]:
    """Create or change the items that the sections describe; the rest of the store stays unchanged.

    :raises DroverError: an aggregate has an unknown host, a host would be in two zones, or a server
        group has another policy.
    """
    changes: list[DefinitionChange] = []
    for section, items in sections.items():
        for item in items:
            name, before = item["name"], find(connection, section, item["name"])
            after, changed = keep_item(connection, section, item, now)
            if changed:
                changes.append(DefinitionChange(f"{check.WORDS[section]} {name}", before, after))
    return changes


def find(connection: Connection, section: str, name: str) -> Mapping[str, object] | None:
    """Read the item of a section by its name."""
    if section == "server_groups":
        return server_groups.described(server_groups.by_name(connection, name))
    found: Mapping[str, object] | None = _KEEPERS[section].find(connection, name)
    return found


def keep_item(
    connection: Connection, section: str, item: Mapping[str, Any], now: float
) -> tuple[Mapping[str, object] | None, bool]:
    """Make an item of a section, or change it.

    :returns: the item, as find() reads it; and whether it changed.
    """
    name = item["name"]
    if section == "flavors":
        return flavors.ensure(connection, name, item, now)
    if section == "images":
        return images.ensure(connection, name, item, now)
    if section == "aggregates":
        return aggregates.ensure(
            connection,
            name,
            item.get("metadata"),
            item.get("hosts") or (),
            item.get("remove_hosts") or (),
        )
    row, changed = server_groups.ensure(
        connection, name, item["policy"], item.get("max_server_per_host"), item.get("max_moving")
    )
    return server_groups.described(row), changed


def remove(connection: Connection, section: str, name: str) -> bool:
    """Delete an item of a section; return whether it existed.

    :raises DroverError: it is in use.
    """
    return bool(_KEEPERS[section].delete(connection, name))


def known(
    connection: Connection, sections: Sections
) -> tuple[dict[str, FlavorFields], dict[str, ImageFields]]:
    """Return the flavors and the images by name, as they would be after keep()."""
    of_store = flavors.read_all(connection), images.read_images(connection)
    for item in sections["flavors"]:
        of_store[0][item["name"]] = flavors.merged(
            item["name"], of_store[0].get(item["name"]), item
        )
    for item in sections["images"]:
        of_store[1][item["name"]] = images.merged(of_store[1].get(item["name"]), item)
    return of_store
