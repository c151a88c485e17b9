# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a SQLite store: made, prepared for several writers, and the same one from begin to
commit.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import pwd
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds

from ..._common.errors import DroverError
from ..database.sql import Connection, sa
from . import schema

# A writer waits this long (seconds) for another one: a fleet's hosts report at the same moment.
BUSY_TIMEOUT = 60
# SQLite's message about a file that it does not know.
NO_DATABASE = "file is not a database"
# SQLITE_CORRUPT.
_CORRUPT = 11
# access() uses the real user if the system cannot use the effective one.
_EFFECTIVE = os.access in os.supports_effective_ids
# File systems of FUSE that keep their files on this machine. Any other one may be on a network.
_LOCAL_FUSE = {
    f"fuse.{name}"
    for name in (
        *("bindfs", "cryfs", "encfs", "fuse-overlayfs", "gocryptfs", "lxcfs", "mergerfs"),
        *("ntfs-3g", "securefs", "unionfs"),
    )
}
_MOUNTS = "/proc/self/mountinfo"
# Less than this (bytes) is free on a full disk: a page of the log, or a part of its index.
_FULL = 64 * 1024
_NO_DISK = (
    " Set drover_store_url to a file on a disk of this machine, or to PostgreSQL. To keep this store,"
    " copy all files that begin with its name there, while no run works on it."
)
# Files that have write-ahead logging as far as this process knows, by device and inode.
_WRITE_AHEAD: set[tuple[int, int]] = set()


def is_missing(url: sa.URL) -> bool:
    """Return True if a URL is of a SQLite file that does not exist."""
    return (
        bool(url.database)
        and url.get_backend_name() == "sqlite"
        and not os.path.exists(url.database or "")
    )


@contextlib.contextmanager
def same_file(url: sa.URL, shown_url: str) -> Iterator[None]:
    """Raise DroverError if the commit is not in the file that other processes open, because the
    file was replaced.
    """
    before = _file_number(url)
    yield
    if before is not None and _file_number(url) != before:
        raise DroverError(
            f"The file of the store {shown_url} was deleted or replaced while it was written to:"
            " what this step wrote is lost. Restore the file, or run the playbook"
            " drover.compute.discover, then run this again."
        )


def _file_number(url: sa.URL) -> int | None:
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    try:
        return os.stat(url.database).st_ino
    except OSError:
        return None


def make_file(dialect: Any, record: Any, cargs: Any, cparams: Any) -> None:
    """Make the file and its folder, readable for its owner alone; SQLite gives the files beside it
    the same permissions.
    """
    folder = os.path.dirname(cargs[0])
    _refuse_networks(cargs[0])
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise DroverError(
            f"The folder {folder} of the store cannot be made: {problem.strerror}. Set"
            " drover_store_url to a place you may write."
        ) from problem
    # An existing file is not opened: closing it would drop the locks of this process on it. Other
    # errors SQLite reports itself.
    with contextlib.suppress(OSError):
        made = os.open(cargs[0], os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _WRITE_AHEAD.discard(_number(os.fstat(made)))
            _refuse_without_locks(made, cargs[0])
        except DroverError:
            os.unlink(cargs[0])
            raise
        finally:
            os.close(made)


def _refuse_networks(path: str) -> None:
    """Refuse a file on a file system that other machines may have mounted.

    SQLite keeps its runs apart with memory that all of them share, and with locks. Neither reaches
    another machine: two controllers on one file lost each other's commits, without any error.

    :raises DroverError: the file system is one of these.
    """
    place = path
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    try:
        kind = _file_system(os.stat(place).st_dev, place)
    except OSError:
        # SQLite reports it.
        return
    if kind not in _LOCAL_FUSE and (kind == "fuse" or kinds.is_on_network(kind)):
        raise DroverError(
            f"The store sqlite:///{path} cannot be used: it is on a file system of the type {kind},"
            " which other machines may have mounted too. SQLite cannot keep the runs of two"
            f" machines apart, and changes would be lost. Nothing was written.{_NO_DISK}"
        )


@functools.cache
def _file_system(device: int, place: str) -> str:
    """Return the type of the mounted file system with a device number; "" if it is unknown.

    :param place: the path that has the number. After it is unmounted, another one may have it.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            first, dummy, last = line.partition(" - ")
            if first.split()[2] == number:
                return last.split()[0]
    return ""


def _refuse_without_locks(file: int, path: str) -> None:
    """Refuse a file system without locks, by a lock of a byte that SQLite does not use.

    Call it with the descriptor of a file whose close drops no lock that is needed.

    :raises DroverError: the file cannot be locked.
    """
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            # Another process has a lock, so there are locks.
            return
        raise DroverError(
            f"The store sqlite:///{path} cannot be used: its file system has no locks"
            f" ({problem.strerror}), which keep two runs apart. Nothing was written.{_NO_DISK}"
        ) from problem


def prepare(path: str | None, connection: sqlite3.Connection, record: Any) -> None:
    """Prepare a new connection.

    :raises DroverError: the file is of another program. It is refused before anything is written to
        it.
    """
    # The driver's own BEGIN would be too late and never immediate; begin() does it.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")
    if not _is_write_ahead(path):
        schema.refuse_others(
            [
                row[0]
                for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ],
            f"sqlite:///{path}",
        )
        _write_ahead(connection)
    # Each commit is on the disk at once: a hypervisor would do a second time an order that a power
    # cut took out of the store.
    connection.execute("PRAGMA synchronous=FULL")


def _is_write_ahead(path: str | None) -> bool:
    """Return True if the header of a file shows write-ahead logging; this is far faster than a
    query to SQLite.

    Each file is read once: closing it drops the locks of all connections of this process to it, and
    another process may then remove the log that they use.
    """
    if path is None:
        return False
    try:
        number = _number(os.stat(path))
        if number not in _WRITE_AHEAD:
            with open(path, "rb") as file:
                _refuse_without_locks(file.fileno(), path)
                if file.read(20)[18:] != b"\x02\x02":
                    return False
            _WRITE_AHEAD.add(number)
        return True
    except OSError:
        return False


def _number(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


#: SQLite's codes SQLITE_BUSY and SQLITE_LOCKED; Python has names for them from 3.11 on.
_BUSY, _LOCKED = 5, 6


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, also while other processes do it for the same new file.

    SQLite does not apply its busy timeout here, because two processes could wait for each other.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as problem:
            # Python before 3.11 does not report the code of the error.
            code = getattr(problem, "sqlite_errorcode", _BUSY)
            if code & 0xFF not in (_BUSY, _LOCKED) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def advice(path: str) -> str:
    """Return the advice on a file that SQLite cannot use."""
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        return (
            f"{path} is a folder. Set drover_store_url to a file, such as"
            f" sqlite:///{os.path.join(path, 'store.db')}."
        )
    who = f"This user ({_user()}) may not"
    if os.path.exists(path) and not os.access(path, os.R_OK, effective_ids=_EFFECTIVE):
        return (
            f"{who} read {path}. Give the user the right to read and write the file and its folder,"
            " or set drover_store_url to another file."
        )
    for place, what in ((path, "write to"), (folder, "make files in")):
        if os.path.exists(place) and not os.access(
            place, os.W_OK | (os.X_OK if place == folder else 0), effective_ids=_EFFECTIVE
        ):
            return (
                f"{who} {what} {place}, or its file system is read-only. Give the user the right to"
                f" read and write {path} and its folder, or set drover_store_url to another file."
            )
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < _FULL:
            return (
                f"The disk of {folder} is full, and this step has written nothing. Make room there,"
                " then run the same again: what was done before stays as it is."
            )
    return f"See whether the disk of {folder} is full or read-only."


def is_damaged(problem: BaseException | None) -> bool:
    """Return True if SQLite reports that a database is damaged, by the code of its error; Python
    before 3.11 does not have it.
    """
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF == _CORRUPT


def is_no_database(path: str) -> str:
    """Return the advice on a file that is not a SQLite database."""
    return (
        f"{path} is no SQLite database, or it is damaged. Nothing was written. Set drover_store_url"
        " to the file of the store; if this was the store, restore a backup of it (docs/audit.md)."
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def begin(connection: Connection) -> None:
    # A writer that starts as a reader may find the store changed when it first writes, and fail.
    write = connection.get_execution_options().get("drover_write")
    connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if write else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
