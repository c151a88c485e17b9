# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances: what the store holds of them, read and written in bulk."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def concerned(connection, uuids, node_ids):
    """The instances of these uuids and those recorded on these nodes.

    :returns: dict uuid -> row.
    """
    table = tables.instances
    rows = bulk.among(connection, sa.select(table), table.c.uuid, uuids)
    rows += bulk.among(connection, sa.select(table), table.c.compute_node_id, node_ids)
    return {row.uuid: row for row in rows}


def write(connection, wanted, known, now):
    """Add instances or update those that differ.

    :param wanted: dict uuid -> dict of columns (the same for all).
    :param known: dict uuid -> row.
    :returns: set of uuids that changed.
    """
    table = tables.instances
    new = [{"uuid": uuid, "created_at": now, **columns} for uuid, columns in wanted.items() if uuid not in known]
    updates = [
        {"id": known[uuid].id, **columns}
        for uuid, columns in wanted.items()
        if uuid in known and any(getattr(known[uuid], name) != value for name, value in columns.items())
    ]
    bulk.insert(connection, table, new)
    bulk.update(connection, table, updates)
    ids = {row.id: uuid for uuid, row in known.items()}
    return {row["uuid"] for row in new} | {ids[row["id"]] for row in updates}


def place(connection, uuid):
    """The compute node row of an instance, or None."""
    table, nodes = tables.instances, tables.compute_nodes
    query = sa.select(nodes).join(table, table.c.compute_node_id == nodes.c.id).where(table.c.uuid == uuid)
    return connection.execute(query).one_or_none()


def set_state(connection, rows, state):
    """Set the state of instances (active, missing)."""
    bulk.update(connection, tables.instances, [{"id": row.id, "state": state} for row in rows])


def set_policy(connection, row, policy):
    """Set the policy of an instance (a dict or None)."""
    if row.policy != policy:
        bulk.update(connection, tables.instances, [{"id": row.id, "policy": policy}])


def forget_nodes(connection, node_ids):
    """Take the place from instances whose compute node is removed; they hold nothing there."""
    table = tables.instances
    for node in node_ids:
        connection.execute(sa.update(table).where(table.c.compute_node_id == node).values(compute_node_id=None))


def group_ids(connection):
    """Ids of server groups: dict name -> id."""
    table = tables.server_groups
    return {row.name: row.id for row in connection.execute(sa.select(table.c.name, table.c.id))}


def on_its_node():
    """The condition that a domain is its instance's own: a domain may be seen on several nodes."""
    instances, domains = tables.instances, tables.domains
    return sa.and_(domains.c.uuid == instances.c.uuid, domains.c.compute_node_id == instances.c.compute_node_id)


def located(*columns):
    """The query of instances with where they are, those that are nowhere included.

    Its rows have the columns of the instance and host, hypervisor_hostname, group_name and domain_state, each
    of these None where there is no such thing.

    :param columns: more of them, of the compute node, the server group or the domain.
    """
    instances, nodes, domains, groups = tables.instances, tables.compute_nodes, tables.domains, tables.server_groups
    return (
        sa.select(
            instances,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            groups.c.name.label("group_name"),
            domains.c.state.label("domain_state"),
            *columns,
        )
        .outerjoin(nodes, nodes.c.id == instances.c.compute_node_id)
        .outerjoin(groups, groups.c.id == instances.c.server_group_id)
        .outerjoin(domains, on_its_node())
    )


def state_of(row):
    """The state of an instance from a row of located(): of its domain, or building or missing."""
    return row.domain_state if row.state == "active" and row.domain_state else row.state


def listing(connection, host=None, name=None, uuid=None):
    """Instances with where they are, for people and programs.

    :returns: a list of dicts sorted by name: uuid, name, host, node, state, vcpus, memory_mb, disk_gb,
        server_group, availability_zone, project, user, definition, autostart.
    """
    instances, nodes = tables.instances, tables.compute_nodes
    query = located(tables.domains.c.autostart).order_by(instances.c.name, instances.c.uuid)
    if host is not None:
        query = query.where(nodes.c.host == host)
    if name is not None:
        query = query.where(instances.c.name == name)
    if uuid is not None:
        query = query.where(instances.c.uuid == uuid)
    return [
        {
            "uuid": row.uuid,
            "name": row.name,
            "host": row.host,
            "node": row.hypervisor_hostname,
            "state": state_of(row),
            "vcpus": row.vcpus,
            "memory_mb": row.memory_mb,
            "disk_gb": row.disk_gb,
            "server_group": row.group_name,
            "availability_zone": row.availability_zone,
            "project": row.project,
            "user": row.user,
            "definition": row.definition,
            "autostart": bool(row.autostart),
        }
        for row in connection.execute(query)
    ]
