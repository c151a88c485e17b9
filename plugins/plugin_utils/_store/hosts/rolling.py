# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of a rolling maintenance on each of its hosts (rules S10 and S17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ..._records.outcomes import RollingRecord
from ..._records.statuses import RollingStage
from ..database.sql import Connection, sa
from ..schema import tables
from . import services

#: The stages of a host, in this order. The store has a stage before it begins.
STAGES: tuple[RollingStage, ...] = get_args(RollingStage)


def read(connection: Connection) -> list[RollingRecord]:
    """Read the hosts of the open maintenance, sorted."""
    table = tables.rolling_hosts
    return [
        {
            "host": row.host,
            "stage": row.stage,
            "boot_id": row.boot_id,
            "instances": row.instances,
            "message": row.message,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
        }
        for row in connection.execute(sa.select(table).order_by(table.c.host))
    ]


def write(connection: Connection, host: str, values: Mapping[str, object], now: float) -> bool:
    """Record the stage of a host; a new host begins with waiting.

    :param values: the values of stage, boot_id, instances and message; None keeps the stored value,
        an empty text removes it.
    :returns: True if a value changed.
    :raises DroverError: the host is not in the store.
    """
    table = tables.rolling_hosts
    services.get(connection, host)
    row = connection.execute(sa.select(table).where(table.c.host == host)).one_or_none()
    columns = {
        name: None if value == "" else value for name, value in values.items() if value is not None
    }
    if row is None:
        connection.execute(
            sa.insert(table).values(
                {"stage": "waiting", **columns, "host": host, "created_at": now, "updated_at": now}
            )
        )
        return True
    changes = {name: value for name, value in columns.items() if getattr(row, name) != value}
    if changes:
        connection.execute(
            sa.update(table).where(table.c.host == host).values(**changes, updated_at=now)
        )
    return bool(changes)


def forget(connection: Connection, host: str | None = None) -> bool:
    """Remove the record of a host, or of all.

    :returns: True if there was one.
    """
    table = tables.rolling_hosts
    query = sa.delete(table)
    if host is not None:
        query = query.where(table.c.host == host)
    return bool(connection.execute(query).rowcount)
