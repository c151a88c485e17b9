# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of storage pools as people have written them, of which their resource classes have capital letters, digits and _ only."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.drover.compute.plugins.plugin_utils._resource_classes import POOL_PREFIX, remember_pools
from ansible_collections.drover.compute.plugins.plugin_utils._store import tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import Connection, sa


def learn(connection: Connection, classes: Iterable[str]) -> None:
    """Read the names of the pools that hosts have declared, for the sentences of this process, if one of some classes is of a pool."""
    if not any(each.startswith(POOL_PREFIX) for each in classes):
        return
    table = tables.compute_nodes
    for pools in connection.execute(sa.select(table.c.facts["storage_pools"]).where(table.c.reported)).scalars():
        remember_pools(each["name"] for each in pools or ())
