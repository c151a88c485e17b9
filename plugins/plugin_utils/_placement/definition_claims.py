# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of definitions: a definition is one instance, by its project and name."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import DroverError
from .._records.claims import ClaimRequest
from .._store.database import bulk
from .._store.database.sql import Connection, sa
from .._store.instances import orders
from .._store.schema import tables

#: The keys of a definition, besides its server group, that decide where its instance may be.
COMPARED = (
    "vcpus",
    "memory_mb",
    "disk_gb",
    "availability_zone",
    "flavor",
    "extra_specs",
    "image",
    "image_name",
    "image_id",
    "image_format",
)


def with_uuids(connection: Connection, selections: Sequence[ClaimRequest]) -> list[ClaimRequest]:
    """Return selections of definitions, each with the uuid of its instance if the definition is one
    already.
    """
    names = [orders.definition_of(each.get("project"), each["name"]) for each in selections]
    there = orders.hold_definitions(connection, names)
    return [
        {**each, "uuid": there.get(name, each["uuid"])} for name, each in zip(names, selections)
    ]


def refuse_changed(connection: Connection, wanted: Sequence[dict[str, object]]) -> None:
    """Refuse definitions if their sizes or their rules of placement were changed since their
    instances were claimed.

    :param wanted: rows of instances, as the definitions are now.
    """
    table = tables.instances
    query = sa.select(table).where(sa.text(tables.IS_BUILDING))
    begun = {
        row.uuid: row
        for row in bulk.among(connection, query, table.c.uuid, [each["uuid"] for each in wanted])
    }
    for new in wanted:
        row = begun.get(new["uuid"])
        if row is None:
            continue
        changed = [
            f"{key} was {_or_none(getattr(row, key))} and is {_or_none(new[key])}"
            for key in COMPARED
            if getattr(row, key) != new[key]
        ]
        if new["server_group_id"] != row.server_group_id:
            changed.append("server_group is another one")
        if changed:
            raise DroverError(
                f"Instance {row.name} ({row.uuid}) was begun and is not built yet, and its"
                f" definition was changed since: {', '.join(changed)}. Nothing was claimed or"
                " built. Either give it the definition that it was begun with, or remove what was"
                " begun with drover.compute.instance_delete; then run drover.compute.place again."
            )


def _or_none(value: object) -> object:
    return "none" if value is None else value
