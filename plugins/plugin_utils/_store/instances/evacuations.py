# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of an evacuation: the instances of a dead host, other hosts that show them, open
migrations.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..._records.hosts import NodeAddress, Sighting, StorageOfNode
from ..._records.instances import EvacuatedInstance
from ..._records.orders import BegunRestart, HostMigration, RestartOrder
from ..database import bulk
from ..database.sql import Connection, Select, sa
from ..hosts import continuity, power
from ..hosts.compute_nodes import DEFAULT_URI
from ..schema import tables
from . import files, instances_for_plans
from . import orders as store_orders
from .migrations_open import EVACUATION


def instances(connection: Connection, host: str) -> list[EvacuatedInstance]:
    """Read the instances that the store has on a host."""
    on_host = instances_for_plans.read_host_instances(connection, host)
    nodes, domains = tables.compute_nodes, tables.domains
    query = (
        sa.select(domains.c.uuid, domains.c.xml)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .where(nodes.c.host == host)
    )
    xml = {row.uuid: row.xml for row in connection.execute(query)}
    return [{**each, "xml": xml.get(each["uuid"])} for each in on_host]


def shown(
    connection: Connection, uuids: Iterable[str], but: str | None = None
) -> dict[str, list[Sighting]]:
    """Find the compute nodes that showed domains in their last report.

    :param but: the host that does not count; None to count all.
    :returns: {uuid: sightings, sorted by host and node}.
    """
    nodes, domains = tables.compute_nodes, tables.domains
    query = (
        sa.select(
            domains.c.uuid,
            domains.c.state,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            nodes.c.uuid.label("provider"),
        )
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        # A domain that is older than the last report of its node is gone, see
        # compute_nodes.write_domains().
        .where(domains.c.seen_at >= nodes.c.updated_at)
    )
    if but is not None:
        query = query.where(nodes.c.host != but)
    sightings: dict[str, list[Sighting]] = {}
    for row in bulk.among(connection, query, domains.c.uuid, uuids):
        place: Sighting = {
            "host": row.host,
            "node": row.hypervisor_hostname,
            "provider": row.provider,
            "state": row.state,
        }
        sightings.setdefault(row.uuid, []).append(place)
    return {
        uuid: sorted(places, key=lambda place: (place["host"], place["node"]))
        for uuid, places in sightings.items()
    }


def addresses(connection: Connection, host: str) -> list[NodeAddress]:
    """Read the addresses at which other hypervisors reach the nodes of a host, sorted by node."""
    table = tables.compute_nodes
    query = (
        sa.select(table.c.hypervisor_hostname, table.c.migration_uri, table.c.migration_address)
        .where(table.c.host == host)
        .order_by(table.c.hypervisor_hostname)
    )
    return [
        {"node": row[0], "migration_uri": row[1], "migration_address": row[2]}
        for row in connection.execute(query)
    ]


def own_addresses(connection: Connection, host: str) -> set[str]:
    """Read the IP addresses that a host had at its last discovery, and no other host."""
    table = tables.compute_nodes
    own: set[str] = set()
    others: set[str] = set()
    for row in connection.execute(sa.select(table.c.host, table.c.facts)):
        (own if row.host == host else others).update((row.facts or {}).get("addresses") or ())
    return own - others


def storage(connection: Connection) -> dict[str, StorageOfNode]:
    """Read the storage of all nodes, by provider uuid."""
    table = tables.compute_nodes
    query = sa.select(table.c.uuid, table.c.host, table.c.hypervisor_hostname, table.c.facts)
    return {
        row.uuid: {
            "host": row.host,
            "node": row.hypervisor_hostname,
            **files.storage_of(row.facts),
        }
        for row in connection.execute(query)
    }


def open_migrations(connection: Connection, host: str) -> list[HostMigration]:
    """Read the migrations from or to a host that run, or that a killed run left open."""
    table = tables.migrations
    ends = sa.or_(table.c.source == host, table.c.destination == host)
    return _migrations(connection, table.c.status.in_(tables.OPEN_MIGRATION), ends)


def finished_resizes(connection: Connection, host: str) -> list[HostMigration]:
    """Read the resizes of instances on a host that wait to be confirmed."""
    table = tables.migrations
    return _migrations(connection, table.c.status == "finished", table.c.destination == host)


def _migrations(connection: Connection, *conditions: Any) -> list[HostMigration]:
    table, nodes = tables.migrations, tables.compute_nodes
    sources = nodes.alias("source")
    query = (
        sa.select(table, nodes.c.uuid.label("provider"), sources.c.uri)
        .outerjoin(nodes, nodes.c.id == table.c.destination_node_id)
        .outerjoin(sources, sources.c.id == table.c.source_node_id)
        .where(*conditions)
        .order_by(table.c.instance_name, table.c.id)
    )
    return [
        {
            "uuid": row.uuid,
            "instance_uuid": row.instance_uuid,
            "name": row.instance_name,
            "type": row.type,
            "status": row.status,
            "source": row.source,
            "destination": row.destination,
            "provider": row.provider,
            "source_uri": row.uri or DEFAULT_URI,
            "runs": bool((row.details or {}).get("running") or (row.details or {}).get("restart")),
            "disk_grows": _disk_grows(row.details or {}),
        }
        for row in connection.execute(query)
    ]


def _disk_grows(details: dict[str, Any]) -> bool:
    """Return True if a resize makes the disk larger, by the details of its migration."""
    old, new = (
        ((details.get("sizes") or {}).get(which) or {}).get("disk_gb") or 0
        for which in ("old", "new")
    )
    return bool(new > (old or (details.get("old") or {}).get("disk_gb") or 0))


def orders(connection: Connection, migration_uuids: Sequence[str], host: str) -> list[RestartOrder]:
    """Read the data that a destination needs to restart instances.

    :param host: the destination; evacuations to other hosts and closed ones are left out.
    :returns: in the order of the uuids.
    """
    table, nodes, domains, instances_table = (
        tables.migrations,
        tables.compute_nodes,
        tables.domains,
        tables.instances,
    )
    sources = nodes.alias("source")
    query = (
        sa.select(
            table.c.uuid.label("migration"),
            table.c.status,
            table.c.details,
            nodes.c.id.label("node_id"),
            table.c.source_node_id.label("source_id"),
            nodes.c.uuid.label("provider"),
            nodes.c.uri,
            table.c.instance_uuid.label("uuid"),
            table.c.instance_name.label("name"),
            domains.c.xml,
            domains.c.state,
            domains.c.autostart,
            domains.c.facts,
            instances_table.c.task_state,
            nodes.c.facts.label("there"),
            sources.c.facts.label("node"),
        )
        .join(nodes, nodes.c.id == table.c.destination_node_id)
        .join(sources, sources.c.id == table.c.source_node_id)
        .join(instances_table, instances_table.c.uuid == table.c.instance_uuid)
        .join(
            domains,
            sa.and_(
                domains.c.uuid == table.c.instance_uuid,
                domains.c.compute_node_id == table.c.source_node_id,
            ),
        )
        .where(
            table.c.type == EVACUATION,
            table.c.status.in_(tables.OPEN_MIGRATION),
            nodes.c.host == host,
        )
    )
    restarts: list[RestartOrder] = [
        {
            "migration": row.migration,
            "status": row.status,
            "orders": (row.details or {}).get("orders") or [],
            "node_id": row.node_id,
            "source_id": row.source_id,
            "provider": row.provider,
            "uri": row.uri or DEFAULT_URI,
            "uuid": row.uuid,
            "name": row.name,
            "xml": row.xml,
            "state": row.state,
            "autostart": row.autostart,
            "disks": (row.facts or {}).get("disks") or [],
            "snapshotting": row.task_state == store_orders.SNAPSHOTTING,
            "node": files.storage_of(row.node),
            "there": files.storage_of(row.there),
        }
        for row in bulk.among(connection, query, table.c.uuid, migration_uuids)
    ]
    place = {uuid: number for number, uuid in enumerate(migration_uuids)}
    return sorted(restarts, key=lambda order: place[order["migration"]])


def begun_at(connection: Connection, host: str, destination: str) -> list[BegunRestart]:
    """Read the open evacuations off a host with an order that was sent to a destination."""
    table, nodes = tables.migrations, tables.compute_nodes
    query = (
        sa.select(
            table.c.uuid.label("migration"),
            table.c.instance_uuid.label("uuid"),
            table.c.instance_name.label("name"),
            nodes.c.uri,
            table.c.details,
        )
        .join(nodes, nodes.c.id == table.c.destination_node_id)
        .where(
            table.c.type == EVACUATION,
            table.c.status == "running",
            table.c.source == host,
            nodes.c.host == destination,
        )
        .order_by(table.c.instance_name, table.c.id)
    )
    return [
        {
            "migration": row.migration,
            "uuid": row.uuid,
            "name": row.name,
            "uri": row.uri or DEFAULT_URI,
            "orders": (row.details or {}).get("orders") or [],
        }
        for row in connection.execute(query)
    ]


def open_destinations(connection: Connection, host: str) -> list[str]:
    """Return the destinations of the open evacuations off a host, sorted."""
    table = tables.migrations
    ours = (
        table.c.type == EVACUATION,
        table.c.status.in_(tables.OPEN_MIGRATION),
        table.c.source == host,
    )
    return sorted(set(connection.execute(sa.select(table.c.destination).where(*ours)).scalars()))


def begun_destinations(connection: Connection, host: str) -> list[str]:
    """Return the destinations that got orders of open evacuations off a host, sorted."""
    table = tables.migrations
    query = sa.select(table.c.destination).where(
        table.c.type == EVACUATION, table.c.status == "running", table.c.source == host
    )
    return sorted(set(connection.execute(query).scalars()))


def with_local_disks(connection: Connection) -> dict[str, int]:
    """Count the instances with disks that their host alone has, by host: an evacuation leaves
    these.
    """
    nodes, domains, rows = tables.compute_nodes, tables.domains, tables.instances
    query = (
        sa.select(nodes.c.host, sa.func.count())
        .select_from(domains)
        .join(
            rows,
            sa.and_(
                rows.c.uuid == domains.c.uuid, rows.c.compute_node_id == domains.c.compute_node_id
            ),
        )
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .where(domains.c.local_disks, rows.c.state != "missing", nodes.c.reported)
        .group_by(nodes.c.host)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def unread_nodes(connection: Connection, host: str, read: Collection[str]) -> dict[str, str]:
    """Find the compute nodes with unknown domains: neither read in this run nor switched off since
    they were up.

    :param host: the evacuated host, which is off.
    :param read: the hosts that were read.
    :returns: {provider uuid: host}.
    """
    nodes, services = tables.compute_nodes, tables.services
    query = sa.select(nodes.c.uuid, nodes.c.host, services.c.last_seen_up).join(
        services, services.c.id == nodes.c.service_id
    )
    off, since = power.off_since(connection), continuity.since(connection)
    return {
        row.uuid: row.host
        for row in connection.execute(query)
        if row.host != host
        and row.host not in read
        and not off.get(row.host, 0) > max(row.last_seen_up or 0, since)
    }


def autostarted(connection: Connection, host: str) -> dict[str, str]:
    """Return the domains that the libvirts of a host start with it: {uuid: name}.

    They are in its last report, or were evacuated from it: their records are those of their new
    hosts, which got the same setting.
    """
    domains, nodes, table = tables.domains, tables.compute_nodes, tables.migrations
    evacuated = sa.select(table.c.instance_uuid).where(
        table.c.type == EVACUATION, table.c.status == "done", table.c.source == host
    )
    query = (
        sa.select(domains.c.uuid, domains.c.name)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .where(domains.c.autostart, sa.or_(nodes.c.host == host, domains.c.uuid.in_(evacuated)))
    )
    return {row.uuid: row.name for row in connection.execute(query)}


def seen_at(
    connection: Connection, instance_uuids: Collection[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return the places of instances at the last look at each host: {uuid: [(host, uri)]}."""
    domains, nodes = tables.domains, tables.compute_nodes
    query = (
        sa.select(domains.c.uuid, nodes.c.host, nodes.c.uri)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .order_by(nodes.c.id)
    )
    places: dict[str, list[tuple[str, str]]] = {}
    for row in bulk.among(connection, query, domains.c.uuid, instance_uuids):
        places.setdefault(row.uuid, []).append((row.host, row.uri))
    return places


def old_definitions(connection: Connection, uuids: Iterable[str]) -> dict[str, set[str]]:
    """Return the hosts that instances were evacuated from and that may still have their definitions
    of before: {uuid: hosts}.
    """
    table = tables.migrations
    query = sa.select(table.c.instance_uuid, table.c.source).where(
        table.c.type == EVACUATION, table.c.status == "done"
    )
    sources: dict[str, set[str]] = {}
    for row in bulk.among(connection, query, table.c.instance_uuid, uuids):
        sources.setdefault(row.instance_uuid, set()).add(row.source)
    return sources


def left_behind(connection: Connection, hosts: Iterable[str]) -> list[dict[str, Any]]:
    """Read the evacuations off hosts that are not back yet.

    :returns: dicts with migration, uuid (of the instance), name, source, source_node (id), host
        (the place of the instance now, or None), uri and node (id) there, and absent_since: when
        that host was first seen without it, or None.
    """
    names = ("migration", "uuid", "name", "source", "source_node", "host", "uri", "node")
    return [
        {
            **{name: getattr(row, name) for name in names},
            "absent_since": (row.details or {}).get("absent_since"),
        }
        for row in bulk.among(connection, _open_evacuations(), tables.migrations.c.source, hosts)
    ]


@functools.cache
def _open_evacuations() -> Select:
    table, nodes, rows = tables.migrations, tables.compute_nodes, tables.instances
    return (
        sa.select(
            table.c.uuid.label("migration"),
            table.c.instance_uuid.label("uuid"),
            table.c.instance_name.label("name"),
            table.c.source,
            table.c.source_node_id.label("source_node"),
            table.c.details,
            nodes.c.host,
            nodes.c.uri,
            nodes.c.id.label("node"),
        )
        .outerjoin(rows, rows.c.uuid == table.c.instance_uuid)
        .outerjoin(nodes, nodes.c.id == rows.c.compute_node_id)
        .where(table.c.type == EVACUATION, table.c.status == "done")
        .order_by(table.c.instance_name, table.c.id)
    )
