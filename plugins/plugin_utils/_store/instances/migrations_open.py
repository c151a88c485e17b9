# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The open migrations of all runs."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..._records.instances import PlannedInstance
from ..._records.orders import OpenMove
from ..database import bulk
from ..database.sql import Connection, Row, Select, sa
from ..schema import tables
from .instances import on_its_node

# Types of migrations that are more than moves.
RESIZE, EVACUATION = "resize", "evacuation"


def how_to_end(details: Mapping[str, Any] | None, destination: str) -> str:
    """Return the command that continues an open resize. A cold migration is a resize that keeps the
    flavor and the sizes.

    :param details: the details of the migration: old and new, each with its flavor; given, the
        sizes that were requested in place of a flavor.
    """
    details = details or {}
    if details.get("given"):
        sizes = " and ".join(f"drover_{name}={size}" for name, size in details["given"].items())
        return f"drover.compute.instance_resize with {sizes}"
    old, new = ((details.get(which) or {}).get("flavor") for which in ("old", "new"))
    if old == new:
        return (
            f"drover.compute.instance_migrate with drover_destination={destination} and"
            " drover_migrate_cold=true"
        )
    return f"drover.compute.instance_resize with drover_flavor={new}"


def open_moves(connection: Connection) -> list[OpenMove]:
    """Read the migrations that run, or that a killed run left open, sorted by the times at which
    they began.
    """
    table, instances, groups = tables.migrations, tables.instances, tables.server_groups
    query = (
        sa.select(
            table.c.uuid,
            table.c.instance_uuid,
            table.c.instance_name,
            table.c.source,
            table.c.destination,
            table.c.type,
            table.c.details,
            groups.c.name.label("group_name"),
        )
        .outerjoin(instances, instances.c.uuid == table.c.instance_uuid)
        .outerjoin(groups, groups.c.id == instances.c.server_group_id)
        .where(table.c.status.in_(tables.OPEN_MIGRATION))
        .order_by(table.c.created_at, table.c.id)
    )
    return [OpenMove._make(row) for row in connection.execute(query)]


def under_way(connection: Connection, instance_uuids: Iterable[str]) -> list[dict[str, object]]:
    """Read the open migrations of instances, the oldest first: dicts name, type, source,
    destination, created_at.
    """
    table = tables.migrations
    query = sa.select(table).where(table.c.status.in_(tables.OPEN_MIGRATION))
    rows = sorted(
        bulk.among(connection, query, table.c.instance_uuid, instance_uuids),
        key=lambda row: (row.created_at, row.id),
    )
    return [
        {
            "name": row.instance_name,
            "type": row.type,
            "source": row.source,
            "destination": row.destination,
            "created_at": row.created_at,
        }
        for row in rows
    ]


def holding(connection: Connection, instance_uuids: Iterable[str]) -> dict[str, Row]:
    """Read the migrations of instances that hold room at two places: open migrations, and
    migrations that wait to be closed.

    :returns: {uuid of the instance: migration}. An open migration has priority over an evacuation
        with a source that is not back.
    """
    rows = bulk.among(connection, _holding(), tables.migrations.c.instance_uuid, instance_uuids)
    rows.sort(key=lambda row: row.status in tables.OPEN_MIGRATION)
    return {row.instance_uuid: row for row in rows}


@functools.cache
def _holding() -> Select:
    table = tables.migrations
    return sa.select(table).where(table.c.status.in_(tables.HOLDING_MIGRATION))


def note_open_resizes(connection: Connection, instances: Iterable[PlannedInstance]) -> None:
    """Complete the instances with a resize that is neither confirmed nor reverted: no move of them
    is begun.
    """
    table = tables.migrations
    query = sa.select(table.c.instance_uuid, table.c.source).where(table.c.status == "finished")
    sources = {row.instance_uuid: row.source for row in connection.execute(query)}
    for each in instances if sources else ():
        if each["uuid"] in sources:
            each["resized_from"] = sources[each["uuid"]]


def holding_at(connection: Connection, node_ids: Iterable[int]) -> list[Row]:
    """Read the migrations that hold room at nodes, at either end: open migrations, and migrations
    that wait to be closed.
    """
    table = tables.migrations
    query = sa.select(table).where(table.c.status.in_(tables.HOLDING_MIGRATION))
    ends, wanted = (table.c.source_node_id, table.c.destination_node_id), list(node_ids)
    rows = {row.id: row for end in ends for row in bulk.among(connection, query, end, wanted)}
    return list(rows.values())


def lost_track_of(connection: Connection, migrations: Iterable[Row]) -> list[Row]:
    """Select the open migrations of instances that were at neither end when both were last read,
    and that were not seen there since.
    """
    lost = [
        row
        for row in migrations
        if row.status in tables.OPEN_MIGRATION and (row.details or {}).get("nowhere")
    ]
    table = tables.domains
    query = bulk.select(table.c.uuid, table.c.compute_node_id, table.c.seen_at)
    seen = bulk.among(connection, query, table.c.uuid, [row.instance_uuid for row in lost])
    last = {(each.uuid, each.compute_node_id): each.seen_at for each in seen}
    return [
        row
        for row in lost
        if all(
            last.get((row.instance_uuid, end), 0) <= row.details["nowhere"]
            for end in (row.source_node_id, row.destination_node_id)
        )
    ]


def left_open_for(connection: Connection, hosts: Collection[str]) -> list[str]:
    """Return the sources of the open moves by which an earlier run makes room for one of these
    hosts, sorted.
    """
    return sorted(
        {
            row.source
            for row in open_moves(connection)
            if set((row.details or {}).get("for_hosts") or ()) & set(hosts)
        }
    )


def budgets(connection: Connection, uuids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Read the server groups of instances that limit how many members move at the same time.

    :returns: {uuid of the instance: (name of the group, max_moving)}.
    """
    instances, groups = tables.instances, tables.server_groups
    query = (
        sa.select(instances.c.uuid, groups.c.name, groups.c.max_moving)
        .join(groups, groups.c.id == instances.c.server_group_id)
        .where(groups.c.max_moving.is_not(None))
    )
    return {
        row.uuid: (row.name, row.max_moving)
        for row in bulk.among(connection, query, instances.c.uuid, uuids)
    }


def domain_states(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """Read the last known states of the domains of instances on their nodes.

    :returns: {uuid: state}.
    """
    domains = tables.domains
    query = sa.select(domains.c.uuid, domains.c.state).join(tables.instances, on_its_node())
    return {row.uuid: row.state for row in bulk.among(connection, query, domains.c.uuid, uuids)}
