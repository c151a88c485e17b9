# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of hosts in the store, for the difference that a discovery makes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .._placement import providers
from .._store.engine import Connection
from .._store.hosts import compute_nodes
from .._store.instances import instances

AMOUNTS = ("total", "reserved", "allocation_ratio")


def of_hosts(connection: Connection, hosts: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the compute nodes with inventories, and the instances, of hosts that have a node.

    Heartbeats and figures of use are left out, because they change with each discovery.

    :returns: {host: {compute_nodes: {name: {resource class: amounts}}, instances: {name: state and
        sizes}}}, of plain types.
    """
    rows = compute_nodes.by_host(connection, hosts)
    ids = providers.ids(connection, {row.uuid for row in rows.values()})
    amounts: dict[int, dict[str, Any]] = {}
    for row in providers.inventories(connection, ids.values()):
        amounts.setdefault(row.provider_id, {})[row.name] = {
            name: getattr(row, name) for name in AMOUNTS
        }
    by_host: dict[str, dict[str, Any]] = {}
    for (host, node), row in rows.items():
        shown = by_host.setdefault(host, {"compute_nodes": {}, "instances": {}})
        shown["compute_nodes"][node] = amounts.get(ids.get(row.uuid, -1), {})
    for host, shown in by_host.items():
        for instance in instances.listing(connection, host=host):
            name = (
                instance["name"]
                if instance["name"] not in shown["instances"]
                else f"{instance['name']} ({instance['uuid']})"
            )
            shown["instances"][name] = {
                key: instance[key] for key in ("state", "vcpus", "memory_mb", "disk_gb")
            }
    return by_host


def changes(
    connection: Connection, hosts: Collection[str], before: Mapping[str, dict[str, object]]
) -> Iterator[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]:
    """Yield the name and both records of each host with another record than before.

    :param before: the result of of_hosts() before the discovery.
    """
    after = of_hosts(connection, hosts)
    for host in sorted(hosts):
        if before.get(host) != after.get(host):
            yield host, before.get(host), after.get(host)
