# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Completed moves with known copied amounts and durations."""

from __future__ import annotations

from ..._records.outcomes import MeasuredMove
from ..database.sql import Connection, sa
from ..schema import tables

#: Older moves describe links and disks of their time.
NEWEST = 500


def read(connection: Connection) -> list[MeasuredMove]:
    """Read the newest measured moves."""
    table = tables.migrations
    columns = (
        table.c.source,
        table.c.destination,
        table.c.type,
        table.c.copied_memory_mib,
        table.c.copied_disk_mib,
        table.c.seconds,
    )
    query = (
        sa.select(*columns)
        .where(table.c.seconds.is_not(None))
        .order_by(table.c.id.desc())
        .limit(NEWEST)
    )
    return [
        MeasuredMove(
            row.source,
            row.destination,
            row.type == "live-migration",
            row.copied_memory_mib,
            row.copied_disk_mib,
            row.seconds,
        )
        for row in connection.execute(query)
    ]
