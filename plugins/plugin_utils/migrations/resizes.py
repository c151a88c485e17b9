# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A resize as a run needs it that carries it out, or goes on with what an earlier run began."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.migrations import orders as migration_orders
from ansible_collections.drover.compute.plugins.plugin_utils.store import tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.compute_nodes import DEFAULT_URI
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def describe(connection, migration_uuid):
    """All that is known of a resize.

    :returns: a dict: migration, uuid (the instance's), name, status, source, destination, source_uri,
        destination_uri, same_host, running (whether it ran when it began), arrived (whether it was seen to be done
        at the destination), nowhere (whether an earlier run saw that neither end had it), old and new (each flavor,
        vcpus, memory_mb, disk_gb), order and back (what the module domain_migration takes to move it there, and back),
        migration_options (those of the instance's policy).
    """
    migrations, nodes = tables.migrations, tables.compute_nodes
    source, destination = nodes.alias("source"), nodes.alias("destination")
    columns = [
        each.c[name].label(f"{prefix}_{name}")
        for prefix, each in (("source", source), ("destination", destination))
        for name in ("uri", "migration_uri", "migration_address")
    ]
    row = connection.execute(
        sa.select(migrations, tables.instances.c.policy, *columns)
        .outerjoin(tables.instances, tables.instances.c.uuid == migrations.c.instance_uuid)
        .outerjoin(source, source.c.id == migrations.c.source_node_id)
        .outerjoin(destination, destination.c.id == migrations.c.destination_node_id)
        .where(migrations.c.uuid == migration_uuid)
    ).one()
    details = row.details or {}
    sizes = details.get("sizes") or {}
    return {
        "migration": row.uuid,
        "uuid": row.instance_uuid,
        "name": row.instance_name,
        "status": row.status,
        "source": row.source,
        "destination": row.destination,
        "source_uri": row.source_uri or DEFAULT_URI,
        "destination_uri": row.destination_uri or DEFAULT_URI,
        "same_host": row.source_node_id == row.destination_node_id,
        "running": bool(details.get("running")),
        "arrived": bool(details.get("arrived")),
        "nowhere": bool(details.get("nowhere")),
        **{which: _size(details.get(which) or {}, sizes.get(which) or {}) for which in ("old", "new")},
        "order": {
            **_order(row, row.destination, row.destination_migration_uri, row.destination_migration_address),
            "migration": row.uuid,
        },
        "back": _order(row, row.source, row.source_migration_uri, row.source_migration_address),
        "migration_options": migration_orders.migration_options(row.policy),
    }


def _size(columns, size):
    found = {name: columns.get(name) for name in ("flavor", "vcpus", "memory_mb", "disk_gb")}
    return {**found, **size}


def _order(row, destination, uri, address):
    order = {
        "uuid": row.instance_uuid,
        "name": row.instance_name,
        "destination": destination,
        "destination_uri": uri,
        "migrate_uri": f"tcp://{address}" if address else None,
        "live": False,
    }
    return {key: value for key, value in order.items() if value is not None}
