# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading whole columns, each as one text that the database makes.

For ten thousand rows that is three times as fast as reading rows. Statements are texts, made once by
select() and compiled by the caller; nothing but numbers of ours is ever put into them.
"""

from __future__ import annotations

import contextlib
import gc

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

#: Between values of one column; in no uuid and no name.
SEPARATOR = "\x1f"


@contextlib.contextmanager
def uncollected():
    """While many new tuples or dicts and no rubbish are made: the collector would look at each in vain."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def select(sqlite, *columns):
    """A select of one row, each column all the values of a column in one text.

    The database goes through the rows once, so that all columns are in the same order. SQLite needs no
    cast of a number to a text.
    """

    def text(column):
        between = SEPARATOR if isinstance(column.type, sa.String) else ","
        value = sa.type_coerce(column, sa.Text) if sqlite else sa.cast(column, sa.Text)
        return sa.func.aggregate_strings(value, sa.literal_column(f"'{between}'"))

    return sa.select(*[text(column).label(f"part_{number}") for number, column in enumerate(columns)])


def rows(connection, statement):
    """The rows as the driver gives them: plain tuples, without a wrapper for each.

    :param statement: a text, or a statement of SQLAlchemy.
    """
    run = connection.exec_driver_sql if isinstance(statement, str) else connection.execute
    result = run(statement)
    found = result.cursor.fetchall()
    result.close()
    return found


def together(connection, *packed):
    """The columns of statements of select(), each as one text; all at once, as they are one row each."""
    parts = [f"({statement}) AS part{number}" for number, statement in enumerate(packed)]
    row = iter(rows(connection, f"SELECT * FROM {', '.join(parts)}")[0])
    return [[next(row) or "" for _column in range(statement.count(" AS part_"))] for statement in packed]


def where(packed, test=None, few=None):
    """A statement of select() for the rows that meet a test and, if there are few, are of these providers."""
    tests = [f"({test})"] if test else []
    if few is not None:
        tests.append(among("provider_id", few))
    return f"{packed} WHERE {' AND '.join(tests)}" if tests else packed


def among(column, ids):
    """SQL: a column is one of ids, which are ours and numbers."""
    return f"{column} IN ({','.join(str(int(each)) for each in ids) or 'NULL'})"


def numbers(text):
    """A column of numbers as an array: float64 where one is written with a fraction, else int64."""
    kind = np.float64 if "." in text or "e" in text else np.int64
    return np.fromstring(text, dtype=kind, sep=",") if text else np.zeros(0, dtype=kind)


def words(text):
    """A column of texts as a list."""
    return text.split(SEPARATOR) if text else []
