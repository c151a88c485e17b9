# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of an exported store: a SQLite database with one checksum.

Besides the tables of the store it has the table drover_export. Its only row has the format, the
revision of the schema, the time of the export, and the SHA-256 of the whole file, in which the
checksum itself counts as zeros.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import urllib.parse
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..._common.errors import DroverError
from ..database.sql import sa
from ..schema import schema, tables
from . import copied
from .checksum import TABLE, is_right, page

FORMAT = 1
# The first bytes of each SQLite database.
_SQLITE = b"SQLite format 3\0"


class Export:
    """An export that is complete, unchanged and of this version's schema, open for reading. Use
    ``with``.
    """

    def __init__(self, path: str) -> None:
        """Open and check the file.

        :raises DroverError: there is no such file, or it is not an export, has another schema,
            or was cut or edited.
        """
        self.path = path
        with _readable(path), contextlib.closing(_open_file(path)) as whole:
            if whole.read(len(_SQLITE)) != _SQLITE:
                raise _no_export(path)
            # SQLite makes no locks, and no files beside it.
            self._file = connect(path, "mode=ro&immutable=1")
            try:
                self._check_file(whole)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Export:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()

    @property
    def counts(self) -> dict[str, int]:
        """Count the rows of each table."""
        with _readable(self.path):
            return {
                table.name: self._read_value(f'SELECT count(*) FROM "{table.name}"')
                for table in tables.EXPORTED
            }

    def rows(self, table: sa.Table) -> Iterator[copied.Values]:
        """Read the rows of a table in the order of its key, JSON as text."""
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        key = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
        with _readable(self.path):
            yield from self._file.execute(f'SELECT {columns} FROM "{table.name}" ORDER BY {key}')

    def copy_to(self, copy: sqlite3.Connection) -> None:
        """Copy the whole file into another database."""
        with _readable(self.path):
            self._file.backup(copy)

    def _check_file(self, whole: BinaryIO) -> None:
        try:
            row = page(self._file)
        except LookupError:
            raise _no_export(self.path) from None
        header = self._file.execute(
            f"SELECT format, revision, exported_at, checksum FROM {TABLE}"
        ).fetchone()
        if header is None:
            raise _broken(self.path, "it has no checksum")
        number, revision, exported_at, checksum = header
        self.exported_at, self.checksum = float(exported_at), str(checksum)
        if number != FORMAT:
            raise DroverError(
                f"{self.path} is an export of format {number!r}; this drover.compute reads"
                f" {FORMAT}. Import it with the version of the collection that wrote it, then"
                " upgrade; nothing was imported."
            )
        if not is_right(whole, row, self.checksum):
            raise _broken(self.path, "its checksum is another")
        if revision != schema.LATEST:
            raise DroverError(
                f"{self.path} is of schema {revision}; this drover.compute has {schema.LATEST}."
                f" {_way_on(revision)}; nothing was imported."
            )
        differences = _columns_of(self._file) ^ _columns()
        if differences:
            names = sorted({name for name, _columns_there in differences})
            raise DroverError(
                f"{self.path} and this drover.compute differ in tables: {', '.join(names)}. "
                "Export the store again with this version; nothing was imported."
            )
        problem = self._read_value("PRAGMA integrity_check(1)")
        if problem != "ok":
            raise _broken(self.path, problem)
        lost = self._file.execute("PRAGMA foreign_key_check").fetchone()
        if lost is not None:
            raise _broken(self.path, f"a row of {lost[0]} refers to a row that is missing")

    def _read_value(self, query: str) -> Any:
        return self._file.execute(query).fetchone()[0]


def _way_on(revision: str) -> str:
    if revision in schema.revisions():
        return (
            "Import it with the version of the collection that wrote it, into a store of its own,"
            " and upgrade that store with the module drover.compute.store of this version"
        )
    if revision < schema.LATEST:
        return (
            "A version before 1.0.0 wrote it, which cannot be upgraded: run the playbook"
            " drover.compute.discover into a new store instead"
        )
    return "A newer version wrote it: upgrade the collection on this controller"


def connect(path: str, parameters: str) -> sqlite3.Connection:
    """Open a file with parameters of SQLite."""
    quoted = urllib.parse.quote(os.fsencode(os.path.abspath(path)))
    return sqlite3.connect(f"file:{quoted}?{parameters}", uri=True, isolation_level=None)


def _columns() -> set[tuple[str, tuple[str, ...]]]:
    """Return each table of the store with its columns, and nothing else."""
    return {(table.name, tuple(table.columns.keys())) for table in tables.metadata.sorted_tables}


def _columns_of(file: sqlite3.Connection) -> set[tuple[str, tuple[str, ...]]]:
    """Return each table, view and trigger of a file with its columns."""
    names = [
        row[0]
        for row in file.execute("SELECT name FROM sqlite_master WHERE type <> 'index'")
        if row[0] != TABLE
    ]
    return {
        (
            name,
            tuple(row[0] for row in file.execute("SELECT name FROM pragma_table_info(?)", (name,))),
        )
        for name in names
    }


def _no_export(path: str) -> DroverError:
    return DroverError(
        f"{path} is no export of a store. Give the file that drover.compute.store wrote with"
        " state=exported; nothing was imported."
    )


def _broken(path: str, how: str) -> DroverError:
    return DroverError(
        f"{path} is not as it was exported: {how}. Export the store again, or fetch the file again;"
        " nothing was imported."
    )


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn errors of reading into DroverErrors."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError) as problem:
        raise _broken(path, "it is cut or edited") from problem
    except OSError as problem:
        raise DroverError(
            f"The export {path} cannot be read: {problem.strerror}. Give the path of an export."
        ) from problem


def _open_file(path: str) -> BinaryIO:
    # The file is opened without blocking: a named pipe may never have a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DroverError(f"{path} is no regular file. Give the path of an export.")
    return os.fdopen(handle, "rb")
