# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opening the store: URLs, transactions, check mode, and secrets that are never shown."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store, engine
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets

NOBODY = 65534
SECRET = "s3cr3t"


def failure(url, work=None):
    """Return the DroverError of opening (and upgrading) a store, with all texts that a traceback
    would show."""
    with pytest.raises(DroverError) as caught:
        store = Store.open(url)
        (work or Store.upgrade)(store)
    shown = "".join(traceback.format_exception(None, caught.value, None))
    return str(caught.value), shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store.db",
        "sqlite:/one-slash.db",
        "nothing at all",
        "postgresql://user:pass@host:port/database",
        "oracle9://x/y",
        "postgresql+nodriver://x/y",
        "://",
    ],
)
def test_a_malformed_url_is_refused_with_an_example(url):
    message, dummy = failure(url)
    assert "drover_store_url" in message
    assert "postgresql://user:password@host/database" in message


@pytest.mark.parametrize(
    "url", ["mysql://u:s3cr3t@h/d", "oracle://u:s3cr3t@h/d", "mssql://u:s3cr3t@h/d"]
)
def test_other_databases_are_refused(url):
    message, shown = failure(url)
    assert "SQLite or PostgreSQL" in message or "unknown kind" in message
    assert SECRET not in shown


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@host:port/database",
        f"nosuch://user:{SECRET}@host/database",
        f"postgresql+nosuch://user:{SECRET}@host/database",
        # The user's name is missing, so the password is in the place of a port.
        f"postgresql://host:{SECRET}",
        # Characters that must be quoted in a URL.
        f"postgresql://user:p@{SECRET}@host/database",
        f"postgresql://user:p@ss/{SECRET}@host/database",
        f"postgresql:/user:{SECRET}@host/database",
    ],
)
def test_a_malformed_url_never_shows_its_password(url):
    dummy, shown = failure(url)
    assert SECRET not in shown


@pytest.mark.parametrize(
    "place",
    [
        "user:{}@127.0.0.1:1/db",
        "127.0.0.1:1/db?user=u&password={}",
        "127.0.0.1:1/db?sslpassword={}",
    ],
)
def test_a_database_that_is_down_is_told_without_the_password(place):
    url = "postgresql://" + place.format(SECRET)
    assert SECRET not in Store.open(url).shown_url
    assert "127.0.0.1:1" in Store.open(url).shown_url
    message, shown = failure(url)
    assert "Check that the database runs" in message
    assert SECRET not in shown


def test_a_wrong_password_is_told_and_not_shown(postgres):
    with postgres.database() as url:
        wrong = sa.make_url(url).set(password=f"{SECRET}@:/%")
        message, shown = failure(wrong.render_as_string(hide_password=False))
        assert "password authentication failed" in message
        assert SECRET not in shown
        assert postgres.password not in shown


def test_a_password_among_the_options_of_the_url_works(postgres):
    with postgres.database() as url:
        parts = sa.make_url(url)
        store = Store.open(
            parts.set(password=None)
            .update_query_dict({"password": parts.password})
            .render_as_string()
        )
        assert store.upgrade() is None
        # The characters of the password that need quoting are at its end.
        assert postgres.password[:16] not in store.shown_url


def test_the_password_is_not_shown_while_all_is_well(postgres):
    with postgres.database() as url:
        shown = Store.open(url).shown_url
    assert "***" in shown
    assert postgres.password[:16] not in shown


def test_a_missing_database_is_named(postgres):
    with postgres.database() as url:
        pass
    message, shown = failure(url)
    assert "does not exist" in message
    assert postgres.password not in shown


@pytest.mark.parametrize("spelling", ["postgresql", "postgres", "postgresql+psycopg"])
def test_the_short_spellings_mean_psycopg(spelling):
    store = Store.open(f"{spelling}://u:p@h/d")
    assert store.shown_url == "postgresql+psycopg://u:***@h/d"


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/drover"])
def test_a_folder_that_cannot_be_made_is_named(folder):
    message, dummy = failure(f"sqlite:///{folder}/deep/store.db")
    assert f"{folder}/deep" in message
    assert "drover_store_url" in message


def as_nobody(function):
    """Call a function as an unprivileged user and return its result."""

    def work():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return function()

    return fleets.race(work)[0]


@pytest.fixture
def open_folder():
    """Return a folder that every user may read (pytest's own folders are closed to others)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="drover-tests-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written_is_told(open_folder):
    open_folder.chmod(0o555)
    direct = as_nobody(lambda: Store.open(f"sqlite:///{open_folder}/store.db").upgrade())
    assert direct.startswith("DroverError: ")
    assert f"{open_folder}/store.db" in direct
    assert "drover_store_url" in direct
    below = as_nobody(lambda: Store.open(f"sqlite:///{open_folder}/new/store.db").upgrade())
    assert below.startswith(f"DroverError: The folder {open_folder}/new")
    assert list(open_folder.iterdir()) == []


def test_a_store_of_somebody_else_is_told(open_folder):
    path = open_folder / "store.db"
    Store.open(f"sqlite:///{path}").upgrade()
    path.chmod(0o400)
    if os.geteuid() != 0:
        path.chmod(0o000)

    def read():
        with Store.open(f"sqlite:///{path}").read():
            return "read"

    answer = as_nobody(read)
    assert answer.startswith("DroverError: ")
    assert str(path) in answer


def test_the_folder_of_the_store_is_closed_to_others(tmp_path):
    Store.open(f"sqlite:///{tmp_path}/a/b/store.db").upgrade()
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_safety_23_the_file_is_for_its_owner_in_a_folder_that_is_there(tmp_path, mask):
    tmp_path.chmod(0o755)
    path, before = tmp_path / "store.db", os.umask(mask)
    try:
        with Store.open(f"sqlite:///{path}").write() as connection:
            connection.execute(sa.insert(tables.traits).values(name="CUSTOM_X"))
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm"), 384)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_safety_23_there_is_no_moment_with_other_rights(tmp_path, monkeypatch):
    """SQLite would make the file; our code makes it before SQLite opens it."""
    path, seen = tmp_path / "store.db", []
    connect = sqlite3.connect

    def look(*arguments, **options):
        seen.append(path.stat().st_mode & 0o777)
        return connect(*arguments, **options)

    # SQLAlchemy takes the function from this module.
    monkeypatch.setattr(sqlite3.dbapi2, "connect", look)
    monkeypatch.setattr(sqlite3, "connect", look)
    Store.open(f"sqlite:///{path}").upgrade()
    assert seen and set(seen) == {0o600}


def test_rights_that_an_operator_gave_stay(tmp_path):
    path = tmp_path / "store.db"
    Store.open(f"sqlite:///{path}").upgrade()
    path.chmod(0o640)
    Store.open(f"sqlite:///{path}").upgrade()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("use", ["read", "write", "upgrade"])
def test_a_file_that_is_no_store_is_told_and_left_alone(tmp_path, use):
    path = tmp_path / "store.db"
    content = b"This is a letter to my grandmother. " * 100
    path.write_bytes(content)
    store = Store.open(f"sqlite:///{path}")
    with pytest.raises(DroverError, match="file is not a database"):
        if use == "upgrade":
            store.upgrade()
        else:
            with getattr(store, use)():
                pytest.fail("it was opened")
    assert path.read_bytes() == content


def test_a_relative_path_and_a_home_are_resolved_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    relative, home = Store.open("sqlite:///here.db"), Store.open("sqlite:///~/there.db")
    monkeypatch.chdir("/")
    relative.upgrade()
    home.upgrade()
    assert (tmp_path / "here.db").exists()
    assert (tmp_path / "home" / "there.db").exists()


# Transactions


def test_a_failure_rolls_everything_back(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"))
    before = fleets.snapshot(prepared_url)
    with (
        pytest.raises(RuntimeError, match="half way"),
        Store.open(prepared_url).write() as connection,
    ):
        connection.execute(sa.update(tables.services).values(disabled=True))
        raise RuntimeError("half way")
    assert fleets.snapshot(prepared_url) == before


def test_a_reader_cannot_write_the_database_itself_refuses(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"))
    before = fleets.snapshot(prepared_url)
    for statement in (
        "UPDATE services SET disabled = true",
        "DELETE FROM compute_nodes",
        "INSERT INTO traits (name) VALUES ('X')",
        "CREATE TABLE mine (n INTEGER)",
        "DROP TABLE domains",
    ):
        with (
            pytest.raises(DroverError, match="read-?only"),
            Store.open(prepared_url).read() as connection,
        ):
            connection.execute(sa.text(statement))
    assert fleets.snapshot(prepared_url) == before


def test_a_reader_sees_one_state_while_others_write(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"))
    query = sa.select(sa.func.count()).select_from(tables.services)
    with Store.open(prepared_url).read() as connection:
        assert connection.execute(query).scalar_one() == 1
        # The writer does not wait for the reader either.
        fleets.discover(prepared_url, fleets.host("kvm2"))
        assert connection.execute(query).scalar_one() == 1
    assert fleets.columns(prepared_url)["host"] == ["kvm1", "kvm2"]


def test_a_read_after_a_write_may_be_written_again(store_url):
    store = Store.open(store_url)
    store.upgrade()
    with store.read() as connection:
        assert connection.execute(sa.select(tables.services)).all() == []
    with store.write() as connection:
        connection.execute(sa.insert(tables.traits).values(name="CUSTOM_X"))
    with store.read() as connection:
        assert connection.execute(sa.select(tables.traits.c.name)).scalars().all() == ["CUSTOM_X"]


def test_writers_do_not_lose_each_others_updates(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"))
    table = tables.compute_nodes

    def add():
        for _dummy in range(10):
            with Store.open(prepared_url).write() as connection:
                value = connection.execute(sa.select(table.c.memory_mb_used)).scalar_one() or 0
                connection.execute(sa.update(table).values(memory_mb_used=value + 1))
        return "done"

    assert fleets.race(*[add] * 4) == ["done"] * 4
    with Store.open(prepared_url).read() as connection:
        assert connection.execute(sa.select(table.c.memory_mb_used)).scalar_one() == 40


# The connection that is kept on PostgreSQL

BACKEND = sa.text("SELECT pg_backend_pid()")


def backend(store):
    with store.read() as connection:
        return connection.execute(BACKEND).scalar_one()


def test_a_connection_is_kept_and_never_crosses_a_fork(postgres):
    with postgres.database() as url:
        store = Store.open(url)
        store.upgrade()
        mine = backend(store)
        assert backend(store) == mine

        def work():
            return [backend(store) for dummy in range(3)]

        answers = fleets.race(*[work] * 4)
        assert all(len(set(answer)) == 1 for answer in answers), answers
        assert len({mine, *(answer[0] for answer in answers)}) == 5
        # The children did not touch our connection at their end.
        assert backend(store) == mine


def test_the_start_of_a_transaction_is_one_query(postgres):
    with postgres.database() as url:
        store, seen = Store.open(url), []
        store.upgrade()
        sa.event.listen(
            store._engine, "before_cursor_execute", lambda *arguments: seen.append(arguments[2])
        )
        for transaction in (store.read, store.write, lambda: store.write(together=True)):
            del seen[:]
            with transaction():
                assert len(seen) == 1, seen


def test_a_database_that_goes_away_and_comes_back(postgres):
    with postgres.database() as url:
        store = Store.open(url)
        fleets.discover(url, fleets.host("kvm1"))
        mine = backend(store)
        before = fleets.snapshot(url)
        killer = sa.create_engine(url, poolclass=sa.pool.NullPool)

        def kill(pid):
            with killer.connect() as connection:
                connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})

        # In the middle of a step, the error says so, and nothing of the step is written.
        with pytest.raises(
            DroverError, match="connection was lost in the middle of a step.*run the same again"
        ):
            with store.write(together=True) as connection:
                connection.execute(sa.update(tables.services).values(disabled=True))
                kill(connection.execute(BACKEND).scalar_one())
                connection.execute(sa.select(tables.services)).all()
        assert fleets.snapshot(url) == before
        # Between two steps no caller notices it.
        for transaction in (store.read, store.write, lambda: store.write(together=True)):
            kill(backend(store))
            with transaction() as connection:
                assert connection.execute(BACKEND).scalar_one() != mine


def test_writers_together_and_writers_alone(postgres):
    with postgres.database() as url:
        Store.open(url).upgrade()
        query = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        with (
            Store.open(url).write(together=True) as one,
            Store.open(url).write(together=True) as other,
        ):
            assert one.execute(query).scalar_one() == 2
            with pytest.raises(DroverError, match="lock timeout"):
                alone = Store.open(
                    sa.make_url(url)
                    .update_query_dict({"options": "-c lock_timeout=200"})
                    .render_as_string(False)
                )
                with alone.write():
                    pytest.fail("it did not wait")
            assert other.execute(query).scalar_one() == 2


def test_a_deleted_file_is_told(prepared_url, tmp_path):
    if not prepared_url.startswith("sqlite"):
        return
    store, path = Store.open(prepared_url), tmp_path / "store.db"
    with (
        pytest.raises(DroverError, match="was deleted or replaced while it was written to"),
        store.write(together=True) as connection,
    ):
        connection.execute(sa.insert(tables.traits).values(name="CUSTOM_X"))
        path.unlink()
    for leftover in tmp_path.iterdir():
        leftover.unlink()
    for transaction in (store.read, lambda: store.write(together=True)):
        with pytest.raises(DroverError, match="There is no store at"), transaction():
            pytest.fail("there is a store")
    assert list(tmp_path.iterdir()) == []


# Committed data are on the disk

WRITER = """
import sys
sys.path.insert(0, {root!r})
import conftest
import sqlalchemy as sa
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store, engine
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
for number in range({count}):
    with Store.open({url!r}).write() as connection:
        connection.execute(sa.insert(tables.traits).values(name=f"CUSTOM_{{number}}"))
"""


def write_elsewhere(url, count=1, before=()):
    """Run write transactions in another process."""
    root = str(pathlib.Path(__file__).resolve().parents[3])
    words = [*before, sys.executable, "-c", WRITER.format(root=root, url=url, count=count)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=60)


def test_safety_19_each_commit_waits_for_the_disk(prepared_url, tmp_path):
    """While another process has the store open, the close syncs nothing: the commit itself must
    sync."""
    if not prepared_url.startswith("sqlite"):
        return
    with Store.open(prepared_url).read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2, "it is not FULL"
        if shutil.which("strace") is None:
            return
        calls = tmp_path / "calls"
        write_elsewhere(
            prepared_url, 4, ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(calls)]
        )
    synced = [line for line in calls.read_text().splitlines() if "store.db-wal>) " in line]
    assert len(synced) >= 4, calls.read_text()


def test_safety_19_each_commit_waits_for_the_disk_of_the_server(postgres):
    """The server, or the role, has it otherwise, and loses its power right after the commit."""
    with postgres.database() as url:
        Store.open(url).upgrade()
        with postgres.admin() as admin:
            admin.execute("ALTER ROLE drover SET synchronous_commit = off")
            admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            admin.execute("SELECT pg_reload_conf()")
        try:
            store = Store.open(url)
            for number, together in enumerate((False, True)):
                with store.write(together=together) as connection:
                    connection.execute(sa.insert(tables.traits).values(name=f"CUSTOM_{number}"))
                postgres.power_off()
                postgres.start_again()
                with store.read() as connection:
                    names = set(connection.execute(sa.select(tables.traits.c.name)).scalars())
                assert f"CUSTOM_{number}" in names
        finally:
            with postgres.admin() as admin:
                admin.execute("ALTER ROLE drover RESET synchronous_commit")
                admin.execute("ALTER SYSTEM RESET wal_writer_delay")
                admin.execute("SELECT pg_reload_conf()")


def test_a_second_connection_of_a_process_leaves_the_first_its_locks(prepared_url, tmp_path):
    """Without the locks another process would remove the log at its end, and the later writes with
    it."""
    if not prepared_url.startswith("sqlite"):
        return
    log = tmp_path / "store.db-wal"
    store = Store.open(prepared_url)
    with store.read() as connection:
        connection.execute(sa.select(tables.traits)).all()
        number = log.stat().st_ino
        with store.read() as other:
            other.execute(sa.select(tables.traits)).all()
        write_elsewhere(prepared_url)
        assert log.exists() and log.stat().st_ino == number


# A client that stops

STOPPED = "-c lock_timeout=700 -c idle_in_transaction_session_timeout=3000"


@pytest.mark.parametrize("together", [True, False])
def test_safety_12_a_client_that_stopped_holds_nobody_up_for_ever(postgres, together):
    with postgres.database() as url:
        Store.open(url).upgrade()
        short = sa.make_url(url).update_query_dict({"options": STOPPED}).render_as_string(False)
        child = os.fork()
        if not child:
            with Store.open(short).write():
                os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        try:
            os.waitpid(child, os.WUNTRACED)
            began = time.monotonic()
            with pytest.raises(
                DroverError, match="held it for over 60 s.* nothing was written: wait for that run"
            ) as caught:
                with Store.open(short).write(together=together):
                    pytest.fail("two at once")
            assert time.monotonic() - began < 10 and postgres.password not in str(caught.value)
            # The server ends the step of the client that stopped.
            while True:
                try:
                    fleets.discover(short, fleets.host("kvm1"))
                    break
                except DroverError:
                    assert time.monotonic() - began < 30
            assert fleets.columns(url)["host"] == ["kvm1"]
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def limits(url):
    """Return the settings of a step that writes: (limits of the server, options of the
    connection).
    """
    with Store.open(url).write() as connection:
        shown = {
            name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in engine.LIMITS
        }
        return shown, connection.connection.dbapi_connection.info.get_parameters()


def test_safety_12_limits_are_there_without_being_asked_for(postgres):
    with postgres.database() as url:
        Store.open(url).upgrade()
        shown, options = limits(url)
        assert shown == {"lock_timeout": "1min", "idle_in_transaction_session_timeout": "2min"}
        assert (
            options["tcp_user_timeout"],
            options["keepalives_idle"],
            options["connect_timeout"],
        ) == ("30000", "30", "15")
        # The limits end with the step: a pooler may give the connection to another client.
        store = Store.open(url)
        with store.write() as connection:
            number = connection.execute(BACKEND).scalar_one()
        with store.read() as connection:
            assert connection.execute(BACKEND).scalar_one() == number
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "0"


def test_safety_12_what_the_url_says_itself_goes_first(postgres):
    with postgres.database() as url:
        Store.open(url).upgrade()
        own = {"options": "-c lock_timeout=9s", "tcp_user_timeout": "7000", "keepalives": "0"}
        shown, options = limits(sa.make_url(url).update_query_dict(own).render_as_string(False))
        assert shown == {"lock_timeout": "9s", "idle_in_transaction_session_timeout": "2min"}
        assert (options["tcp_user_timeout"], options["keepalives"]) == ("7000", "0")


# Check mode


def test_check_mode_changes_nothing(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"))
    before = fleets.snapshot(prepared_url)
    store = Store.open(prepared_url, check_mode=True)
    with store.write() as connection:
        connection.execute(sa.delete(tables.compute_nodes))
        assert connection.execute(sa.select(tables.compute_nodes)).all() == []
    assert fleets.snapshot(prepared_url) == before


def test_check_mode_makes_no_store(store_url, tmp_path):
    store = Store.open(store_url, check_mode=True)
    assert store.upgrade() is None
    for _dummy in range(2):
        with store.write() as connection:
            connection.execute(sa.insert(tables.traits).values(name="CUSTOM_X"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DroverError, match="discover"), Store.open(store_url).read():
        pytest.fail("there is a store")


def test_check_mode_makes_no_folder(tmp_path):
    Store.open(f"sqlite:///{tmp_path}/new/store.db", check_mode=True).upgrade()
    assert list(tmp_path.iterdir()) == []
