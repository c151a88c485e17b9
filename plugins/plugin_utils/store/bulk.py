# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and writing many rows with few statements."""

from __future__ import annotations

import functools
import json
import uuid

from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import postgresql, sa

# Past this many values one scan of the table is faster than naming them (and SQLite has a limit).
NAMED_VALUES = 1000


def run(connection, values, make, *arguments):
    """Execute a statement that is put together once: to do that, and to look it up, takes longer than to run it.

    :param values: of its parameters, which the database's driver has to take as they are: a dict, or a list of them.
    :param make: what puts it together from the arguments, which can be keys of a dict.
    """
    if connection.dialect.name == "postgresql":
        return connection.exec_driver_sql(_text(connection.dialect, make, arguments), values)
    return connection.execute(_made(make, arguments), values)


@functools.lru_cache(maxsize=64)
def _text(dialect, make, arguments):
    return str(make(*arguments).compile(dialect=dialect))


@functools.lru_cache(maxsize=64)
def _made(make, arguments):
    return make(*arguments)


def one_of(column, name, size):
    """The test for run() that a column is one of so many values, see numbered()."""
    return column.in_([sa.bindparam(f"{name}_{number}", type_=column.type) for number in range(size)])


def numbered(name, values):
    """Values for one_of()."""
    return {f"{name}_{number}": value for number, value in enumerate(values)}


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


def add_both(connection, name, first, second):
    """As add() for two tables, the second only where the value was new in the first.

    :param first: (table, rows).
    :param second: (table, rows), for some or all of the same values.
    :returns: (dict value -> id, dict value -> id), of the rows that were inserted.
    """
    (table, rows), (other, others) = first, second
    if connection.dialect.name == "postgresql" and len(rows) == len(others) == 1:
        # What nearly every claim does: one round trip less.
        values = {
            f"{number}_{key}": json.dumps(each) if isinstance(each, (dict, list)) else each
            for number, row in enumerate((rows[0], others[0]))
            for key, each in row.items()
        }
        found = run(connection, values, _addition_to_both, table, tuple(rows[0]), other, tuple(others[0]), name)
        ids = found.one_or_none() or (None, None)
        return tuple({rows[0][name]: each} if each is not None else {} for each in ids)
    added = add(connection, table, name, rows)
    return added, add(connection, other, name, [row for row in others if row[name] in added])


def _addition_to_both(table, columns, other, others, name):
    def addition(number, into, names, chosen):
        values = [sa.bindparam(f"{number}_{each}", type_=into.c[each].type) for each in names]
        statement = postgresql.insert(into).from_select(names, chosen(sa.select(*values)))
        statement = statement.on_conflict_do_nothing(index_elements=[name])
        return statement.returning(into.c.id).cte(f"added_{number}")

    added = addition(0, table, columns, lambda query: query)
    also = addition(1, other, others, lambda query: query.select_from(added))
    return sa.select(added.c.id, sa.select(also.c.id).scalar_subquery())


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
    statement = sa.update(table).where(table.c.id == sa.bindparam("row_id")).values({name: sa.bindparam(f"new_{name}") for name in changed})
    connection.execute(statement, [{"row_id": row["id"], **{f"new_{name}": row[name] for name in changed}} for row in rows])


def delete(connection, table, column, values):
    """Delete the rows whose ``column`` is one of ``values``."""
    values = list(values)
    for start in range(0, len(values), NAMED_VALUES):
        connection.execute(sa.delete(table).where(column.in_(values[start : start + NAMED_VALUES])))


def ids_by(connection, column, values, make=True):
    """The ids of values of a unique column, such as the names of resource classes.

    :param make: add the values that are new; the table has no other column that has to be given.
    :returns: dict value -> id, without those that are new when they are not made.
    """
    table, values = column.table, set(values)
    query = sa.select(column, table.c.id)
    found = {row[0]: row.id for row in among(connection, query, column, values)}
    new = sorted(values - set(found)) if make else ()
    if new:
        insert(connection, table, [{column.name: value} for value in new])
        found.update({row[0]: row.id for row in among(connection, query, column, new)})
    return found
