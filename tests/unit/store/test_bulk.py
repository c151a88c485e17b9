# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows that are selected by many values at once."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables


@pytest.fixture
def store(store_url):
    found = Store.open(store_url)
    found.upgrade()
    return found


@pytest.mark.parametrize("count", [5, 3000])
def test_rows_are_read_by_any_number_of_values_in_the_order_of_the_query(store, count):
    names = [f"CUSTOM_N{number:04}" for number in range(count)]
    with store.write() as connection:
        ids = bulk.ids_by(connection, tables.traits.c.name, [*names, "CUSTOM_OTHER"])
        query = sa.select(tables.traits.c.name, tables.traits.c.id).order_by(
            tables.traits.c.name.desc()
        )
        by_name = bulk.among(connection, query, tables.traits.c.name, [*names, "it's not there"])
        assert [row.name for row in by_name] == names[::-1]
        by_id = bulk.among(
            connection, query, tables.traits.c.id, [ids[name] for name in names] + [10**9]
        )
        assert [tuple(row) for row in by_id] == [(name, ids[name]) for name in names[::-1]]


def test_rows_are_locked_in_one_order_whatever_the_collation(store):
    """Two writers that lock the same rows in different orders would wait for each other."""
    names = ["CUSTOM_10", "CUSTOM_9", "CUSTOM_AA", "CUSTOM_A_B", "CUSTOM_Z"]
    with store.write() as connection:
        bulk.ids_by(connection, tables.traits.c.name, names)
        assert list(bulk.hold(connection, tables.traits, "name", names)) == sorted(names)
