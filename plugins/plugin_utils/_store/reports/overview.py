# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows that a report shows of a fleet, each kind by one query."""

from __future__ import annotations

from typing import Any, TypedDict, cast

from ..._records.hosts import FleetColumns
from ..._records.overview import (
    DayCount,
    FlavorSize,
    Lease,
    MigrationRow,
    NewInstance,
    PowerEvent,
    ShownHost,
    StoredOverview,
)
from ..database.sql import Connection, sa
from ..hosts import aggregates, rolling
from ..instances import went_down
from ..runs import actions, decisions
from ..schema import tables
from . import hosts

#: The number of migrations, decisions, power actions and instances that are read; the newest are
#: read.
NEWEST = 100
DAY = 86400

_MIGRATION = (
    "uuid",
    "instance_uuid",
    "instance_name",
    "source",
    "destination",
    "type",
    "status",
    "message",
    "created_at",
    "updated_at",
)
_POWER = (
    "host",
    "action",
    "driver",
    "status",
    "power_state",
    "message",
    "created_at",
    "updated_at",
)
_LEASE = ("name", "holder", "purpose", "acquired_at")


def flavors(connection: Connection) -> list[FlavorSize]:
    """Read name, vcpus, memory_mb and disk_gb of all flavors, sorted by name."""
    found = _all(connection, tables.flavors, ("name", "vcpus", "memory_mb", "disk_gb"))
    return cast("list[FlavorSize]", found)


def read(
    connection: Connection, now: float, service_down_time: float, columns: FleetColumns
) -> StoredOverview:
    """Read all rows at one moment, except instances and flavors.

    :param columns: the result of host_columns.read_columns().
    """
    born = _newest(
        connection, tables.instances, ("uuid", "created_at"), tables.instances.c.created_at
    )
    moves = _newest(connection, tables.migrations, _MIGRATION, tables.migrations.c.created_at)
    return {
        "hosts": read_hosts(connection, now, service_down_time, columns),
        "aggregates": aggregates.listing(connection),
        "newest": cast("list[NewInstance]", born),
        "migrations": cast("list[MigrationRow]", moves),
        "days": _days(connection),
        "decisions": decisions.newest(connection, NEWEST),
        "actions": actions.read(connection, NEWEST),
        "power_events": cast("list[PowerEvent]", _newest(connection, tables.power_events, _POWER)),
        "leases": cast("list[Lease]", _all(connection, tables.leases, _LEASE)),
        "rolling": rolling.read(connection),
        "went_down": went_down.listing(connection),
    }


def read_hosts(
    connection: Connection, now: float, service_down_time: float, columns: FleetColumns
) -> list[ShownHost]:
    """Read the hosts alone, see read()."""
    physical = _physical(connection)
    listed = hosts.listing(connection, now, service_down_time, columns=columns)
    return [
        {**host, "nodes": [{**node, **physical[node["uuid"]]} for node in host["nodes"]]}
        for host in listed
    ]


class _InUse(TypedDict):
    memory_mb_physical: int | None
    disk_gb_physical: int | None


def _physical(connection: Connection) -> dict[str, _InUse]:
    table = tables.compute_nodes
    query = sa.select(table.c.uuid, table.c.reported, table.c.memory_mb_used, table.c.local_gb_used)
    return {
        # The present use is unknown there.
        row.uuid: (
            {"memory_mb_physical": row.memory_mb_used, "disk_gb_physical": row.local_gb_used}
            if row.reported
            else {"memory_mb_physical": None, "disk_gb_physical": None}
        )
        for row in connection.execute(query)
    }


def _days(connection: Connection) -> list[DayCount]:
    table = tables.migrations
    day: Any = table.c.created_at / DAY
    # A cast truncates in SQLite, which may lack floor, and rounds in PostgreSQL.
    day = sa.cast(day if connection.dialect.name == "sqlite" else sa.func.floor(day), sa.Integer)
    query = sa.select(day, table.c.type, table.c.status, sa.func.count()).group_by(
        day, table.c.type, table.c.status
    )
    rows = sorted(tuple(row) for row in connection.execute(query))
    return [{"day": row[0], "type": row[1], "status": row[2], "count": row[3]} for row in rows]


def _newest(
    connection: Connection, table: sa.Table, names: tuple[str, ...], *by: sa.Column[Any]
) -> list[dict[str, object]]:
    columns = [table.c[name] for name in names]
    order = [each.desc() for each in (*by, table.c.id)]
    rows = connection.execute(sa.select(*columns).order_by(*order).limit(NEWEST))
    return [dict(zip(names, row)) for row in rows]


def _all(
    connection: Connection, table: sa.Table, names: tuple[str, ...]
) -> list[dict[str, object]]:
    columns = [table.c[name] for name in names]
    return [
        dict(zip(names, row))
        for row in connection.execute(sa.select(*columns).order_by(table.c.name))
    ]
