# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances are elsewhere, all at once and without a migration: for copies of the store, as no real
instance moves in this way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._numa.request import HostRequest
from .._records.claims import Alternate
from .._records.plans import Move
from .._store.database import bulk
from .._store.database.sql import Connection, sa
from .._store.hosts import devices
from .._store.schema import tables
from . import allocations, claim_nodes, host_room
from .claim_destination import CandidateNode, ClaimDestinations


def relocate(
    connection: Connection, moves: Sequence[Move], requests: Mapping[str, HostRequest], now: float
) -> None:
    """Move the allocations, cells and devices of instances to other compute nodes.

    :param moves: the moves of a plan.
    :param requests: {uuid: needs of cells and devices of a node}, without instances that have no
        such needs.
    :raises DroverError: there is no room, which cannot happen with a plan.
    """
    if not moves:
        return
    uuids = [move["uuid"] for move in moves]
    holdings = allocations.Holdings(connection, {}, now, drop=uuids)
    free = holdings.sums(uuids)
    names = allocations.class_names(connection, free)
    resources = {uuid: allocations.by_class(holdings.held.get(uuid, {}), names) for uuid in uuids}
    ends: dict[str, Alternate] = {
        move["uuid"]: {"host": move["host"], "node": move["node"]} for move in moves
    }
    nodes = claim_nodes.read(connection, ends.values())
    rows = bulk.hold(connection, tables.instances, "uuid", uuids)
    for uuid in requests:
        node = rows[uuid].compute_node_id
        if node is not None:
            host_room.leave(connection, node, uuid)
    places = {
        move["uuid"]: CandidateNode(
            claim_nodes.named(nodes, ends[move["uuid"]]), move.get("allocations")
        )
        for move in moves
    }
    destinations = ClaimDestinations(connection, list(places.values()), {}, free, requests)
    amounts = {}
    # A move that makes room comes before the move that takes it.
    for move in moves:
        place = destinations.choose(
            move["uuid"], move["name"], resources[move["uuid"]], [places[move["uuid"]]]
        )
        if move["uuid"] in holdings.ids:
            amounts[move["uuid"]] = place.amounts
    holdings.write(amounts)
    if destinations.room is not None:
        destinations.room.write()
    bulk.update(
        connection,
        tables.instances,
        [{"id": rows[uuid].id, "compute_node_id": place.node.id} for uuid, place in places.items()],
    )
    domains = [
        {"domain": uuid, "left": rows[uuid].compute_node_id, "reached": place.node.id}
        for uuid, place in places.items()
    ]
    bulk.run(connection, domains, _moved_domain)
    _rename_devices(connection, requests)


def start(connection: Connection, uuids: Collection[str], now: float) -> None:
    """Set claimed instances to running, as if they had been built."""
    table = tables.instances
    rows = bulk.among(
        connection,
        bulk.select(table.c.id, table.c.uuid, table.c.name, table.c.compute_node_id),
        table.c.uuid,
        uuids,
    )
    host_devices = _devices(connection, uuids)
    running = {"state": "running", "persistent": True, "autostart": False, "seen_at": now}
    domains = [
        {
            "compute_node_id": row.compute_node_id,
            "uuid": row.uuid,
            "name": row.name,
            "facts": {"hostdevs": host_devices[row.uuid]} if row.uuid in host_devices else {},
            **running,
        }
        for row in rows
    ]
    bulk.insert(connection, tables.domains, domains)
    bulk.update(connection, table, [{"id": row.id, "state": "active"} for row in rows])


def _devices(connection: Connection, uuids: Collection[str]) -> dict[str, list[dict[str, str]]]:
    """Return the devices of their nodes that instances have, by their names in the facts of
    domains; without instances that have none.
    """
    devices_of: dict[str, list[dict[str, str]]] = {}
    for (_node, uuid), given in devices.of_consumers(connection, uuids).items():
        devices_of.setdefault(uuid, []).extend(
            {"type": "pci", "address": each["address"]} for each in given
        )
    for (_node, uuid), made in devices.mdevs_of_consumers(connection, uuids).items():
        devices_of.setdefault(uuid, []).extend(
            {"type": "mdev", "address": each["uuid"]} for each in made
        )
    return devices_of


def _rename_devices(connection: Connection, uuids: Collection[str]) -> None:
    """Change the domains of moved instances so that they name their present devices."""
    host_devices, table = _devices(connection, uuids), tables.domains
    for row in bulk.among(
        connection,
        bulk.select(table.c.uuid, table.c.compute_node_id, table.c.facts),
        table.c.uuid,
        host_devices,
    ):
        mine = sa.update(table).where(
            table.c.uuid == row.uuid, table.c.compute_node_id == row.compute_node_id
        )
        connection.execute(mine.values(facts={**row.facts, "hostdevs": host_devices[row.uuid]}))


def _moved_domain() -> Any:
    table = tables.domains
    statement = sa.update(table).where(
        table.c.uuid == sa.bindparam("domain"), table.c.compute_node_id == sa.bindparam("left")
    )
    return statement.values(compute_node_id=sa.bindparam("reached"))
