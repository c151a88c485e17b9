# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events in the fleet since a given time: moves, and decisions of the scheduler."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..database.sql import Connection, sa
from ..schema import tables


class RecentEvents(NamedTuple):
    """The events since a given time, and the migrations that are open now.

    - migrations: the numbers by (type, status). open_migrations: the numbers of open migrations, by
      type.
    - durations: the seconds of each completed move with a known duration, by type.
    - decisions: the numbers by (purpose, True if there was a host). refusals: the numbers of hosts,
      by the name of the host filter that rejected them in decisions that ended without a host.
    """

    migrations: Counter[tuple[str, str]]
    open_migrations: Counter[str]
    durations: dict[str, list[float]]
    decisions: Counter[tuple[str, bool]]
    refusals: Counter[str]


def read(connection: Connection, since: float) -> RecentEvents:
    """Read the events since a given time.

    :param since: seconds since 1970.
    """
    moves, made = tables.migrations, tables.decisions
    migrations: Counter[tuple[str, str]] = Counter()
    durations: dict[str, list[float]] = {}
    query = sa.select(moves.c.type, moves.c.status, moves.c.seconds).where(
        moves.c.created_at >= since
    )
    for kind, status, seconds in connection.execute(query):
        migrations[kind, status] += 1
        if seconds is not None and status == "completed":
            durations.setdefault(kind, []).append(seconds)
    query = (
        sa.select(moves.c.type, sa.func.count())
        .where(moves.c.status.in_(tables.OPEN_MIGRATION))
        .group_by(moves.c.type)
    )
    is_open: Counter[str] = Counter({row[0]: row[1] for row in connection.execute(query)})
    decisions: Counter[tuple[str, bool]] = Counter()
    refusals: Counter[str] = Counter()
    placed = made.c.host.is_not(None)
    query = (
        sa.select(made.c.purpose, placed, sa.func.count())
        .where(made.c.created_at >= since)
        .group_by(made.c.purpose, placed)
    )
    for row in connection.execute(query):
        decisions[row[0], bool(row[1])] += row[2]
    query = sa.select(made.c.explanation).where(
        made.c.created_at >= since, made.c.host.is_(None), made.c.explanation.is_not(None)
    )
    for explanation in connection.execute(query).scalars():
        for each in explanation.get("filters") or ():
            refusals[each["name"]] += each["rejected"]
    return RecentEvents(migrations, is_open, durations, decisions, refusals)
