# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the store in memory; anything may be written to it, and its content is lost with it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from ..._common.errors import DroverError
from ..database.sql import Connection, event, exc, pool, sa
from ..schema import tables
from . import transfer, transfer_file

# Rows in memory at a time.
_ROWS = 20_000


@contextlib.contextmanager
def copy_of(connection: Connection) -> Iterator[Connection]:
    """Open a copy of the store, as a transaction sees it.

    :param connection: the connection of a reading transaction of the store.
    """
    with _opened() as copy:
        if connection.dialect.name == "sqlite":
            _driver(connection).backup(_driver(copy))
        else:
            tables.metadata.create_all(copy)
            for table in tables.metadata.sorted_tables:
                # No plan reads the actions.
                if table is not tables.actions:
                    _copy_table(connection, copy, table)
        with _translated():
            yield _ready(copy)


@contextlib.contextmanager
def of_export(export_file: transfer_file.Export) -> Iterator[Connection]:
    """Open the content of an export of a store.

    :raises DroverError: it is of another schema, or its rows cannot be read.
    """
    with _opened() as copy, _translated():
        # Indexes that are filled after the rows take half the time; the unique indexes exist before
        # the rows.
        schema = sa.MetaData()
        for table in tables.metadata.sorted_tables:
            copied = table.to_metadata(schema)
            # A table with all its columns in the key is not stored twice.
            copied.dialect_options["sqlite"]["with_rowid"] = not all(
                column.primary_key for column in table.columns
            )
        late = [
            index for table in schema.sorted_tables for index in table.indexes if not index.unique
        ]
        schema.create_all(copy)
        for index in late:
            index.drop(copy)
        copy.commit()
        # A failed load ends the copy, so no rollback is needed.
        _driver(copy).execute("PRAGMA journal_mode=OFF")
        transfer.load(copy, export_file)
        for index in late:
            index.create(copy)
        copy.commit()
        _driver(copy).execute("PRAGMA journal_mode=MEMORY")
        yield _ready(copy)


@contextlib.contextmanager
def _opened() -> Iterator[Connection]:
    engine = sa.create_engine("sqlite://", poolclass=pool.StaticPool)
    event.listen(engine, "connect", _prepare)
    try:
        with engine.connect() as copy:
            yield copy
    finally:
        engine.dispose()


def _ready(copy: Connection) -> Connection:
    # The quotas of projects are no property of the hosts.
    copy.execute(sa.delete(tables.quotas))
    copy.commit()
    _driver(copy).execute("PRAGMA foreign_keys=ON")
    return copy


def _prepare(connection: sqlite3.Connection, record: Any) -> None:
    # The copy needs no durability.
    connection.execute("PRAGMA synchronous=OFF")


def _driver(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.driver_connection
    return driver


def _copy_table(connection: Connection, copy: Connection, table: sa.Table) -> None:
    """Copy the rows of a table; JSON is copied as text, which is neither decoded nor encoded."""
    columns = [
        sa.cast(column, sa.Text).label(column.name) if isinstance(column.type, sa.JSON) else column
        for column in table.columns
    ]
    rows = connection.execution_options(yield_per=_ROWS).execute(sa.select(*columns))
    transfer.insert_values(copy, table, rows.partitions())


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except exc.SQLAlchemyError as problem:
        cause = str(getattr(problem, "orig", None) or problem).strip().partition("\n")[0]
        raise DroverError(
            f"The copy of the store in memory cannot be used: {cause}. Nothing was written to the store. This is a defect of drover.compute: "
            "please report it, with the changes that were simulated."
        ) from problem
