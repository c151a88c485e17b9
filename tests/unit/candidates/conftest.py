# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store for topologies: ``store`` (SQLite, kept for the module) and ``prepared_url`` (both
databases).
"""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = Store.open(f"sqlite:///{tmp_path_factory.mktemp('candidates')}/store.db")
    made.upgrade()
    return made
