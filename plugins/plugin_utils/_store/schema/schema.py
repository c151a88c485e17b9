# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema's revision: made and upgraded by Alembic, inside the caller's transaction."""

from __future__ import annotations

import os
from collections.abc import Collection
from types import ModuleType

from ..._common.errors import DroverError, some
from ..database.sql import Connection, exc, sa


def revisions() -> set[str]:
    """Name the revisions that this version of the collection can upgrade."""
    found: set[str] = _alembic().known()
    return found


def revision(connection: Connection) -> str | None:
    """Read the store's revision; None for an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def quick_revision(connection: Connection) -> str | None:
    """Read the store's revision by one query, for the start of each transaction.

    :raises sqlalchemy.exc.DBAPIError: the database is empty, see is_absent().
    """
    number: str | None = connection.exec_driver_sql(
        "SELECT version_num FROM alembic_version"
    ).scalar()
    return number


def is_absent(problem: exc.DBAPIError) -> bool:
    """Return True if an error of quick_revision() means that the database is empty."""
    return getattr(problem.orig, "sqlstate", None) == "42P01" or "no such table" in str(
        problem.orig
    )


#: In every store of ours, whatever its schema.
MARKS = {"alembic_version", "resource_providers", "compute_nodes", "domains"}


def refuse_others(tables: Collection[str], shown_url: str) -> None:
    """Refuse a database of another program, which must not get our tables.

    :param tables: the names of all its tables.
    :raises DroverError: it has tables, and they are not the tables of a store.
    """
    if tables and not MARKS.issubset(tables):
        raise DroverError(
            f"The database {shown_url} belongs to another program: it has the tables"
            f" {some(sorted(tables), 5)}, and is no store of drover.compute. Nothing was written."
            " Set drover_store_url to a file or a database of its own."
        )


def check(connection: Connection, shown_url: str) -> str:
    """Refuse a store that this version cannot read.

    :returns: LATEST.
    :raises DroverError: the store is empty, older or newer.
    """
    current = revision(connection)
    if current == LATEST:
        return current
    refuse_others(sa.inspect(connection).get_table_names(), shown_url)
    if current is None:
        raise DroverError(
            f"The store {shown_url} is empty. Run the playbook drover.compute.discover first, "
            "or the module drover.compute.store to make its tables."
        )
    _refuse_unknown(current, shown_url)
    raise DroverError(
        f"The store {shown_url} has the older schema {current}; this drover.compute needs {LATEST}."
        " Upgrade it with the module drover.compute.store (any playbook that writes does it too)."
    )


def upgrade(connection: Connection, shown_url: str) -> str | None:
    """Bring the schema to LATEST.

    The caller must be the only writer, see engine.Store.write(): two first runs must not both make
    the tables.

    :returns: the revision found before, or None for an empty database.
    :raises DroverError: the store was written by a newer version.
    """
    current = revision(connection)
    if current == LATEST:
        return current
    refuse_others(sa.inspect(connection).get_table_names(), shown_url)
    if current is not None:
        _refuse_unknown(current, shown_url)
    _alembic().run(connection)
    return current


def _refuse_unknown(found: str, shown_url: str) -> None:
    if found in revisions():
        return
    if found < LATEST:
        raise DroverError(
            f"The store {shown_url} has schema {found} of a version before 1.0.0, which cannot be"
            " upgraded; nothing was changed. Set drover_store_url to a new database and run the"
            " playbook drover.compute.discover, which reads the fleet into it."
        )
    raise DroverError(
        f"The store {shown_url} has schema {found}, which this drover.compute does not know (its"
        f" own is {LATEST}): a newer version wrote it. Upgrade the collection on this controller;"
        " nothing was changed."
    )


def _alembic() -> ModuleType:
    from . import revisions as found

    return found


_FILES = os.listdir(os.path.join(os.path.dirname(__file__), "versions"))
#: The revision of the newest file: reading their names is much faster than asking Alembic.
LATEST = max(name.split("_")[1] for name in _FILES if name.startswith("rev_"))
