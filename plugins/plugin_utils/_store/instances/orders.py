# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders to hypervisors to build or delete an instance, to change its devices or snapshots, or to
move a disk, recorded before the call.

An order is open until its outcome is known. Until then no run frees the instance's room or opens
another order; the next run settles it first, at the hypervisor. A move's order is its migration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..._common.errors import DroverError
from ..._records.instances import MOVING_DISK, MOVING_DISKS, SWITCHING_DISK
from ..database import bulk
from ..database.sql import Connection, Row, sa
from ..runs import actions
from ..schema import tables
from . import instances

#: Nova's task states: a build; a removal of domain, disks and record.
SPAWNING, DELETING = "spawning", "deleting"
#: Cinder's task states: a disk, an interface or a medium is attached or detached.
ATTACHING, DETACHING = "attaching", "detaching"
#: Cinder's: a disk gets larger.
EXTENDING = "extending"
DEVICES = (ATTACHING, DETACHING, EXTENDING)
#: A snapshot is made or gone back to, or it is deleted, which merges an image into another one.
SNAPSHOTTING, DELETING_SNAPSHOT = "snapshotting", "deleting_snapshot"
SNAPSHOTS = (SNAPSHOTTING, DELETING_SNAPSHOT)
#: The task states in which the image with the newest data of a disk may change.
DISK_CHANGES = (*MOVING_DISKS, *SNAPSHOTS)
#: The orders of an instance with a new or larger disk that its host may not show yet.
UNSEEN_DISKS = (ATTACHING, EXTENDING, *MOVING_DISKS)
#: The orders that only the host of the instance can end. Such an order ends also when that host is
#: dead and the instance was restarted elsewhere.
ENDED_BY_EVACUATION = (*DEVICES, *DISK_CHANGES)
#: The operation that ends such an order after it was cut off.
AGAIN_MOVE = "drover.compute.instance_disk_move"
AGAIN = {
    SPAWNING: "drover.compute.place",
    DELETING: "drover.compute.instance_delete",
    ATTACHING: "the task that attaches it",
    DETACHING: "the task that detaches it",
    EXTENDING: "drover.compute.instance_disk",
    MOVING_DISK: AGAIN_MOVE,
    SWITCHING_DISK: AGAIN_MOVE,
    SNAPSHOTTING: "drover.compute.instance_snapshot",
    DELETING_SNAPSHOT: "drover.compute.instance_snapshot",
}
#: The kind of PostgreSQL's locks in hold_definitions().
DEFINITIONS = 0x64656673


def doing(task_state: str | None) -> str:
    """Return the action of an open order on its instance, as the rest of a sentence."""
    return {
        SPAWNING: "is being built",
        DELETING: "is being deleted",
        ATTACHING: "has a device attached",
        DETACHING: "has a device detached",
        EXTENDING: "has a disk made larger",
        MOVING_DISK: "has a disk moved to another storage",
        SWITCHING_DISK: "is switched over to the copy of a disk",
        SNAPSHOTTING: "has a snapshot made or reverted to",
        DELETING_SNAPSHOT: "has a snapshot deleted",
    }.get(task_state or "", "has an open order")


def was_doing(task_state: str | None) -> str:
    """Return the text of doing() in the past tense, for an order on a host that has died."""
    verb, rest = doing(task_state).split(" ", 1)
    return f"{'was' if verb == 'is' else 'had'} {rest}"


class OrderOpen(DroverError):
    """Another order is open for the instance (``row``), or was opened in place of this one."""

    def __init__(self, row: Row) -> None:
        again = AGAIN.get(row.task_state)
        super().__init__(
            f"Instance {row.name} ({row.uuid}) {doing(row.task_state)}, by another run or by a run"
            " that was killed. "
            + (f"Run {again} again, which finds out what became of that." if again else "")
        )
        self.row = row


def read(connection: Connection, uuid: str) -> Row | None:
    """Read an instance."""
    table = tables.instances
    return connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()


def begin(
    connection: Connection, uuid: str, task_state: str, order: str, instead_of: str | None = None
) -> Row:
    """Open an order.

    :param order: the uuid of the order.
    :param instead_of: the open order that this one replaces, because it was settled at the
        hypervisor.
    :returns: the instance before the change.
    :raises OrderOpen: another order is open.
    :raises DroverError: the instance is not in the store.
    """
    row = _lock_instance(connection, uuid)
    if row.order_uuid not in (None, order, instead_of):
        raise OrderOpen(row)
    bulk.update(
        connection,
        tables.instances,
        [{"id": row.id, "task_state": task_state, "order_uuid": order}],
    )
    actions.note(connection, "order", doing(task_state), (uuid, row.name), _host(connection, row))
    return row


def _host(connection: Connection, row: Row) -> str | None:
    nodes = tables.compute_nodes
    return connection.execute(
        sa.select(nodes.c.host).where(nodes.c.id == row.compute_node_id)
    ).scalar()


def end(connection: Connection, uuid: str, order: str | None) -> Row | None:
    """Close an order with a known outcome.

    :returns: the instance before the change; None if it is no longer in the store.
    :raises OrderOpen: another order was opened in its place.
    """
    row = instances.hold(connection, uuid)
    if row is None:
        return None
    if row.order_uuid not in (None, order):
        raise OrderOpen(row)
    bulk.update(
        connection, tables.instances, [{"id": row.id, "task_state": None, "order_uuid": None}]
    )
    return row


def end_with_host(connection: Connection, uuid: str) -> None:
    """Close the order of an instance that was restarted elsewhere because its host is dead: the
    order has no further effect.
    """
    row = instances.hold(connection, uuid)
    if row is not None and row.task_state in ENDED_BY_EVACUATION:
        bulk.update(
            connection, tables.instances, [{"id": row.id, "task_state": None, "order_uuid": None}]
        )


def forget(connection: Connection, rows: Iterable[Row]) -> None:
    """Close the builds of instances with domains that a discovery has just seen."""
    bulk.update(
        connection,
        tables.instances,
        [
            {"id": row.id, "task_state": None, "order_uuid": None}
            for row in rows
            if row.task_state == SPAWNING
        ],
    )


def open_at(connection: Connection, host: str) -> Sequence[Row]:
    """Read the instances of a host that have an open order."""
    table, nodes = tables.instances, tables.compute_nodes
    query = (
        sa.select(table)
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .where(nodes.c.host == host, table.c.order_uuid.is_not(None))
        .order_by(table.c.name)
    )
    return connection.execute(query).all()


def refuse_open(rows: Iterable[Row]) -> None:
    """Raise Open for the first of some instances that has an open order."""
    for row in rows:
        if row.order_uuid is not None:
            raise OrderOpen(row)


def unseen(connection: Connection, uuid: str, node_id: int | None) -> None:
    """Forget the domain of an unfinished build, because its hypervisor has proven that it is
    gone.
    """
    domains = tables.domains
    connection.execute(
        sa.delete(domains).where(domains.c.uuid == uuid, domains.c.compute_node_id == node_id)
    )
    row = bulk.hold(connection, tables.instances, "uuid", [uuid])[uuid]
    if row.state == "active":
        instances.set_state(connection, [row], "building")


def definition_of(project: str | None, name: str) -> str:
    """Return the key of a definition; the name is unique in its project."""
    return f"{project or ''}/{name}"


def hold_definitions(connection: Connection, names: Collection[str]) -> dict[str, str]:
    """Lock definitions until the end of the transaction, so that no other transaction builds them.

    :param names: see definition_of().
    :returns: {definition: uuid of its instance} of the definitions that are built.
    """
    if connection.dialect.name == "postgresql":
        # SQLite has one writer at a time. Sorted, because two runs could otherwise deadlock.
        keys = (
            "SELECT DISTINCT hashtext(name) AS key FROM unnest(CAST(:names AS text[])) AS name"
            " ORDER BY key"
        )
        lock = sa.text(f"SELECT pg_advisory_xact_lock(:kind, key) FROM ({keys}) AS keys")
        connection.execute(lock, {"kind": DEFINITIONS, "names": sorted(set(names))})
    table = tables.instances
    query = bulk.select(table.c.definition, table.c.uuid)
    return {
        row.definition: row.uuid for row in bulk.among(connection, query, table.c.definition, names)
    }


def _lock_instance(connection: Connection, uuid: str) -> Row:
    row = instances.hold(connection, uuid)
    if row is None:
        raise DroverError(
            f"Instance {uuid} is not in the store. Run drover.compute.discover if it exists.",
            cause="unknown_instance",
        )
    return row
