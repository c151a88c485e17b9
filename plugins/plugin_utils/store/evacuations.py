# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an evacuation asks of the store: the instances of a dead host, who else shows them, what is open."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, files, instances_for_plans, power, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.compute_nodes import DEFAULT_URI
from ansible_collections.drover.compute.plugins.plugin_utils.store.migrations_open import EVACUATION
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def instances(connection, host):
    """The instances recorded on a host, as instances_for_plans.read_host_instances() has them, and of each:

    xml (of the domain as it was last seen, or None).
    """
    found = instances_for_plans.read_host_instances(connection, host)
    xml = {}
    nodes, domains = tables.compute_nodes, tables.domains
    query = sa.select(domains.c.uuid, domains.c.xml).join(nodes, nodes.c.id == domains.c.compute_node_id).where(nodes.c.host == host)
    for row in connection.execute(query):
        xml[row.uuid] = row.xml
    return [{**each, "xml": xml.get(each["uuid"])} for each in found]


def shown(connection, uuids, but):
    """Which other hosts showed domains when they were last read.

    :param but: the host that does not count.
    :returns: dict uuid -> list of dicts host, node, provider, state, sorted.
    """
    nodes, domains = tables.compute_nodes, tables.domains
    query = (
        sa.select(domains.c.uuid, domains.c.state, nodes.c.host, nodes.c.hypervisor_hostname, nodes.c.uuid.label("provider"))
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        # What is older than its node's last report is not there any more, see compute_nodes.write_domains().
        .where(nodes.c.host != but, domains.c.seen_at >= nodes.c.updated_at)
    )
    found = {}
    for row in bulk.among(connection, query, domains.c.uuid, uuids):
        place = {"host": row.host, "node": row.hypervisor_hostname, "provider": row.provider, "state": row.state}
        found.setdefault(row.uuid, []).append(place)
    return {uuid: sorted(places, key=lambda place: (place["host"], place["node"])) for uuid, places in found.items()}


def addresses(connection, host):
    """How other hypervisors reach a host: a list of dicts node, migration_uri, migration_address, by node."""
    table = tables.compute_nodes
    query = (
        sa.select(table.c.hypervisor_hostname.label("node"), table.c.migration_uri, table.c.migration_address)
        .where(table.c.host == host)
        .order_by(table.c.hypervisor_hostname)
    )
    return [dict(row._mapping) for row in connection.execute(query)]


def storage(connection):
    """What nodes say of their storage.

    :returns: dict provider uuid -> dict host, node, and as files.storage_of() has it.
    """
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


def open_migrations(connection, host):
    """Migrations from or to a host that are under way, or were when their run was killed.

    :returns: a list of dicts: uuid, instance_uuid, name, type, status, source, destination, provider
        (the destination's).
    """
    table, nodes = tables.migrations, tables.compute_nodes
    query = (
        sa.select(table, nodes.c.uuid.label("provider"))
        .outerjoin(nodes, nodes.c.id == table.c.destination_node_id)
        .where(table.c.status.in_(tables.OPEN_MIGRATION), sa.or_(table.c.source == host, table.c.destination == host))
        .order_by(table.c.instance_name, table.c.id)
    )
    names = ("uuid", "instance_uuid", "type", "status", "source", "destination", "provider")
    return [{**{name: getattr(row, name) for name in names}, "name": row.instance_name} for row in connection.execute(query)]


def orders(connection, migration_uuids, host):
    """What a destination needs to know to restart instances.

    :param host: the destination; evacuations to other hosts and those that are closed are left out.
    :returns: a list of dicts: migration, status, orders (of all calls, see migrations.claims.running()), provider, uri, uuid, name, xml, state (as last seen at
        the source), autostart, disks, node and there (what the source and the destination say of their storage).
    """
    table, nodes, domains = tables.migrations, tables.compute_nodes, tables.domains
    sources = nodes.alias("source")
    query = (
        sa.select(
            table.c.uuid.label("migration"),
            table.c.status,
            table.c.details,
            nodes.c.uuid.label("provider"),
            nodes.c.uri,
            table.c.instance_uuid.label("uuid"),
            table.c.instance_name.label("name"),
            domains.c.xml,
            domains.c.state,
            domains.c.autostart,
            domains.c.facts,
            nodes.c.facts.label("there"),
            sources.c.facts.label("node"),
        )
        .join(nodes, nodes.c.id == table.c.destination_node_id)
        .join(sources, sources.c.id == table.c.source_node_id)
        .join(
            domains,
            sa.and_(domains.c.uuid == table.c.instance_uuid, domains.c.compute_node_id == table.c.source_node_id),
        )
        .where(table.c.type == EVACUATION, table.c.status.in_(tables.OPEN_MIGRATION), nodes.c.host == host)
    )
    found = []
    for row in bulk.among(connection, query, table.c.uuid, migration_uuids):
        order = {**row._mapping, "uri": row.uri or DEFAULT_URI, "disks": (row.facts or {}).get("disks") or []}
        order.pop("facts")
        order["orders"] = (order.pop("details") or {}).get("orders") or []
        order.update(node=files.storage_of(row.node), there=files.storage_of(row.there))
        order.pop("among_key", None)
        found.append(order)
    place = {uuid: number for number, uuid in enumerate(migration_uuids)}
    return sorted(found, key=lambda order: place[order["migration"]])


def begun_at(connection, host, destination):
    """The evacuations off a host that a destination was told of and that are not closed.

    :returns: a list of dicts: migration, uuid, name, uri, orders (of all calls, see migrations.claims.running()).
    """
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
        .where(table.c.type == EVACUATION, table.c.status == "running", table.c.source == host, nodes.c.host == destination)
        .order_by(table.c.instance_name, table.c.id)
    )
    return [
        {
            **{name: getattr(row, name) for name in ("migration", "uuid", "name")},
            "uri": row.uri or DEFAULT_URI,
            "orders": (row.details or {}).get("orders") or [],
        }
        for row in connection.execute(query)
    ]


def begun_destinations(connection, host):
    """The hosts that were told of evacuations off a host that are not closed, sorted."""
    table = tables.migrations
    query = sa.select(table.c.destination).where(table.c.type == EVACUATION, table.c.status == "running", table.c.source == host)
    return sorted(set(connection.execute(query).scalars()))


def unread_nodes(connection, host, read):
    """The compute nodes of which nobody knows what they have now: neither read in this run nor seen to be off.

    :param host: the host that is evacuated, which is off.
    :param read: the hosts that were read.
    :returns: dict provider uuid -> host.
    """
    nodes, services = tables.compute_nodes, tables.services
    query = sa.select(nodes.c.uuid, nodes.c.host, services.c.last_seen_up).join(services, services.c.id == nodes.c.service_id)
    off = power.off_since(connection)
    return {
        row.uuid: row.host
        for row in connection.execute(query)
        if row.host != host and row.host not in read and not off.get(row.host, 0) > (row.last_seen_up or 0)
    }


def left_behind(connection, hosts):
    """What was evacuated from hosts that have not been seen since.

    :returns: a list of dicts: migration, uuid (the instance's), name, source, source_node (id), host
        (where the instance is recorded now, or None).
    """
    table, nodes, rows = tables.migrations, tables.compute_nodes, tables.instances
    query = (
        sa.select(
            table.c.uuid.label("migration"),
            table.c.instance_uuid.label("uuid"),
            table.c.instance_name.label("name"),
            table.c.source,
            table.c.source_node_id.label("source_node"),
            nodes.c.host,
        )
        .outerjoin(rows, rows.c.uuid == table.c.instance_uuid)
        .outerjoin(nodes, nodes.c.id == rows.c.compute_node_id)
        .where(table.c.type == EVACUATION, table.c.status == "done")
        .order_by(table.c.instance_name, table.c.id)
    )
    return [
        {name: getattr(row, name) for name in ("migration", "uuid", "name", "source", "source_node", "host")}
        for row in bulk.among(connection, query, table.c.source, hosts)
    ]
