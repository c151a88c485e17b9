# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mediated devices, such as virtual GPUs, for the allocations of instances on the providers of the
devices that make them (N12.6).

This runs in the transaction of the caller that wrote the allocations: they ensure that no device
makes more than it can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ansible_collections.drover.compute.plugins.module_utils._ownership import mdev_uuids

from .._common import resource_classes
from .._records.claims import ClaimedMdev
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.schema import tables
from . import provider_uuids


def may_have(resources: Mapping[str, int]) -> bool:
    """Return True if an instance with these amounts may have mediated devices, so that its
    allocations must be read.
    """
    # No class that discovery records has devices.
    return any(
        amount and name not in resource_classes.DISCOVERED for name, amount in resources.items()
    )


def claim(
    connection: Connection, wanted: Mapping[str, Mapping[int, Mapping[str, int]]]
) -> dict[str, list[ClaimedMdev]]:
    """Give consumers the mediated devices for their allocations: free ones that exist, else new
    ones, which their hosts have yet to make.

    A consumer that has some of them already gets only the rest.

    :param wanted: {uuid of an existing consumer: {id of a provider: {resource class: amount}}}.
    :returns: {uuid: its mediated devices, by parent}; consumers without one are left out.
    """
    makers = _makers(connection, {provider for places in wanted.values() for provider in places})
    if not makers:
        return {}
    consumers = bulk.ids_by(
        connection,
        tables.consumers.c.uuid,
        [uuid for uuid, places in wanted.items() if makers.keys() & places],
        make=False,
    )
    claimed: dict[str, list[ClaimedMdev]] = {}
    for uuid in sorted(wanted):
        for provider in sorted(makers.keys() & wanted[uuid], key=lambda each: makers[each].parent):
            maker = makers[provider]
            amount = wanted[uuid][provider].get(maker.resource_class, 0)
            if amount:
                names = _of_consumer(connection, maker, uuid, consumers[uuid], amount)
                claimed.setdefault(uuid, []).extend(
                    {"uuid": name, "parent": maker.parent, "type": maker.type} for name in names
                )
    return claimed


def _makers(connection: Connection, provider_ids: Collection[int]) -> dict[int, Row]:
    """Return the rows of the table mdev_types by the providers of the devices that make them."""
    table, kinds, nodes = tables.resource_providers, tables.mdev_types, tables.compute_nodes
    root = table.alias()
    query = sa.select(
        table.c.id, table.c.uuid, nodes.c.id.label("node"), nodes.c.uuid.label("node_uuid")
    )
    query = query.join(root, root.c.id == table.c.root_id).join(nodes, nodes.c.uuid == root.c.uuid)
    providers = {row.uuid: row for row in bulk.among(connection, query, table.c.id, provider_ids)}
    names = {row.node: row.node_uuid for row in providers.values()}
    rows_by_provider = {}
    for row in bulk.among(connection, bulk.select(kinds), kinds.c.compute_node_id, names):
        provider = providers.get(provider_uuids.uuid_of(names[row.compute_node_id], row.parent))
        if provider is not None:
            rows_by_provider[provider.id] = row
    return rows_by_provider


def _of_consumer(
    connection: Connection, maker: Row, uuid: str, consumer: int, amount: int
) -> list[str]:
    """Return the uuids of the mediated devices of a parent that a consumer has now."""
    table = tables.mdevs
    of_maker = (
        table.c.compute_node_id == maker.compute_node_id,
        table.c.parent == maker.parent,
        table.c.type == maker.type,
    )
    rows = connection.execute(sa.select(table).where(*of_maker).order_by(table.c.uuid)).all()
    mine = [row.uuid for row in rows if row.consumer_id == consumer]
    # A device that is only defined may be inactive on purpose.
    for row in rows:
        if len(mine) < amount and row.consumer_id is None and row.active:
            free = sa.update(table).where(table.c.id == row.id, table.c.consumer_id.is_(None))
            # Another consumer may have got it since it was read.
            mine += [row.uuid] * connection.execute(free.values(consumer_id=consumer)).rowcount
    return mine[:amount] + _new(connection, maker, uuid, consumer, amount - len(mine), rows)


def _new(
    connection: Connection, maker: Row, uuid: str, consumer: int, amount: int, there: Sequence[Row]
) -> list[str]:
    """Give a consumer mediated devices that its host has yet to make."""
    by_uuid = {row.uuid: row for row in there}
    made: list[str] = []
    for number in range(len(by_uuid) + max(amount, 0)):
        name = mdev_uuids.made_for(uuid, maker.parent, maker.type, number)
        if len(made) == amount or (name in by_uuid and by_uuid[name].consumer_id is not None):
            continue
        columns = {"consumer_id": consumer, "active": False}
        if name in by_uuid:
            bulk.update(connection, tables.mdevs, [{"id": by_uuid[name].id, **columns}])
        else:
            row = {
                "compute_node_id": maker.compute_node_id,
                "uuid": name,
                "parent": maker.parent,
                "type": maker.type,
            }
            bulk.insert(connection, tables.mdevs, [{**row, **columns}])
        made.append(name)
    return made
