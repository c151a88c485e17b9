# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances, read and written in bulk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..._common.resource_classes import POOL_PREFIX, pool_of
from ..._records.instances import ListedInstance
from ..._records.labels import Selector
from ..database import bulk
from ..database.sql import Connection, Row, Select, sa
from ..hosts import devices, numa
from ..providers import pool_names
from ..schema import tables
from . import labels


def concerned(
    connection: Connection, uuids: Iterable[str], node_ids: Iterable[int]
) -> dict[str, Row]:
    """Read the instances with some uuids and the instances on some nodes, by uuid."""
    table = tables.instances
    rows = bulk.among(connection, bulk.select(table), table.c.uuid, uuids)
    rows += bulk.among(connection, bulk.select(table), table.c.compute_node_id, node_ids)
    return {row.uuid: row for row in rows}


def hold(connection: Connection, uuid: str) -> Row | None:
    """Read an instance and lock it until the end of the transaction; None if there is none."""
    return bulk.hold(connection, tables.instances, "uuid", [uuid]).get(uuid)


def write(
    connection: Connection,
    wanted: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Row],
    now: float,
) -> set[str]:
    """Add instances, or update the instances that differ.

    :param wanted: {uuid: columns}, the same columns for all.
    :param known: {uuid: row}.
    :returns: the uuids of changed instances.
    """
    table = tables.instances
    new = [
        {"uuid": uuid, "created_at": now, **columns}
        for uuid, columns in wanted.items()
        if uuid not in known
    ]
    updates = [
        {"id": known[uuid].id, **columns}
        for uuid, columns in wanted.items()
        if uuid in known
        and any(getattr(known[uuid], name) != value for name, value in columns.items())
    ]
    bulk.insert(connection, table, new)
    bulk.update(connection, table, updates)
    ids = {row.id: uuid for uuid, row in known.items()}
    return {row["uuid"] for row in new} | {ids[row["id"]] for row in updates}


def place(connection: Connection, uuid: str) -> Row | None:
    """Read the compute node of an instance."""
    table, nodes = tables.instances, tables.compute_nodes
    query = (
        sa.select(nodes)
        .join(table, table.c.compute_node_id == nodes.c.id)
        .where(table.c.uuid == uuid)
    )
    return connection.execute(query).one_or_none()


def set_state(connection: Connection, rows: Iterable[Row], state: str) -> None:
    """Set the state of instances (active, missing)."""
    bulk.update(connection, tables.instances, [{"id": row.id, "state": state} for row in rows])


def set_policy(connection: Connection, row: Row, policy: Mapping[str, object] | None) -> None:
    """Set the policy of an instance."""
    if row.policy != policy:
        bulk.update(connection, tables.instances, [{"id": row.id, "policy": policy}])


def set_labels(connection: Connection, uuid: str, found: Mapping[str, str] | None) -> None:
    """Set the labels of an instance."""
    table = tables.instances
    row = connection.execute(
        sa.select(table.c.id, table.c.labels).where(table.c.uuid == uuid)
    ).one_or_none()
    if row is not None and (row.labels or None) != (found or None):
        bulk.update(connection, table, [{"id": row.id, "labels": found or None}])


def kept(connection: Connection, uuids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Read the facts that listing() lacks and that are compared with the definitions of instances,
    by uuid.

    :returns: policy, flavor (its name), image_name and extra_specs (of the instance itself) as they
        were recorded, and its room on its host: cells (see numa.of_consumers()) and devices (see
        devices.of_consumers()).
    """
    table, names = tables.instances, ("policy", "flavor", "image_name", "extra_specs")
    unique_uuids = sorted(set(uuids))
    rows = bulk.among(connection, bulk.select(table), table.c.uuid, unique_uuids)
    cells, claimed_devices = (
        numa.of_consumers(connection, unique_uuids),
        devices.of_consumers(connection, unique_uuids),
    )
    by_uuid = {}
    for row in rows:
        place = row.compute_node_id, row.uuid
        by_uuid[row.uuid] = {
            **{name: getattr(row, name) for name in names},
            "cells": cells.get(place, []),
            "devices": claimed_devices.get(place, []),
        }
    return by_uuid


def forget_nodes(connection: Connection, node_ids: Iterable[int]) -> None:
    """Set the place of instances to none, because their compute node, which has no allocations of
    them, is removed.
    """
    table = tables.instances
    for node in node_ids:
        connection.execute(
            sa.update(table).where(table.c.compute_node_id == node).values(compute_node_id=None)
        )


def group_ids(connection: Connection) -> dict[str, int]:
    """Read the ids of server groups by name."""
    table = tables.server_groups
    return {row.name: row.id for row in connection.execute(sa.select(table.c.name, table.c.id))}


def on_its_node() -> sa.ColumnElement[bool]:
    """Write the condition that a domain is on the node of its instance, because several nodes may
    show it.
    """
    instances, domains = tables.instances, tables.domains
    return sa.and_(
        domains.c.uuid == instances.c.uuid, domains.c.compute_node_id == instances.c.compute_node_id
    )


def located(*columns: sa.ColumnElement[Any]) -> Select:
    """Make the query of all instances and their places.

    Its rows have the columns of the instance, and host, hypervisor_hostname, group_name and
    domain_state, None if there is none.

    :param columns: further columns of the compute node, the server group or the domain.
    """
    instances, nodes, domains, groups = (
        tables.instances,
        tables.compute_nodes,
        tables.domains,
        tables.server_groups,
    )
    return (
        sa.select(
            instances,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            groups.c.name.label("group_name"),
            domains.c.state.label("domain_state"),
            *columns,
        )
        .outerjoin(nodes, nodes.c.id == instances.c.compute_node_id)
        .outerjoin(groups, groups.c.id == instances.c.server_group_id)
        .outerjoin(domains, on_its_node())
    )


@bulk.without_collection()
def addresses(connection: Connection, uuids: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Read the addresses of instances on their nodes, by uuid; the addresses of the first interface
    come first.

    :param uuids: the only instances; None for all.
    """
    table, domains = tables.instances, tables.domains
    # The rest of the facts is not decoded.
    query = sa.select(domains.c.uuid, domains.c.facts["interfaces"].as_string()).join(
        table, on_its_node()
    )
    rows = (
        connection.execute(query)
        if uuids is None
        else bulk.among(connection, query, domains.c.uuid, uuids)
    )
    return {
        uuid: (
            [address for each in json.loads(interfaces) for address in each.get("addresses", ())]
            if interfaces
            else []
        )
        for uuid, interfaces in rows
    }


def pool_disks(
    connection: Connection, uuids: Iterable[str] | None = None
) -> dict[str, dict[str, int]]:
    """Read the disks of instances in further storage pools: {uuid: {pool: GiB}}, without instances
    that have none there.

    :param uuids: the only instances; None for all.
    """
    consumers, allocations, classes = tables.consumers, tables.allocations, tables.resource_classes
    query = (
        sa.select(consumers.c.uuid, classes.c.name, allocations.c.used)
        .join(allocations, allocations.c.consumer_id == consumers.c.id)
        .join(classes, classes.c.id == allocations.c.class_id)
        .where(classes.c.name.startswith(POOL_PREFIX, autoescape=True))
        .order_by(consumers.c.uuid, classes.c.name)
    )
    rows = list(
        connection.execute(query)
        if uuids is None
        else bulk.among(connection, query, consumers.c.uuid, uuids)
    )
    pool_names.learn(connection, {name for _uuid, name, _used in rows})
    by_uuid: dict[str, dict[str, int]] = {}
    for uuid, name, used in rows:
        pools = by_uuid.setdefault(uuid, {})
        pools[pool_of(name)] = pools.get(pool_of(name), 0) + int(used)
    return by_uuid


def newest_migrations(connection: Connection, uuid: str, most: int) -> list[dict[str, object]]:
    """Read the newest migrations of an instance, the newest first."""
    table = tables.migrations
    names = (
        "uuid",
        "type",
        "status",
        "source",
        "destination",
        "message",
        "created_at",
        "updated_at",
    )
    query = sa.select(*(table.c[name] for name in names)).where(table.c.instance_uuid == uuid)
    rows = connection.execute(
        query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(most)
    )
    return [dict(zip(names, row)) for row in rows]


def state_of(state: str, domain_state: str | None) -> str:
    """Return the state of an instance for people: its domain's state, or building or missing."""
    return domain_state if state == "active" and domain_state else state


def counts(connection: Connection) -> Counter[tuple[str | None, str]]:
    """Count all instances by their host (None for none) and state."""
    query = located().with_only_columns(
        tables.compute_nodes.c.host,
        tables.instances.c.state,
        tables.domains.c.state.label("domain_state"),
        sa.func.count(),
    )
    query = query.group_by(
        tables.compute_nodes.c.host, tables.instances.c.state, tables.domains.c.state
    )
    totals: Counter[tuple[str | None, str]] = Counter()
    for row in connection.execute(query):
        totals[row.host, state_of(row.state, row.domain_state)] += row[-1]
    return totals


@bulk.without_collection()
def listing(
    connection: Connection,
    host: str | None = None,
    name: str | None = None,
    uuid: str | None = None,
    selector: Selector | None = None,
) -> list[ListedInstance]:
    """Read instances for people and programs, sorted by name: all of them, or the instances of a
    host, a name, a uuid or a selector.
    """
    instances, nodes, domains = tables.instances, tables.compute_nodes, tables.domains
    # Columns of JSON that are not shown are not decoded.
    shown = {
        "uuid": instances.c.uuid,
        "name": instances.c.name,
        "host": nodes.c.host,
        "node": nodes.c.hypervisor_hostname,
        "state": instances.c.state,
        "vcpus": instances.c.vcpus,
        "memory_mb": instances.c.memory_mb,
        "disk_gb": instances.c.disk_gb,
        "server_group": tables.server_groups.c.name,
        "availability_zone": instances.c.availability_zone,
        "project": instances.c.project,
        "user": instances.c.user,
        "labels": instances.c.labels,
        "definition": instances.c.definition,
        "autostart": domains.c.autostart,
        "domain_state": domains.c.state,
    }
    query = located().with_only_columns(*(column.label(name) for name, column in shown.items()))
    query = query.order_by(instances.c.name, instances.c.uuid)
    if host is not None:
        query = query.where(nodes.c.host == host)
    if name is not None:
        query = query.where(instances.c.name == name)
    if uuid is not None:
        query = query.where(instances.c.uuid == uuid)
    if selector is not None:
        query = query.where(labels.condition(instances.c.labels, selector))
    # The values are not read by their names: that takes longer than the read of the row.
    instances_listed: list[Any] = [dict(zip(shown, row)) for row in connection.execute(query).all()]
    for instance in instances_listed:
        instance["state"] = state_of(instance["state"], instance.pop("domain_state"))
        instance["labels"] = instance["labels"] or {}
        instance["autostart"] = bool(instance["autostart"])
    return instances_listed
