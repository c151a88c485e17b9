# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Export and import of the whole store, on either database; ids are kept.

Rows are read and written a few at a time, so that memory does not grow with the store.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from ..._common.errors import DroverError
from ..database import bulk
from ..database.sql import Connection, exc, sa
from ..hosts import continuity
from ..schema import tables
from . import copied, export_writer
from .export_file import Export


class TransferResult(TypedDict):
    """The outcome of an import."""

    changed: bool
    #: {table: number of its rows}.
    rows: dict[str, int]
    #: SHA-256 of the file; None if check mode did not write it.
    checksum: str | None


class ExportResult(TransferResult):
    """The outcome of an export."""

    #: The rows of the export that was there; None without one.
    before: dict[str, int] | None


@bulk.without_collection()
def export(connection: Connection, path: str, now: float, dry: bool = False) -> ExportResult:
    """Write every table to a file, unless the file is an export of the same rows.

    :param connection: the connection of a reading transaction, so that all tables are of one
        moment.
    :param dry: write nothing.
    :raises DroverError: the file cannot be written.
    """
    export_writer.check_folder(path)
    rows, before = _counts(connection), None
    with contextlib.suppress(DroverError), Export(path) as old:
        before = old.counts
        if before == rows and _same_rows(connection, old):
            return {"changed": False, "before": before, "rows": rows, "checksum": old.checksum}
    checksum = None if dry else export_writer.write(connection, path, now)
    return {"changed": True, "before": before, "rows": rows, "checksum": checksum}


@bulk.without_collection()
def load(connection: Connection, exported: Export) -> TransferResult:
    """Fill an empty store from an export, or verify that the store has the same rows.

    :param connection: the connection of a writing transaction; the caller must roll it back after
        an error.
    :raises DroverError: the store has other rows, or its database refuses a row.
    """
    rows, present = exported.counts, _counts(connection)
    if any(present.values()):
        if present == rows and _same_rows(connection, exported):
            return {"changed": False, "rows": rows, "checksum": exported.checksum}
        names = ", ".join(f"{name} {count}" for name, count in sorted(present.items()) if count)
        raise DroverError(
            f"The store is not empty: it has {sum(present.values())} rows ({names}), and they are"
            f" others than those of {exported.path}. Import into an empty database or a new file;"
            " nothing was imported."
        )
    for table in tables.EXPORTED:
        try:
            _fill_table(connection, table, exported)
        except (exc.StatementError, _driver_error(connection)) as problem:
            cause = str(getattr(problem, "orig", None) or problem).strip().partition("\n")[0]
            raise DroverError(
                f"{exported.path} has a row of {table.name} that the database refuses: {cause}. "
                "Correct it in the store that was exported and export again; nothing was imported."
            ) from problem
    continuity.come_back(connection)
    return {"changed": any(rows.values()), "rows": rows, "checksum": exported.checksum}


def _driver_error(connection: Connection) -> type[Exception]:
    driver: Any = connection.dialect.dbapi
    return driver.Error


def _same_rows(connection: Connection, exported: Export) -> bool:
    """Return True if the store has exactly the rows of an export."""
    return all(
        one == other
        for table in tables.EXPORTED
        for one, other in itertools.zip_longest(
            copied.rows(connection, table), exported.rows(table)
        )
    )


def _fill_table(connection: Connection, table: sa.Table, exported: Export) -> None:
    own = _own_references(table)
    _insert(connection, table, _without(table, own, exported.rows(table)))
    if own:
        # A row may refer to a later one.
        _refer(connection, table, own, exported.rows(table))
    if "id" in table.columns and connection.dialect.name == "postgresql":
        # The inserted rows had ids, so the sequence has not moved.
        most = connection.execute(sa.select(sa.func.max(table.c.id))).scalar()
        if most is not None:
            sequence = sa.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sa.select(sa.func.setval(sequence, most)))


def _insert(connection: Connection, table: sa.Table, values: Iterable[copied.Values]) -> None:
    """Insert rows in the types of the driver: to bind each value by SQLAlchemy takes as long as all
    the rest.
    """
    if connection.dialect.name == "sqlite":
        file: Any = connection.connection.driver_connection
        copied.insert(file, table, values)
        return
    # Several times faster than INSERT for a whole store.
    driver: Any = connection.connection
    quote = connection.dialect.identifier_preparer.quote
    into = f"{quote(table.name)} ({', '.join(quote(column.name) for column in table.columns)})"
    with driver.cursor() as cursor, cursor.copy(f"COPY {into} FROM STDIN") as copy:
        for row in values:
            copy.write_row(row)


def _own_references(table: sa.Table) -> list[str]:
    """Name the columns that refer to their own table."""
    return [key.parent.name for key in table.foreign_keys if key.column.table is table]


def _without(
    table: sa.Table, names: Sequence[str], values: Iterable[copied.Values]
) -> Iterable[copied.Values]:
    """Return the rows with no value in some columns."""
    if not names:
        return values
    kept = [column.name not in names for column in table.columns]
    return ([value if keep else None for value, keep in zip(row, kept)] for row in values)


def _refer(
    connection: Connection, table: sa.Table, own: Sequence[str], values: Iterable[copied.Values]
) -> None:
    """Write the columns that refer to the same table."""
    rows = (dict(zip(table.columns.keys(), row)) for row in values)
    references = ({name: row[name] for name in ("id", *own)} for row in rows)
    wanted = (row for row in references if any(row[name] is not None for name in own))
    for some in iter(lambda: list(itertools.islice(wanted, copied.ROWS)), []):
        bulk.update(connection, table, some)


def _counts(connection: Connection) -> dict[str, int]:
    """Count the rows of each table."""
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for table in tables.EXPORTED
    }
