# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The listing of further storage pools for people: promised amounts and used storage."""

from __future__ import annotations

from typing import Any

from .._common.resource_classes import POOL_PREFIX, pool_of
from .._placement import inventory, providers
from .._records.hosts import FurtherPool, ListedPool
from .._store.engine import Connection
from .._store.hosts import compute_nodes
from .._store.providers import pool_names
from . import record_pools


def of_host(connection: Connection, host: str) -> list[ListedPool]:
    """Return the pools of a host's drover_storage_pools at its last discovery, by node and name."""
    nodes = compute_nodes.by_host(connection, [host])
    pairs = [
        (node, pool)
        for _key, node in sorted(nodes.items())
        for pool in (node.facts or {}).get("storage_pools") or ()
    ]
    uuids = [record_pools.provider_uuid(node.uuid, pool) for node, pool in pairs]
    ids = providers.ids(connection, uuids) if uuids else {}
    rows = (
        {
            (row.provider_id, row.name): row
            for row in providers.inventories(connection, ids.values())
        }
        if ids
        else {}
    )
    listed: list[ListedPool] = []
    for (node, pool), uuid in zip(pairs, uuids):
        row = rows.get((ids.get(uuid), pool["resource_class"]))
        shown: dict[str, Any] = next(
            (
                each
                for each in (node.facts or {}).get("pools") or ()
                if each["name"] == pool["name"]
            ),
            {},
        )
        reserved = inventory.reserved_of(row) if row is not None else None
        listed.append(
            {
                "name": pool["name"],
                "node": node.hypervisor_hostname,
                "type": pool["type"],
                "state": shown.get("state"),
                "drained": row is not None and row.reserved_before_drain is not None,
                "shared": bool(pool["shared_id"]),
                "resource_class": pool["resource_class"],
                "traits": sorted(pool["traits"]),
                "total_gb": row.total if row is not None else None,
                "reserved_gb": reserved,
                "capacity_gb": (
                    int((row.total - reserved) * row.allocation_ratio)
                    if row is not None and reserved is not None
                    else None
                ),
                "used_gb": row.used if row is not None else None,
                "physical_used_gb": shown.get("allocation_gb"),
            }
        )
    return listed


def of_fleet(connection: Connection) -> list[FurtherPool]:
    """Return the promised amounts of all pools of each name, by name.

    A pool that several hosts share counts once.
    """
    by_class: dict[str, FurtherPool] = {}
    rows = providers.inventories_of_classes(connection, POOL_PREFIX)
    pool_names.learn(connection, {row.name for row in rows})
    for row in rows:
        reserved = inventory.reserved_of(row)
        pool = by_class.setdefault(
            row.name,
            {"name": pool_of(row.name), "pools": 0, "total_gb": 0, "capacity_gb": 0, "used_gb": 0},
        )
        pool["pools"] += 1
        pool["total_gb"] += row.total
        pool["capacity_gb"] += int((row.total - reserved) * row.allocation_ratio)
        pool["used_gb"] += row.used
    return list(by_class.values())
