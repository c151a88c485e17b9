# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes with the facts of their storage, and the facts of their domains, for the drain of a
storage pool.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables

#: A uuid in the name of a file or volume.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NodeFacts(NamedTuple):
    """A compute node. uri: libvirt's there."""

    id: int
    uuid: str
    host: str
    uri: str | None
    facts: dict[str, Any]


class DomainFacts(NamedTuple):
    """A domain that a node showed in its last report. extra_specs, task_state: of its instance, if
    that is on the node.
    """

    node_id: int
    uuid: str
    name: str
    state: str
    facts: dict[str, Any]
    extra_specs: dict[str, str] | None
    task_state: str | None


def nodes(connection: Connection, hosts: Collection[str] | None = None) -> list[NodeFacts]:
    """Read the nodes of hosts, None for all hosts, sorted by their names."""
    table = tables.compute_nodes
    query = sa.select(table.c.id, table.c.uuid, table.c.host, table.c.uri, table.c.facts).where(
        table.c.reported
    )
    rows = (
        connection.execute(query).all()
        if hosts is None
        else bulk.among(connection, query, table.c.host, hosts)
    )
    return sorted(
        (NodeFacts(row.id, row.uuid, row.host, row.uri, row.facts or {}) for row in rows),
        key=lambda each: (each.host, each.uuid),
    )


def domains(connection: Connection, node_ids: Iterable[int]) -> list[DomainFacts]:
    """Read the domains in the last reports of nodes, sorted by name."""
    table, instances = tables.domains, tables.instances
    query = sa.select(
        table.c.compute_node_id,
        table.c.uuid,
        table.c.name,
        table.c.state,
        table.c.facts,
        instances.c.extra_specs,
        instances.c.task_state,
    ).outerjoin(
        instances,
        sa.and_(
            instances.c.uuid == table.c.uuid, instances.c.compute_node_id == table.c.compute_node_id
        ),
    )
    rows = bulk.among(connection, query, table.c.compute_node_id, node_ids)
    return sorted((DomainFacts(*row) for row in rows), key=lambda each: (each.name, each.uuid))


def unseen(connection: Connection, node_ids: Iterable[int]) -> list[tuple[str, str, str]]:
    """Read the instances of nodes that these do not show, because they are missing or being built:
    uuid, name and state, sorted by name.
    """
    table = tables.instances
    query = sa.select(table.c.uuid, table.c.name, table.c.state).where(table.c.state != "active")
    return sorted(
        (tuple(row) for row in bulk.among(connection, query, table.c.compute_node_id, node_ids)),
        key=lambda each: (each[1], each[0]),
    )


def named_for(connection: Connection, paths: Iterable[str]) -> dict[str, str]:
    """Return the names of the instances with uuids that are in the names of files or volumes, by
    path.
    """
    uuids = {
        path: match[0]
        for path in paths
        for match in [_UUID.search(path.rpartition("/")[2])]
        if match
    }
    table = tables.instances
    names = {
        row.uuid: row.name
        for row in bulk.among(
            connection, bulk.select(table.c.uuid, table.c.name), table.c.uuid, set(uuids.values())
        )
    }
    return {path: names[uuid] for path, uuid in uuids.items() if uuid in names}
