# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas of projects in the store: one row for each limit. A project without a row has no limit.

The name of a limit is one of Nova's, or a resource class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..database.sql import Connection, sa
from ..schema import tables

#: Limits by project and name.
Limits = dict[str, dict[str, int]]


def read(
    connection: Connection, projects: Collection[str] | None = None, locked: bool = False
) -> Limits:
    """Read the limits of projects.

    :param projects: None for all.
    :param locked: lock the rows until the end of the transaction, so that one transaction at a time
        counts the use of a project. Writers lock them after all other rows that other writers wait
        for.
    """
    table = tables.quotas
    query = sa.select(table.c.project, table.c.resource, table.c.hard_limit).order_by(
        table.c.project, table.c.resource
    )
    if projects is not None:
        query = query.where(table.c.project.in_(sorted(projects)))
    if locked:
        query = query.with_for_update()
    limits: Limits = {}
    for row in connection.execute(query):
        limits.setdefault(row.project, {})[row.resource] = row.hard_limit
    return limits


def ensure(
    connection: Connection, project: str, limits: Mapping[str, int | None]
) -> tuple[dict[str, int], bool]:
    """Set limits of a project; other limits stay.

    :param limits: by name; None removes one.
    :returns: all limits of the project, and whether one changed.
    """
    table, before = tables.quotas, read(connection, [project]).get(project, {})
    after = {name: limit for name, limit in {**before, **limits}.items() if limit is not None}
    for name in sorted({*before, *after}):
        mine = sa.and_(table.c.project == project, table.c.resource == name)
        if name not in after:
            connection.execute(sa.delete(table).where(mine))
        elif name not in before:
            connection.execute(
                sa.insert(table).values(project=project, resource=name, hard_limit=after[name])
            )
        elif before[name] != after[name]:
            connection.execute(sa.update(table).where(mine).values(hard_limit=after[name]))
    return after, after != before


def delete(connection: Connection, project: str) -> bool:
    """Delete all limits of a project.

    :returns: True if it had one.
    """
    table = tables.quotas
    return bool(connection.execute(sa.delete(table).where(table.c.project == project)).rowcount)
