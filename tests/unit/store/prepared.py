# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Databases that have the schema already, for the many tests that do not test the making of it.

A conftest.py takes the fixtures like this, besides the fixtures of tests/unit/postgres.py::

    from ansible_collections.drover.compute.tests.unit.store import prepared

    prepared_sqlite = prepared.prepared_sqlite
    prepared_postgres = prepared.prepared_postgres
    prepared_url = prepared.prepared_url
"""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets


@pytest.fixture(scope="session")
def prepared_sqlite(tmp_path_factory):
    """Return the file of an empty store, for copies."""
    path = tmp_path_factory.mktemp("prepared") / "store.db"
    Store.open(f"sqlite:///{path}").upgrade()
    return path


@pytest.fixture(scope="session")
def prepared_postgres(postgres):
    """Return the URL of a database with the schema; one test after another uses it."""
    with postgres.database() as url:
        Store.open(url).upgrade()
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def prepared_url(request, tmp_path):
    """Return the SQLAlchemy URL of an empty store: each test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        path = tmp_path / "store.db"
        shutil.copyfile(request.getfixturevalue("prepared_sqlite"), path)
        return f"sqlite:///{path}"
    url = request.getfixturevalue("prepared_postgres")
    fleets.empty(url)
    return url
