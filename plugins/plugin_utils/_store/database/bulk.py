# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and writing many rows with few statements."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .sql import Connection, Row, Select, postgresql, sa

# The most values that a query names one by one, because SQLite limits their number; more go to the
# database as one value.
NAMED_VALUES = 1000


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector while many lasting objects are created; it would inspect
    all of them again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run(
    connection: Connection, values: Any, make: Callable[..., Any], *arguments: Hashable
) -> sa.CursorResult[Any]:
    """Execute a statement that is created once per process: its creation takes longer than its
    execution.

    :param values: its parameters in the types of the database's driver, a dict or a list of dicts.
    :param make: makes the statement from the arguments.
    """
    if connection.dialect.name == "postgresql":
        return connection.exec_driver_sql(_text(connection.dialect, make, arguments), values)
    return connection.execute(_cached_statement(make, arguments), values)


@functools.lru_cache(maxsize=64)
def _text(dialect: sa.Dialect, make: Callable[..., Any], arguments: tuple[Hashable, ...]) -> str:
    return str(make(*arguments).compile(dialect=dialect))


@functools.lru_cache(maxsize=64)
def _cached_statement(make: Callable[..., Any], arguments: tuple[Hashable, ...]) -> Any:
    return make(*arguments)


def one_of(column: sa.ColumnElement[Any], name: str, size: int) -> sa.ColumnElement[bool]:
    """Write the test that a column is one of ``size`` values, for a statement of run(); numbered()
    gives it the values.
    """
    return column.in_(
        [sa.bindparam(f"{name}_{number}", type_=column.type) for number in range(size)]
    )


def numbered(name: str, values: Iterable[Any]) -> dict[str, object]:
    """Name the values for one_of()."""
    return {f"{name}_{number}": value for number, value in enumerate(values)}


def new_uuid() -> str:
    """Make a random uuid."""
    return str(uuid.uuid4())


@functools.lru_cache(maxsize=512)
def select(*columns: Any) -> Select:
    """Return the query of some columns or tables, always the same object: among() then compiles it
    once.
    """
    return sa.select(*columns)


#: The name of the values of among() in its statement.
_VALUES = "values_of_among"


def among(
    connection: Connection, query: Select, column: sa.ColumnElement[Any], values: Iterable[Any]
) -> list[Row]:
    """Read the rows of a query with one of some values in a column."""
    chosen = set(values)
    if not chosen:
        return []
    if len(chosen) > NAMED_VALUES:
        return list(connection.execute(query.where(is_among(connection, column, chosen))))
    return list(connection.execute(_where_chosen(query, column), {_VALUES: list(chosen)}))


# SQLAlchemy finds the compiled statement of a known object three times as fast as that of a new
# one.
@functools.lru_cache(maxsize=512)
def _where_chosen(query: Select, column: sa.ColumnElement[Any]) -> Select:
    return query.where(_is_chosen(column))


@functools.lru_cache(maxsize=512)
def _is_chosen(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return column.in_(sa.bindparam(_VALUES, type_=column.type, expanding=True))


def is_among(
    connection: Connection, column: sa.ColumnElement[Any], values: Collection[Any]
) -> sa.ColumnElement[bool]:
    """Write the test that a column is one of any number of values, for one statement."""
    if len(values) <= NAMED_VALUES:
        return column.in_(values)
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.bindparam(None, list(values), postgresql.ARRAY(column.type)))
    each = sa.func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(sa.select(each.c.value))


def insert(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows that have the same keys."""
    if len(rows) > NAMED_VALUES or "id" not in table.c:
        if rows:
            connection.execute(sa.insert(table), rows)
    elif rows:
        # SQLAlchemy writes one statement for all rows, because it returns something.
        connection.execute(_inserted(table), rows).close()


@functools.cache
def _inserted(table: sa.Table) -> Any:
    return sa.insert(table).returning(table.c.id)


def add(
    connection: Connection, table: sa.Table, name: str, rows: Collection[Mapping[str, Any]]
) -> dict[str, int]:
    """Insert the rows that have a new value in the unique column ``name``, in the order of that
    column.

    A transaction that adds the same value at the same moment ends first.

    :returns: {value of the column: id} of the inserted rows.
    """
    if not rows:
        return {}
    column = table.c[name]
    rows = sorted(rows, key=lambda row: row[name])
    if connection.dialect.name == "postgresql":
        # A list of one costs more.
        found = connection.execute(_addition(table, name), rows if len(rows) > 1 else rows[0])
        return {row[0]: row[1] for row in found}
    values = {row[name] for row in rows}
    existing = {row[0] for row in among(connection, select(column), column, values)}
    insert(connection, table, [row for row in rows if row[name] not in existing])
    query = select(column, table.c.id)
    return {row[0]: row[1] for row in among(connection, query, column, values - existing)}


@functools.cache
def _addition(table: sa.Table, name: str) -> Any:
    statement = postgresql.insert(table).on_conflict_do_nothing(index_elements=[name])
    return statement.returning(table.c[name], table.c.id)


def add_both(
    connection: Connection,
    name: str,
    first: tuple[sa.Table, Sequence[Mapping[str, Any]]],
    second: tuple[sa.Table, Sequence[Mapping[str, Any]]],
) -> tuple[dict[str, int], dict[str, int]]:
    """Add rows to a table, as add() does, and for the new rows add the rows of a second table with
    the same value.

    :returns: {value: id} of the inserted rows of each table.
    """
    (table, rows), (other, others) = first, second
    if connection.dialect.name == "postgresql" and len(rows) == len(others) == 1:
        # One statement for both saves a round trip for nearly every claim.
        values = {
            f"{number}_{key}": json.dumps(each) if isinstance(each, (dict, list)) else each
            for number, row in enumerate((rows[0], others[0]))
            for key, each in row.items()
        }
        inserted = run(
            connection,
            values,
            _addition_to_both,
            table,
            tuple(rows[0]),
            other,
            tuple(others[0]),
            name,
        )
        ids = inserted.one_or_none() or (None, None)
        one, another = ({rows[0][name]: each} if each is not None else {} for each in ids)
        return one, another
    added = add(connection, table, name, rows)
    return added, add(connection, other, name, [row for row in others if row[name] in added])


def _addition_to_both(
    table: sa.Table, columns: Sequence[str], other: sa.Table, others: Sequence[str], name: str
) -> Any:
    def addition(
        number: int, into: sa.Table, names: Sequence[str], chosen: Callable[[Any], Any]
    ) -> Any:
        values = [sa.bindparam(f"{number}_{each}", type_=into.c[each].type) for each in names]
        statement = postgresql.insert(into).from_select(names, chosen(sa.select(*values)))
        statement = statement.on_conflict_do_nothing(index_elements=[name])
        return statement.returning(into.c.id).cte(f"added_{number}")

    added = addition(0, table, columns, lambda query: query)
    also = addition(1, other, others, lambda query: query.select_from(added))
    return sa.select(added.c.id, sa.select(also.c.id).scalar_subquery())


def in_order(connection: Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return what to sort a column by, for the same order of texts on each database and in
    Python."""
    if connection.dialect.name == "postgresql" and isinstance(column.type, sa.String):
        return sa.collate(column, "C")
    return column


def hold(
    connection: Connection, table: sa.Table, name: str, values: Iterable[str]
) -> dict[str, Row]:
    """Lock the rows of a table until the end of the transaction, in the order of a unique column.

    :returns: {value of the column: row}.
    """
    column, keys = table.c[name], sorted(values)
    by_value: dict[str, Row] = {}
    for start in range(0, len(keys), NAMED_VALUES):
        query = (
            sa.select(table)
            .where(column.in_(keys[start : start + NAMED_VALUES]))
            # The same order as of the parts, or two writers could wait for each other.
            .order_by(in_order(connection, column))
        )
        by_value.update(
            {getattr(row, name): row for row in connection.execute(query.with_for_update())}
        )
    return by_value


def update(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Update rows, which have ``id`` and the same keys to change."""
    if not rows:
        return
    changed = [name for name in rows[0] if name != "id"]
    statement = (
        sa.update(table)
        .where(table.c.id == sa.bindparam("row_id"))
        .values({name: sa.bindparam(f"new_{name}") for name in changed})
    )
    connection.execute(
        statement,
        [{"row_id": row["id"], **{f"new_{name}": row[name] for name in changed}} for row in rows],
    )


def delete(
    connection: Connection, table: sa.Table, column: sa.Column[Any], values: Iterable[Any]
) -> None:
    """Delete the rows with one of some values in a column."""
    chosen = list(values)
    for start in range(0, len(chosen), NAMED_VALUES):
        connection.execute(sa.delete(table).where(column.in_(chosen[start : start + NAMED_VALUES])))


def ids_by(
    connection: Connection, column: sa.Column[str], values: Iterable[str], make: bool = True
) -> dict[str, int]:
    """Find the ids of values of a unique column, such as the names of resource classes.

    :param make: True to add new values, in a table without other columns that need a value.
    :returns: {value: id}, without values that are not in the store.
    """
    table, unique = column.table, set(values)
    query = select(column, table.c.id)
    ids = {row[0]: row.id for row in among(connection, query, column, unique)}
    new = sorted(unique - set(ids)) if make else ()
    if new:
        insert(connection, table, [{column.name: value} for value in new])
        ids.update({row[0]: row.id for row in among(connection, query, column, new)})
    return ids
