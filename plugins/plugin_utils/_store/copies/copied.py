# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the tables in another SQLite database, with the same values.

Rows are read and written a few at a time, so that memory does not grow with the store.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables

#: The rows in memory at a time.
ROWS = 2_000
# Every SQLite accepts this number of values in one statement.
_PARAMETERS = 999

Values = Sequence[Any]


def fill(connection: Connection, copy: sqlite3.Connection, filled: Iterable[sa.Table]) -> None:
    """Make all tables in an empty SQLite database, and copy the rows of some of them.

    :param connection: the connection of a reading transaction, so that all tables are of one
        moment.
    """
    dialect = sa.make_url("sqlite://").get_dialect()()

    def make(statement: sa.schema.CreateTable | sa.schema.CreateIndex) -> None:
        copy.execute(str(statement.compile(dialect=dialect)))

    # The same order each time, so that the same rows make the same file.
    indexes = sorted(
        (index for table in tables.metadata.sorted_tables for index in table.indexes),
        key=lambda index: str(index.name),
    )
    for table in tables.metadata.sorted_tables:
        make(sa.schema.CreateTable(table))
    for table in filled:
        insert(copy, table, rows(connection, table))
    # Indexes that are made after the rows take half the time.
    for index in indexes:
        make(sa.schema.CreateIndex(index))


def rows(connection: Connection, table: sa.Table) -> Iterator[Values]:
    """Read the rows of a table in the order of its key, in the types of the driver.

    JSON is read as text, which is neither decoded nor encoded. SQLAlchemy, which looks at each
    value, would take as long as all the rest.
    """
    query = sa.select(
        *(
            sa.cast(column, sa.Text) if isinstance(column.type, sa.JSON) else column
            for column in table.columns
        )
    ).order_by(*(bulk.in_order(connection, column) for column in table.primary_key.columns))
    statement = str(query.compile(dialect=connection.dialect))
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        yield from driver.execute(statement)
        return
    with driver.cursor(f"drover_{table.name}") as cursor:
        # The server keeps the rows that were not read yet.
        cursor.itersize = ROWS
        cursor.execute(statement)
        yield from cursor


def insert(copy: sqlite3.Connection, table: sa.Table, values: Iterable[Values]) -> None:
    """Insert rows into SQLite, each the values of all columns in their order, JSON as text."""
    width = len(table.columns)
    quoted = ", ".join(f'"{column.name}"' for column in table.columns)
    row = f"({', '.join('?' * width)})"
    flat = itertools.chain.from_iterable(values)
    # One statement for many rows takes half the time.
    most = _PARAMETERS // width * width
    for some in iter(lambda: tuple(itertools.islice(flat, most)), ()):
        marks = ", ".join([row] * (len(some) // width))
        copy.execute(f'INSERT INTO "{table.name}" ({quoted}) VALUES {marks}', some)
