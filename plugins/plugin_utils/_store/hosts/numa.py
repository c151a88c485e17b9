# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NUMA cells of compute nodes that consumers (instances, and migrations at their source) have.

A row is deleted with its consumer. Claims lock the row of the node before they read these, see
placement.host_room.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..._records.hosts import NumaAllocation
from ..database import bulk, column_reader
from ..database.sql import Connection, Select, sa
from ..schema import tables

#: The keys of a cell that no domain shows.
POLICIES = ("cpu_policy", "thread_policy", "emulator_policy")


def read(
    connection: Connection, node_ids: Collection[int] | None = None
) -> dict[int, list[NumaAllocation]]:
    """Read the cells of nodes that consumers have, by one query.

    :param node_ids: None for all.
    :returns: {node id: allocations, in the order of the uuids}.
    """
    table, consumers = tables.numa_allocations, tables.consumers
    query = sa.select(table.c.compute_node_id, consumers.c.uuid, sa.cast(table.c.cells, sa.Text))
    query = query.join(consumers, consumers.c.id == table.c.consumer_id)
    if node_ids is None:
        rows: Iterable[Any] = column_reader.rows(connection, query)
    else:
        rows = [
            tuple(row)[:3]
            for row in bulk.among(connection, query, table.c.compute_node_id, node_ids)
        ]
    by_node: dict[int, list[NumaAllocation]] = {}
    for node, uuid, cells in rows:
        by_node.setdefault(node, []).append({"uuid": uuid, "cells": json.loads(cells)})
    for claims in by_node.values():
        claims.sort(key=lambda one: one["uuid"])
    return by_node


def write(
    connection: Connection,
    wanted: Mapping[int, Mapping[str, Iterable[Mapping[str, object]]]],
    keep: Collection[tuple[int, str]] = (),
) -> bool:
    """Replace the cells of the consumers of nodes by the cells that their hosts show; write only
    the differences.

    :param wanted: {node id: {uuid of an instance: cells, empty for none}}; all others of the node
        are removed.
    :param keep: (node id, uuid) of consumers that keep their cells if they are not in ``wanted``:
        claimed, and not shown yet.
    :returns: True if a row changed.
    """
    table = tables.numa_allocations
    existing = {
        (row.compute_node_id, row.uuid): row
        for row in bulk.among(
            connection,
            sa.select(table, tables.consumers.c.uuid).join(
                tables.consumers, tables.consumers.c.id == table.c.consumer_id
            ),
            table.c.compute_node_id,
            wanted,
        )
    }
    shown = {
        (node, uuid): _with_policies(
            list(cells), existing[node, uuid].cells if (node, uuid) in existing else []
        )
        for node, domains in wanted.items()
        for uuid, cells in domains.items()
    }
    gone = [
        row.id
        for key, row in existing.items()
        if (not shown[key] if key in shown else key not in keep)
    ]
    new = {key: cells for key, cells in shown.items() if cells and key not in existing}
    different = [
        {"id": existing[key].id, "cells": cells}
        for key, cells in shown.items()
        if cells and key in existing and existing[key].cells != cells
    ]
    bulk.delete(connection, table, table.c.id, gone)
    bulk.update(connection, table, different)
    return insert(connection, new) or bool(gone or different)


def _with_policies(
    cells: Iterable[Mapping[str, object]], claimed: Iterable[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Add the claimed policies to cells that a host shows, if they have the same CPUs as in the
    claim.
    """
    by_pins = {(each["host"], str(each["pins"])): each for each in claimed}
    return [
        {
            **each,
            **{
                key: by_pins.get((each["host"], str(each["pins"])), {}).get(key) for key in POLICIES
            },
        }
        for each in cells
    ]


def insert(connection: Connection, wanted: Mapping[tuple[int, str], list[Any]]) -> bool:
    """Add the cells of nodes that consumers get: {(node id, uuid): cells}; the consumers must
    exist.

    :returns: True if any was added.
    """
    ids = bulk.ids_by(
        connection, tables.consumers.c.uuid, {uuid for dummy, uuid in wanted}, make=False
    )
    rows = [
        {"consumer_id": ids[uuid], "compute_node_id": node, "cells": cells}
        for (node, uuid), cells in wanted.items()
        if uuid in ids
    ]
    bulk.insert(connection, tables.numa_allocations, rows)
    return bool(rows)


def remove(connection: Connection, node: int, uuid: str) -> None:
    """Delete the cells of a node that a consumer has."""
    table = tables.numa_allocations
    connection.execute(
        sa.delete(table).where(table.c.compute_node_id == node, table.c.consumer_id.in_(_ids(uuid)))
    )


def hand_over(connection: Connection, node: int, giver: str, taker: str) -> None:
    """Give the cells that a consumer has of a node to another consumer, in place of its own; both
    must exist.
    """
    table = tables.numa_allocations
    remove(connection, node, taker)
    query = sa.update(table).where(
        table.c.compute_node_id == node, table.c.consumer_id.in_(_ids(giver))
    )
    connection.execute(query.values(consumer_id=_ids(taker).scalar_subquery()))


def of_consumers(
    connection: Connection, uuids: Collection[str] | None
) -> dict[tuple[int, str], list[Any]]:
    """Read the cells of nodes that consumers (None for all) have: {(node id, uuid): cells}."""
    if uuids is None:
        return {
            (node, each["uuid"]): each["cells"]
            for node, held in read(connection).items()
            for each in held
        }
    table, consumers = tables.numa_allocations, tables.consumers
    query = sa.select(table.c.compute_node_id, consumers.c.uuid, table.c.cells).join(
        consumers, consumers.c.id == table.c.consumer_id
    )
    return {
        (row.compute_node_id, row.uuid): row.cells
        for row in bulk.among(connection, query, consumers.c.uuid, uuids)
    }


def is_tied(facts: Mapping[str, Any] | None) -> bool:
    """Return True if the fact ``numa`` of a domain binds it to certain CPUs, cells or pages of its
    host; a domain that floats over a set is not bound.
    """
    if not facts:
        return False
    allowed = [*(facts.get("vcpu_pins") or {}).values(), facts.get("emulator_pins") or []]
    memory = [facts.get("memory") or {}, *(facts.get("cells") or ())]
    return (
        bool(facts.get("pages"))
        or any(len(cpus) == 1 for cpus in allowed)
        or any(each.get("nodes") for each in memory)
    )


def _ids(uuid: str) -> Select:
    return sa.select(tables.consumers.c.id).where(tables.consumers.c.uuid == uuid)
