# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are shut out of shared storage: written down before they are, until they are let in
again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..database.sql import Connection, sa
from ..schema import tables
from . import services

_SHUT_OFF = ("shutoff", "crashed")


def read(connection: Connection, host: str) -> list[dict[str, Any]]:
    """Read the fences that shut a host out: dicts fence, addresses, cut, created_at, verified_at;
    the oldest first.
    """
    table = tables.storage_fences
    rows = connection.execute(
        sa.select(table).where(table.c.host == host).order_by(table.c.created_at, table.c.fence)
    )
    return [dict(row._mapping) for row in rows]


def begin(
    connection: Connection, host: str, fence: str, addresses: Collection[str], now: float
) -> list[str]:
    """Write down that a fence is about to shut a host out. The disks that it was seen to be cut off
    from before stay written down, and prove nothing now.

    :returns: the addresses to shut out; they include the addresses of an earlier run, or these
        would stay shut out for ever.
    :raises DroverError: the host is not in the store.
    """
    table = tables.storage_fences
    services.get(connection, host)
    earlier = [each for each in read(connection, host) if each["fence"] == fence]
    every = sorted({*addresses, *(address for each in earlier for address in each["addresses"])})
    values = {"addresses": every, "verified_at": None}
    if earlier:
        connection.execute(sa.update(table).where(*_is_fence(host, fence)).values(**values))
    else:
        connection.execute(
            sa.insert(table).values(host=host, fence=fence, cut=[], created_at=now, **values)
        )
    return every


def verified(
    connection: Connection, host: str, fence: str, cut: Collection[str], now: float
) -> None:
    """Record the disks that a fence was seen to cut a host off from."""
    table = tables.storage_fences
    connection.execute(
        sa.update(table).where(*_is_fence(host, fence)).values(cut=sorted(cut), verified_at=now)
    )


def last(connection: Connection, but: str) -> float | None:
    """Return the time at which a host was last seen to be shut out (seconds since 1970); None if
    there is none.

    :param but: the host that does not count.
    """
    table = tables.storage_fences
    return connection.execute(
        sa.select(sa.func.max(table.c.verified_at)).where(table.c.host != but)
    ).scalar()


def forget(connection: Connection, host: str, fence: str) -> bool:
    """Remove a fence of a host that was lifted; whether there was one."""
    return bool(
        connection.execute(sa.delete(tables.storage_fences).where(*_is_fence(host, fence))).rowcount
    )


def _is_fence(host: str, fence: str) -> tuple[Any, Any]:
    table = tables.storage_fences
    return table.c.host == host, table.c.fence == fence


def still_there(connection: Connection, host: str) -> list[dict[str, Any]]:
    """Find the domains that a host has not shut off although their instances are on other hosts:
    dicts name, uuid and host.
    """
    domains, nodes, instances = tables.domains, tables.compute_nodes, tables.instances
    places = nodes.alias()
    query = (
        sa.select(domains.c.name, domains.c.uuid, places.c.host)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .join(instances, instances.c.uuid == domains.c.uuid)
        .join(places, places.c.id == instances.c.compute_node_id)
        .where(
            nodes.c.host == host,
            places.c.host != host,
            domains.c.state.not_in(_SHUT_OFF),
            # A domain that is older than the last report of its node is gone.
            domains.c.seen_at >= nodes.c.updated_at,
        )
        .order_by(domains.c.name)
    )
    return [dict(row._mapping) for row in connection.execute(query)]
