# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The orders of migrations for hypervisors, and how migrations end."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.drover.compute.plugins.module_utils._migration import passthrough
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Options

from .._common.errors import DroverError
from .._placement import claim_nodes
from .._records.instances import MovePolicy
from .._records.orders import MoveOrder, UnopenedOrder
from .._records.plans import Move
from .._records.statuses import MigrationStatus
from .._store.database.sql import Connection, sa
from .._store.hosts import compute_nodes
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import instance_lookup
from .._store.schema import tables
from . import claimed_cells, claimed_devices
from . import claims as migration_claims

#: The keys that each move of a plan has.
MOVE_KEYS = ("uuid", "name", "from_host", "host", "live")


def migrate_uri(address: str) -> str:
    """Return the URI that a migration sends memory to.

    :param address: drover_migration_address of the destination: a name or an address, an IPv6
        address with or without brackets.
    """
    try:
        bare = ipaddress.ip_address(address).version == 6
    except ValueError:
        bare = False
    return f"tcp://[{address}]" if bare else f"tcp://{address}"


def check_moves(connection: Connection, moves: Sequence[Mapping[str, object]]) -> None:
    """Refuse moves written by hand that lack a key, that have a name and a uuid of different
    instances, or that name an instance that is not in the store.
    """
    for number, move in enumerate(moves, 1):
        lacking = [key for key in MOVE_KEYS if move.get(key) is None]
        if lacking:
            raise DroverError(
                f"Move {number} of moves lacks {', '.join(lacking)}. Take the moves of a plan as"
                " they are. Nothing was moved."
            )
    instance_lookup.find(
        connection, [{"uuid": move["uuid"], "name": move["name"]} for move in moves]
    )


def pending(connection: Connection, host: str) -> list[MoveOrder]:
    """Return the orders of the migrations off a host that an earlier run left open.

    Resizes are left out: only the run that resizes knows the size that the instance gets.
    Evacuations are left out, too: the host knows nothing of them.
    """
    table = tables.migrations
    return _orders(
        connection,
        table.c.source == host,
        table.c.status.in_(tables.OPEN_MIGRATION),
        table.c.type.not_in((migration_claims.RESIZE, migration_claims.EVACUATION)),
    )


def order(connection: Connection, migration_uuid: str) -> MoveOrder:
    """Return the order of a migration."""
    (found,) = _orders(connection, tables.migrations.c.uuid == migration_uuid)
    return found


def _orders(connection: Connection, *conditions: sa.ColumnElement[bool]) -> list[MoveOrder]:
    """Return the orders of migrations, sorted by the times at which they began."""
    migrations, nodes, services = tables.migrations, tables.compute_nodes, tables.services
    source, destination = nodes.alias("source"), nodes.alias("destination")
    query = (
        sa.select(
            migrations,
            services.c.disabled,
            services.c.forced_down,
            services.c.last_error,
            destination.c.migration_uri,
            destination.c.migration_address,
            destination.c.uuid.label("provider"),
            *compute_nodes.uuid_columns(destination),
            source.c.uri.label("source_uri"),
            destination.c.uri.label("uri_there"),
            tables.instances.c.policy,
        )
        .outerjoin(tables.instances, tables.instances.c.uuid == migrations.c.instance_uuid)
        .outerjoin(source, source.c.id == migrations.c.source_node_id)
        .outerjoin(destination, destination.c.id == migrations.c.destination_node_id)
        .outerjoin(services, services.c.id == destination.c.service_id)
        .where(*conditions)
        .order_by(migrations.c.id)
    )
    rows = connection.execute(query).all()
    numa = claimed_cells.read(
        connection, {row.instance_uuid: row.destination_node_id for row in rows}
    )
    devices = claimed_devices.read(
        connection,
        {row.instance_uuid: (row.source_node_id, row.destination_node_id) for row in rows},
    )
    return [
        {
            "migration": row.uuid,
            "uuid": row.instance_uuid,
            "name": row.instance_name,
            "source": row.source,
            "destination": row.destination,
            "provider": row.provider,
            "destination_uri": row.migration_uri,
            "uri_there": row.uri_there or DEFAULT_URI,
            "host_uuids_there": compute_nodes.own_uuids(row._asdict()),
            "migration_address": row.migration_address,
            "source_uri": row.source_uri or DEFAULT_URI,
            "live": row.type == "live-migration",
            "restart": bool((row.details or {}).get("restart")),
            "nowhere": bool((row.details or {}).get("nowhere")),
            "migration_options": migration_options(row.policy),
            # A destination that is gone gets nothing.
            "numa": numa.get(row.instance_uuid, {}),
            "devices": devices.get(row.instance_uuid, passthrough.NONE),
            # A node that is gone is not disabled; libvirt there answers for itself.
            "begin": not (row.disabled or row.forced_down or row.last_error),
        }
        for row in rows
    ]


def migration_options(policy: MovePolicy | None) -> Options:
    """Return the options of migrations that an instance's policy has."""
    return (policy or MovePolicy()).get("migration") or Options()


class WasAborted(DroverError):
    """A person aborted the last move of the instance, so the same run does not move it again."""


def refuse_aborted(connection: Connection, move: Move, since: float) -> None:
    """Refuse a move of an instance if its last move off this host was aborted.

    :param since: the earliest time, in seconds since 1970, at which this run could have begun that
        move.
    :raises WasAborted: it was aborted.
    """
    table = tables.migrations
    last = connection.execute(
        sa.select(table.c.status)
        .where(
            table.c.instance_uuid == move["uuid"],
            table.c.source == move["from_host"],
            table.c.updated_at >= since,
        )
        .order_by(table.c.updated_at.desc(), table.c.id.desc())
        .limit(1)
    ).scalar()
    if last == "cancelled":
        raise WasAborted(
            f"Somebody aborted the move of {move['name']} while this run was under way, so it stays"
            f" on {move['from_host']}. To move it after all, run this again."
        )


def closed(
    connection: Connection, migration_uuids: Iterable[str]
) -> dict[str, tuple[MigrationStatus, str | None]]:
    """Return the ends of migrations: {uuid: (status, message)}, without migrations that are still
    open.
    """
    table = tables.migrations
    query = sa.select(table.c.uuid, table.c.status, table.c.message).where(
        table.c.uuid.in_(list(migration_uuids)), table.c.status.not_in(tables.OPEN_MIGRATION)
    )
    return {row.uuid: (row.status, row.message) for row in connection.execute(query)}


def unopened(connection: Connection, move: Move) -> UnopenedOrder:
    """Return the order of a move of a plan, for a check before it is opened."""
    table = tables.instances
    policy = connection.execute(
        sa.select(table.c.policy).where(table.c.uuid == move["uuid"])
    ).scalar()
    source = claim_nodes.find(connection, move["from_host"], move.get("from_node"))
    destination = claim_nodes.find(connection, move["host"], move.get("node"))
    numa = claimed_cells.read(connection, {move["uuid"]: source.id})
    devices = claimed_devices.read(connection, {move["uuid"]: (source.id, source.id)})
    nodes = tables.compute_nodes
    machine = connection.execute(
        sa.select(*compute_nodes.uuid_columns(nodes)).where(nodes.c.id == destination.id)
    ).one()
    return {
        "uuid": move["uuid"],
        "name": move["name"],
        "source": move["from_host"],
        "destination": move["host"],
        "provider": destination.uuid,
        "destination_uri": destination.migration_uri,
        "uri_there": destination.uri or DEFAULT_URI,
        "host_uuids_there": compute_nodes.own_uuids(machine._asdict()),
        "migration_address": destination.migration_address,
        "source_uri": source.uri or DEFAULT_URI,
        "live": move["live"],
        # Nothing is claimed there yet: the check tests if the domain is as the store knows it.
        "numa": numa.get(move["uuid"], {}),
        "devices": devices.get(move["uuid"], passthrough.NONE),
        "migration_options": migration_options(policy),
    }
