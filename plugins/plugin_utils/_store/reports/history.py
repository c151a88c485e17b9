# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity and use of the fleet: one row for each day, zone and resource class."""

from __future__ import annotations

from collections.abc import Iterable

from ..._records.history import DayTotal
from ..database import bulk
from ..database.sql import Connection, postgresql, sa
from ..schema import tables
from .totals import ClassTotal

DAY = 86400
#: So many days are kept.
KEPT = 800


def keep(connection: Connection, totals: Iterable[ClassTotal], now: float) -> None:
    """Write the totals of today; delete earlier totals of today, and days that are too old.

    :param now: seconds since 1970.
    """
    table, today = tables.history, int(now // DAY)
    connection.execute(
        sa.delete(table).where(sa.or_(table.c.day == today, table.c.day <= today - KEPT))
    )
    rows = [
        {
            "day": today,
            "zone": each.zone,
            "resource_class": each.resource_class,
            "capacity": each.capacity,
            "used": each.used,
        }
        for each in totals
    ]
    if connection.dialect.name == "postgresql" and rows:
        # Two discoveries that end at once have the same totals.
        connection.execute(postgresql.insert(table).on_conflict_do_nothing(), rows)
    else:
        bulk.insert(connection, table, rows)


def read(connection: Connection, since: int) -> list[DayTotal]:
    """Read the totals since a day, in order.

    :param since: the day, counted from 1970 in UTC.
    """
    table = tables.history
    columns = (table.c.day, table.c.zone, table.c.resource_class, table.c.capacity, table.c.used)
    query = (
        sa.select(*columns)
        .where(table.c.day >= since)
        .order_by(table.c.day, table.c.zone, table.c.resource_class)
    )
    return [DayTotal(*row) for row in connection.execute(query)]
