# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host like another one, and a host that is gone: for copies of the store; no real host is added
or removed in this way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._common.errors import node_label
from .._numa.device_providers import key_of
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.hosts import services
from .._store.schema import tables
from . import allocations, provider_trees, provider_uuids, providers


def add_like(connection: Connection, like: str, names: Sequence[str], now: float) -> None:
    """Add hosts that have the properties of another host, and no instances: enabled, up, in the
    same aggregates and zones, with the same pools.

    :param names: new ones.
    :raises UnknownHost: there is no host to be like.
    """
    service = services.get(connection, like)
    nodes = _rows(connection, tables.compute_nodes, tables.compute_nodes.c.host, [like])
    members = _rows(connection, tables.aggregate_hosts, tables.aggregate_hosts.c.host, [like])
    for name in names:
        values: dict[str, object] = {
            "uuid": bulk.new_uuid(),
            "host": name,
            "disabled": False,
            "disabled_reason": None,
            "forced_down": False,
            "maintenance": False,
            "status_before_drain": None,
            "last_seen_up": now,
            "last_error": None,
            "created_at": now,
        }
        service_id = _insert(connection, tables.services, service, values)
        bulk.insert(
            connection,
            tables.aggregate_hosts,
            [{"aggregate_id": row.aggregate_id, "host": name} for row in members],
        )
        for node in nodes:
            own = name if node.hypervisor_hostname == like else f"{name}-{node.hypervisor_hostname}"
            _add_node(
                connection,
                node,
                {
                    "host": name,
                    "hypervisor_hostname": own,
                    "service_id": service_id,
                    "created_at": now,
                },
            )


def _add_node(connection: Connection, node: Row, values: Mapping[str, Any]) -> None:
    uuid = bulk.new_uuid()
    # The copy has no uri, because no guest can be there yet.
    node_id = _insert(
        connection,
        tables.compute_nodes,
        node,
        {**values, "uuid": uuid, "uri": None, "failed_builds": 0, "reported": True},
    )
    devices = _rows(connection, tables.pci_devices, tables.pci_devices.c.compute_node_id, [node.id])
    free = {"compute_node_id": node_id, "consumer_id": None, "request_number": None}
    _insert_all(connection, tables.pci_devices, devices, free)
    types = _rows(connection, tables.mdev_types, tables.mdev_types.c.compute_node_id, [node.id])
    _insert_all(connection, tables.mdev_types, types, {"compute_node_id": node_id})
    table = tables.resource_providers
    tree = sorted(provider_trees.tree(connection, node.uuid))
    old = {row.id: row for row in _rows(connection, table, table.c.id, tree)}
    label, old_label = (
        node_label(values["host"], values["hypervisor_hostname"]),
        node_label(node.host, node.hypervisor_hostname),
    )
    keys = {provider_uuids.uuid_of(node.uuid, key): key for key in _keys(node, devices, types)}
    new: dict[int, int] = {}
    # A parent has its id before its children.
    for key in sorted(old, key=lambda each: (old[each].root_id is not None, each)):
        row = old[key]
        if row.uuid == node.uuid:
            provider_uuid, name = uuid, label
        else:
            provider_uuid = (
                provider_uuids.uuid_of(uuid, keys[row.uuid])
                if row.uuid in keys
                else bulk.new_uuid()
            )
            name = label + row.name.removeprefix(old_label)
        parents = {"parent_id": new.get(row.parent_id), "root_id": new.get(row.root_id)}
        new[key] = _insert(
            connection,
            table,
            row,
            {"uuid": provider_uuid, "name": name, "generation": 0, **parents},
        )
    _copy_contents(connection, new)


def _keys(node: Row, devices: Sequence[Row], types: Sequence[Row]) -> set[str]:
    """Return the keys of the providers below the provider of a compute node, see
    nested_providers.NestedProvider.
    """
    keys = {key_of(dict(row._mapping)) for row in devices} | {row.parent for row in types}
    return keys | {f"NUMA{cell['id']}" for cell in node.numa_cells or ()}


def _copy_contents(connection: Connection, new: Mapping[int, int]) -> None:
    """Give new providers the inventories, traits and aggregates of others; {id of the other: id of
    the new one}.
    """
    for row in _rows(connection, tables.inventories, tables.inventories.c.provider_id, new):
        # A drained pool returns the amount that is reserved for the drain.
        reserved = row.reserved if row.reserved_before_drain is None else row.reserved_before_drain
        values = {
            "provider_id": new[row.provider_id],
            "used": 0,
            "reserved": reserved,
            "reserved_before_drain": None,
            "drain_reason": None,
        }
        _insert(connection, tables.inventories, row, values)
    disabled = sa.select(tables.traits.c.id).where(tables.traits.c.name == providers.DISABLED_TRAIT)
    without = set(connection.execute(disabled).scalars())
    for table, name in (
        (tables.provider_traits, "trait_id"),
        (tables.provider_aggregates, "aggregate_id"),
    ):
        rows = _rows(connection, table, table.c.provider_id, new)
        kept = [row for row in rows if name != "trait_id" or row.trait_id not in without]
        bulk.insert(
            connection,
            table,
            [{"provider_id": new[row.provider_id], name: getattr(row, name)} for row in kept],
        )


def remove(connection: Connection, hosts: Collection[str], now: float) -> None:
    """Remove hosts, with whatever still holds something of them."""
    nodes = _rows(connection, tables.compute_nodes, tables.compute_nodes.c.host, hosts)
    table = tables.resource_providers
    roots = {
        row.id for row in _rows(connection, table, table.c.uuid, [node.uuid for node in nodes])
    }
    tree = roots | {row.id for row in _rows(connection, table, table.c.root_id, roots)}
    held = tables.allocations
    consumers = {row.consumer_id for row in _rows(connection, held, held.c.provider_id, tree)}
    names = [
        row.uuid for row in _rows(connection, tables.consumers, tables.consumers.c.id, consumers)
    ]
    drop(connection, names, now)
    on = tables.instances
    drop(
        connection,
        [
            row.uuid
            for row in _rows(connection, on, on.c.compute_node_id, [node.id for node in nodes])
        ],
        now,
    )
    # Children before their parents.
    bulk.delete(connection, table, table.c.id, tree - roots)
    bulk.delete(connection, table, table.c.id, roots)
    bulk.delete(connection, tables.compute_nodes, tables.compute_nodes.c.host, hosts)
    bulk.delete(connection, tables.services, tables.services.c.host, hosts)
    bulk.delete(connection, tables.aggregate_hosts, tables.aggregate_hosts.c.host, hosts)


def drop(connection: Connection, uuids: Collection[str], now: float) -> None:
    """Forget instances, or other consumers, and free their allocations."""
    holdings = allocations.Holdings(connection, {}, now, drop=uuids)
    holdings.write({uuid: {} for uuid in holdings.ids})
    bulk.delete(connection, tables.domains, tables.domains.c.uuid, uuids)
    bulk.delete(connection, tables.instances, tables.instances.c.uuid, uuids)


def _rows(
    connection: Connection, table: sa.Table, column: sa.Column[Any], values: Collection[Any]
) -> list[Row]:
    return bulk.among(connection, bulk.select(table), column, values)


def _insert_all(
    connection: Connection, table: sa.Table, rows: Sequence[Row], changed: Mapping[str, object]
) -> None:
    bulk.insert(connection, table, [_values(row, changed) for row in rows])


def _insert(
    connection: Connection, table: sa.Table, row: Row, changed: Mapping[str, object]
) -> int:
    """Insert a row like another one; return its id."""
    key = connection.execute(sa.insert(table), _values(row, changed)).inserted_primary_key
    return int(key[0])  # type: ignore[index]  # a table with an id


def _values(row: Row, changed: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in {**row._mapping, **changed}.items() if name != "id"}
