# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opening the store: one URL in, transactions out, on SQLite and PostgreSQL alike.

On PostgreSQL one connection is kept between transactions, as making one costs more than a claim.
Ansible forks a process per task, and a connection that crosses a fork is shared by two processes
(measured: lost rows and a hang): a process drops what another one made, see _drop_foreign().
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import continuity, schema
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import Connection, event, exc, pool, sa

# A writer waits this long (seconds) for another one: a fleet's hosts report at the same moment.
SQLITE_BUSY_TIMEOUT = 60
# Seconds to wait for a database host to answer at all.
CONNECT_TIMEOUT = 15
# One name for one lock of PostgreSQL: those that write alone take turns, those that write together share it.
ADVISORY_LOCK = 0x64726F766572
# A client that stops in the middle of a step (a suspended laptop, a controller that lost its power) holds up all
# writers until the server ends its transaction. What the URL, the role or the server sets itself goes first.
# It is set for the transaction only, as a pooler may give the connection to somebody else after it.
LIMITS = {"lock_timeout": "60s", "idle_in_transaction_session_timeout": "120s"}
_SET_LIMITS = ", ".join(
    f"set_config('{name}', CASE current_setting('{name}') WHEN '0' THEN '{value}' ELSE current_setting('{name}') END, true)"
    for name, value in LIMITS.items()
)
# How long a server may be silent that has lost its power, or whose network is cut: libpq's options.
SILENCE = {
    "connect_timeout": CONNECT_TIMEOUT,
    "tcp_user_timeout": 30000,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
# Limits, the lock and the schema's revision in one round trip. What is read before the lock was waited for
# can be old, so that another answer than the latest revision is looked at again, see _writer().
ALONE = f"SELECT {_SET_LIMITS}, pg_advisory_xact_lock({ADVISORY_LOCK}), (SELECT version_num FROM alembic_version)"
TOGETHER = f"SELECT {_SET_LIMITS}, pg_advisory_xact_lock_shared({ADVISORY_LOCK}), (SELECT version_num FROM alembic_version)"
# What PostgreSQL says when it ends one of two transactions that stand in each other's way.
CONFLICTS = ("40001", "40P01")
# What it says when a lock was not to be had in time.
NO_LOCK = "55P03"
# What it says to a role that lacks a right.
FORBIDDEN = "42501"
# Files that this process knows to have write-ahead logging, by device and inode.
_WRITE_AHEAD = set()


class Store:
    """The store behind one URL.

    ``read()`` and ``write()`` give a connection inside a transaction; ``write()`` makes or upgrades
    the schema first where that is needed. With check_mode every write is rolled back at its end.
    """

    def __init__(self, url, check_mode=False):
        self.url = url
        self.check_mode = check_mode
        self._engine = _engine(url, in_memory=check_mode and _missing_file(url))
        weakref.finalize(self, _dispose, self._engine, os.getpid())

    @classmethod
    def open(cls, url, check_mode=False):
        """Open the store of a URL given as text.

        :raises DroverError: SQLAlchemy is missing, or the URL is malformed or of an unknown kind.
        """
        return cls(_parse(url), check_mode)

    @property
    def shown_url(self):
        """The URL without its password."""
        return _shown(self.url)

    @contextlib.contextmanager
    def write(self, together: bool = False) -> Iterator[Connection]:
        """A transaction that may write, by default the only writer from its start.

        What a writer reads is still true when it writes, so that none loses what another one wrote,
        makes a name twice, or waits for a row while another waits for his.

        :param together: for what placement does to allocations, which holds each row it relies on, in
            one order for all: on PostgreSQL such writers run at the same time. The store has to exist.
        """
        if together:
            self._require_file()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            stack.enter_context(_same_file(self.url, self.shown_url))
            connection, dummy = self._writer(stack, together)
            yield connection
            if self.check_mode:
                connection.get_transaction().rollback()

    def upgrade(self):
        """Make or upgrade the schema.

        :returns: the revision found before, or None for an empty store.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            connection, found = self._writer(stack, together=False)
            if self.check_mode:
                connection.get_transaction().rollback()
            return found

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store; the database itself refuses to write in it."""
        self._require_file()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            try:
                with contextlib.ExitStack() as mine:
                    connection, found = self._begin(mine, False, schema.quick_revision)
                    if found == schema.LATEST:
                        stack.push(mine.pop_all())
            except exc.DBAPIError as problem:
                if not schema.is_absent(problem):
                    raise
                found = None
            if found != schema.LATEST:
                connection, dummy = self._begin(stack, False, lambda new: schema.check(new, self.shown_url))
            yield connection

    def _require_file(self):
        if _missing_file(self.url):
            raise DroverError(
                f"There is no store at {self.shown_url} yet. Run the playbook drover.compute.discover first, "
                "or set drover_store_url to the store that discovery wrote."
            )

    def _writer(self, stack, together):
        """A connection inside a transaction of a writer with the latest schema, and the revision found."""
        try:
            with contextlib.ExitStack() as mine:
                connection, found = self._begin(mine, True, lambda new: _first(new, TOGETHER if together else ALONE))
                if found == schema.LATEST:
                    stack.push(mine.pop_all())
                    return connection, found
        except exc.DBAPIError as problem:
            if not schema.is_absent(problem):
                raise
        return self._begin(stack, True, self._upgrade)

    def _upgrade(self, connection):
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT {_SET_LIMITS}, pg_advisory_xact_lock({ADVISORY_LOCK})")
        found = schema.upgrade(connection, self.shown_url)
        if found is None and not self.check_mode:
            continuity.begin(connection)
        return found

    def _begin(self, stack, write, first):
        """A connection inside a transaction that the stack ends, and what ``first`` (connection) answered."""
        try:
            return self._begun(stack, write, first)
        except exc.DBAPIError as problem:
            if not problem.connection_invalidated:
                raise
            # The connection that was kept is of a database that went away; nothing was done on it yet.
            return self._begun(stack, write, first)

    def _begun(self, stack, write, first):
        with contextlib.ExitStack() as mine:
            connection = mine.enter_context(self._engine.connect())
            if connection.dialect.name == "sqlite":
                connection = connection.execution_options(drover_write=write)
            elif not write:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            mine.enter_context(connection.begin())
            answer = first(connection)
            stack.push(mine.pop_all())
            return connection, answer

    @contextlib.contextmanager
    def _translated(self):
        try:
            yield
        except exc.SQLAlchemyError as problem:
            raise DroverError(self._sentence(problem)) from problem

    def _sentence(self, problem):
        cause = str(getattr(problem, "orig", None) or problem).strip().splitlines()
        cause = cause[0] if cause else type(problem).__name__
        state = getattr(getattr(problem, "orig", None), "sqlstate", None)
        for secret in _secrets(self.url):
            cause = cause.replace(secret, "***")
        if "database is locked" in cause:
            advice = f"Another run has held it for over {SQLITE_BUSY_TIMEOUT} s: wait for it, or use PostgreSQL."
        elif state == NO_LOCK:
            advice = (
                f"Another run has held it for over {LIMITS['lock_timeout'][:-1]} s (or what the URL sets as lock_timeout), and nothing was "
                "written: wait for that run, or end it. One that stopped in the middle of a step is ended by the server soon."
            )
        elif state in CONFLICTS:
            advice = "Another run wrote the same rows at the same moment. Nothing was written: run it again."
        elif state == FORBIDDEN:
            advice = "The role of drover_store_url may not do this: docs/security.md says what each role may do."
        elif getattr(problem, "connection_invalidated", False):
            advice = (
                "The connection was lost in the middle of a step, which the database then undoes. When it is back, "
                "run the same again: what was done before stays as it is."
            )
        elif self.url.get_backend_name() == "sqlite" and isinstance(problem, (exc.OperationalError, exc.InterfaceError)):
            advice = (
                "See whether its disk is full or read-only, and whether this user may write to the file and the folder of drover_store_url."
            )
        elif isinstance(problem, (exc.OperationalError, exc.InterfaceError)):
            advice = "Check that the database runs, and the host, user, password and permissions of drover_store_url."
        else:
            advice = "Nothing was written. If the store is damaged, restore a backup of it; otherwise this is a defect of drover.compute: please report it."
        return f"The store {self.shown_url} cannot be used: {cause}. {advice}"


def _parse(text):
    try:
        url = sa.engine.make_url(text)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        backend = url.get_backend_name()
        url.get_dialect()
        if backend == "postgresql" and "@" in f"{url.host}{url.database}":
            raise ValueError("the rest of a password that holds an unquoted @")
    except (exc.ArgumentError, exc.NoSuchModuleError, ValueError):
        # The text itself, and with it the cause, may hold a password, so neither is repeated.
        raise DroverError(
            "The store URL (drover_store_url) is malformed or of an unknown kind. "
            "Write sqlite:////absolute/path.db or postgresql://user:password@host/database, "
            "in the password %40 for @ and %2F for /."
        ) from None
    if backend not in ("sqlite", "postgresql"):
        raise DroverError(f"The store can be SQLite or PostgreSQL, not {backend}. Change drover_store_url.")
    if backend == "sqlite" and url.database:
        url = url.set(database=os.path.abspath(os.path.expanduser(url.database)))
    return url


def _secrets(url):
    """The passwords of a URL: its own, and those among its options (libpq's password, sslpassword)."""
    options = [value for name, value in url.query.items() if "password" in name]
    return [str(secret) for secret in (url.password, *options) if secret]


def _shown(url):
    hidden = {name: "hidden" for name in url.query if "password" in name}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _missing_file(url):
    return url.get_backend_name() == "sqlite" and bool(url.database) and not os.path.exists(url.database)


def _engine(url, in_memory):
    if url.get_backend_name() == "postgresql":
        try:
            # The isolation level is not what the server may default to: each statement of a writer has to see
            # what came before the lock it waited for.
            engine = sa.create_engine(
                url,
                poolclass=pool.QueuePool,
                pool_size=1,
                max_overflow=-1,
                isolation_level="READ COMMITTED",
                connect_args={name: value for name, value in SILENCE.items() if name not in url.query},
            )
        except ImportError as problem:
            raise DroverError(
                f"The store {_shown(url)} needs the Python package psycopg on this "
                "controller. Install it with: pip install 'psycopg[binary]'."
            ) from problem
        event.listen(engine, "connect", _remember_process)
        event.listen(engine, "checkout", _drop_foreign)
        return engine
    if in_memory:
        engine = sa.create_engine("sqlite://", poolclass=pool.StaticPool)
    else:
        engine = sa.create_engine(url, poolclass=pool.NullPool, connect_args={"timeout": SQLITE_BUSY_TIMEOUT})
        event.listen(engine, "do_connect", _make_file)
    event.listen(engine, "connect", functools.partial(_prepare_sqlite, url.database))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _dispose(engine, process):
    engine.dispose(close=os.getpid() == process)


def _remember_process(connection, record):
    record.info["process"] = os.getpid()


def _drop_foreign(connection, record, proxy):
    """Leave a connection that was made before a fork to the process that made it; a new one is made."""
    if record.info["process"] != os.getpid():
        record.dbapi_connection = proxy.dbapi_connection = None
        raise exc.DisconnectionError("made in another process")


def _first(connection, statement):
    if connection.dialect.name != "postgresql":
        return schema.quick_revision(connection)
    return connection.exec_driver_sql(statement).one()[-1]


@contextlib.contextmanager
def _same_file(url, shown_url):
    """Make sure that what was committed is in the file that everybody else opens."""
    before = _file_number(url)
    yield
    if before is not None and _file_number(url) != before:
        raise DroverError(
            f"The file of the store {shown_url} was deleted or replaced while it was written to: what this step wrote "
            "is lost. Restore the file, or run the playbook drover.compute.discover, then run this again."
        )


def _file_number(url):
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    try:
        return os.stat(url.database).st_ino
    except OSError:
        return None


def _make_file(dialect, record, cargs, cparams):
    """Make the file, and its folder where there is none, for its owner's eyes: the store tells what runs where and
    every instance's XML. SQLite gives the files beside it the same permissions."""
    folder = os.path.dirname(cargs[0])
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise DroverError(
            f"The folder {folder} of the store cannot be made: {problem.strerror}. Set drover_store_url to a place you may write."
        ) from problem
    # One that is there is not opened: to close it again would drop the locks that this process has on it. And
    # what keeps it from being made SQLite will say itself.
    with contextlib.suppress(OSError):
        made = os.open(cargs[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        _WRITE_AHEAD.discard(_number(os.fstat(made)))
        os.close(made)


def _prepare_sqlite(path, connection, record):
    # The driver's own begin would come too late and never be immediate; _begin_sqlite does it.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")
    if not _is_write_ahead(path):
        _write_ahead(connection)
    # What is committed is on the disk: an intent that a power cut rolls back behind what a hypervisor does already
    # would be done a second time.
    connection.execute("PRAGMA synchronous=FULL")


def _is_write_ahead(path):
    """Whether a file says in its header that it has write-ahead logging, which to ask SQLite takes far longer.

    Each file is looked at once: to close it drops the locks of all connections that this process has to it, and
    another process would then take the log away under them.
    """
    try:
        number = _number(os.stat(path))
        if number not in _WRITE_AHEAD:
            with open(path, "rb") as file:
                if file.read(20)[18:] != b"\x02\x02":
                    return False
            _WRITE_AHEAD.add(number)
        return True
    except (OSError, TypeError):
        return False


def _number(status):
    return status.st_dev, status.st_ino


def _write_ahead(connection):
    """Switch to write-ahead logging, which several processes may want at once for a file that is new.

    SQLite does not wait for its busy timeout here: two that wait for each other would wait for ever.
    """
    deadline = time.monotonic() + SQLITE_BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _begin_sqlite(connection):
    # A writer that starts as a reader may find the store changed when it first writes, and fail.
    write = connection.get_execution_options().get("drover_write")
    connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if write else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
