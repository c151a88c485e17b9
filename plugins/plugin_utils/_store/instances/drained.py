# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a drain; undrain restores the host from it (rule S5).

It is the column status_before_drain of the service: the switches of the host before the drain,
until undrain restores them; and the instances that the drain shut down, until each runs again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..database import bulk
from ..database.sql import Connection, sa
from ..hosts import services
from ..schema import tables
from . import migrations_open

SHUT_DOWN = "shut_down"
#: States of a domain that is off.
OFF = ("shutoff", "crashed")
#: The column status_before_drain.
Memory = dict[str, Any]


def before(memory: Memory | None) -> dict[str, Any]:
    """Return the columns of the service as they were before the drain."""
    return {name: value for name, value in (memory or {}).items() if name != SHUT_DOWN}


def with_shut_down(
    connection: Connection, memory: Memory | None, uuids: Sequence[str]
) -> Memory | None:
    """Add the instances that run, as far as the store knows.

    An instance that is off was off before, or is in the memory of a killed run.
    """
    states = migrations_open.domain_states(connection, uuids)
    known: list[str] = (memory or {}).get(SHUT_DOWN, [])
    running = [uuid for uuid in uuids if uuid not in known and states.get(uuid) not in (None, *OFF)]
    return {**(memory or {}), SHUT_DOWN: [*known, *running]} if running else memory


def left_to_start(connection: Connection, host: str, memory: Memory | None) -> list[dict[str, str]]:
    """Find the instances that the drain shut down, and that are still on the host and off.

    :returns: dicts with uuid and name, by descending priority of their policies.
    """
    instances, nodes, domains = tables.instances, tables.compute_nodes, tables.domains
    query = (
        sa.select(instances.c.uuid, instances.c.name, instances.c.policy)
        .join(nodes, nodes.c.id == instances.c.compute_node_id)
        .join(
            domains,
            sa.and_(domains.c.uuid == instances.c.uuid, domains.c.compute_node_id == nodes.c.id),
        )
        .where(nodes.c.host == host, instances.c.state == "active", domains.c.state.in_(OFF))
    )
    rows = bulk.among(connection, query, instances.c.uuid, (memory or {}).get(SHUT_DOWN, []))
    rows.sort(key=lambda row: (-int((row.policy or {}).get("priority") or 0), row.name, row.uuid))
    return [{"uuid": row.uuid, "name": row.name} for row in rows]


def keep_only(memory: Memory | None, uuids: Iterable[str]) -> Memory | None:
    """Reduce the memory to some of the instances; None if it is empty then."""
    kept = list(uuids)
    return {**before(memory), **({SHUT_DOWN: kept} if kept else {})} or None


def settle(connection: Connection, host: str, uuids: Collection[str]) -> None:
    """Remove instances of a host from the memory, because they were started, stopped or removed by
    other means.
    """
    row = services.get(connection, host)
    known = (row.status_before_drain or {}).get(SHUT_DOWN, [])
    remaining = [uuid for uuid in known if uuid not in uuids]
    if remaining != known:
        services.change(
            connection, row, {"status_before_drain": keep_only(row.status_before_drain, remaining)}
        )
