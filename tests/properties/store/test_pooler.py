# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PgBouncer between controllers and the store, with fewer connections to the server than
clients.
"""

from __future__ import annotations

import multiprocessing

import psycopg
import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit import pgbouncer
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

CONTROLLERS, ROUNDS = 4, 12


@pytest.fixture
def store(postgres):
    """Return the URL of an empty database."""
    with postgres.database() as url:
        yield url


def work(url, number, outcomes):
    """Act as one controller: discover its host again and again, and read the fleet in between.
    psycopg prepares a statement at its sixth run."""
    try:
        for each in range(ROUNDS):
            fleets.discover(url, host(f"kvm{number}", domain(f"vm{number}-{each % 3}")))
            with Store.open(url).read() as connection:
                services.get(connection, f"kvm{number}")
        outcomes.put("")
    except Exception as problem:  # pylint: disable=broad-exception-caught
        outcomes.put(f"{type(problem).__name__}: {problem}")


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_f5_controllers_behind_a_pooler_work_at_the_same_time(postgres, store, mode):
    # A pooler of sessions releases a connection when its client has left.
    with pgbouncer.in_front_of(
        postgres, mode, 2 if mode == "transaction" else CONTROLLERS
    ) as by_way:
        Store.open(by_way(store)).upgrade()
        forks = multiprocessing.get_context("fork")
        outcomes = forks.Queue()
        controllers = [
            forks.Process(target=work, args=(by_way(store), number, outcomes))
            for number in range(CONTROLLERS)
        ]
        for controller in controllers:
            controller.start()
        messages = [outcomes.get(timeout=300) for _dummy in controllers]
        for controller in controllers:
            controller.join()
    assert messages == [""] * CONTROLLERS
    with Store.open(store).read() as connection:
        assert {services.get(connection, f"kvm{number}").host for number in range(CONTROLLERS)} == {
            f"kvm{each}" for each in range(CONTROLLERS)
        }


def test_f5_one_controller_does_not_lean_on_the_connection_of_before(postgres, store):
    """Two clients take turns, so that each transaction has the other connection of the server."""
    with pgbouncer.in_front_of(postgres, "transaction", 2) as by_way:
        fleets.discover(by_way(store), host("kvm1"))
        stores = [Store.open(by_way(store)) for _dummy in range(3)]
        for turn in range(30):
            with stores[turn % 3].read() as one, stores[(turn + 1) % 3].write() as other:
                services.get(one, "kvm1")
                services.get(other, "kvm1")


def test_f5_a_pooler_of_statements_is_refused(postgres, store):
    with (
        pgbouncer.in_front_of(postgres, "statement", 2) as by_way,
        pytest.raises(DroverError) as refused,
    ):
        Store.open(by_way(store)).upgrade()
    assert "backup" not in str(refused.value) and "cannot be used" in str(refused.value)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_f5_limits_of_the_role_count_behind_a_pooler(postgres, store, mode):
    with postgres.admin() as admin:
        admin.execute("ALTER ROLE drover SET lock_timeout = '300s'")
    try:
        with pgbouncer.in_front_of(postgres, mode, 2) as by_way:
            Store.open(by_way(store)).upgrade()
            with Store.open(by_way(store)).write() as connection:
                assert connection.execute(sa.text("SHOW lock_timeout")).scalar() == "5min"
    finally:
        with postgres.admin() as admin:
            admin.execute("ALTER ROLE drover RESET lock_timeout")


def test_f5_only_a_damaged_store_is_to_be_restored(postgres, store):
    """Any other error of the database does not lead to a restore, because a restore would lose the
    later changes."""
    opened_store = Store.open(store)
    opened_store.upgrade()

    def sentence(text):
        with pytest.raises(DroverError) as problem, opened_store.write() as connection:
            connection.execute(sa.text(text))
        return str(problem.value)

    assert "backup" not in sentence("SELECT 1/0")
    assert "backup" not in sentence("EXECUTE unknown")
    assert "restore a backup" in sentence(
        "DO $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$"
    )
    assert psycopg.errors.DataCorrupted.sqlstate == "XX001"


def test_f5_a_damaged_file_is_to_be_restored(tmp_path):
    path = tmp_path / "store.db"
    opened_store = Store.open(f"sqlite:///{path}")
    opened_store.upgrade()
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))
    with pytest.raises(DroverError, match="restore a backup"), opened_store.write() as connection:
        for table in tables.metadata.sorted_tables:
            connection.execute(sa.select(table)).all()
    with (
        pytest.raises(DroverError) as problem,
        Store.open(f"sqlite:///{tmp_path}/other.db").write() as connection,
    ):
        connection.execute(sa.text("SELECT no_such_function()"))
    assert "backup" not in str(problem.value)
