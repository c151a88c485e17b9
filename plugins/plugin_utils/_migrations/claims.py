# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrations: each is opened with a claim at the destination, and closed by a proof (N9.1 and
N9.3).

holdings.py has the allocations at both ends. Rows are locked in this order: migrations, server
groups, instances, then as in placement.claims, with quotas last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._common import certainty
from .._common.errors import DroverError
from .._placement import allocations, claim_nodes, quotas, server_groups
from .._records.claims import Allocations
from .._records.orders import MigrationLimits, OpenedMigration, ResizeTarget
from .._records.outcomes import Copies
from .._records.plans import Move
from .._store.database import bulk, clock
from .._store.database.sql import Connection, Row, sa
from .._store.instances import files, instances, migrations_open, orders
from .._store.instances.migrations_open import EVACUATION, RESIZE
from .._store.runs import actions
from .._store.schema import tables
from . import holdings
from . import limits as migration_limits
from .holdings import Which

UNDER_WAY = tables.OPEN_MIGRATION
UNMOVABLE = {
    "building": (
        "is only being built: there is nothing to move yet. Wait for it, or end it with"
        " drover.compute.instance_delete"
    ),
    "missing": (
        "is missing: its host no longer shows its domain. Find out where it is with"
        " drover.compute.discover"
    ),
}


def begin(
    connection: Connection,
    instance_uuid: str,
    host: str,
    node: str | None,
    move_type: str,
    now: float,
    source_host: str | None = None,
    notes: Mapping[str, object] | None = None,
    allocations: Allocations | None = None,
    shown: bool = False,
) -> OpenedMigration:
    """Open a migration: give it the allocations at the source and claim the destination, in one
    transaction.

    :param move_type: live-migration, migration (cold) or evacuation (the source is dead).
    :param source_host: the host of the instance as the caller knows it; the move is refused if the
        instance is on another host.
    :param notes: for the details: restart (the instance was shut down for the move and is started
        again after it), for_hosts (the hosts that it makes room for).
    :param allocations: that the plan chose at the destination. If there is no room for them by now,
        or the instance's amounts have changed, the destination's first providers with room are
        taken.
    :param shown: the destination shows the instance already: it is recorded there, whether the host
        is enabled and has room or not.
    :raises DroverError: unknown instance, no room, a migration to elsewhere is open.
    """
    return _open_migration(
        connection,
        instance_uuid,
        host,
        node,
        move_type,
        now,
        source_host,
        notes=notes,
        given=allocations,
        shown=shown,
    )


def begin_within(
    connection: Connection,
    limits: MigrationLimits,
    given_up: Collection[str],
    move: Move,
    move_type: str,
    now: float,
    notes: Mapping[str, object] | None = None,
    waiting: int = 0,
) -> OpenedMigration:
    """Do as begin(), within limits.

    The caller's transaction is the only writing one, so that no other run counts at the same
    moment.

    :param given_up: see limits.refuse(), as for waiting.
    :raises limits.LimitReached: a limit is reached; nothing was written.
    """
    budget = migrations_open.budgets(connection, [move["uuid"]]).get(move["uuid"])
    migration_limits.refuse(
        limits, move, migrations_open.open_moves(connection), budget, given_up, waiting
    )
    chosen = move.get("allocations")
    return begin(
        connection,
        move["uuid"],
        move["host"],
        move.get("node"),
        move_type,
        now,
        move["from_host"],
        notes,
        chosen,
    )


def begin_resize(
    connection: Connection,
    instance_uuid: str,
    host: str,
    node: str | None,
    target: ResizeTarget,
    now: float,
    source_host: str | None = None,
) -> OpenedMigration:
    """Open a resize, on the same host or to another one. Both sizes are allocated until confirm()
    or revert().

    :raises DroverError: see begin(); also if the project would be beyond its quota with both sizes.
    """
    return _open_migration(connection, instance_uuid, host, node, RESIZE, now, source_host, target)


def _open_migration(
    connection: Connection,
    instance_uuid: str,
    host: str,
    node: str | None,
    move_type: str,
    now: float,
    source_host: str | None,
    target: ResizeTarget | None = None,
    notes: Mapping[str, object] | None = None,
    given: Allocations | None = None,
    shown: bool = False,
) -> OpenedMigration:
    group = server_groups.of_instance(connection, instance_uuid)
    instance = instances.hold(connection, instance_uuid)
    if instance is None or instance.compute_node_id is None:
        raise DroverError(
            f"Instance {instance_uuid} is not on any host the store knows. Run"
            " drover.compute.discover.",
            cause="unknown_instance",
        )
    destination = claim_nodes.find(connection, host, node)
    if instance.compute_node_id == destination.id and move_type != RESIZE:
        raise DroverError(
            f"Instance {instance.name} is on {host} already; there is nothing to move."
        )
    source = _node(connection, instance.compute_node_id)
    if source_host is not None and source.host != source_host:
        raise DroverError(
            f"Instance {instance.name} is on {source.host} by now, not on {source_host}: somebody"
            " else moved it. Plan again."
        )
    running = migrations_open.holding(connection, [instance_uuid]).get(instance_uuid)
    if running is not None and running.status != "done":
        return _already(instance, running, destination, move_type)
    if move_type != EVACUATION or instance.task_state not in orders.ENDED_BY_EVACUATION:
        orders.refuse_open([instance])
    if instance.state in UNMOVABLE:
        raise DroverError(
            f"Instance {instance.name} ({instance_uuid}) {UNMOVABLE[instance.state]}."
        )
    uuid = bulk.new_uuid()
    details = holdings.swap(
        connection,
        uuid,
        move_type,
        instance,
        (source, destination),
        group,
        now,
        target,
        given,
        shown,
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
            details={**details, **(notes or {})} or None,
            created_at=now,
            updated_at=now,
        )
    )
    actions.note(
        connection,
        "move",
        f"{move_type}: begun",
        (instance_uuid, instance.name),
        source.host,
        destination.host,
    )
    if move_type == RESIZE and instance.project:
        quotas.refuse_resize(connection, instance.project, details)
    return _describe_migration(_migration(connection, uuid), new=True)


def _already(instance: Row, running: Row, destination: Row, move_type: str) -> OpenedMigration:
    """Return the open migration, if it is the wanted one."""
    if running.status == "finished":
        raise DroverError(
            f"Instance {instance.name} was resized and still holds its old room on"
            f" {running.source}. Confirm or revert that first."
        )
    same = running.destination_node_id == destination.id and (running.type == RESIZE) == (
        move_type == RESIZE
    )
    if same:
        return _describe_migration(running, new=False)
    if running.type == RESIZE:
        raise DroverError(
            f"Instance {instance.name} is being resized or moved cold, from {running.source} to"
            f" {running.destination}. Run"
            f" {migrations_open.how_to_end(running.details, running.destination)} again: that"
            " ends it."
        )
    raise DroverError(
        f"Instance {instance.name} has an open migration from {running.source} to"
        f" {running.destination}. Run the drain again: it finishes or undoes that first."
    )


def running(connection: Connection, uuid: str, order: str, now: float) -> None:
    """Record the order for the destination of an evacuation to start the instance, before it is
    sent.

    :param order: its name, by which it can be withdrawn there.
    """
    known = (_migration(connection, uuid).details or {}).get("orders") or []
    note(connection, uuid, {"orders": [*known, order]}, now)
    _set_status(connection, uuid, "running", None, now)


def finish(
    connection: Connection,
    uuid: str,
    proof: certainty.Proof,
    domain_state: str | None,
    now: float,
    copies: Copies | None = None,
    seconds: float | None = None,
) -> None:
    """Record that the instance has moved, and free the room at the source.

    A resize keeps both until confirm() or revert(), an evacuation until clear_source().

    :param proof: the instance is at the destination and gone from the source.
    :param domain_state: the state of the domain at the destination; None if it is unchanged.
    :param copies, seconds: the amounts that the move copied and its duration, for the estimates of
        later moves; None if they are not known.
    """
    migration = _to_end(connection, uuid, proof)
    if migration is None:
        return
    if migration.type not in (RESIZE, EVACUATION):
        holdings.settle(connection, migration, "new", now)
    holdings.place(connection, migration, "new", domain_state, now)
    if migration.type == EVACUATION:
        orders.end_with_host(connection, migration.instance_uuid)
    status = {RESIZE: "finished", EVACUATION: "done"}.get(migration.type, "completed")
    _set_status(connection, uuid, status, None, now)
    if copies is not None and seconds is not None:
        table = tables.migrations
        measured = {
            "copied_memory_mib": copies["memory_mib"],
            "copied_disk_mib": copies["disk_mib"],
            "seconds": seconds,
        }
        connection.execute(sa.update(table).where(table.c.uuid == uuid).values(measured))


def confirm(connection: Connection, uuid: str, proof: certainty.Proof, now: float) -> None:
    """Keep the new size of a resize that is finished, and free the room of the old one.

    :param proof: the instance is at its destination with that size.
    """
    migration = _to_end(connection, uuid, proof, "finished", "confirmed")
    if migration is None:
        return
    holdings.settle(connection, migration, "new", now)
    _set_status(connection, uuid, "confirmed", None, now)


def revert(
    connection: Connection, uuid: str, proof: certainty.Proof, domain_state: str | None, now: float
) -> None:
    """Revert a finished resize: allocations, flavor, sizes and place are the old ones.

    :param proof: the instance is at its source again with its old size.
    :param domain_state: the state of the domain there; None if it is unchanged.
    """
    migration = _to_end(connection, uuid, proof, "finished", "reverted")
    if migration is None:
        return
    holdings.settle(connection, migration, "old", now)
    holdings.place(connection, migration, "old", domain_state, now)
    _set_status(connection, uuid, "reverted", None, now)


def clear_source(connection: Connection, uuid: str, proof: certainty.Proof, now: float) -> None:
    """Free the room at the source of an evacuation, which is back. The instance may have moved on
    since.

    :param proof: the source does not have the instance now.
    """
    migration = _to_end(connection, uuid, proof, "done", "completed")
    if migration is None:
        return
    holdings.leave_dead(connection, migration)
    gone = holdings.left_behind(connection, migration)
    holdings_table = allocations.Holdings(
        connection, {}, now, drop=[migration.instance_uuid, *_others(connection, migration)]
    )
    holdings_table.write(
        {
            consumer: {key: amount for key, amount in held.items() if key not in gone}
            for consumer, held in holdings_table.held.items()
            if not gone.isdisjoint(held)
        }
    )
    _set_status(connection, uuid, "completed", None, now)


def end_moved_back(
    connection: Connection, uuid: str, proof: certainty.Proof, message: str, now: float
) -> None:
    """Close an evacuation of an instance that is at its source again. No room is freed: the
    discovery that found the instance moves the room to its place.

    :param proof: the host that had it does not have it now.
    """
    if _to_end(connection, uuid, proof, "done", "completed") is not None:
        _set_status(connection, uuid, "completed", message, now)


def _others(connection: Connection, migration: Row) -> list[str]:
    """Return the uuids of the migrations of the same instance that have allocations."""
    table = tables.migrations
    query = sa.select(table.c.uuid).where(
        table.c.instance_uuid == migration.instance_uuid,
        table.c.status.in_(tables.HOLDING_MIGRATION),
    )
    return list(connection.execute(query).scalars())


def undo(
    connection: Connection,
    uuid: str,
    proof: certainty.Proof,
    message: str | None,
    now: float,
    status: str = "failed",
) -> None:
    """Undo a migration: the instance gets its room at the source back, and the room at the
    destination is free.

    :param proof: the destination has nothing of the instance and will get nothing of it.
    :param status: failed, or cancelled if a person wanted that.
    """
    migration = _to_end(connection, uuid, proof)
    if migration is None:
        return
    holdings.settle(connection, migration, "old", now)
    _set_status(connection, uuid, status, message, now)


def end_at_dead(
    connection: Connection, uuid: str, proof: certainty.Proof, message: str, now: float
) -> Which | None:
    """End a move or a resize of an instance on a host that is off; the instance can then be
    restarted elsewhere.

    An unfinished move or resize is undone. A finished resize keeps its new size, or gets the old
    one back if the guest was not seen with the new one. An instance that was shut down for it
    counts as one that runs.

    :param proof: nothing of the host that has the instance runs.
    :returns: the size that it has then; None if another run has ended it.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    details: Mapping[str, object] = migration.details or {}
    which: Which = "old"
    if migration.status in tables.OPEN_MIGRATION:
        undo(connection, uuid, proof, message, now)
    elif migration.status == "finished":
        stayed = migration.source_node_id == migration.destination_node_id
        # If it went to another host, it has left the old size with its old host.
        which = "new" if details.get("arrived") or not stayed else "old"
        _hold_instance(connection, migration)
        holdings.settle(connection, migration, which, now)
        if which == "old":
            holdings.place(connection, migration, which, None, now)
        _set_status(connection, uuid, {"new": "confirmed", "old": "reverted"}[which], message, now)
    else:
        return None
    if details.get("running") or details.get("restart"):
        holdings.note_running(connection, migration.instance_uuid)
    return which


def abandon(
    connection: Connection, uuid: str, proof: certainty.Proof, message: str, now: float
) -> None:
    """Close a resize of an instance that neither end has; the instance then holds room at its
    destination alone, until it is forgotten.

    :param proof: neither end has the instance, nor will get it.
    :raises DroverError: another run has closed it.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if migration.status not in (*tables.OPEN_MIGRATION, "finished"):
        raise DroverError(
            f"The resize of {migration.instance_name} is {migration.status} by now. Nothing was"
            " removed: run this again."
        )
    _hold_instance(connection, migration)
    holdings.settle(connection, migration, "new", now)
    _set_status(connection, uuid, "failed", message, now)


def note_nowhere(connection: Connection, uuid: str, now: float, nowhere: bool = True) -> None:
    """Record that neither end of a move has just shown the instance; or, with ``nowhere`` False,
    that it is moved again.
    """
    note(connection, uuid, {"nowhere": clock.now(connection) if nowhere else None}, now)


def end_elsewhere(
    connection: Connection, uuid: str, proof: certainty.Proof, message: str, now: float
) -> None:
    """Undo the migration of an instance that a person moved to a third host, and delete its domains
    at both ends from the store.

    It gets its room at the source back; the discovery that found it moves the room to its place.

    :param proof: neither end has the instance, and a third host does.
    """
    undo(connection, uuid, proof, message, now)
    migration, domains = _migration(connection, uuid), tables.domains
    for node in {migration.source_node_id, migration.destination_node_id} - {None}:
        connection.execute(
            sa.delete(domains).where(
                domains.c.uuid == migration.instance_uuid, domains.c.compute_node_id == node
            )
        )
        files.write_one(connection, node, migration.instance_uuid, set())


def note(connection: Connection, uuid: str, facts: Mapping[str, Any], now: float) -> None:
    """Add facts to the details of a migration, for the next run."""
    migration, table = _migration(connection, uuid), tables.migrations
    details = {**(migration.details or {}), **facts}
    connection.execute(
        sa.update(table).where(table.c.uuid == uuid).values(details=details, updated_at=now)
    )


def _to_end(
    connection: Connection,
    uuid: str,
    proof: certainty.Proof,
    from_status: str | None = None,
    to_status: str | None = None,
) -> Row | None:
    """Lock the instance of a migration before its end, and return the migration; None if it has
    ended already.

    :param from_status: its status before this end; by default each status of an open migration.
    :param to_status: its status after this end, if ``from_status`` is given.
    :raises DroverError: there is no proof; or its status is another one.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if from_status is None:
        ended = migration.status not in tables.OPEN_MIGRATION
    else:
        ended = migration.status == to_status
    if ended:
        return None
    if from_status not in (None, migration.status):
        raise DroverError(
            f"Migration {migration.uuid} of instance {migration.instance_name} is"
            f" {migration.status}, not {from_status}: it cannot become {to_status}."
        )
    _hold_instance(connection, migration)
    return migration


def _hold_instance(connection: Connection, migration: Row) -> None:
    instances.hold(connection, migration.instance_uuid)


def _set_status(
    connection: Connection, uuid: str, status: str, message: str | None, now: float
) -> None:
    table = tables.migrations
    query = (
        sa.update(table)
        .where(table.c.uuid == uuid)
        .values(status=status, message=message, updated_at=now)
        .returning(table)
    )
    for row in connection.execute(query):
        reason = f" ({message})" if message else ""
        actions.note(
            connection,
            "move",
            f"{row.type}: {status}{reason}",
            (row.instance_uuid, row.instance_name),
            row.source,
            row.destination,
        )


def _migration(connection: Connection, uuid: str) -> Row:
    """Lock a migration, so that it is closed once."""
    row = bulk.hold(connection, tables.migrations, "uuid", [uuid]).get(uuid)
    if row is None:
        raise DroverError(f"Migration {uuid} is not in the store.", cause="unknown_migration")
    return row


def _node(connection: Connection, node_id: int) -> Row:
    table = tables.compute_nodes
    return connection.execute(sa.select(table).where(table.c.id == node_id)).one()


def _describe_migration(row: Row, new: bool) -> OpenedMigration:
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
