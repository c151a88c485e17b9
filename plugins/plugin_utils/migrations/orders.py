# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves off one host as a run of the migration action needs them: opened, followed, closed."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils.placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils.store import instance_lookup, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.compute_nodes import DEFAULT_URI
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

#: What a move of a plan has at least.
MOVE_KEYS = ("uuid", "name", "from_host", "host", "live")


def check_moves(connection, moves):
    """Refuse moves that somebody has written by hand and that lack a key, or whose name and uuid are of different instances.

    :raises DroverError: the same where the store does not have an instance.
    """
    for number, move in enumerate(moves, 1):
        lacking = [key for key in MOVE_KEYS if move.get(key) is None]
        if lacking:
            raise DroverError(
                f"Move {number} of moves lacks {', '.join(lacking)}. Take the moves of a plan as they are. Nothing was moved."
            )
    instance_lookup.find(connection, [{"uuid": move["uuid"], "name": move["name"]} for move in moves])


def pending(connection, host):
    """The migrations off a host that an earlier run left open.

    Not resizes: whoever resizes shut the instance down, and alone knows the size that it shall have.

    :returns: a list of orders, see order().
    """
    table = tables.migrations
    return _orders(
        connection,
        table.c.source == host,
        table.c.status.in_(tables.OPEN_MIGRATION),
        table.c.type != migration_claims.RESIZE,
    )


def order(connection, migration_uuid):
    """What the hypervisor needs to know of a migration.

    :returns: a dict: migration, uuid (the instance's), name, source, destination, provider (of the
        destination), destination_uri, migration_address, source_uri, live, restart (it is shut down for the move
        and is to run again after it), nowhere (an earlier run saw that neither end had it), migration_options (of the
        instance's policy), begin (whether its destination may still get it: it is enabled and was seen up when it was
        last looked at).
    """
    (found,) = _orders(connection, tables.migrations.c.uuid == migration_uuid)
    return found


def _orders(connection, *conditions):
    """The orders of migrations in one query, in the order in which they began, see order()."""
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
            source.c.uri.label("source_uri"),
            tables.instances.c.policy,
        )
        .outerjoin(tables.instances, tables.instances.c.uuid == migrations.c.instance_uuid)
        .outerjoin(source, source.c.id == migrations.c.source_node_id)
        .outerjoin(destination, destination.c.id == migrations.c.destination_node_id)
        .outerjoin(services, services.c.id == destination.c.service_id)
        .where(*conditions)
        .order_by(migrations.c.id)
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
            "migration_address": row.migration_address,
            "source_uri": row.source_uri or DEFAULT_URI,
            "live": row.type == "live-migration",
            "restart": bool((row.details or {}).get("restart")),
            "nowhere": bool((row.details or {}).get("nowhere")),
            "migration_options": migration_options(row.policy),
            # Without a node there is none that could be disabled; libvirt there answers for itself.
            "begin": not (row.disabled or row.forced_down or row.last_error),
        }
        for row in connection.execute(query)
    ]


def migration_options(policy):
    """The options of its own that an instance's policy brings."""
    return (policy or {}).get("migration") or {}


class WasAborted(DroverError):
    """Somebody aborted the last move of the instance, so that it is not moved again behind his back."""


def refuse_aborted(connection, move, since):
    """Refuse a move of an instance whose last one off this host was aborted.

    :param move: uuid, name, from_host.
    :param since: the time, seconds since 1970; what was aborted before it was meant for another run.
    :raises WasAborted: it was.
    """
    table = tables.migrations
    last = connection.execute(
        sa.select(table.c.status)
        .where(table.c.instance_uuid == move["uuid"], table.c.source == move["from_host"], table.c.updated_at >= since)
        .order_by(table.c.updated_at.desc(), table.c.id.desc())
        .limit(1)
    ).scalar()
    if last == "cancelled":
        raise WasAborted(
            f"Somebody aborted the move of {move['name']} while this run was under way, so it stays on {move['from_host']}. "
            "To move it after all, run this again."
        )


def closed(connection, migration_uuids):
    """How migrations ended: dict migration uuid -> (status, message), without those that are still open."""
    table = tables.migrations
    query = sa.select(table.c.uuid, table.c.status, table.c.message).where(
        table.c.uuid.in_(list(migration_uuids)), table.c.status.not_in(tables.OPEN_MIGRATION)
    )
    return {row.uuid: (row.status, row.message) for row in connection.execute(query)}


def unopened(connection, move):
    """The order of a move of a plan that nobody has opened yet, for a check beforehand.

    :param move: uuid, name, from_host, host, node, live.
    """
    table = tables.instances
    policy = connection.execute(sa.select(table.c.policy).where(table.c.uuid == move["uuid"])).scalar()
    source = claims.find_node(connection, move["from_host"], move.get("from_node"))
    destination = claims.find_node(connection, move["host"], move.get("node"))
    return {
        "uuid": move["uuid"],
        "name": move["name"],
        "source": move["from_host"],
        "destination": move["host"],
        "provider": destination.uuid,
        "destination_uri": destination.migration_uri,
        "migration_address": destination.migration_address,
        "source_uri": source.uri or DEFAULT_URI,
        "live": move["live"],
        "migration_options": migration_options(policy),
    }
