# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes, with all that a run needs to carry them out or to continue the resizes of an earlier
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import NumaBinding
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Devices

from .._records.orders import Resize, Size, Sizes
from .._store.database.sql import Connection, Row, sa
from .._store.hosts import compute_nodes
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.schema import tables
from . import claimed_cells, claimed_devices
from . import orders as migration_orders


def describe(connection: Connection, migration_uuid: str) -> Resize:
    """Return all that is known of a resize."""
    migrations, nodes = tables.migrations, tables.compute_nodes
    source, destination = nodes.alias("source"), nodes.alias("destination")
    columns = [
        each.c[name].label(f"{prefix}_{name}")
        for prefix, each in (("source", source), ("destination", destination))
        for name in ("uri", "migration_uri", "migration_address", "facts")
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
    same_host = row.source_node_id == row.destination_node_id
    # If the instance stays on its node, the migration has the cells of the old size.
    new = claimed_cells.read(connection, {row.instance_uuid: row.destination_node_id}).get(
        row.instance_uuid, {}
    )
    former = row.uuid if same_host else row.instance_uuid
    old = claimed_cells.read(connection, {former: row.source_node_id}).get(former, {})
    ends = (row.source_node_id, row.destination_node_id)
    devices, devices_back = (
        (
            claimed_devices.read(connection, {row.instance_uuid: each}).get(row.instance_uuid)
            if not same_host
            else None
        )
        for each in (ends, ends[::-1])
    )
    in_cells = bool(old.get("cells") or new.get("cells"))
    # The instance gets its size at its destination: no host shows the CPUs of another host, and the
    # domain there has another size until then.
    resized = {"resized": True} if in_cells else {}
    return {
        "migration": row.uuid,
        "uuid": row.instance_uuid,
        "name": row.instance_name,
        "status": row.status,
        "source": row.source,
        "destination": row.destination,
        "source_uri": row.source_uri or DEFAULT_URI,
        "destination_uri": row.destination_uri or DEFAULT_URI,
        "same_host": same_host,
        "running": bool(details.get("running")),
        "arrived": bool(details.get("arrived")),
        "undone": details.get("arrived") is False,
        "nowhere": bool(details.get("nowhere")),
        "old": _size(details.get("old") or {}, sizes.get("old") or {}, old if in_cells else None),
        "new": _size(details.get("new") or {}, sizes.get("new") or {}, new if in_cells else None),
        "given": details.get("given", Sizes()),
        "order": {
            **_move_arguments(
                row,
                row.destination,
                row.destination_migration_uri,
                row.destination_migration_address,
                new,
                devices,
            ),
            "host_uuids_there": compute_nodes.own_uuids(row.destination_facts),
            "migration": row.uuid,
            **resized,
        },
        "back": {
            **_move_arguments(
                row,
                row.source,
                row.source_migration_uri,
                row.source_migration_address,
                old,
                devices_back,
            ),
            "host_uuids_there": compute_nodes.own_uuids(row.source_facts),
            **resized,
        },
        "migration_options": migration_orders.migration_options(row.policy),
    }


def _size(columns: Mapping[str, Any], size: Mapping[str, int], numa: NumaBinding | None) -> Size:
    """Return a size of an instance, by its columns and, over them, by its domain."""
    values = {**columns, **size}
    described: Size = {
        "flavor": values.get("flavor"),
        "vcpus": values["vcpus"],
        "memory_mb": values["memory_mb"],
        "disk_gb": values["disk_gb"],
    }
    return described if numa is None else {**described, "numa": numa}


def _move_arguments(
    row: Row,
    destination: str,
    uri: str | None,
    address: str | None,
    numa: NumaBinding,
    devices: Devices | None,
) -> dict[str, object]:
    """Return the arguments of the module _domain_migration for a move."""
    order = {
        "uuid": row.instance_uuid,
        "name": row.instance_name,
        "destination": destination,
        "destination_uri": uri,
        "migrate_uri": migration_orders.migrate_uri(address) if address else None,
        "live": False,
        "numa": numa,
        "devices": devices,
    }
    return {key: value for key, value in order.items() if value is not None}
