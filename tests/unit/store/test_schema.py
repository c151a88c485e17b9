# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema: migrations make it, it is equal to the tables, and the code never guesses it."""

from __future__ import annotations

import pathlib

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import (
    revisions,
    schema,
    tables,
)
from ansible_collections.drover.compute.tests.unit.store import fleets

NEWER = "9999"


def raw(url):
    return sa.create_engine(url, poolclass=sa.pool.NullPool)


def everything(url):
    """Return all rows of all tables, read without the store's own code."""
    with raw(url).connect() as connection:
        names = sorted(sa.inspect(connection).get_table_names())
        quoted = {name: connection.dialect.identifier_preparer.quote(name) for name in names}
        return {
            name: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {quoted[name]}")))
            for name in names
        }


def test_latest_is_the_head_of_the_migrations():
    assert revisions.scripts().get_current_head() == schema.LATEST


def test_migrations_make_what_the_tables_say(store_url):
    Store.open(store_url).upgrade()
    with raw(store_url).connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, tables.metadata) == []
        assert set(sa.inspect(connection).get_table_names()) == {
            *tables.metadata.tables,
            "alembic_version",
        }


def test_the_comparison_would_notice_a_difference(store_url):
    Store.open(store_url).upgrade()
    with raw(store_url).begin() as connection:
        connection.execute(sa.text("DROP INDEX ix_instances_name"))
        context = MigrationContext.configure(connection)
        assert [change[0] for change in compare_metadata(context, tables.metadata)] == ["add_index"]


def test_the_first_upgrade_says_what_it_found(store_url):
    store = Store.open(store_url)
    assert store.upgrade() is None
    assert store.upgrade() == schema.LATEST
    with store.read() as connection:
        assert schema.revision(connection) == schema.LATEST


def test_the_first_write_makes_the_schema(store_url):
    assert fleets.discover(store_url, fleets.host("kvm1"))["added"] == ["kvm1"]
    assert fleets.columns(store_url)["host"] == ["kvm1"]


def test_upgrading_keeps_what_is_there(store_url):
    fleets.discover(store_url, fleets.host("kvm1", fleets.domain("web")))
    before = fleets.snapshot(store_url)
    Store.open(store_url).upgrade()
    assert fleets.snapshot(store_url) == before


@pytest.mark.parametrize("use", ["read", "write", "upgrade"])
@pytest.mark.parametrize(
    "revision, sentence",
    [
        (NEWER, "newer version.*Upgrade the collection.*nothing was changed"),
        ("0023", "before 1.0.0.*nothing was changed.*new database.*drover.compute.discover"),
    ],
)
def test_another_store_is_refused_and_left_alone(store_url, use, revision, sentence):
    fleets.discover(store_url, fleets.host("kvm1"))
    with raw(store_url).begin() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'"))
    before = everything(store_url)
    store = Store.open(store_url)
    with pytest.raises(DroverError, match=f"schema {revision}.*{sentence}"):
        if use == "upgrade":
            store.upgrade()
        else:
            with getattr(store, use)() as connection:
                connection.execute(sa.delete(tables.services))
    assert everything(store_url) == before


def test_reading_without_a_store_says_to_discover(store_url):
    with pytest.raises(DroverError, match="drover.compute.discover"), Store.open(store_url).read():
        pytest.fail("there is nothing to read")
    if store_url.startswith("sqlite"):
        assert not pathlib.Path(sa.make_url(store_url).database).exists()
    else:
        assert everything(store_url) == {}


@pytest.mark.parametrize("how", ["upgrade", "discover", "discover into an empty store"])
def test_many_processes_may_be_the_first(store_url, how):
    def upgrade():
        Store.open(store_url).upgrade()
        return "done"

    def discover(number):
        # New names of classes, traits and zones are written by all of them too.
        discovered = fleets.discover(
            store_url,
            fleets.host(
                f"kvm{number}", traits=["CUSTOM_A", "CUSTOM_B"], availability_zone=f"az{number % 2}"
            ),
        )
        return "done" if discovered["added"] == [f"kvm{number}"] else discovered

    if how == "upgrade":
        works = [upgrade] * 6
    else:
        works = [lambda number=number: discover(number) for number in range(6)]
        if "empty" in how:
            Store.open(store_url).upgrade()
    assert fleets.race(*works) == ["done"] * 6
    with Store.open(store_url).read() as connection:
        assert connection.execute(sa.text("SELECT COUNT(*) FROM alembic_version")).scalar_one() == 1
    if how != "upgrade":
        found = fleets.columns(store_url)
        assert found["host"] == [f"kvm{number}" for number in range(6)]
        assert found["zones"] == [["az0"], ["az1"]] * 3
