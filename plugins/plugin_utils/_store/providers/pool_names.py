# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of storage pools as people have written them; their resource classes have only capital
letters, digits and _.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..._common.resource_classes import POOL_PREFIX, known_pools, remember_pools
from ..database.sql import Connection, sa
from ..schema import tables

#: The number of nodes that are read at a time: most nodes declare the same pools.
PAGE = 100


def learn(connection: Connection, classes: Iterable[str]) -> None:
    """Read the names of pools that hosts have declared, for the sentences of this process.

    :param classes: the resource classes that a sentence may name; classes of no pool, and known
        classes, cost nothing.
    """
    unread = {each for each in classes if each.startswith(POOL_PREFIX)}
    if not unread:
        return
    unread -= known_pools()
    table, last = tables.compute_nodes, 0
    query = (
        sa.select(table.c.id, table.c.facts["storage_pools"].label("pools"))
        .where(table.c.reported)
        .order_by(table.c.id)
        .limit(PAGE)
    )
    while unread:
        rows = connection.execute(query.where(table.c.id > last)).all()
        if not rows:
            return
        remember_pools(each["name"] for row in rows for each in row.pools or ())
        last, unread = rows[-1].id, unread - known_pools()
