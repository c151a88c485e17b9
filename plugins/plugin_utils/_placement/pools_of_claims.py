# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools on the hosts of instances that are built, for instances with disks in pools."""

from __future__ import annotations

from collections.abc import Mapping

from .._common.resource_classes import POOL_PREFIX
from .._records.claims import ClaimedPools
from .._store.database.sql import Connection, Row
from .._store.hosts import compute_nodes


def read(
    connection: Connection, nodes: Mapping[str, Row], resources: Mapping[str, Mapping[str, int]]
) -> dict[str, ClaimedPools]:
    """Read the pools of nodes, by one query.

    :param nodes: {uuid of an instance: its node}.
    :param resources: {uuid of an instance: its claimed amounts}; instances without a class of pools
        are left out.
    :returns: {uuid: {pools: {name: type and path}}}.
    """
    asking = {
        uuid: node.id
        for uuid, node in nodes.items()
        if any(name.startswith(POOL_PREFIX) for name in resources.get(uuid, ()))
    }
    facts = compute_nodes.facts(connection, set(asking.values())) if asking else {}
    return {
        uuid: {
            "pools": {
                pool["name"]: {"type": pool.get("type"), "path": pool.get("path")}
                for pool in facts.get(node, {}).get("storage_pools") or ()
            }
        }
        for uuid, node in asking.items()
    }
