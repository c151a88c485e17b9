# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of hosts, as discovery has seen them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables


def of_hosts(connection: Connection, hosts: Collection[str] | None = None) -> dict[str, set[str]]:
    """Read the addresses of hosts that have reported them: {host: addresses}.

    :param hosts: None for all hosts.
    """
    table = tables.compute_nodes
    query = bulk.select(table.c.host, table.c.facts)
    by_host: dict[str, set[str]] = {}
    for row in (
        connection.execute(query)
        if hosts is None
        else bulk.among(connection, query, table.c.host, hosts)
    ):
        if (row.facts or {}).get("addresses"):
            by_host.setdefault(row.host, set()).update(row.facts["addresses"])
    return by_host


def nodes_without(
    connection: Connection, wanted: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Find the compute nodes on hosts without an address that an instance needs.

    :param wanted: dict uuid of an instance -> {address: why it is needed, in words}.
    :returns: dict uuid -> {provider uuid: why}, of instances that need an address. A host that has
        not reported its addresses may have it.
    """
    wanted = {uuid: needs for uuid, needs in wanted.items() if needs}
    if not wanted:
        return {}
    hosts, table = of_hosts(connection), tables.compute_nodes
    nodes = [
        (row.uuid, row.host)
        for row in connection.execute(sa.select(table.c.uuid, table.c.host))
        if row.host in hosts
    ]
    lacking: dict[str, dict[str, str]] = {}
    for uuid, needs in wanted.items():
        missing = {
            provider: next(why for address, why in needs.items() if address not in hosts[host])
            for provider, host in nodes
            if not hosts[host].issuperset(needs)
        }
        if missing:
            lacking[uuid] = missing
    return lacking
