# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts that may have an instance, and when each was read last."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..database.sql import Connection, sa
from ..schema import tables
from . import power, services
from .compute_nodes import DEFAULT_URI


@dataclasses.dataclass
class KnownHost:
    """A host of the store.

    - uris: the URIs of its libvirts; without URIs that it no longer has, if it has others. cells:
        of its nodes.
    - read_at: when it was read last (seconds since 1970).
    - is_off: it was seen to be off, and not read since.
    """

    uris: list[str]
    cells: set[str | None]
    read_at: float
    is_off: bool


def hosts(connection: Connection) -> dict[str, KnownHost]:
    """Read the known hosts, by name."""
    table, nodes, off = tables.services, tables.compute_nodes, power.off_since(connection)
    query = (
        sa.select(table.c.host, table.c.last_seen_up, nodes.c.uri, nodes.c.cell, nodes.c.reported)
        .outerjoin(nodes, nodes.c.service_id == table.c.id)
        .where(table.c.binary == services.BINARY)
        .order_by(table.c.host, nodes.c.hypervisor_hostname)
    )
    by_name: dict[str, KnownHost] = {}
    retired: dict[str, list[str]] = {}
    for row in connection.execute(query):
        read_at = row.last_seen_up or 0
        host = by_name.setdefault(
            row.host, KnownHost([], set(), read_at, off.get(row.host, 0) > read_at)
        )
        host.cells.add(row.cell)
        uris = retired.setdefault(row.host, []) if row.reported is False else host.uris
        if (uri := row.uri or DEFAULT_URI) not in uris:
            uris.append(uri)
    for name, uris in retired.items():
        by_name[name].uris = by_name[name].uris or uris
    return by_name


def uris_of(known: Mapping[str, KnownHost], host: str) -> list[str]:
    """Return the URIs of the libvirts of a host; the usual one if the store does not know it."""
    return known[host].uris if host in known and known[host].uris else [DEFAULT_URI]
