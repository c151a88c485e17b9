# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The removal of compute nodes that their hosts no longer report, in the caller's transaction."""

from __future__ import annotations

from .._placement import allocations, provider_trees, providers
from .._store.engine import Connection
from .._store.hosts import compute_nodes
from .._store.instances import instances
from .node import NodeRows


def retire(connection: Connection, gone: NodeRows) -> tuple[list[str], list[str]]:
    """Remove compute nodes that their host no longer reports; mark nodes with allocations.

    :returns: the names of the removed nodes, and of the marked nodes.
    """
    by_uuid = providers.ids(connection, {row.uuid for row in gone.values()})
    trees = provider_trees.trees(connection, by_uuid.values())
    used = allocations.used_providers(connection, {*by_uuid.values()}.union(*trees.values()))
    kept = {
        key: row
        for key, row in gone.items()
        if row.uuid in by_uuid and used & {by_uuid[row.uuid], *trees.get(by_uuid[row.uuid], ())}
    }
    free = {key: row for key, row in gone.items() if key not in kept}
    compute_nodes.mark_unreported(connection, [row.id for row in kept.values()])
    instances.forget_nodes(connection, [row.id for row in free.values()])
    compute_nodes.remove(connection, [row.id for row in free.values()])
    roots = [by_uuid[row.uuid] for row in free.values() if row.uuid in by_uuid]
    provider_trees.remove(connection, set().union(*(trees.get(root, ()) for root in roots)))
    providers.remove(connection, roots)
    return sorted(node for host, node in free), sorted(node for host, node in kept)
