# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as columns, in a fixed number of queries, for the scheduler, planners and reports.

Only the columns of a query are read: a fleet of a hundred thousand hosts has millions of instances,
and most requests need none of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

from ..._common import resource_classes
from ..._common.arrays import BoolArray, FloatArray, IntArray, np
from ..._records.hosts import FleetColumns, StoredServerGroup
from ..._records.instances import InstanceAmounts, PlannedInstance
from ..._records.node_fields import ALWAYS, ON_DEMAND, NodeField, read_when
from ..database import bulk, column_reader
from ..database.sql import Connection, Select, sa
from ..providers import pool_names, provider_arrays, resource_columns
from ..schema import tables
from . import aggregates, devices, numa, services

RESOURCE_CLASSES = tuple(resource_classes.KEYS)
#: In place of names: all instances, all server groups with their members.
ALL = "all"
#: Columns of compute_nodes that are read on demand.
ON_WISH = tuple(each.name for each in read_when(ON_DEMAND))
#: Lists of things that a node has, each read by one query: the allocations of its NUMA cells, and
#: its devices.
BY_NODE: dict[str, Callable[[Connection], Mapping[int, list[Any]]]] = {
    "numa_allocations": numa.read,
    "pci_devices": devices.read_pci,
    "mdev_types": devices.read_mdev_types,
    "mdevs": devices.read_mdevs,
}


@dataclass
class ColumnQuery:
    """The data to read in addition to the data that are always read."""

    #: The names of ON_WISH, BY_NODE, service, traits, pool_traits, node_flavors, node_images,
    #: free_pci_devices and num_io_ops (else only the values that hosts reported).
    columns: set[str] = field(default_factory=set)
    #: Uuids and names, or ALL; or all instances of instances_for_plans, which are not read again
    #: then.
    instances: set[str] | list[PlannedInstance] | list[InstanceAmounts] | str = field(
        default_factory=set
    )
    #: Names of server groups, or ALL.
    groups: set[str] | str = field(default_factory=set)
    #: Resource classes that are not in RESOURCE_CLASSES.
    classes: set[str] = field(default_factory=set)
    #: Names of traits for the arrays of providers.
    provider_traits: set[str] = field(default_factory=set)


def read_columns(
    connection: Connection,
    now: float,
    service_down_time: float = 0,
    wanted: ColumnQuery | None = None,
) -> FleetColumns:
    """Read all compute nodes with their room and state, and the places of some instances.

    :param now: the time by which heartbeats are judged (seconds since 1970).
    """
    with bulk.without_collection():
        return _read_columns(connection, now, service_down_time, wanted or ColumnQuery())


def _read_columns(
    connection: Connection, now: float, service_down_time: float, wanted: ColumnQuery
) -> FleetColumns:
    nodes, ids, reported = _nodes(connection, now, service_down_time, wanted)
    size = len(ids)
    place_of = _places(ids)
    names = (*RESOURCE_CLASSES, *sorted(wanted.classes - set(RESOURCE_CLASSES)))
    pool_names.learn(connection, names)
    arrays = provider_arrays.read(connection, names, sorted(wanted.provider_traits), figures=True)
    provider_of = dict(zip(arrays.uuids, range(arrays.size)))
    providers = np.array([provider_of.get(uuid, -1) for uuid in nodes["uuid"]], dtype=np.int64)
    # A FleetColumns; some of its columns depend on the query.
    columns: Any = {
        **nodes,
        "provider_arrays": arrays,
        "resources": _without_room(resource_columns.of_nodes(arrays, providers, names), reported),
        "aggregates": aggregates.listing(connection),
        "num_instances": _counts(connection, place_of, size),
        **_read_named_columns(connection, wanted, place_of, nodes),
    }
    instances = tables.instances
    if "node_flavors" in wanted.columns:
        columns["node_flavors"] = _grouped(connection, instances.c.flavor, place_of)
    if "node_images" in wanted.columns:
        columns["node_images"] = _grouped(connection, sa.cast(instances.c.image, sa.Text), place_of)
    if "traits" in wanted.columns:
        columns["traits"] = _traits(connection, _places(np.append(arrays.ids, -1)[providers]), size)
    if "pool_traits" in wanted.columns:
        columns["pool_traits"] = _pool_traits(
            columns["resources"], arrays, provider_of, wanted.provider_traits, size
        )
    for name in BY_NODE.keys() & wanted.columns:
        by_node = BY_NODE[name](connection)
        columns[name] = [by_node.get(key, []) for key in ids]
    if "free_pci_devices" in wanted.columns:
        columns["free_pci_devices"] = _per_node(
            connection, devices.count_free_pci(), place_of, size
        )
    if "num_io_ops" in wanted.columns:
        columns["num_io_ops"] += _io_ops(connection, place_of, size)
    return columns


def _without_room(
    resources: dict[str, dict[str, Any]], reported: Sequence[bool]
) -> dict[str, dict[str, Any]]:
    """Remove the room of nodes that their host no longer reports: the host has left, or counts by
    another node.
    """
    gone = np.flatnonzero(~np.array(reported, dtype=bool))
    for column in resources.values() if len(gone) else ():
        column["total"][gone] = column["reserved"][gone] = 0
    return resources


def _nodes(
    connection: Connection, now: float, service_down_time: float, wanted: ColumnQuery
) -> tuple[dict[str, Any], Sequence[int], Sequence[bool]]:
    nodes = tables.compute_nodes
    fields = [
        each
        for each in read_when(ALWAYS, ON_DEMAND)
        if each.read == ALWAYS or each.name in wanted.columns
    ]

    def column(name: str) -> sa.ColumnElement[Any]:
        found = nodes.c[name]
        return sa.cast(found, sa.Text) if isinstance(found.type, sa.JSON) else found

    # In the order of the tables, without joins: sorting and matching are cheaper in memory.
    rows = column_reader.rows(
        connection,
        sa.select(
            nodes.c.id,
            nodes.c.service_id,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            nodes.c.uuid,
            nodes.c.cell,
            nodes.c.reported,
            *[column(each.name) for each in fields],
        ),
    )
    fetched = list(zip(*rows)) if rows else [()] * (7 + len(fields))
    size = len(rows)
    disabled, disabled_reason, reasons = _service_states(
        connection, fetched[1], fetched[6], now, service_down_time
    )
    columns = {
        "host": list(fetched[2]),
        "node": list(fetched[3]),
        "uuid": list(fetched[4]),
        "cell": list(fetched[5]),
        "disabled": disabled,
        "disabled_reason": disabled_reason,
        "up": np.fromiter((reason is None for reason in reasons), dtype=bool, count=size),
        "down_reason": reasons,
    }
    for column_field, values in zip(fields, fetched[7:]):
        columns[column_field.name] = (
            _numbers(column_field, values) if column_field.read == ALWAYS else list(values)
        )
    if "service" in wanted.columns:
        service_json = services.read_as_json(connection)
        columns["service"] = [service_json.get(key) for key in fetched[1]]
    return columns, fetched[0], fetched[6]


def _numbers(field: NodeField, values: Sequence[int | None]) -> IntArray | FloatArray:
    numbers = np.nan_to_num(np.array(values, dtype=np.float64), nan=field.unknown, posinf=np.inf)
    return numbers if np.isinf(field.unknown) else numbers.astype(np.int64)


def _service_states(
    connection: Connection,
    service_ids: Sequence[int],
    reported: Sequence[bool],
    now: float,
    service_down_time: float,
) -> tuple[BoolArray, list[str | None], list[str | None]]:
    """Read disabled, disabled_reason and down_reason per row.

    Only services that may be disabled or down are read; in a healthy fleet these are few.
    """
    services_table = tables.services
    telling: list[sa.ColumnElement[bool]] = [
        services_table.c.disabled.is_(True),
        services_table.c.forced_down.is_(True),
        services_table.c.last_error.is_not(None),
        services_table.c.last_seen_up.is_(None),
    ]
    if service_down_time:
        telling += [
            services_table.c.last_seen_up < now - service_down_time,
            services_table.c.last_seen_up > now + service_down_time,
        ]
    fields = ("id", "disabled", "disabled_reason", "forced_down", "last_seen_up", "last_error")
    query = sa.select(*[services_table.c[each] for each in fields]).where(sa.or_(*telling))
    by_service = {row[0]: row[1:] for row in column_reader.rows(connection, query)}
    size = len(service_ids)
    disabled: BoolArray = np.zeros(size, dtype=bool)
    disabled_reason: list[str | None] = [None] * size
    reasons: list[str | None] = [None] * size
    for place, service in enumerate(service_ids):
        if service in by_service:
            off, why, *state = by_service[service]
            disabled[place], disabled_reason[place] = bool(off), why
            reasons[place] = services.down_reason(_Service(*state), now, service_down_time)
        if not reported[place]:
            reasons[place] = services.UNREPORTED
    return disabled, disabled_reason, reasons


class _Service(NamedTuple):
    """A records.hosts.ServiceState."""

    forced_down: bool
    last_seen_up: float | None
    last_error: str | None


def _places(ids: Iterable[int | None]) -> IntArray:
    """Make an array from ids to rows, -1 for other ids."""
    known = np.array([-1 if each is None else each for each in ids], dtype=np.int64)
    places = np.full((int(known.max()) if len(known) else 0) + 2, -1, dtype=np.int64)
    places[known] = np.arange(len(known))
    places[-1] = -1
    return places


def _rows_of(places: IntArray, ids: IntArray) -> IntArray:
    """Return the rows of ids, -1 where there is none."""
    return places[np.where((ids >= 0) & (ids < len(places)), ids, len(places) - 1)]


def _table(rows: Sequence[Sequence[float]], width: int) -> FloatArray:
    """Make an array of rows of numbers; amounts below 2**53 are exact."""
    flat = np.fromiter(
        itertools.chain.from_iterable(rows), dtype=np.float64, count=len(rows) * width
    )
    return flat.reshape(-1, width)


def _counts(connection: Connection, places: IntArray, size: int) -> IntArray:
    node = tables.instances.c.compute_node_id
    return _per_node(
        connection,
        sa.select(sa.func.coalesce(node, -1), sa.func.count()).group_by(node),
        places,
        size,
    )


def _io_ops(connection: Connection, places: IntArray, size: int) -> IntArray:
    """Count the open builds of each node, and the open moves from and to it (N5.1, io_workload)."""
    instances, migrations = tables.instances, tables.migrations
    building = sa.select(instances.c.compute_node_id.label("node")).where(
        sa.text(tables.IS_BUILDING)
    )
    moving = [
        sa.select(node).where(migrations.c.status.in_(tables.OPEN_MIGRATION))
        for node in (migrations.c.source_node_id, migrations.c.destination_node_id)
    ]
    busy = sa.union_all(building, *moving).subquery()
    query = sa.select(sa.func.coalesce(busy.c.node, -1), sa.func.count()).group_by(busy.c.node)
    return _per_node(connection, query, places, size)


def _per_node(connection: Connection, query: Select, places: IntArray, size: int) -> IntArray:
    """Put the counts of a query on the rows of the nodes; the rows of the query are (id of a node,
    count).
    """
    counts: IntArray = np.zeros(size, dtype=np.int64)
    table = _table(column_reader.rows(connection, query), 2).astype(np.int64)
    where = _rows_of(places, table[:, 0])
    counts[where[where >= 0]] = table[where >= 0, 1]
    return counts


class _Named(TypedDict):
    """The columns of _read_named_columns(), see FleetColumns."""

    instances: dict[str, int]
    instance_names: dict[str, list[str]]
    server_groups: dict[str, StoredServerGroup]


def _read_named_columns(
    connection: Connection, wanted: ColumnQuery, places: IntArray, columns: Mapping[str, Any]
) -> _Named:
    """Read instances, instance_names and server_groups of a query."""
    instances, groups = tables.instances, tables.server_groups
    server_groups: dict[str, StoredServerGroup] = {
        row.name: {
            "uuid": row.uuid,
            "policy": row.policy,
            "max_server_per_host": row.max_server_per_host,
            "max_moving": row.max_moving,
            "members": [],
            "id": row.id,
        }
        for row in connection.execute(sa.select(groups))
    }
    query = bulk.select(
        instances.c.uuid, instances.c.name, instances.c.compute_node_id, instances.c.server_group_id
    )
    asked = server_groups if wanted.groups == ALL else wanted.groups
    members = {server_groups[name]["id"]: name for name in asked if name in server_groups}
    rows: Iterable[Sequence[Any]]
    if isinstance(wanted.instances, list):
        node_of = {place: node for node, place in enumerate(zip(columns["host"], columns["node"]))}
        group_of = {name: group for group, name in members.items()}
        places = np.arange(len(columns["host"]))
        rows = [
            (
                each["uuid"],
                each["name"],
                node_of.get((each["host"], each["node"])),
                group_of.get(each["server_group"] or ""),
            )
            for each in wanted.instances
        ]
    elif isinstance(wanted.instances, str):
        rows = column_reader.rows(connection, query)
    else:
        members_found = bulk.among(
            connection, query, instances.c.uuid, {each.lower() for each in wanted.instances}
        )
        members_found += bulk.among(connection, query, instances.c.name, wanted.instances)
        members_found += bulk.among(connection, query, instances.c.server_group_id, members)
        rows = {tuple(row)[:4] for row in members_found}
    where: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    for uuid, name, node, group in rows:
        if node is not None and node < len(places) and places[node] >= 0:
            where[uuid] = int(places[node])
        names.setdefault(name, []).append(uuid)
        if group in members:
            server_groups[members[group]]["members"].append(uuid)
    for uuids in names.values():
        uuids.sort()
    return {"instances": where, "instance_names": names, "server_groups": server_groups}


def _grouped(
    connection: Connection, what: sa.ColumnElement[str], places: IntArray
) -> list[tuple[int, str, int]]:
    """Count the instances on each node by a value: [(row, value, count)]."""
    node = tables.instances.c.compute_node_id
    query = (
        sa.select(node, what, sa.func.count())
        .where(node.is_not(None), what.is_not(None))
        .group_by(node, what)
    )
    counted = []
    for key, value, count in column_reader.rows(connection, query):
        if key < len(places) and places[key] >= 0:
            counted.append((int(places[key]), value, count))
    return counted


def _pool_traits(
    resources: Mapping[str, Mapping[str, Any]],
    arrays: provider_arrays.ProviderArrays,
    place_of: Mapping[str, int],
    traits: Iterable[str],
    size: int,
) -> list[list[str]]:
    """Return CLASS:TRAIT of the pools that each row can take from. A row has one pool of a
    class.
    """
    traits_by_row: list[list[str]] = [[] for _row in range(size)]
    for name, column in resources.items():
        pools = column.get("providers")
        if pools is None or not name.startswith(resource_classes.POOL_PREFIX):
            continue
        for trait in sorted(traits):
            having = [bool(arrays.traits[trait][place_of[uuid]]) for uuid in pools["uuid"]]
            for row, pool in zip(pools["row"].tolist(), pools["provider"].tolist()):
                if having[pool]:
                    traits_by_row[row].append(f"{name}:{trait}")
    return traits_by_row


def _traits(connection: Connection, places: IntArray, size: int) -> list[list[str]]:
    """Read the traits of each row."""
    names, owned = tables.traits, tables.provider_traits
    trait_names = {
        row[0]: row[1]
        for row in column_reader.rows(connection, sa.select(names.c.id, names.c.name))
    }
    traits_by_row: list[list[str]] = [[] for _row in range(size)]
    for provider, trait in column_reader.rows(
        connection, sa.select(owned.c.provider_id, owned.c.trait_id).order_by(owned.c.trait_id)
    ):
        if provider < len(places) and places[provider] >= 0:
            traits_by_row[places[provider]].append(trait_names[trait])
    return traits_by_row
