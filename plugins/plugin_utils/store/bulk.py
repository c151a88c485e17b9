# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and writing many rows with few statements."""

from __future__ import annotations

import functools
import uuid

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import postgresql
except ImportError:
    sa = None

# Past this many values one scan of the table is faster than naming them (and SQLite has a limit).
NAMED_VALUES = 1000


def new_uuid():
    """A random uuid as text."""
    return str(uuid.uuid4())


def among(connection, query, column, values):
    """The rows of ``query`` whose ``column`` is one of ``values``, as a list of Row."""
    values = set(values)
    if not values:
        return []
    if len(values) <= NAMED_VALUES:
        return connection.execute(query.where(column.in_(values))).all()
    query = query.add_columns(column.label("among_key"))
    return [row for row in connection.execute(query) if row.among_key in values]


def insert(connection, table, rows):
    """Insert rows (a list of dicts with the same keys); an empty list is no statement."""
    if len(rows) > NAMED_VALUES or "id" not in table.c:
        if rows:
            connection.execute(sa.insert(table), rows)
    elif rows:
        # Because something is returned SQLAlchemy writes one statement for all rows.
        connection.execute(_inserted(table), rows).close()


@functools.cache
def _inserted(table):
    return sa.insert(table).returning(table.c.id)


def add(connection, table, name, rows):
    """Insert those rows whose unique column ``name`` has a new value, in its order.

    A writer that adds the same one at the same moment is waited for.

    :returns: dict value of the column -> id, of the rows that were inserted.
    """
    if not rows:
        return {}
    column = table.c[name]
    rows = sorted(rows, key=lambda row: row[name])
    if connection.dialect.name == "postgresql":
        # One is not sent as a list: that costs more.
        found = connection.execute(_addition(table, name), rows if len(rows) > 1 else rows[0])
        return {row[0]: row[1] for row in found}
    values = {row[name] for row in rows}
    there = {row[0] for row in among(connection, sa.select(column), column, values)}
    insert(connection, table, [row for row in rows if row[name] not in there])
    query = sa.select(column, table.c.id)
    return {row[0]: row[1] for row in among(connection, query, column, values - there)}


@functools.cache
def _addition(table, name):
    statement = postgresql.insert(table).on_conflict_do_nothing(index_elements=[name])
    return statement.returning(table.c[name], table.c.id)


def hold(connection, table, name, values):
    """The rows of a table by a unique column, held until the end of the transaction in the column's order.

    :returns: dict value -> row.
    """
    column, values, found = table.c[name], sorted(values), {}
    for start in range(0, len(values), NAMED_VALUES):
        query = sa.select(table).where(column.in_(values[start : start + NAMED_VALUES])).order_by(column)
        found.update({getattr(row, name): row for row in connection.execute(query.with_for_update())})
    return found


def update(connection, table, rows):
    """Update rows (a list of dicts with ``id`` and the same keys to change)."""
    if not rows:
        return
    changed = [name for name in rows[0] if name != "id"]
    statement = (
        sa.update(table)
        .where(table.c.id == sa.bindparam("row_id"))
        .values({name: sa.bindparam(f"new_{name}") for name in changed})
    )
    connection.execute(
        statement, [{"row_id": row["id"], **{f"new_{name}": row[name] for name in changed}} for row in rows]
    )


def delete(connection, table, column, values):
    """Delete the rows whose ``column`` is one of ``values``."""
    values = list(values)
    for start in range(0, len(values), NAMED_VALUES):
        connection.execute(sa.delete(table).where(column.in_(values[start : start + NAMED_VALUES])))


def ids_by_name(connection, table, names):
    """The ids of names in a table of names (resource classes, traits), which are added when new.

    :returns: dict name -> id.
    """
    names = set(names)
    query = sa.select(table.c.name, table.c.id)
    found = {row.name: row.id for row in among(connection, query, table.c.name, names)}
    new = sorted(names - set(found))
    if new:
        insert(connection, table, [{"name": name} for name in new])
        found.update({row.name: row.id for row in among(connection, query, table.c.name, new)})
    return found
