# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds which room during a move (NOVA_SEMANTICS 9.1).

While a migration is open its uuid holds the source's room and the instance's uuid the destination's.
"""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations, groups
from ansible_collections.drover.compute.plugins.plugin_utils.placement.claims import Chooser, find_node
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables


def begin(connection, instance_uuid, host, node, move_type, now, source_host=None):
    """Open a migration: swap the source's room to it and claim the destination, in one transaction.

    :param move_type: live-migration or migration (cold).
    :param source_host: where the instance is to be; the move is refused when it is elsewhere by now.
    :returns: a dict uuid, instance_uuid, name, source, destination, resources, new. With new False the
        same migration was open already.
    :raises DroverError: unknown instance, no room, a migration to elsewhere is open.
    """
    instance = _instance(connection, instance_uuid)
    destination = find_node(connection, host, node)
    if instance.compute_node_id == destination.id:
        raise DroverError(f"Instance {instance.name} is on {host} already; there is nothing to move.")
    source = _node(connection, instance.compute_node_id)
    if source_host is not None and source.host != source_host:
        raise DroverError(
            f"Instance {instance.name} is on {source.host} by now, not on {source_host}: somebody else moved it. Plan again."
        )
    running = open_migrations(connection, [instance_uuid]).get(instance_uuid)
    if running is not None:
        if running.destination_node_id == destination.id:
            return _described(running, new=False)
        raise DroverError(
            f"Instance {instance.name} has an open migration from {running.source} to {running.destination}. "
            "Run the drain again: it finishes or undoes that first."
        )
    held = allocations.read(connection, [instance_uuid]).get(instance_uuid, {})
    resources = {name: amount for amounts in held.values() for name, amount in amounts.items()}
    group = groups.by_id(connection, instance.server_group_id)
    chooser = Chooser(connection, [destination])
    chooser.choose(instance.name, instance_uuid, [destination], resources, group, leaving=source.host)
    uuid = bulk.new_uuid()
    owner = {uuid: (instance.project, instance.user)}
    allocations.replace(connection, {uuid: held}, now, allocations.MIGRATION, owner)
    allocations.replace(
        connection, {instance_uuid: {destination.provider_id: resources}}, now, owners={instance_uuid: owner[uuid]}
    )
    connection.execute(
        sa.insert(tables.migrations).values(
            uuid=uuid,
            instance_uuid=instance_uuid,
            instance_name=instance.name,
            source_node_id=source.id,
            destination_node_id=destination.id,
            source=source.host,
            destination=destination.host,
            type=move_type,
            status="accepted",
            created_at=now,
            updated_at=now,
        )
    )
    return _described(_migration(connection, uuid), new=True)


def running(connection, uuid, now):
    """Record that the hypervisor has begun to move."""
    _set_status(connection, uuid, "running", None, now)


def finish(connection, uuid, domain_state, now):
    """The instance is at the destination and gone from the source: the source's room is free.

    :param domain_state: what libvirt says of the domain at the destination; None for what it was.
    """
    migration = _migration(connection, uuid)
    if migration.status not in tables.OPEN_MIGRATION:
        return
    allocations.replace(connection, {uuid: {}}, now)
    instances, domains = tables.instances, tables.domains
    connection.execute(
        sa.update(instances)
        .where(instances.c.uuid == migration.instance_uuid)
        .values(compute_node_id=migration.destination_node_id, state="active")
    )
    # What discovery would find at its next visit, so that nobody sees a domain on two hosts until then.
    connection.execute(
        sa.delete(domains).where(
            domains.c.uuid == migration.instance_uuid,
            domains.c.compute_node_id == migration.destination_node_id,
        )
    )
    connection.execute(
        sa.update(domains)
        .where(domains.c.uuid == migration.instance_uuid, domains.c.compute_node_id == migration.source_node_id)
        .values(compute_node_id=migration.destination_node_id, state=domain_state or domains.c.state, seen_at=now)
    )
    _set_status(connection, uuid, "completed", None, now)


def undo(connection, uuid, message, now, status="failed"):
    """The instance is still at the source: it gets its room there back, the destination's is free."""
    migration = _migration(connection, uuid)
    if migration.status not in tables.OPEN_MIGRATION:
        return
    held = allocations.read(connection, [uuid]).get(uuid, {})
    allocations.replace(connection, {migration.instance_uuid: held, uuid: {}}, now)
    _set_status(connection, uuid, status, message, now)


def open_migrations(connection, instance_uuids=None, host=None):
    """Migrations under way, of instances or from a host.

    :returns: dict instance uuid -> row.
    """
    table = tables.migrations
    query = sa.select(table).where(table.c.status.in_(tables.OPEN_MIGRATION))
    if host is not None:
        rows = connection.execute(query.where(table.c.source == host)).all()
    else:
        rows = bulk.among(connection, query, table.c.instance_uuid, instance_uuids)
    return {row.instance_uuid: row for row in rows}


def failed_destinations(connection, host, since):
    """Where the moves off a host failed since a time (seconds since 1970).

    :returns: dict instance uuid -> list of destination hosts.
    """
    table = tables.migrations
    query = sa.select(table.c.instance_uuid, table.c.destination).where(
        table.c.source == host, table.c.status == "failed", table.c.updated_at >= since
    )
    failed = {}
    for row in connection.execute(query):
        failed.setdefault(row.instance_uuid, []).append(row.destination)
    return failed


def _set_status(connection, uuid, status, message, now):
    table = tables.migrations
    connection.execute(
        sa.update(table).where(table.c.uuid == uuid).values(status=status, message=message, updated_at=now)
    )


def _migration(connection, uuid):
    table = tables.migrations
    row = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if row is None:
        raise DroverError(f"Migration {uuid} is not in the store.")
    return row


def _instance(connection, uuid):
    table = tables.instances
    row = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if row is None or row.compute_node_id is None:
        raise DroverError(f"Instance {uuid} is not on any host the store knows. Run drover.compute.discover.")
    return row


def _node(connection, node_id):
    table = tables.compute_nodes
    return connection.execute(sa.select(table).where(table.c.id == node_id)).one()


def _described(row, new):
    return {
        "uuid": row.uuid,
        "instance_uuid": row.instance_uuid,
        "name": row.instance_name,
        "source": row.source,
        "destination": row.destination,
        "type": row.type,
        "status": row.status,
        "new": new,
    }
