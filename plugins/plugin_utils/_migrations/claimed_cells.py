# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs and NUMA cells that domains must define at either end of a move, from their claims
there.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import NumaBinding

from .._placement import host_room
from .._store.database import bulk
from .._store.database.sql import Connection
from .._store.schema import tables


def read(connection: Connection, places: Mapping[str, int | None]) -> dict[str, NumaBinding]:
    """Read the facts ``numa`` of domains.

    :param places: {uuid of an instance, or of a migration that has its former cells: id of the
        node}.
    :returns: {uuid: fact}, without instances that have no node; the fact is empty if a domain may
        float over all of its host.
    """
    table = tables.compute_nodes
    query = bulk.select(table.c.id, table.c.shared_cpus)
    nodes = {
        row.id: row
        for row in bulk.among(
            connection, query, table.c.id, {node for node in places.values() if node is not None}
        )
    }
    known = {uuid: nodes[node] for uuid, node in places.items() if node in nodes}
    facts = host_room.numa_facts(connection, known)
    return {uuid: facts.get(uuid, {}) for uuid in known}
