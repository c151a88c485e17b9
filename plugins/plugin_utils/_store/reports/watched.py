# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that a watcher of the fleet needs from the store: the hosts that may be down on
purpose, and the hosts and instances that the collection works on now.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..database import bulk, clock
from ..database.sql import Connection, sa
from ..hosts import power, services
from ..instances.instances import on_its_node
from ..schema import tables

#: States of a domain that does not run.
OFF = ("shutoff", "crashed")


def addresses(connection: Connection) -> dict[str, str]:
    """Read the address of each host that is reported: where other hypervisors reach it, or its
    name.
    """
    table, nodes = tables.services, tables.compute_nodes.alias()
    query = (
        sa.select(table.c.host, sa.func.min(nodes.c.migration_address).label("address"))
        .outerjoin(nodes, sa.and_(nodes.c.service_id == table.c.id, nodes.c.reported))
        # A host that has left is not silent.
        .where(table.c.binary == services.BINARY, ~services.is_unreported())
        .group_by(table.c.host)
    )
    return {row.host: row.address or row.host for row in connection.execute(query)}


def quiet(connection: Connection) -> dict[str, str]:
    """Find the hosts that may be down on purpose.

    A host that was evacuated or switched off counts only if the store has no instance left there
    that runs: the evacuation of it may have been killed.

    :returns: {host: why}.
    """
    table = tables.services
    off = power.off_since(connection)
    reasons, away = {}, set()
    for row in connection.execute(sa.select(table).where(table.c.binary == services.BINARY)):
        if row.maintenance:
            reasons[row.host] = "in maintenance"
        elif services.is_drained(row.status_before_drain) and not row.forced_down:
            reasons[row.host] = "drained"
        elif row.forced_down or row.host in off:
            away.add(row.host)
    return {
        **reasons,
        **dict.fromkeys(
            away - _with_running(connection, away), "switched off or forced down, and empty"
        ),
    }


def _with_running(connection: Connection, hosts: Iterable[str]) -> set[str]:
    """Select the hosts with an instance that runs, by the store."""
    nodes, instances, domains = tables.compute_nodes, tables.instances, tables.domains
    query = (
        sa.select(nodes.c.host)
        .join(instances, instances.c.compute_node_id == nodes.c.id)
        .join(domains, on_its_node())
        .where(domains.c.state.not_in(OFF))
        .distinct()
    )
    return {row.host for row in bulk.among(connection, query, nodes.c.host, hosts)}


def busy(connection: Connection) -> tuple[set[str], set[str]]:
    """Read the objects that runs of the collection work on: the names of leases that have not
    expired, and the instances with an open order or migration.
    """
    leases, instances, migrations = tables.leases, tables.instances, tables.migrations
    names = set(
        connection.execute(
            sa.select(leases.c.name).where(leases.c.expires_at > clock.now(connection))
        ).scalars()
    )
    uuids = set(
        connection.execute(
            sa.select(instances.c.uuid).where(instances.c.order_uuid.is_not(None))
        ).scalars()
    )
    moving = sa.select(migrations.c.instance_uuid).where(
        migrations.c.status.in_(tables.OPEN_MIGRATION)
    )
    return names, uuids | set(connection.execute(moving).scalars())


def reboot_signs(connection: Connection) -> dict[str, str]:
    """Read why hosts need a reboot, by their last discovery, without hosts that may be down on
    purpose.
    """
    table = tables.compute_nodes
    sign = table.c.facts["reboot_sign"].as_string()
    query = (
        sa.select(table.c.host, sign.label("sign"))
        .where(sign.is_not(None), table.c.reported)
        .order_by(table.c.host)
    )
    found = {row.host: row.sign for row in connection.execute(query)}
    away = quiet(connection) if found else {}
    return {host: why for host, why in found.items() if host not in away}


def recorded(connection: Connection, uuids: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Read where instances are and whether they run, as the store has it: {uuid: (host, whether it
    runs)}.
    """
    instances, nodes, domains = tables.instances, tables.compute_nodes, tables.domains
    query = (
        sa.select(instances.c.uuid, nodes.c.host, domains.c.state)
        .join(nodes, nodes.c.id == instances.c.compute_node_id)
        .join(domains, on_its_node())
    )
    return {
        row.uuid: (row.host, row.state not in OFF)
        for row in bulk.among(connection, query, instances.c.uuid, uuids)
    }
