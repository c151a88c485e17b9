# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private PostgreSQL for the tests, and the fixtures that provide empty databases.

The cluster is in a temporary folder, on a free port of the loopback address, from the binaries of
Debian's package: it does not touch the machine's own PostgreSQL. It runs as an unprivileged user
(PostgreSQL refuses root), requires a password, and ends with the process that started it, also if
that process is killed.

A conftest.py takes the fixtures like this::

    from ansible_collections.drover.compute.tests.unit import postgres as server

    postgres = server.postgres
    store_url = server.store_url
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

import pytest

from ansible_collections.drover.compute.tests import parts

try:
    import psycopg
except ImportError:
    psycopg = None

MISSING = (
    "the tests run the store on PostgreSQL too, and {what} is missing on this machine: {remedy}"
)
ROLE = "drover"
# Characters with a meaning in a URL, in configparser and in printf: they expose code that cuts the
# URL as a string.
PASSWORD_SPICE = "@:/%s#"
PREFIX = "drover-postgres-"
START_SECONDS = 60
STOP_SECONDS = 20


def find_binaries() -> pathlib.Path:
    """Return the folder with initdb and postgres, the newest if there are several. Leave the tests
    out if there is none."""
    binaries = sorted(
        pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0,
    )
    on_path = shutil.which("initdb")
    if on_path:
        binaries.insert(0, pathlib.Path(on_path).resolve())
    if not binaries:
        parts.leave_out(
            "The tests on PostgreSQL",
            "the server is missing on this machine: apt-get install postgresql",
        )
    return binaries[-1].parent


def _unprivileged():
    """Return the account for the server: None for the present user, otherwise an account that is
    not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.fail("there is neither a user postgres nor nobody to run PostgreSQL as", pytrace=False)


def _open_to_others(folder: str) -> bool:
    """Return True if another user can enter every folder down to ``folder``."""
    path = pathlib.Path(folder).resolve()
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _remove_stale(parent: str) -> None:
    """Remove the files of test runs that were killed (their servers have ended with them)."""
    for folder in pathlib.Path(parent).glob(f"{PREFIX}*-*"):
        pid = folder.name[len(PREFIX) :].split("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(folder, ignore_errors=True)


class Cluster:
    """A running private PostgreSQL.

    ``password`` is the plain text, ``url(database)`` the SQLAlchemy URL with the password quoted.
    """

    def __init__(self) -> None:
        if psycopg is None:
            pytest.fail(
                MISSING.format(what="psycopg", remedy="pip install -r requirements.txt"),
                pytrace=False,
            )
        self._bin = find_binaries()
        self._user = _unprivileged()
        self._numbers = itertools.count(1)
        self._process = None
        self.password = secrets.token_hex(8) + PASSWORD_SPICE
        self.port = 0
        # pytest's tmp_path does not fit: it is closed to other users, and too long for a socket.
        parents = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
        if self._user:
            parents = [name for name in parents if os.path.isdir(name) and _open_to_others(name)]
        _remove_stale(parents[0])
        self.folder = pathlib.Path(
            tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parents[0])
        )
        try:
            self._init()
            self._start()
        except BaseException:
            self.stop()
            raise

    def command(self, *words) -> list:
        """Return ``words`` as a command of the unprivileged user that ends with the caller's
        process."""
        prefix = ["setpriv", "--pdeathsig", "INT"]
        if self._user:
            prefix += [
                f"--reuid={self._user.pw_uid}",
                f"--regid={self._user.pw_gid}",
                "--clear-groups",
            ]
        return [*prefix, "--", *(str(word) for word in words)]

    def give(self, folder) -> None:
        """Give a folder and its content to the unprivileged user."""
        for path in (folder, *pathlib.Path(folder).iterdir()):
            if self._user:
                os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _init(self) -> None:
        secret = self.folder / "password"
        secret.touch(0o600)
        secret.write_text(self.password)
        self.give(self.folder)
        done = subprocess.run(
            self.command(
                self._bin / "initdb",
                f"--pgdata={self.folder / 'data'}",
                f"--username={ROLE}_admin",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        secret.unlink()
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}")

    def _start(self) -> None:
        for _dummy in range(3):
            self.port = _free_port()
            self._launch()
            end = time.monotonic() + START_SECONDS
            while self._process.poll() is None and time.monotonic() < end:
                try:
                    with self.admin() as admin:
                        # The store never needs more rights than the owner of a database has.
                        admin.execute(
                            psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                                psycopg.sql.Identifier(ROLE), psycopg.sql.Literal(self.password)
                            )
                        )
                    return
                except psycopg.OperationalError:
                    time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")

    def _launch(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self.command(
                    self._bin / "postgres",
                    "-D",
                    self.folder / "data",
                    "-p",
                    self.port,
                    "-k",
                    self.folder,
                    "-c",
                    "listen_addresses=127.0.0.1",
                    "-c",
                    "fsync=off",
                    "-c",
                    "full_page_writes=off",
                    "-c",
                    "shared_buffers=16MB",
                    "-c",
                    "max_connections=50",
                    "-c",
                    "autovacuum=off",
                ),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def crash(self) -> None:
        """Kill the server as a crash does; connections are refused after that."""
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """Start it again after a crash, on the same port."""
        end = time.monotonic() + START_SECONDS
        while True:
            if self._process.poll() is not None:
                # At first it may refuse, while processes of the old server are still ending.
                self._launch()
            try:
                self.admin().close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def admin(self):
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=f"{ROLE}_admin",
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=10,
        )

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        password = urllib.parse.quote(self.password, safe="")
        return f"postgresql+psycopg://{ROLE}:{password}@127.0.0.1:{self.port}/{database}"

    @contextlib.contextmanager
    def database(self):
        """Yield the URL of a new, empty database; it is dropped at the end, also with open
        connections."""
        name = f"test_{next(self._numbers)}"
        with self.admin() as admin:
            admin.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
        try:
            yield self.url(name)
        finally:
            with self.admin() as admin:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def copy(self, source: str, target: str) -> None:
        """Copy one database with pg_dump into another one, which is empty."""
        run_options = {"env": {**os.environ, "PGPASSWORD": self.password}, "capture_output": True}
        one, other = (url.rpartition("/")[2] for url in (source, target))
        at = ["-h", "127.0.0.1", "-p", str(self.port), "-U", ROLE]
        dump = subprocess.run([self._bin / "pg_dump", *at, one], check=True, **run_options)
        subprocess.run(
            [self._bin / "psql", *at, "-v", "ON_ERROR_STOP=1", "-q", other],
            check=True,
            input=dump.stdout,
            **run_options,
        )

    def stop(self) -> None:
        """End the server and remove its folder; repeated calls are allowed."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # "fast": does not wait for connections
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    """Return the private PostgreSQL of this test process (each xdist worker has another one)."""
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """Return the SQLAlchemy URL of a new, empty database: each test runs on SQLite and on
    PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    with request.getfixturevalue("postgres").database() as url:
        yield url
