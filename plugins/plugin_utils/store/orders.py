# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders: what a hypervisor is to do with an instance, written down before the call.

An order is open until it is known what became of it. While it is open nobody frees the instance's room or gives
another order; the next run settles it first, at the hypervisor. A move's order is its migration.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, instances, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

#: Nova's task states: it is being built; its domain, disks and record are being removed.
SPAWNING, DELETING = "spawning", "deleting"
#: Tells these locks of PostgreSQL from others, see hold_definitions().
DEFINITIONS = 0x64656673


class Open(DroverError):
    """Another order is open for the instance, or was opened in place of ours.

    ``row``: the instance.
    """

    def __init__(self, row):
        doing = {SPAWNING: "is being built", DELETING: "is being deleted"}.get(row.task_state, "has an open order")
        again = {SPAWNING: "drover.compute.place", DELETING: "drover.compute.instance_delete"}.get(row.task_state)
        super().__init__(
            f"Instance {row.name} ({row.uuid}) {doing}, by another run or one that was cut off. "
            + (f"Run {again} again, which finds out what became of that." if again else "")
        )
        self.row = row


def read(connection, uuid):
    """The row of an instance, or None."""
    table = tables.instances
    return connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()


def begin(connection, uuid, task_state, order, instead_of=None):
    """Open an order.

    :param order: the name of the order, a uuid.
    :param instead_of: the open order that was settled at the hypervisor and that this one replaces, or None.
    :returns: the instance's row as it was before.
    :raises Open: another order is open.
    :raises DroverError: the instance is not in the store.
    """
    row = _hold(connection, uuid)
    if row.order_uuid not in (None, order, instead_of):
        raise Open(row)
    bulk.update(connection, tables.instances, [{"id": row.id, "task_state": task_state, "order_uuid": order}])
    return row


def end(connection, uuid, order):
    """Close an order, as it is known what became of it.

    :returns: the instance's row as it was before, or None where it is not in the store any more.
    :raises Open: another order was opened in its place.
    """
    row = bulk.hold(connection, tables.instances, "uuid", [uuid]).get(uuid)
    if row is None:
        return None
    if row.order_uuid not in (None, order):
        raise Open(row)
    bulk.update(connection, tables.instances, [{"id": row.id, "task_state": None, "order_uuid": None}])
    return row


def forget(connection, rows):
    """Close the orders of instances whose domains were seen just now: what was ordered came to something."""
    bulk.update(
        connection,
        tables.instances,
        [{"id": row.id, "task_state": None, "order_uuid": None} for row in rows if row.task_state == SPAWNING],
    )


def open_at(connection, host):
    """The instances of a host that have an open order: a list of rows."""
    table, nodes = tables.instances, tables.compute_nodes
    query = (
        sa.select(table)
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .where(nodes.c.host == host, table.c.order_uuid.is_not(None))
        .order_by(table.c.name)
    )
    return connection.execute(query).all()


def refuse_open(rows):
    """Raise Open for the first of some instance rows that has an open order."""
    for row in rows:
        if row.order_uuid is not None:
            raise Open(row)


def unseen(connection, uuid, node_id):
    """A hypervisor has proven that it does not have an instance which a discovery saw there while it was being built."""
    domains = tables.domains
    connection.execute(sa.delete(domains).where(domains.c.uuid == uuid, domains.c.compute_node_id == node_id))
    row = bulk.hold(connection, tables.instances, "uuid", [uuid])[uuid]
    if row.state == "active":
        instances.set_state(connection, [row], "building")


def definition_of(project, name):
    """The text that stands for a definition: of one project there is one of a name."""
    return f"{project or ''}/{name}"


def hold_definitions(connection, names):
    """The instances that definitions are already: dict name -> uuid; nobody else makes one of them before this transaction ends.

    :param names: see definition_of().
    """
    if connection.dialect.name == "postgresql":
        # SQLite has one writer at a time. In one order, or two runs would wait for each other.
        keys = "SELECT DISTINCT hashtext(name) AS key FROM unnest(CAST(:names AS text[])) AS name ORDER BY key"
        lock = sa.text(f"SELECT pg_advisory_xact_lock(:kind, key) FROM ({keys}) AS keys")
        connection.execute(lock, {"kind": DEFINITIONS, "names": sorted(set(names))})
    table = tables.instances
    query = sa.select(table.c.definition, table.c.uuid)
    return {row.definition: row.uuid for row in bulk.among(connection, query, table.c.definition, names)}


def _hold(connection, uuid):
    row = bulk.hold(connection, tables.instances, "uuid", [uuid]).get(uuid)
    if row is None:
        raise DroverError(f"Instance {uuid} is not in the store. Run drover.compute.discover if it exists.", cause="unknown_instance")
    return row
