# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances on a host, by the domains of its last discovery, never by the places of instances
in the store.

A host may have an instance that the store has elsewhere: an instance that has just arrived, that is
on two hosts, or that an operator moved or started by hand.
"""

from __future__ import annotations

from ..._records.hosts import Arrival, Occupant, Occupants
from ..database.sql import Connection, sa
from ..schema import tables
from . import orders

OFF = "shutoff"


def occupants(connection: Connection, host: str) -> Occupants:
    """List the domains of a host's last discovery, and the instances on their way there by an open
    migration or build.
    """
    domains, nodes, instances = tables.domains, tables.compute_nodes, tables.instances
    recorded = nodes.alias("recorded")
    query = (
        sa.select(domains.c.uuid, domains.c.name, domains.c.state, recorded.c.host)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .outerjoin(instances, instances.c.uuid == domains.c.uuid)
        .outerjoin(recorded, recorded.c.id == instances.c.compute_node_id)
        # A domain that is older than the last report of its node is gone, see
        # compute_nodes.write_domains().
        .where(nodes.c.host == host, domains.c.seen_at >= nodes.c.updated_at)
        .order_by(domains.c.name, domains.c.uuid)
    )
    present: list[Occupant] = [
        {"uuid": row[0], "name": row[1], "state": row[2], "host": row[3]}
        for row in connection.execute(query)
    ]
    return {
        "running": [each for each in present if each["state"] != OFF],
        "shut_off": [each for each in present if each["state"] == OFF],
        "arriving": _arriving(connection, host),
    }


def _arriving(connection: Connection, host: str) -> list[Arrival]:
    table = tables.migrations
    query = (
        sa.select(table.c.instance_uuid, table.c.instance_name, table.c.source)
        # A resize on its own host moves nothing.
        .where(
            table.c.destination == host,
            table.c.source != host,
            table.c.status.in_(tables.OPEN_MIGRATION),
        )
        .order_by(table.c.instance_name, table.c.id)
    )
    moving: list[Arrival] = [
        {"uuid": row[0], "name": row[1], "source": row[2]} for row in connection.execute(query)
    ]
    built: list[Arrival] = [
        {"uuid": row.uuid, "name": row.name, "source": None}
        for row in orders.open_at(connection, host)
        if row.task_state == orders.SPAWNING
    ]
    return moving + built
