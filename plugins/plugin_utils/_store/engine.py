# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opening the store: one URL in, transactions out, on SQLite and PostgreSQL alike.

On PostgreSQL one connection is kept between transactions, because making one costs more than a
claim. Ansible forks a process per task, and a connection that crosses a fork is shared by two
processes (measured: lost rows and a hang): a process drops the connections of another one, see
_drop_foreign().
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from .._common.errors import DroverError
from .._records.runs import Run
from .database.sql import Connection, event, exc, pool, sa
from .hosts import continuity
from .runs import actions
from .schema import schema, sqlite

# Seconds to wait for a database host to answer at all.
CONNECT_TIMEOUT = 15
# PostgreSQL's lock for writers: exclusive for Store.write(), shared for Store.write(together=True).
ADVISORY_LOCK = 0x64726F766572
# A client that stops in the middle of a step (a suspended laptop, a controller that lost its power)
# blocks all writers until the server ends its transaction. Limits of the URL, the role or the
# server have priority. They are set for the transaction only, because a pooler may give the
# connection to another client after it.
LIMITS = {"lock_timeout": "60s", "idle_in_transaction_session_timeout": "120s"}
# A commit is on the disk at once, whatever the server or the role has: a hypervisor would do a
# second time an order that a power cut took out of the store. How far it waits for a standby is the
# operator's choice.
_SETTINGS = {name: ("0", value) for name, value in LIMITS.items()}
_SETTINGS["synchronous_commit"] = ("off", "on")
_SET_LIMITS = ", ".join(
    f"set_config('{name}', CASE current_setting('{name}') WHEN '{unset}' THEN '{value}' ELSE"
    f" current_setting('{name}') END, true)"
    for name, (unset, value) in _SETTINGS.items()
)
# libpq's options: when a connection to a server without power or network counts as lost.
SILENCE = {
    "connect_timeout": CONNECT_TIMEOUT,
    "tcp_user_timeout": 30000,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
# No statement is prepared on the server: a pooler of transactions (PgBouncer) gives each
# transaction another connection of the server, which has not prepared it, or has another one by its
# name.
CONNECT = {"prepare_threshold": None}
# Limits, the lock and the schema's revision in one round trip. The revision may be read before the
# lock is taken, so any revision but the latest is read again, see _writer().
ALONE = (
    f"SELECT {_SET_LIMITS}, pg_advisory_xact_lock({ADVISORY_LOCK}), (SELECT version_num FROM"
    " alembic_version)"
)
TOGETHER = (
    f"SELECT {_SET_LIMITS}, pg_advisory_xact_lock_shared({ADVISORY_LOCK}), (SELECT version_num FROM"
    " alembic_version)"
)
# PostgreSQL's states: it ended one of two transactions that conflict;
CONFLICTS = ("40001", "40P01")
# a lock was not available in time;
NO_LOCK = "55P03"
# the role lacks a right;
FORBIDDEN = "42501"
# data or an index are corrupted.
DAMAGED = ("XX001", "XX002")


class Store:
    """The store behind one URL.

    ``read()`` and ``write()`` give a connection inside a transaction; ``write()`` makes or upgrades
    the schema first if necessary. With check_mode every write is rolled back at its end.
    """

    def __init__(self, url: sa.URL, check_mode: bool = False, run: Run | None = None) -> None:
        self.url = url
        self.check_mode = check_mode
        self._run = run
        self._engine = _engine(url, in_memory=check_mode and sqlite.is_missing(url))
        weakref.finalize(self, _dispose, self._engine, os.getpid())

    @classmethod
    def open(cls, url: str, check_mode: bool = False, run: Run | None = None) -> Store:
        """Open the store of a URL.

        :param run: the run that is written down with all its actions, see actions.py.
        :raises DroverError: SQLAlchemy is missing, or the URL is malformed or of an unknown kind.
        """
        return cls(_parse(url), check_mode, run)

    @property
    def shown_url(self) -> str:
        """Return the URL without its password."""
        return _hide_secrets(self.url)

    @property
    def server(self) -> str | None:
        """Return the name or address of the database server, several with commas between; None for
        a file, and for a socket of this machine.
        """
        if self.url.get_backend_name() != "postgresql":
            return None
        # As in libpq, an address has priority over a name, and the environment counts if the URL
        # has none.
        address = self.url.query.get("hostaddr") or self.url.host or self.url.query.get("host")
        address = address or os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST") or ""
        names = (
            address.split(",")
            if isinstance(address, str)
            else [name for each in address for name in each.split(",")]
        )
        remote = [_without_port(name) for name in names if name and not name.startswith("/")]
        return ",".join(remote) or None

    @contextlib.contextmanager
    def write(self, together: bool = False) -> Iterator[Connection]:
        """Open a transaction that may write, by default the only one from its start.

        So the rows that it read are unchanged when it writes: no writer overwrites the changes of
        another, adds a name twice, or deadlocks with another.

        :param together: let such writers run at the same time on PostgreSQL. They must lock each
            row that they rely on, all in the same order, as placement does for allocations. The
            store must exist.
        """
        if together:
            self._require_file()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            stack.enter_context(sqlite.same_file(self.url, self.shown_url))
            connection, dummy = self._writer(stack, together)
            yield connection
            if self.check_mode:
                _roll_back(connection)

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[Rehearsal]:
        """Open a transaction for the forecast of a dry run: it sees its own writes, and is rolled
        back at the end.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            connection, dummy = self._writer(stack, together=False)
            try:
                yield Rehearsal(connection)
            finally:
                _roll_back(connection)

    def upgrade(self) -> str | None:
        """Make or upgrade the schema.

        :returns: the revision found before, or None for an empty store.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            connection, revision = self._writer(stack, together=False)
            if self.check_mode:
                _roll_back(connection)
            return revision

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the store and cannot write."""
        self._require_file()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._translated())
            try:
                with contextlib.ExitStack() as mine:
                    connection, revision = self._begin_transaction(
                        mine, False, schema.quick_revision
                    )
                    if revision == schema.LATEST:
                        stack.push(mine.pop_all())
            except exc.DBAPIError as problem:
                if not schema.is_absent(problem):
                    raise
                revision = None
            if revision != schema.LATEST:
                connection, dummy = self._begin_transaction(
                    stack, False, lambda new: schema.check(new, self.shown_url)
                )
            yield connection

    def _require_file(self) -> None:
        if sqlite.is_missing(self.url):
            raise DroverError(
                f"There is no store at {self.shown_url} yet. Run the playbook"
                " drover.compute.discover first, or set drover_store_url to the store that"
                " discovery wrote."
            )

    def _writer(self, stack: contextlib.ExitStack, together: bool) -> tuple[Connection, str | None]:
        """Open a writing transaction with the latest schema; also return the revision found."""
        try:
            with contextlib.ExitStack() as mine:
                connection, revision = self._begin_transaction(
                    mine, True, lambda new: _read_revision(new, TOGETHER if together else ALONE)
                )
                if revision == schema.LATEST:
                    stack.push(mine.pop_all())
                    return connection, revision
        except exc.DBAPIError as problem:
            if not schema.is_absent(problem):
                raise
        return self._begin_transaction(stack, True, self._upgrade)

    def _upgrade(self, connection: Connection) -> str | None:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(
                f"SELECT {_SET_LIMITS}, pg_advisory_xact_lock({ADVISORY_LOCK})"
            )
        revision = schema.upgrade(connection, self.shown_url)
        if revision is None and not self.check_mode:
            continuity.begin(connection)
        return revision

    def _begin_transaction(
        self, stack: contextlib.ExitStack, write: bool, first: Callable[[Connection], str | None]
    ) -> tuple[Connection, str | None]:
        """Open a transaction that the stack ends; also return the revision that ``first`` found."""
        try:
            return self._enter_transaction(stack, write, first)
        except exc.DBAPIError as problem:
            if not problem.connection_invalidated:
                raise
            # The database of the kept connection has restarted; nothing was done yet.
            return self._enter_transaction(stack, write, first)

    def _enter_transaction(
        self, stack: contextlib.ExitStack, write: bool, first: Callable[[Connection], str | None]
    ) -> tuple[Connection, str | None]:
        with contextlib.ExitStack() as mine:
            connection = mine.enter_context(self._engine.connect())
            connection = connection.execution_options(**{actions.RUN: self._run})
            if connection.dialect.name == "sqlite":
                connection = connection.execution_options(drover_write=write)
            elif not write:
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            mine.enter_context(connection.begin())
            answer = first(connection)
            stack.push(mine.pop_all())
            return connection, answer

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as problem:
            raise DroverError(self._sentence(problem)) from problem

    def _sentence(self, problem: exc.SQLAlchemyError) -> str:
        cause = next(
            iter(str(getattr(problem, "orig", None) or problem).strip().splitlines()),
            type(problem).__name__,
        )
        state = getattr(getattr(problem, "orig", None), "sqlstate", None)
        for secret in _secrets(self.url):
            cause = cause.replace(secret, "***")
        if "database is locked" in cause:
            advice = (
                f"Another run has held it for over {sqlite.BUSY_TIMEOUT} s: wait for it, or use"
                " PostgreSQL."
            )
        elif state == NO_LOCK:
            advice = (
                f"Another run has held it for over {LIMITS['lock_timeout'][:-1]} s (or what the URL"
                " sets as lock_timeout), and nothing was written: wait for that run, or end it."
                " One that stopped in the middle of a step is ended by the server soon."
            )
        elif state in CONFLICTS:
            advice = (
                "Another run wrote the same rows at the same moment. Nothing was written: run it"
                " again."
            )
        elif state == FORBIDDEN:
            advice = (
                "The role of drover_store_url may not do this: docs/security.md says what each role"
                " may do."
            )
        elif getattr(problem, "connection_invalidated", False):
            advice = (
                "The connection was lost in the middle of a step, which the database then undoes."
                " When it is back, run the same again: what was done before stays as it is."
            )
        elif self.url.get_backend_name() == "sqlite" and isinstance(
            problem, (exc.OperationalError, exc.InterfaceError)
        ):
            advice = sqlite.advice(self.url.database or "")
        elif self.url.get_backend_name() == "sqlite" and sqlite.NO_DATABASE in cause:
            advice = sqlite.is_no_database(self.url.database or "")
        elif isinstance(problem, (exc.OperationalError, exc.InterfaceError)):
            advice = (
                "Check that the database runs, and the host, user, password and permissions of"
                " drover_store_url."
            )
        else:
            advice = "Nothing was written. This is a defect of drover.compute: please report it."
            if state in DAMAGED or sqlite.is_damaged(getattr(problem, "orig", None)):
                advice = (
                    "The database itself says that its files are damaged: keep them, and restore a"
                    " backup (docs/backup.md)."
                )
            elif self.url.get_backend_name() == "postgresql":
                advice = (
                    "Nothing was written. Is something between this controller and the database,"
                    " such as a connection pooler? See docs/postgresql.md. Otherwise this is a"
                    " defect of drover.compute: please report it."
                )
        return f"The store {self.shown_url} cannot be used: {cause}. {advice}"


class Transactions(Protocol):
    """The methods that a Store and a Rehearsal have in common."""

    def read(self) -> contextlib.AbstractContextManager[Connection]:
        """Open a transaction that reads."""

    def write(self, together: bool = False) -> contextlib.AbstractContextManager[Connection]:
        """Open a transaction that may write."""


class Rehearsal:
    """A store for the forecast of a dry run: each transaction is a part of one transaction, which
    is rolled back.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Do as Store.read()."""
        yield self._connection

    @contextlib.contextmanager
    def write(self, together: bool = False) -> Iterator[Connection]:
        """Do as Store.write(): a transaction that fails leaves nothing behind."""
        with self._connection.begin_nested():
            yield self._connection


def _parse(text: str) -> sa.URL:
    try:
        url = sa.engine.make_url(text)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        backend = url.get_backend_name()
        url.get_dialect()
        if backend == "postgresql" and "@" in f"{url.host}{url.database}":
            raise ValueError("the rest of a password that holds an unquoted @")
    except (exc.ArgumentError, exc.NoSuchModuleError, ValueError):
        # The text and the cause may hold a password, so the message has neither.
        raise DroverError(
            "The store URL (drover_store_url) is malformed or of an unknown kind. "
            "Write sqlite:////absolute/path.db or postgresql://user:password@host/database, "
            "in the password %40 for @ and %2F for /."
        ) from None
    if backend not in ("sqlite", "postgresql"):
        raise DroverError(
            f"The store can be SQLite or PostgreSQL, not {backend}. Change drover_store_url."
        )
    if backend == "sqlite" and url.database:
        url = url.set(database=os.path.abspath(os.path.expanduser(url.database)))
    return url


def _secrets(url: sa.URL) -> list[str]:
    """List the passwords of a URL: its own password, and the passwords among its options (libpq's
    password, sslpassword).
    """
    options = [value for name, value in url.query.items() if "password" in name]
    return [str(secret) for secret in (url.password, *options) if secret]


def _hide_secrets(url: sa.URL) -> str:
    hidden = {name: "hidden" for name in url.query if "password" in name}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _without_port(name: str) -> str:
    """Return a name of SQLAlchemy's list of hosts (host=pg1:5432) without its port; an IPv6 address
    has several colons.
    """
    return name.partition(":")[0] if name.count(":") == 1 else name


def _engine(url: sa.URL, in_memory: bool) -> sa.Engine:
    if url.get_backend_name() == "postgresql":
        try:
            # The server's default level is too weak: each statement of a writer must see the
            # commits before it got its lock.
            engine = sa.create_engine(
                url,
                poolclass=pool.QueuePool,
                pool_size=1,
                max_overflow=-1,
                isolation_level="READ COMMITTED",
                connect_args={
                    **CONNECT,
                    **{name: value for name, value in SILENCE.items() if name not in url.query},
                },
            )
        except ImportError as problem:
            raise DroverError(
                f"The store {_hide_secrets(url)} needs the Python package psycopg on this "
                "controller. Install it with: pip install 'psycopg[binary]'."
            ) from problem
        event.listen(engine, "connect", _remember_process)
        event.listen(engine, "checkout", _drop_foreign)
        return engine
    if in_memory:
        engine = sa.create_engine("sqlite://", poolclass=pool.StaticPool)
    else:
        engine = sa.create_engine(
            url, poolclass=pool.NullPool, connect_args={"timeout": sqlite.BUSY_TIMEOUT}
        )
        event.listen(engine, "do_connect", sqlite.make_file)
    event.listen(engine, "connect", functools.partial(sqlite.prepare, url.database))
    event.listen(engine, "begin", sqlite.begin)
    return engine


def _roll_back(connection: Connection) -> None:
    transaction = connection.get_transaction()
    if transaction is not None:
        transaction.rollback()


def _dispose(engine: sa.Engine, process: int) -> None:
    engine.dispose(close=os.getpid() == process)


def _remember_process(connection: Any, record: Any) -> None:
    record.info["process"] = os.getpid()


def _drop_foreign(connection: Any, record: Any, proxy: Any) -> None:
    """Leave a connection from before a fork to its process; SQLAlchemy then creates a new one."""
    if record.info["process"] != os.getpid():
        record.dbapi_connection = proxy.dbapi_connection = None
        raise exc.DisconnectionError("made in another process")


def _read_revision(connection: Connection, statement: str) -> str | None:
    if connection.dialect.name != "postgresql":
        return schema.quick_revision(connection)
    found: str | None = connection.exec_driver_sql(statement).one()[-1]
    return found
