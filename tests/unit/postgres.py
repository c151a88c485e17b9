# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private PostgreSQL for the tests, and the fixtures that provide empty databases.

The cluster is in a temporary folder, on a free port of the loopback address, from the binaries of
Debian's package: it does not touch the machine's own PostgreSQL. It runs as an unprivileged user
(PostgreSQL refuses root), requires a password, and ends with the process that started it, also if
that process is killed.

``DROVER_POSTGRESQL`` names the root of another release (tests/setup/postgresql_root.sh), whose
server is tested then. ``DROVER_POSTGRESQL_ODD`` is a time zone: the server has it, an ICU collation
where it can, and serializable transactions by default.

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
ROOT = pathlib.Path(os.environ.get("DROVER_POSTGRESQL", "/")).resolve()
ODD_ZONE = os.environ.get("DROVER_POSTGRESQL_ODD")
#: It sorts kvm10 after kvm9, and aa after z.
ODD_COLLATION = "da-u-kn-true"
END_WITH_CALLER = ("setpriv", "--pdeathsig", "INT")
#: Makes the folder of the server visible in the root of the other release.
IN_ROOT = """
root=$1 folder=$2
shift 2
mkdir -p "$root$folder"
for each in /proc /dev "$folder"; do mount --rbind "$each" "$root$each"; done
exec chroot "$@"
"""


def find_binaries() -> pathlib.Path:
    """Return the folder with initdb and postgres, the newest if there are several. Leave the tests
    out if there is none."""
    binaries = sorted(
        (ROOT / "usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0,
    )
    on_path = shutil.which("initdb") if pathlib.Path("/") == ROOT else None
    if on_path:
        binaries.insert(0, pathlib.Path(on_path).resolve())
    if not binaries and pathlib.Path("/") != ROOT:
        pytest.fail(
            f"DROVER_POSTGRESQL: {ROOT} has no PostgreSQL. Make a root that has it with"
            " tests/setup/postgresql_root.sh, or take the variable away.",
            pytrace=False,
        )
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
    # The other root has its own number for the user postgres.
    for name in ("postgres", "nobody") if pathlib.Path("/") == ROOT else ("nobody",):
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
        self.password = self._make_password()
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
            self.give(self.folder)
            self._make_data()
            self._start()
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def _make_password() -> str:
        return secrets.token_hex(8) + PASSWORD_SPICE

    @property
    def version(self) -> int:
        """Return the major version."""
        return int(self._bin.parts[-2])

    def command(self, *words) -> list:
        """Return ``words`` as a command of the machine, of the unprivileged user, that ends with
        the caller's process."""
        account = []
        if self._user:
            account = [
                f"--reuid={self._user.pw_uid}",
                f"--regid={self._user.pw_gid}",
                "--clear-groups",
            ]
        return [*END_WITH_CALLER, *account, "--", *(str(word) for word in words)]

    def _of_server(self, program, *words) -> list:
        """Return the command of one of the server's programs."""
        path = self._bin / program
        if pathlib.Path("/") == ROOT:
            return self.command(path, *words)
        if self._user is None:
            pytest.fail("DROVER_POSTGRESQL is the root of a release: it needs root", pytrace=False)
        # A process that becomes another user forgets with whom it ends: that comes last.
        return [
            *("unshare", "--mount", "sh", "-ec", IN_ROOT, "sh", str(ROOT)),
            str(self.folder.parent),
            f"--userspec={self._user.pw_uid}:{self._user.pw_gid}",
            *("--groups=", str(ROOT), *END_WITH_CALLER, "--"),
            *(f"/{path.relative_to(ROOT)}", *(str(word) for word in words)),
        ]

    def give(self, folder) -> None:
        """Give a folder and its content to the unprivileged user."""
        for path in (folder, *pathlib.Path(folder).iterdir()):
            if self._user:
                os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _make_data(self) -> None:
        secret = self.folder / "password"
        secret.touch(0o600)
        secret.write_text(self.password)
        self.give(self.folder)
        locale = ["--locale=C"]
        if ODD_ZONE and self.version >= 15:
            locale += ["--locale-provider=icu", f"--icu-locale={ODD_COLLATION}"]
        self._run(
            "initdb",
            f"--pgdata={self.folder / 'data'}",
            f"--username={ROLE}_admin",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            *locale,
            "--no-sync",
        )
        secret.unlink()

    def _run(self, program, *words, environment=None) -> None:
        done = subprocess.run(
            self._of_server(program, *words),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}")

    def _start(self) -> None:
        for _dummy in range(3):
            self.port = _free_port()
            self._launch()
            end = time.monotonic() + START_SECONDS
            while self._process.poll() is None and time.monotonic() < end:
                try:
                    with self.admin() as admin:
                        self._prepare(admin)
                    return
                except psycopg.OperationalError:
                    time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")

    def _prepare(self, admin) -> None:
        # The store never needs more rights than the owner of a database has.
        admin.execute(
            psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                psycopg.sql.Identifier(ROLE), psycopg.sql.Literal(self.password)
            )
        )

    def _launch(self) -> None:
        settings = [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=16MB",
            "max_connections=50",
            "autovacuum=off",
        ]
        if ODD_ZONE:
            settings += [f"timezone={ODD_ZONE}", "default_transaction_isolation=serializable"]
        words = ["-D", self.folder / "data", "-p", self.port, "-k", self.folder]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._of_server(
                    "postgres",
                    *words,
                    *(word for each in settings for word in ("-c", each)),
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

    def power_off(self) -> None:
        """Kill the server and all its processes at one moment, as the loss of power does."""
        server = self._process.pid
        os.kill(server, signal.SIGSTOP)
        for child in pathlib.Path(f"/proc/{server}/task/{server}/children").read_text().split():
            # The process of a connection may have ended.
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.crash()

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
            # A standby has no serializable transactions.
            options="-c default_transaction_isolation=repeatable\\ read",
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
        dump = subprocess.run(self._of_server("pg_dump", *at, one), check=True, **run_options)
        subprocess.run(
            self._of_server("psql", *at, "-v", "ON_ERROR_STOP=1", "-q", other),
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


class Standby(Cluster):
    """A hot standby of a cluster, with streaming replication.

    :param primary: the Cluster; it has the same password.
    """

    def __init__(self, primary: Cluster) -> None:
        self._primary = primary
        super().__init__()

    def _make_password(self) -> str:
        return self._primary.password

    def _make_data(self) -> None:
        self._run(
            "pg_basebackup",
            *("--host=127.0.0.1", f"--port={self._primary.port}", f"--username={ROLE}_admin"),
            f"--pgdata={self.folder / 'data'}",
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            environment={"PGPASSWORD": self.password},
        )

    def _prepare(self, admin) -> None:
        _wait(admin, "SELECT status = 'streaming' FROM pg_stat_wal_receiver")

    def synchronize(self) -> None:
        """Let each commit of the primary wait for this standby."""
        with self._primary.admin() as admin:
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            admin.execute("SELECT pg_reload_conf()")
            _wait(admin, "SELECT sync_state = 'sync' FROM pg_stat_replication")

    def catch_up(self) -> None:
        """Wait until it has all commits of the primary."""
        with self._primary.admin() as admin:
            _wait(
                admin,
                "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication",
            )

    def cut(self) -> None:
        """Cut it off from its primary: it gets no later commit."""
        with self.admin() as admin:
            admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
            admin.execute("SELECT pg_reload_conf()")
            _wait(admin, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def promote(self) -> None:
        """Let it take over."""
        with self.admin() as admin:
            admin.execute("SELECT pg_promote()")

    def either_url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database that leads to the one of the two that is the
        primary."""
        one, other = (f"host=127.0.0.1%3A{each.port}" for each in (self._primary, self))
        head, dummy, tail = self.url(database).rpartition(f"127.0.0.1:{self.port}")
        return f"{head}{tail}?{one}&{other}&target_session_attrs=read-write"


def _wait(admin, query: str) -> None:
    end = time.monotonic() + START_SECONDS
    while (admin.execute(query).fetchone() or (False,))[0] is not True:
        if time.monotonic() > end:
            raise RuntimeError(f"PostgreSQL does not come to: {query}")
        time.sleep(0.02)


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
