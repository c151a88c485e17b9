# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Export and import of the whole store, on either database; ids are kept.

Rows are read and written a few at a time, so that memory does not grow with the store.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict

from ..._common.errors import DroverError
from ..database import bulk
from ..database.sql import Connection, exc, sa
from ..hosts import continuity
from ..schema import schema, tables
from . import transfer_file

# Rows that are read from the store at a time.
_ROWS = 300
# So many values every SQLite takes in a statement.
_PARAMETERS = 999


class Transferred(TypedDict):
    """The outcome of an import."""

    changed: bool
    #: {table: number of its rows}.
    rows: dict[str, int]
    #: {table: SHA-256 of its lines}.
    checksums: dict[str, str]


class Exported(Transferred):
    """The outcome of an export."""

    #: The rows of the export that was there; None without one.
    before: dict[str, int] | None


@bulk.without_collection()
def export(connection: Connection, path: str, now: float, dry: bool = False) -> Exported:
    """Write every table to a file, unless the file is an export of the same rows.

    :param connection: the connection of a reading transaction, so that all tables are of one
        moment.
    :param dry: write nothing.
    :raises DroverError: the file cannot be written.
    """
    before = _end_of(path)
    if dry:
        transfer_file.check_folder(path)
        end = _write(connection, _Nowhere(), now)
    else:
        with transfer_file.replacing(path) as (file, commit):
            end = _write(connection, file, now)
            if not _same(before, end):
                commit()
    return {
        "changed": not _same(before, end),
        "before": before and before["rows"],
        "rows": end["rows"],
        "checksums": end["checksums"],
    }


@bulk.without_collection()
def load(connection: Connection, export_file: transfer_file.Export) -> Transferred:
    """Fill an empty store from an export, or verify that the store has the same rows.

    :param connection: the connection of a writing transaction; the caller must roll it back after
        an error.
    :raises DroverError: the store has other rows, or its database refuses a row.
    """
    check_revision(export_file)
    there = {table.name: _count(connection, table) for table in tables.EXPORTED}
    if any(there.values()):
        end = _write(connection, _Nowhere(), 0)
        if _same(export_file.end, end):
            return {"changed": False, "rows": end["rows"], "checksums": end["checksums"]}
        names = ", ".join(f"{name} {count}" for name, count in sorted(there.items()) if count)
        raise DroverError(
            f"The store is not empty: it has {sum(there.values())} rows ({names}), and they are others than those of "
            f"{export_file.path}. Import into an empty database or a new file; nothing was imported."
        )
    for table in tables.EXPORTED:
        try:
            _fill(connection, table, export_file)
        except (
            exc.StatementError,
            _driver_error(connection),
            ValueError,
            KeyError,
            TypeError,
        ) as problem:
            cause = str(getattr(problem, "orig", None) or problem).strip().partition("\n")[0]
            raise DroverError(
                f"{export_file.path} has a row of {table.name} that the database refuses: {cause}. "
                "Correct it in the store that was exported and export again; nothing was imported."
            ) from problem
    continuity.come_back(connection)
    end = export_file.end
    return {
        "changed": any(export_file.rows.values()),
        "rows": end["rows"],
        "checksums": end["checksums"],
    }


def check_revision(export_file: transfer_file.Export) -> None:
    """Refuse an export of another schema than this version's.

    :raises DroverError: its schema or its tables differ.
    """
    found = export_file.header["revision"]
    if found == schema.LATEST:
        missing = {table.name for table in tables.EXPORTED} ^ set(export_file.rows)
        if missing:
            raise DroverError(
                f"{export_file.path} and this drover.compute differ in tables: {', '.join(sorted(missing))}. "
                "Export the store again with this version; nothing was imported."
            )
        return
    if found in schema.revisions():
        advice = (
            "Import it with the version of the collection that wrote it, into a store of its own, and upgrade that store "
            "with the module drover.compute.store of this version"
        )
    else:
        advice = "A newer version wrote it: upgrade the collection on this controller"
    raise DroverError(
        f"{export_file.path} is of schema {found}; this drover.compute has {schema.LATEST}. {advice}; nothing was imported."
    )


class _Nowhere:
    """A stand-in for a file that is only needed for its checksums."""

    def write(self, data: bytes) -> None:
        """Drop the data."""


def _driver_error(connection: Connection) -> type[Exception]:
    driver: Any = connection.dialect.dbapi
    return driver.Error


def _write(connection: Connection, file: transfer_file.Sink, now: float) -> transfer_file.End:
    writer = transfer_file.Writer(file)
    writer.header(
        schema.LATEST, now, {table.name: table.columns.keys() for table in tables.EXPORTED}
    )
    for table in tables.EXPORTED:
        query = (
            sa.select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_ROWS)
        )
        rows = connection.execute(query).partitions()
        writer.table(table.name, (list(zip(*some)) for some in rows))
    return writer.end()


def _fill(connection: Connection, table: sa.Table, export_file: transfer_file.Export) -> None:
    names, own = table.columns.keys(), _own_references(table)
    _insert(connection, table, _values(table, export_file.table(table.name, names)))
    if own:
        # A row may refer to a later one.
        _refer(connection, table, own, export_file.table(table.name, names))
    if "id" in table.columns and connection.dialect.name == "postgresql":
        # The inserted rows had ids, so the sequence has not moved.
        most = connection.execute(sa.select(sa.func.max(table.c.id))).scalar()
        if most is not None:
            sequence = sa.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sa.select(sa.func.setval(sequence, most)))


def _insert(
    connection: Connection, table: sa.Table, blocks: Iterable[Sequence[Sequence[Any]]]
) -> None:
    """Insert rows in the types of the driver: to bind each value by SQLAlchemy takes as long as all the rest."""
    if connection.dialect.name == "postgresql":
        # Several times faster than INSERT for a whole store.
        driver: Any = connection.connection
        with (
            driver.cursor() as cursor,
            cursor.copy(f"COPY {_into(connection, table)} FROM STDIN") as copy,
        ):
            for row in itertools.chain.from_iterable(blocks):
                copy.write_row(row)
        return
    insert_values(connection, table, blocks)


def insert_values(
    connection: Connection, table: sa.Table, blocks: Iterable[Sequence[Sequence[Any]]]
) -> None:
    """Insert rows into SQLite: the values of all columns in their order, in the types of the driver, so JSON as text."""
    width = len(table.columns)
    row, into = f"({', '.join('?' * width)})", _into(connection, table)
    values = itertools.chain.from_iterable(itertools.chain.from_iterable(blocks))
    # One statement for many rows takes two thirds of the time.
    most = _PARAMETERS // width
    driver: Any = connection.connection
    cursor = driver.cursor()
    for some in iter(lambda: tuple(itertools.islice(values, most * width)), ()):
        cursor.execute(f"INSERT INTO {into} VALUES {', '.join([row] * (len(some) // width))}", some)


def _into(connection: Connection, table: sa.Table) -> str:
    quote = connection.dialect.identifier_preparer.quote
    return f"{quote(table.name)} ({', '.join(quote(column.name) for column in table.columns)})"


def _values(table: sa.Table, blocks: Iterable[list[list[Any]]]) -> Iterator[list[list[Any]]]:
    """Yield the same rows in the types of the driver, JSON as text, without references to other rows of the table.

    :raises ValueError: a value that must be a bool is none.
    """
    own = [
        place for place, column in enumerate(table.columns) if column.name in _own_references(table)
    ]
    as_json = [
        (place, column.nullable)
        for place, column in enumerate(table.columns)
        if isinstance(column.type, sa.JSON)
    ]
    bools = [
        place for place, column in enumerate(table.columns) if isinstance(column.type, sa.Boolean)
    ]
    for rows in blocks:
        for place in own:
            for row in rows:
                row[place] = None
        for place, nullable in as_json:
            for row, text in zip(rows, transfer_file.each_encoded([row[place] for row in rows])):
                if row[place] is not None or not nullable:
                    row[place] = text
        for place in bools:
            for row in rows:
                # SQLite would take anything.
                if row[place] not in (None, True, False):
                    raise ValueError(f"{table.columns.keys()[place]} is {row[place]!r}")
        yield rows


def _own_references(table: sa.Table) -> list[str]:
    """Name the columns that refer to their own table."""
    return [key.parent.name for key in table.foreign_keys if key.column.table is table]


def _refer(
    connection: Connection,
    table: sa.Table,
    own: Sequence[str],
    blocks: Iterable[Sequence[Sequence[Any]]],
) -> None:
    number, places = (
        table.columns.keys().index("id"),
        {name: table.columns.keys().index(name) for name in own},
    )
    for rows in blocks:
        bulk.update(
            connection,
            table,
            [
                {"id": row[number], **{name: row[place] for name, place in places.items()}}
                for row in rows
                if any(row[place] is not None for place in places.values())
            ],
        )


def _count(connection: Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def _end_of(path: str) -> transfer_file.End | None:
    """Read the last line of the export at a path; None without a complete one of this schema."""
    try:
        with transfer_file.Export(path) as found:
            check_revision(found)
            return found.end
    except DroverError:
        return None


def _same(one: transfer_file.End | None, other: transfer_file.End) -> bool:
    return one is not None and (one["rows"], one["checksums"]) == (
        other["rows"],
        other["checksums"],
    )
