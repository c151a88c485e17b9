# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are shut out of shared storage: written down before they are, until they are let in again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import services, tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import Connection, sa

_SHUT_OFF = ("shutoff", "crashed")


def read(connection: Connection, host: str) -> dict[str, Any] | None:
    """Read the fence of a host: a dict fence, addresses, cut, created_at, verified_at; None without one."""
    table = tables.storage_fences
    row = connection.execute(sa.select(table).where(table.c.host == host)).one_or_none()
    return None if row is None else dict(row._mapping)


def begin(connection: Connection, host: str, fence: str, addresses: Collection[str], now: float) -> list[str]:
    """Write down that a host is about to be shut out.

    :returns: the addresses to shut out; those of an earlier run are among them, or nobody would let them in again.
    :raises DroverError: the host is not in the store, or another fence shuts it out already.
    """
    table, known = tables.storage_fences, read(connection, host)
    services.get(connection, host)
    if known is not None and known["fence"] != fence:
        raise DroverError(
            f"{host} is shut out of its storage by the fence {known['fence']} already, not by {fence}. Set drover_storage_fence of {host} to "
            f"{known['fence']}; once the host is back, drover.compute.undrain lets it in again."
        )
    every = sorted({*addresses, *(known or {"addresses": ()})["addresses"]})
    values = {"fence": fence, "addresses": every, "cut": [], "verified_at": None}
    if known is None:
        connection.execute(sa.insert(table).values(host=host, created_at=now, **values))
    else:
        connection.execute(sa.update(table).where(table.c.host == host).values(**values))
    return every


def verified(connection: Connection, host: str, cut: Collection[str], now: float) -> None:
    """Record what was seen to be cut off."""
    table = tables.storage_fences
    connection.execute(sa.update(table).where(table.c.host == host).values(cut=sorted(cut), verified_at=now))


def last(connection: Connection, but: str) -> float | None:
    """Tell when a host was last seen to be shut out (seconds since 1970); None where none was.

    :param but: the host that does not count.
    """
    table = tables.storage_fences
    return connection.execute(sa.select(sa.func.max(table.c.verified_at)).where(table.c.host != but)).scalar()


def forget(connection: Connection, host: str) -> bool:
    """Remove the fence of a host that was let in again; whether there was one."""
    table = tables.storage_fences
    return bool(connection.execute(sa.delete(table).where(table.c.host == host)).rowcount)


def still_there(connection: Connection, host: str) -> list[dict[str, Any]]:
    """Find the domains that a host has not shut off although their instances are on other hosts: dicts name, uuid and host."""
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
