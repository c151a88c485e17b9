# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host is empty: by what it has just shown, never by where instances are recorded.

An instance may be on a host that the store has elsewhere: one that has arrived and whose run has not written that
down, one that is doubled, one that somebody moved or started by hand.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.store import orders, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

OFF = "shutoff"


def occupants(connection, host):
    """What is on a host, or on its way there, as it showed when it was last read.

    :returns: a dict of lists of dicts, each sorted by name: running (uuid, name, state, host: where it is recorded, or
        None) is all that is not shut off; shut_off, the same; arriving (uuid, name, source) has an open migration to the
        host, or an order to be built there (source None).
    """
    domains, nodes, instances = tables.domains, tables.compute_nodes, tables.instances
    recorded = nodes.alias("recorded")
    query = (
        sa.select(domains.c.uuid, domains.c.name, domains.c.state, recorded.c.host)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .outerjoin(instances, instances.c.uuid == domains.c.uuid)
        .outerjoin(recorded, recorded.c.id == instances.c.compute_node_id)
        # What is older than its node's last report is not there any more, see compute_nodes.write_domains().
        .where(nodes.c.host == host, domains.c.seen_at >= nodes.c.updated_at)
        .order_by(domains.c.name, domains.c.uuid)
    )
    there = [dict(row._mapping) for row in connection.execute(query)]
    return {
        "running": [each for each in there if each["state"] != OFF],
        "shut_off": [each for each in there if each["state"] == OFF],
        "arriving": _arriving(connection, host),
    }


def _arriving(connection, host):
    table = tables.migrations
    query = (
        sa.select(table.c.instance_uuid, table.c.instance_name, table.c.source)
        # A resize on its own host goes nowhere.
        .where(table.c.destination == host, table.c.source != host, table.c.status.in_(tables.OPEN_MIGRATION))
        .order_by(table.c.instance_name, table.c.id)
    )
    moving = [{"uuid": row[0], "name": row[1], "source": row[2]} for row in connection.execute(query)]
    built = [
        {"uuid": row.uuid, "name": row.name, "source": None}
        for row in orders.open_at(connection, host)
        if row.task_state == orders.SPAWNING
    ]
    return moving + built
