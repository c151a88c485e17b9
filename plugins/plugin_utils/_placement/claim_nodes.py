# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compute nodes that claims name, each with its provider and the state of its service."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from .._common.errors import DroverError
from .._records.claims import Alternate
from .._store.database import bulk
from .._store.database.sql import Connection, Row, Select, sa
from .._store.hosts import services
from .._store.schema import tables
from . import provider_trees

#: Rows of compute nodes by host.
Nodes = Mapping[str, Sequence[Row]]


def read(connection: Connection, places: Iterable[Alternate]) -> Nodes:
    """Read the compute nodes of the hosts that places name."""
    hosts = sorted({place["host"] for place in places})
    nodes: dict[str, list[Row]] = {}
    for start in range(0, len(hosts), bulk.NAMED_VALUES):
        some = hosts[start : start + bulk.NAMED_VALUES]
        for row in bulk.run(connection, bulk.numbered("host", some), _of_hosts, len(some)):
            nodes.setdefault(row.host, []).append(row)
    return nodes


def find(connection: Connection, host: str, node: str | None = None) -> Row:
    """Return the compute node of a host by name.

    :raises DroverError: unknown host, unknown node, or several nodes and none named.
    """
    rows = matching(read(connection, [{"host": host}]), host, node)
    if not rows:
        services.get(connection, host)
        raise DroverError(
            f"Host {host} has no compute node {node or ''} in the store. Run"
            " drover.compute.discover."
        )
    return _only(rows)


def named(nodes: Nodes, place: Alternate) -> Row:
    """Return the compute node of a place."""
    host, node = place["host"], place.get("node")
    found = matching(nodes, host, node)
    if found:
        return _only(found)
    raise DroverError(
        f"Compute node {node or host} of host {host} is not in the store. "
        "Run drover.compute.discover, then schedule again; nothing was claimed.",
        cause="unknown_host",
        host=host,
    )


def matching(nodes: Nodes, host: str, node: str | None) -> list[Row]:
    """Return the compute nodes of a host, or the named one. Nodes that the host no longer reports
    are returned only if they are named, or if it has no others.
    """
    found = [row for row in nodes.get(host, ()) if node is None or row.hypervisor_hostname == node]
    return [row for row in found if row.reported] or found


def _only(rows: Sequence[Row]) -> Row:
    if len(rows) > 1:
        names = ", ".join(row.hypervisor_hostname for row in rows)
        raise DroverError(
            f"Host {rows[0].host} has several compute nodes: {names}. Say which one with node."
        )
    return rows[0]


def of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, Row | None]:
    """Return the compute nodes (or None) of instances by their uuids."""
    if not uuids:
        # Nearly every claim takes this path: the creation of the queries alone would cost it a
        # third more.
        return {}
    instances = tables.instances
    query = bulk.select(instances.c.uuid, instances.c.compute_node_id)
    where = {
        row.uuid: row.compute_node_id
        for row in bulk.among(connection, query, instances.c.uuid, uuids)
    }
    nodes = {
        row.id: row
        for row in bulk.among(connection, _query(), tables.compute_nodes.c.id, where.values())
    }
    return {uuid: nodes.get(node) for uuid, node in where.items()}


def _query() -> Select:
    nodes, services, providers = tables.compute_nodes, tables.services, tables.resource_providers
    return (
        sa.select(
            nodes.c.id,
            nodes.c.uuid,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            nodes.c.reported,
            nodes.c.uri,
            nodes.c.supported_instances,
            nodes.c.cpu_info,
            nodes.c.shared_cpus,
            nodes.c.migration_uri,
            nodes.c.migration_address,
            services.c.disabled,
            services.c.disabled_reason,
            services.c.forced_down,
            providers.c.id.label("provider_id"),
            *provider_trees.has_more(providers),
        )
        .join(services, services.c.id == nodes.c.service_id)
        .join(providers, providers.c.uuid == nodes.c.uuid)
    )


def _of_hosts(hosts: int) -> Select:
    return _query().where(bulk.one_of(tables.compute_nodes.c.host, "host", hosts))
