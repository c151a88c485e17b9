# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of hosts, in all tables that have them."""

from __future__ import annotations

from ..._common.errors import node_label
from ..database.sql import Connection, sa
from ..schema import tables
from . import compute_nodes

#: The tables that name a host; their rows go with it to its new name. Decisions and actions stay
#: under the name of their time.
_NAMED = (
    "services",
    "compute_nodes",
    "aggregate_hosts",
    "storage_fences",
    "power_events",
    "rolling_hosts",
)


def rename(connection: Connection, host: str, new_name: str) -> None:
    """Rename a host in all tables. The caller has checked that no other host has the new name."""
    for table in (getattr(tables, name) for name in _NAMED):
        connection.execute(sa.update(table).where(table.c.host == host).values(host=new_name))
    nodes, providers, migrations = (
        tables.compute_nodes,
        tables.resource_providers,
        tables.migrations,
    )
    for node in compute_nodes.by_host(connection, [new_name]).values():
        # A host with one node has its name in most fleets; the next discovery knows better.
        name = new_name if node.hypervisor_hostname == host else node.hypervisor_hostname
        connection.execute(
            sa.update(nodes).where(nodes.c.id == node.id).values(hypervisor_hostname=name)
        )
        connection.execute(
            sa.update(providers)
            .where(providers.c.uuid == node.uuid)
            .values(name=node_label(new_name, name))
        )
    for end in ("source", "destination"):
        query = sa.update(migrations).where(
            migrations.c[end] == host, migrations.c.status.in_(tables.HOLDING_MIGRATION)
        )
        connection.execute(query.values({end: new_name}))
