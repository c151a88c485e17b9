# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writing of an export: a new file that replaces an older one as a whole."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator

from ..._common.errors import DroverError
from ..database.sql import Connection
from ..schema import schema, tables
from . import checksum, copied
from .export_file import FORMAT, connect


def write(connection: Connection, path: str, now: float) -> str:
    """Write all tables to a new file, which replaces an older one in one step.

    :param connection: the connection of a reading transaction, so that all tables are of one
        moment.
    :returns: its checksum.
    :raises DroverError: the file cannot be written.
    """
    with _replacing(path) as (new, commit):
        with contextlib.closing(connect(new, "nolock=1")) as file:
            # A file that is not complete is removed, so no rollback is needed.
            file.execute("PRAGMA journal_mode=OFF")
            file.execute("PRAGMA synchronous=OFF")
            file.execute("BEGIN")
            file.execute(
                f"CREATE TABLE {checksum.TABLE} (format INTEGER, revision TEXT, exported_at REAL,"
                " checksum TEXT)"
            )
            header = (FORMAT, schema.LATEST, now, checksum.ZEROS)
            file.execute(f"INSERT INTO {checksum.TABLE} VALUES (?, ?, ?, ?)", header)
            copied.fill(connection, file, tables.EXPORTED)
            file.execute("COMMIT")
            page = checksum.page(file)
        written = checksum.seal(new, page)
        commit()
    return written


def check_folder(path: str) -> None:
    """Refuse a path at which no file can be made.

    :raises DroverError: the folder is missing or may not be written, or the path is a folder.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        reason = "it is a folder"
    elif not os.path.isdir(folder):
        reason = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = f"you may not write into the folder {folder}"
    else:
        return
    raise DroverError(
        f"The export {path} cannot be written: {reason}. Give a path in a folder that you may"
        " write."
    )


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Make a new file, and give its path and a function that puts it at ``path`` in one step.

    Only its owner may read it. If the function is not called, the file is removed.

    :raises DroverError: the path cannot be written, or the disk is full.
    """
    check_folder(path)
    folder, name = os.path.split(os.path.abspath(path))
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
        os.close(handle)
        yield temporary, lambda: os.replace(temporary, path)
    except (OSError, sqlite3.Error) as problem:
        cause = problem.strerror if isinstance(problem, OSError) else problem
        raise DroverError(
            f"The export {path} cannot be written: {cause}. What was there before is still there."
        ) from problem
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
