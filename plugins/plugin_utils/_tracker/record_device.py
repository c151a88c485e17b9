# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of one instance in the store: the claim before a change, the record afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._common.errors import DroverError
from .._placement import allocations, inventory, providers, quotas
from .._placement.shared_pools import DISK
from .._store.database import bulk
from .._store.engine import Connection
from .._store.instances import files
from .._store.instances import instances as instance_rows
from .._store.schema import tables
from . import domain, record_domain, record_pools
from .domain import DomainReport
from .record_amounts import Amounts, Places
from .record_hardware import Hardware
from .sharing_facts import uuid_of


def claim(
    connection: Connection, uuid: str, host: str, facts: Any, now: float, room: bool = True
) -> None:
    """Claim the files of an instance on its host, so that no other instance gets them, and DISK_GB.

    :param facts: the domain after the change, as its host foretells it.
    :param room: claim DISK_GB too.
    :raises DroverError: the host or the project's quota has no room; or the instance is not there
        any more.
    """
    foreseen = domain.describe(facts)
    node = _node(connection, uuid, host, foreseen)
    files.reserve(connection, node.id, uuid, domain.needs(foreseen, node.facts or {}))
    allocated = allocations.read(connection, [uuid]).get(uuid, {})
    has = allocations.total(allocated)
    pools = record_pools.Pools(connection, {node.id: node})
    pool_amounts, of_node, dummy = pools.divide(node.id, foreseen, has)
    pool_amounts = {**pool_amounts, DISK: of_node or 0}
    more = {
        name: amount - has.get(name, 0)
        for name, amount in sorted(pool_amounts.items())
        if amount > has.get(name, 0)
    }
    if not more or not room:
        return
    own, disk = _providers(connection, node)
    places = {
        name: (
            pools.ids.get(node.id, {}).get(name)
            or next(
                (key for key, amounts in allocated.items() if name in amounts), disk.get(own, own)
            )
        )
        for name in more
    }
    holdings = allocations.Holdings(connection, {}, now, drop=[uuid])
    if uuid not in holdings.held:
        # The instance holds nothing, so nothing is counted; a discovery claims no room either.
        return
    mine, limited = dict(holdings.held[uuid]), True
    classes = bulk.ids_by(connection, tables.resource_classes.c.name, more)
    counts = inventory.hold(connection, sorted(set(places.values())), sorted(more))
    for name, amount in more.items():
        key = (places[name], classes[name])
        mine[key] = mine.get(key, 0) + amount
        counted = counts[places[name]].get(name)
        # A host without an inventory of disks does not count them.
        limited = limited and counted is not None
        reason = (
            None
            if counted is None
            else counted.shortage(name, amount) or counted.unfit(name, mine[key])
        )
        if reason:
            raise DroverError(
                f"Instance {foreseen['columns']['name']} on {host}: there is no room for the disk"
                f" ({reason}). Nothing was done: make room, or raise"
                f" {'drover_disk_allocation_ratio' if name == DISK else 'the allocation_ratio of the pool in drover_storage_pools'}"
                " of that host and discover it.",
                cause="no_room",
                host=host,
            )
    holdings.write({uuid: mine}, limited=limited)
    project = instance_rows.concerned(connection, [uuid], [])[uuid].project
    if project:
        quotas.refuse(connection, {project: more})


def record_devices(connection: Connection, uuid: str, host: str, facts: Any, now: float) -> None:
    """Record the new report of a host on an instance and its amounts, like a discovery.

    Record nothing if the instance is elsewhere by now.
    """
    node = instance_rows.place(connection, uuid)
    if node is None or node.host != host:
        return
    report = domain.describe(facts)
    record_domain.record_seen(connection, uuid, host, report, now)
    rows = instance_rows.concerned(connection, [uuid], [])
    own, disk = _providers(connection, node)
    groups = instance_rows.group_ids(connection)
    hardware = Hardware.of_node(connection, node, report)
    pools = record_pools.Pools(connection, {node.id: node})
    here = {uuid: (node.id, report)}
    places = Places({node.id: own}, disk, hardware, pools)
    amounts = Amounts(connection, rows, here, places, groups)
    owners = {uuid: (each["project"], each["user"]) for uuid, each in amounts.columns.items()}
    allocations.replace(connection, amounts.claims, now, owners=owners)
    instance_rows.write(connection, amounts.columns, rows, now)
    hardware.write_one()


def _node(connection: Connection, uuid: str, host: str, foreseen: DomainReport) -> Any:
    node = instance_rows.place(connection, uuid)
    if node is None or node.host != host:
        where = node.host if node is not None else "no host"
        raise DroverError(
            f"Instance {foreseen['columns']['name']} is on {where} by now, not on {host}. Nothing"
            " was done: run this again."
        )
    return node


def _providers(connection: Connection, node: Any) -> tuple[int, Mapping[int, int]]:
    """Return the provider of a node, and dict id -> id of its sharing provider of disk."""
    shared = (node.facts or {}).get("shared_storage")
    pool = uuid_of(shared["id"]) if shared else None
    ids = providers.ids(connection, [node.uuid, *([pool] if pool else [])])
    own = ids[node.uuid]
    return own, {own: ids[pool]} if pool in ids else {}
