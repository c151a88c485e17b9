# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that ran when their host went down, and are off since it came back.

The boot id of a host shows that it was restarted. The mark is in the facts of the domain; each look
at the domain by a command replaces them: a start, a stop or a removal ends the mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..._common.errors import natural
from ..._records.overview import WentDown
from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables

#: The fact of a domain: seconds since 1970.
MARK = "went_down"
#: The fact of a host.
BOOT = "boot_id"
OFF, GONE = "shutoff", ("shutoff", "crashed")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def mark(
    connection: Connection,
    off: Mapping[str, tuple[int, Mapping[str, Any]]],
    before: Mapping[int, Mapping[str, Any]],
    facts: Mapping[int, Mapping[str, Any]],
    now: float,
) -> list[str]:
    """Mark domains of a report that went down with their host, before the report is written; return
    their uuids.

    :param off: {uuid: (node id, domain)} of the domains that are off, and at their place in the
        store; their facts are completed.
    :param before: {node id: facts} of the last report. facts: the facts of this report.
    """
    last_seen = _last(connection, off)
    uuids = []
    for uuid, (node, domain) in off.items():
        state, since = last_seen.get((uuid, node), (None, None))
        boots = [(each.get(node) or {}).get(BOOT) for each in (before, facts)]
        if all(boots) and boots[0] != boots[1] and state is not None and state not in GONE:
            since = now
        if since is not None:
            domain["columns"]["facts"][MARK] = since
            uuids.append(uuid)
    return uuids


def read(connection: Connection, host: str | None = None) -> dict[str, list[dict[str, str]]]:
    """Read the instances that went down with their host and are off: {host: [uuid and name]}, each
    sorted by name.

    :param host: None for all hosts.
    """
    domains, nodes, instances = tables.domains, tables.compute_nodes, tables.instances
    query = (
        sa.select(nodes.c.host, instances.c.uuid, instances.c.name)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .join(
            instances,
            sa.and_(instances.c.uuid == domains.c.uuid, instances.c.compute_node_id == nodes.c.id),
        )
        .where(domains.c.state == OFF, domains.c.facts[MARK].as_float().is_not(None))
    )
    by_host: dict[str, list[dict[str, str]]] = {}
    for row in connection.execute(query if host is None else query.where(nodes.c.host == host)):
        by_host.setdefault(row.host, []).append({"uuid": row.uuid, "name": row.name})
    return {
        each: sorted(by_host[each], key=lambda one: natural(one["name"]))
        for each in sorted(by_host, key=natural)
    }


def listing(connection: Connection) -> list[WentDown]:
    """Read the same for a report: host, names of the instances, command."""
    return [
        {"host": host, "names": [each["name"] for each in instances], "command": command(instances)}
        for host, instances in read(connection).items()
    ]


def sentences(found: Mapping[str, Iterable[Mapping[str, str]]]) -> list[str]:
    """Return a sentence for each host, with the command.

    :param found: the result of read().
    """
    return [
        f"{sentence(host, instances)} To start them: {command(instances)}"
        for host, instances in found.items()
    ]


def sentence(host: str, instances: Iterable[Mapping[str, str]]) -> str:
    """Return a sentence about the instances that ran on a host before it was restarted."""
    return (
        f"{host} was restarted: {', '.join(each['name'] for each in instances)} ran before and went"
        " down with it."
    )


def command(instances: Iterable[Mapping[str, str]]) -> str:
    """Return the command that starts instances."""
    names = [each["name"] if _PLAIN.fullmatch(each["name"]) else each["uuid"] for each in instances]
    return f"ansible-playbook drover.compute.instance_start -e drover_instances={','.join(names)}"


def _last(
    connection: Connection, uuids: Iterable[str]
) -> dict[tuple[str, int], tuple[str, float | None]]:
    """Read state and mark of domains in the last reports of nodes: {(uuid, node id): (state,
    mark)}.
    """
    table = tables.domains
    query = sa.select(
        table.c.uuid,
        table.c.compute_node_id,
        table.c.state,
        table.c.facts[MARK].as_float().label(MARK),
    )
    return {
        (row.uuid, row.compute_node_id): (row.state, row.went_down)
        for row in bulk.among(connection, query, table.c.uuid, uuids)
    }
