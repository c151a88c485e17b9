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
from ..hosts import continuity
from ..schema import tables
from . import copied
from .export_file import Export


@contextlib.contextmanager
def copy_of(connection: Connection) -> Iterator[Connection]:
    """Open a copy of the store, as a transaction sees it.

    :param connection: the connection of a reading transaction of the store.
    """
    with _opened() as copy:
        if connection.dialect.name == "sqlite":
            _driver(connection).backup(_driver(copy))
        else:
            # No plan reads the actions.
            filled = [
                table for table in tables.metadata.sorted_tables if table is not tables.actions
            ]
            copied.fill(connection, _driver(copy), filled)
        with _translated():
            yield _ready(copy)


@contextlib.contextmanager
def of_export(exported: Export) -> Iterator[Connection]:
    """Open the content of an export of a store."""
    with _opened() as copy, _translated():
        exported.copy_to(_driver(copy))
        continuity.come_back(copy)
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
    # The quotas of projects are not a property of the hosts.
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


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except exc.SQLAlchemyError as problem:
        cause = str(getattr(problem, "orig", None) or problem).strip().partition("\n")[0]
        raise DroverError(
            f"The copy of the store in memory cannot be used: {cause}. Nothing was written to the"
            " store. This is a defect of drover.compute: please report it, with the changes that"
            " were simulated."
        ) from problem
