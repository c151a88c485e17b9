# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The databases of the other tests have the expected properties."""

from __future__ import annotations

import os
import pathlib

import psycopg
import pytest
import sqlalchemy as sa

EMPTY_RUNS = range(2)


def engine_of(url):
    return sa.create_engine(url, poolclass=sa.pool.NullPool)


@pytest.mark.parametrize("run", EMPTY_RUNS)
def test_each_test_gets_an_empty_database(store_url, run):
    with engine_of(store_url).begin() as connection:
        assert sa.inspect(connection).get_table_names() == []
        connection.execute(sa.text("CREATE TABLE leftover (n INTEGER)"))
        connection.execute(sa.text("INSERT INTO leftover VALUES (1)"))
        assert connection.execute(sa.text("SELECT n FROM leftover")).scalar_one() == 1


def test_postgresql_wants_the_password(postgres):
    with postgres.database() as url:
        wrong = sa.make_url(url).set(password="wrong")
        with pytest.raises(sa.exc.OperationalError, match="password authentication failed"):
            engine_of(wrong).connect()
        assert sa.make_url(url).password == postgres.password


def test_postgresql_is_private_and_unprivileged(postgres):
    with postgres.database() as url, engine_of(url).connect() as connection:
        assert not connection.execute(
            sa.text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        ).scalar_one()
        folder = pathlib.Path(postgres.folder)
        assert connection.execute(sa.text("SHOW listen_addresses")).scalar_one() == "127.0.0.1"
        server = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        assert os.stat(f"/proc/{server}").st_uid != 0


def test_a_database_goes_away_even_if_somebody_is_connected(postgres):
    with postgres.database() as url:
        open_connection = engine_of(url).connect()
        open_connection.execute(sa.text("SELECT 1"))
    with pytest.raises(sa.exc.OperationalError, match="does not exist"):
        engine_of(url).connect()
    with pytest.raises((sa.exc.OperationalError, psycopg.OperationalError)):
        open_connection.execute(sa.text("SELECT 1"))
    open_connection.invalidate()
    open_connection.close()
