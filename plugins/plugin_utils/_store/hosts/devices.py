# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI devices and mediated devices of compute nodes that may be given away, and which consumer
has which.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..._common.errors import DroverError
from ..._records.claims import ClaimedDevice, ClaimedMdev
from ..._records.hosts import Mdev, MdevType, PciDevice
from ..database import bulk
from ..database.sql import Connection, Row, Select, sa
from ..schema import tables

Rows = Mapping[int, Sequence[Mapping[str, Any]]]


class NodeDevices(NamedTuple):
    """The devices of nodes by the id of the node."""

    pci: dict[int, list[PciDevice]]
    mdevs: dict[int, list[Mdev]]
    mdev_types: dict[int, list[MdevType]]


def read_all(connection: Connection, node_ids: Collection[int]) -> NodeDevices:
    """Read all devices of nodes."""
    return NodeDevices(
        read_pci(connection, node_ids),
        read_mdevs(connection, node_ids),
        read_mdev_types(connection, node_ids),
    )


def read_pci(
    connection: Connection, node_ids: Collection[int] | None = None
) -> dict[int, list[PciDevice]]:
    """Read the PCI devices of nodes (None for all) by one query: {node id: devices, in the order of
    their addresses}.
    """
    by_node: dict[int, list[PciDevice]] = {}
    for row in _rows(connection, tables.pci_devices, tables.pci_devices.c.address, node_ids):
        by_node.setdefault(row.compute_node_id, []).append(
            {
                "address": row.address,
                "vendor_id": row.vendor_id,
                "product_id": row.product_id,
                "device_class": row.device_class,
                "numa_node": row.numa_node,
                "dev_type": row.dev_type,
                "parent_addr": row.parent_addr,
                "iommu_group": row.iommu_group,
                "interface": row.interface,
                "tags": row.tags,
                "resource_class": row.resource_class,
                "traits": row.traits,
                "reported": row.reported,
                "owner": row.owner,
            }
        )
    return by_node


def count_free_pci() -> Select:
    """Return the query for the free PCI devices of each node; its rows are (node id, number).

    A device is not free while its physical function, or one of its virtual functions, has a
    consumer.
    """
    table, taken = tables.pci_devices, tables.pci_devices.alias("taken")
    is_virtual = ("type-VF", "vdpa")
    of_taken = sa.select(table.c.id).where(
        taken.c.compute_node_id == table.c.compute_node_id,
        taken.c.consumer_id.is_not(None),
        taken.c.reported.is_(sa.true()),
    )
    excluded = sa.union_all(
        of_taken.where(table.c.address == taken.c.parent_addr, taken.c.dev_type.in_(is_virtual)),
        of_taken.where(table.c.parent_addr == taken.c.address, table.c.dev_type.in_(is_virtual)),
    )
    free = (
        table.c.reported.is_(sa.true()),
        table.c.consumer_id.is_(None),
        table.c.id.not_in(excluded),
    )
    return (
        sa.select(table.c.compute_node_id, sa.func.count())
        .where(*free)
        .group_by(table.c.compute_node_id)
    )


def read_mdev_types(
    connection: Connection, node_ids: Collection[int] | None = None
) -> dict[int, list[MdevType]]:
    """Read the types of mediated devices that nodes (None for all) may make: {node id: types, in
    the order of the parents}.
    """
    table = tables.mdev_types
    query = sa.select(table).order_by(table.c.parent)
    by_node: dict[int, list[MdevType]] = {}
    for row in (
        connection.execute(query)
        if node_ids is None
        else bulk.among(connection, query, table.c.compute_node_id, node_ids)
    ):
        mdev_type: MdevType = {
            "parent": row.parent,
            "type": row.type,
            "resource_class": row.resource_class,
            "total": row.total,
        }
        by_node.setdefault(row.compute_node_id, []).append(mdev_type)
    return by_node


def read_mdevs(
    connection: Connection, node_ids: Collection[int] | None = None
) -> dict[int, list[Mdev]]:
    """Read the mediated devices of nodes (None for all): {node id: devices, in the order of their
    uuids}.
    """
    by_node: dict[int, list[Mdev]] = {}
    for row in _rows(connection, tables.mdevs, tables.mdevs.c.uuid, node_ids):
        mdev: Mdev = {
            "uuid": row.uuid,
            "parent": row.parent,
            "type": row.type,
            "active": row.active,
            "owner": row.owner,
        }
        by_node.setdefault(row.compute_node_id, []).append(mdev)
    return by_node


@functools.cache
def _with_owner(table: sa.Table) -> Select:
    consumers = tables.consumers
    return sa.select(table, consumers.c.uuid.label("owner")).outerjoin(
        consumers, consumers.c.id == table.c.consumer_id
    )


@functools.cache
def _in_order(table: sa.Table, key: sa.Column[str]) -> Select:
    return _with_owner(table).order_by(key)


def _rows(
    connection: Connection, table: sa.Table, key: sa.Column[str], node_ids: Collection[int] | None
) -> Iterable[Row]:
    query = _in_order(table, key)
    return (
        connection.execute(query)
        if node_ids is None
        else bulk.among(connection, query, table.c.compute_node_id, node_ids)
    )


def write_all(connection: Connection, pci: Rows, mdev_types: Rows, mdevs: Rows) -> bool:
    """Replace the devices of nodes that domains may get: {node id: columns}.

    :returns: True if anything changed. The number of mediated devices that can still be made does
        not count, because it changes by itself.
    """
    changed = write_pci(connection, pci)
    changed |= write_mdev_types(connection, mdev_types)
    write_mdevs(connection, mdevs)
    return changed


def write_pci(connection: Connection, wanted: Rows) -> bool:
    """Replace the PCI devices of nodes: {node id: columns}. A device with a consumer is kept, as
    not reported.

    :returns: True if a row changed.
    """
    return _replace_rows(
        connection,
        tables.pci_devices,
        "address",
        {node: [{**row, "reported": True} for row in rows] for node, rows in wanted.items()},
        there_is="reported",
    )


def write_mdev_types(connection: Connection, wanted: Rows) -> bool:
    """Replace the types of mediated devices of nodes: {node id: columns}; return whether anything
    but the totals changed.
    """
    return _replace_rows(connection, tables.mdev_types, "parent", wanted, volatile=("total",))


def write_mdevs(connection: Connection, wanted: Rows) -> bool:
    """Replace the mediated devices of nodes: {node id: columns}. A device with a consumer is kept:
    its host may have yet to create it.

    :returns: True if a row changed.
    """
    return _replace_rows(connection, tables.mdevs, "uuid", wanted, there_is="active")


def _replace_rows(
    connection: Connection,
    table: sa.Table,
    key: str,
    wanted: Rows,
    volatile: Collection[str] = (),
    there_is: str | None = None,
) -> bool:
    """Replace the rows of nodes.

    :param key: the column that distinguishes the devices of a node.
    :param volatile: columns that change by themselves.
    :param there_is: the column that is True if the host shows a device; a device that is not shown
        and has a consumer is kept, and its column becomes False. None: rows have no consumers.
    """
    existing: dict[int, dict[str, Row]] = {}
    for row in bulk.among(connection, bulk.select(table), table.c.compute_node_id, wanted):
        existing.setdefault(row.compute_node_id, {})[getattr(row, key)] = row
    new: list[dict[str, object]] = []
    different: list[dict[str, object]] = []
    gone: list[int] = []
    lost: list[dict[str, object]] = []
    counts = False
    for node, rows in wanted.items():
        of_node = existing.get(node, {})
        for columns in rows:
            old = of_node.pop(columns[key], None)
            if old is None:
                new.append({"compute_node_id": node, **columns})
            elif any(getattr(old, name) != value for name, value in columns.items()):
                different.append({"id": old.id, **columns})
                counts |= any(
                    getattr(old, name) != value
                    for name, value in columns.items()
                    if name not in volatile
                )
        for old in of_node.values():
            if there_is is not None and old.consumer_id is not None:
                lost += [{"id": old.id, there_is: False}] if getattr(old, there_is) else []
            else:
                gone.append(old.id)
    bulk.insert(connection, table, new)
    bulk.update(connection, table, different)
    bulk.update(connection, table, lost)
    bulk.delete(connection, table, table.c.id, gone)
    return bool(new or gone or lost or counts)


def set_owners(
    connection: Connection,
    shown: Mapping[int, Mapping[str, Sequence[str]]],
    keep: Collection[tuple[int, str]],
) -> bool:
    """Record which consumers have the devices of nodes, as their hosts show it.

    :param shown: {node id: {PCI address or uuid of a mediated device: uuids of domains that have
        it}}. A device that several have stays with the one that has it in the store.
    :param keep: (node id, uuid) of consumers that keep their devices: claimed, and not shown yet.
    :returns: True if a row changed.
    """
    ids = bulk.ids_by(
        connection,
        tables.consumers.c.uuid,
        {uuid for devices in shown.values() for uuids in devices.values() for uuid in uuids},
        make=False,
    )
    changed = False
    for table, key in ((tables.pci_devices, "address"), (tables.mdevs, "uuid")):
        updates = []
        for row in bulk.among(connection, _with_owner(table), table.c.compute_node_id, shown):
            users = [
                uuid
                for uuid in shown[row.compute_node_id].get(getattr(row, key), ())
                if uuid in ids
            ]
            if row.owner in users or (not users and (row.compute_node_id, row.owner) in keep):
                continue
            owner = ids[users[0]] if users else None
            if row.consumer_id != owner:
                updates.append({"id": row.id, **_owned(table, owner)})
        bulk.update(connection, table, updates)
        changed |= bool(updates)
    # The devices that have no consumer now and that the host does not show.
    table = tables.pci_devices
    stale = sa.delete(table).where(table.c.reported.is_(sa.false()), table.c.consumer_id.is_(None))
    return bool(connection.execute(stale).rowcount) or changed


def take(connection: Connection, node: int, uuid: str, addresses: Mapping[str, int]) -> None:
    """Give PCI devices of a node to a consumer that exists.

    :param addresses: {address: number of the request that it meets}.
    :raises DroverError: another consumer has got one since.
    """
    table, consumer = tables.pci_devices, _id_of(uuid)
    for address, number in sorted(addresses.items()):
        free = sa.update(table).where(
            table.c.compute_node_id == node,
            table.c.address == address,
            table.c.consumer_id.is_(None),
        )
        if (
            connection.execute(free.values(consumer_id=consumer, request_number=number)).rowcount
            != 1
        ):
            raise DroverError(
                f"The PCI device {address} was given to another instance meanwhile. Nothing was"
                " claimed: schedule again.",
                cause="no_room",
                consumer=uuid,
            )


def free(connection: Connection, node: int, uuid: str) -> None:
    """Free the devices that a consumer has of a node."""
    for table in (tables.pci_devices, tables.mdevs):
        query = sa.update(table).where(
            table.c.compute_node_id == node, table.c.consumer_id == _id_of(uuid)
        )
        connection.execute(query.values(_owned(table, None)))


def hand_over(connection: Connection, node: int, giver: str, taker: str) -> None:
    """Give the devices that a consumer has of a node to another consumer, in place of its own; both
    must exist.
    """
    free(connection, node, taker)
    for table in (tables.pci_devices, tables.mdevs):
        query = sa.update(table).where(
            table.c.compute_node_id == node, table.c.consumer_id == _id_of(giver)
        )
        connection.execute(query.values(consumer_id=_id_of(taker)))


def of_consumers(
    connection: Connection, uuids: Collection[str]
) -> dict[tuple[int, str], list[ClaimedDevice]]:
    """Read the PCI devices that consumers have, for their domains: {(node id, uuid): devices}."""
    claimed: dict[tuple[int, str], list[ClaimedDevice]] = {}
    table = tables.pci_devices
    for row in bulk.among(
        connection, _with_owner(table).order_by(table.c.address), tables.consumers.c.uuid, uuids
    ):
        device: ClaimedDevice = {
            "address": row.address,
            "request": row.request_number,
            "managed": row.tags.get("managed") != "false",
            "dev_type": row.dev_type,
            "interface": row.interface,
            "live_migratable": row.tags.get("live_migratable") == "true",
        }
        claimed.setdefault((row.compute_node_id, row.owner), []).append(device)
    return claimed


def mdevs_of_consumers(
    connection: Connection, uuids: Collection[str]
) -> dict[tuple[int, str], list[ClaimedMdev]]:
    """Read the mediated devices that consumers have, for their domains: {(node id, uuid of the
    consumer): devices, by parent}.
    """
    table = tables.mdevs
    claimed: dict[tuple[int, str], list[ClaimedMdev]] = {}
    for row in bulk.among(
        connection,
        _with_owner(table).order_by(table.c.parent, table.c.uuid),
        tables.consumers.c.uuid,
        uuids,
    ):
        claimed.setdefault((row.compute_node_id, row.owner), []).append(
            {"uuid": row.uuid, "parent": row.parent, "type": row.type}
        )
    return claimed


def _owned(table: sa.Table, consumer: int | None) -> dict[str, int | None]:
    """Return the columns of a device that a host shows to be a consumer's, or that is free."""
    return {
        "consumer_id": consumer,
        **({"request_number": None} if "request_number" in table.c else {}),
    }


def _id_of(uuid: str) -> Any:
    return sa.select(tables.consumers.c.id).where(tables.consumers.c.uuid == uuid).scalar_subquery()
