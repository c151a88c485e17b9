# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler needs of the store, as arrays, in a number of queries that the fleet does not change.

Only what the requests at hand make host filters and weighers read is read: a fleet of a hundred
thousand hosts has millions of instances, and most requests ask about none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

try:
    import numpy as np
    import sqlalchemy as sa
except ImportError:
    np = sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, fleet, tables

#: Columns of compute_nodes that are read only when wanted.
ON_WISH = ("host_ip", "hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances", "stats", "metrics")


@dataclass
class Wanted:
    """columns: names of optional columns; instances: uuids or names; groups: names of server groups."""

    columns: set = field(default_factory=set)
    instances: set = field(default_factory=set)
    groups: set = field(default_factory=set)


def read_columns(connection, now, service_down_time=0, wanted=None):
    """The columns for scheduler.host_states.HostStates.

    :param now: the time (seconds since 1970) heartbeats are held against.
    :param wanted: Wanted.
    :returns: as fleet.read_fleet, with NumPy arrays for numbers, without zones (they come from the
        aggregates) and with only the instances that are wanted.
    """
    wanted = wanted or Wanted()
    columns, ids, providers = _nodes(connection, now, service_down_time, wanted)
    size = len(columns["host"])
    place_of = _places(ids)
    columns["resources"] = _resources(connection, _places(providers), size)
    columns["aggregates"] = _aggregates(connection)
    columns["num_instances"] = _counts(connection, place_of, size)
    columns.update(_named(connection, wanted, place_of))
    instances = tables.instances
    if "node_flavors" in wanted.columns:
        columns["node_flavors"] = _grouped(connection, instances.c.flavor, place_of)
    if "node_images" in wanted.columns:
        columns["node_images"] = _grouped(connection, sa.cast(instances.c.image, sa.Text), place_of)
    if "traits" in wanted.columns:
        columns["traits"] = _traits(connection, _places(providers), size)
    return columns


def _rows(connection, query):
    """The rows as the driver gives them: plain tuples, without a wrapper for each."""
    result = connection.execute(query)
    rows = result.cursor.fetchall()
    result.close()
    return rows


def _nodes(connection, now, service_down_time, wanted):
    nodes, known, providers = tables.compute_nodes, tables.services, tables.resource_providers
    extra = [name for name in ON_WISH if name in wanted.columns]

    def column(name):
        found = nodes.c[name]
        return sa.cast(found, sa.Text) if isinstance(found.type, sa.JSON) else found

    query = (
        sa.select(
            nodes.c.id,
            providers.c.id,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            nodes.c.uuid,
            nodes.c.cell,
            nodes.c.disk_available_least,
            nodes.c.num_io_ops,
            nodes.c.failed_builds,
            nodes.c.service_id,
            nodes.c.reported,
            *[column(name) for name in extra],
        )
        .outerjoin(providers, providers.c.uuid == nodes.c.uuid)
        .order_by(nodes.c.host, nodes.c.hypervisor_hostname)
    )
    rows = _rows(connection, query)
    found = list(zip(*rows)) if rows else [()] * (11 + len(extra))
    size = len(rows)
    state = {
        row[0]: row[1:]
        for row in _rows(
            connection, sa.select(known.c.id, known.c.disabled, known.c.disabled_reason, known.c.forced_down, known.c.last_seen_up, known.c.last_error)
        )
    }
    services = [state[service] for service in found[9]]
    disabled, disabled_reason, forced, seen, error = list(zip(*services)) if services else [()] * 5
    suspect = np.array(forced, dtype=bool) | np.array([each is not None for each in error], dtype=bool)
    heartbeat = np.array([np.nan if each is None else each for each in seen], dtype=np.float64)
    suspect |= np.isnan(heartbeat) | ~np.array(found[10], dtype=bool)
    if service_down_time:
        suspect |= np.abs(now - np.nan_to_num(heartbeat)) > service_down_time
    reasons = [None] * size
    for place in np.flatnonzero(suspect):
        row = _Service(found[10][place], *services[place][2:])
        reasons[place] = fleet.down_reason(row, now, service_down_time)
    columns = {
        "host": list(found[2]),
        "node": list(found[3]),
        "uuid": list(found[4]),
        "cell": list(found[5]),
        "disk_available_least_gb": np.array([np.inf if each is None else each for each in found[6]], dtype=np.float64),
        "num_io_ops": np.array(found[7], dtype=np.int64),
        "failed_builds": np.array(found[8], dtype=np.int64),
        "disabled": np.array(disabled, dtype=bool),
        "disabled_reason": list(disabled_reason),
        "up": np.array([reason is None for reason in reasons], dtype=bool),
        "down_reason": reasons,
    }
    for number, name in enumerate(extra, start=11):
        columns[name] = list(found[number])
    return columns, found[0], found[1]


@dataclass
class _Service:
    """What services.down_reason looks at."""

    reported: bool
    forced_down: bool
    last_seen_up: float
    last_error: str


def _places(ids):
    """int64 array: the row of each id, -1 for ids of nobody."""
    known = np.array([-1 if each is None else each for each in ids], dtype=np.int64)
    places = np.full((int(known.max()) if len(known) else 0) + 2, -1, dtype=np.int64)
    places[known] = np.arange(len(known))
    places[-1] = -1
    return places


def _place(places, ids):
    """Rows of ids (int64 array), -1 where there is none."""
    return places[np.where(ids < len(places), ids, len(places) - 1)]


def _resources(connection, places, size):
    classes = dict(
        (row[0], row[1])
        for row in _rows(
            connection,
            sa.select(tables.resource_classes.c.id, tables.resource_classes.c.name).where(
                tables.resource_classes.c.name.in_(fleet.RESOURCE_CLASSES)
            ),
        )
    )
    empty = {"total": 0, "reserved": 0, "used": 0, "min_unit": 1, "max_unit": 0, "step_size": 1}
    columns = {
        name: {**{key: np.full(size, value, dtype=np.int64) for key, value in empty.items()}, "ratio": np.ones(size)}
        for name in fleet.RESOURCE_CLASSES
    }
    inventories, allocations = tables.inventories, tables.allocations
    fields = ("total", "reserved", "min_unit", "max_unit", "step_size")
    for class_id, name in classes.items():
        rows = _rows(
            connection,
            sa.select(
                inventories.c.provider_id, *[inventories.c[each] for each in fields], inventories.c.allocation_ratio
            ).where(inventories.c.class_id == class_id),
        )
        if rows:
            table = np.array(rows, dtype=np.float64)
            _put(columns[name], (*fields, "ratio"), table, places)
        rows = _rows(
            connection,
            sa.select(allocations.c.provider_id, sa.cast(sa.func.sum(allocations.c.used), sa.BigInteger))
            .where(allocations.c.class_id == class_id)
            .group_by(allocations.c.provider_id),
        )
        if rows:
            _put(columns[name], ("used",), np.array(rows, dtype=np.float64), places)
    return columns


def _put(columns, fields, table, places):
    """Write the columns of a table whose first is the provider's id. Amounts below 2**53 are exact."""
    where = _place(places, table[:, 0].astype(np.int64))
    mine = where >= 0
    for number, name in enumerate(fields, start=1):
        columns[name][where[mine]] = table[mine, number].astype(columns[name].dtype)


def _aggregates(connection):
    aggregates, hosts = tables.aggregates, tables.aggregate_hosts
    found = {
        row.id: {"name": row.name, "metadata": row.metadata, "hosts": []}
        for row in connection.execute(sa.select(aggregates).order_by(aggregates.c.name))
    }
    if found:
        for aggregate, host in _rows(connection, sa.select(hosts.c.aggregate_id, hosts.c.host)):
            found[aggregate]["hosts"].append(host)
    return list(found.values())


def _counts(connection, places, size):
    node = tables.instances.c.compute_node_id
    counts = np.zeros(size, dtype=np.int64)
    rows = _rows(connection, sa.select(node, sa.func.count()).where(node.is_not(None)).group_by(node))
    if rows:
        table = np.array(rows, dtype=np.int64)
        where = _place(places, table[:, 0])
        counts[where[where >= 0]] = table[where >= 0, 1]
    return counts


def _named(connection, wanted, places):
    """instances, instance_names and server_groups, of those that are wanted."""
    instances, groups = tables.instances, tables.server_groups
    server_groups = {
        row.name: {
            "uuid": row.uuid,
            "policy": row.policy,
            "max_server_per_host": row.max_server_per_host,
            "members": [],
            "id": row.id,
        }
        for row in connection.execute(sa.select(groups))
    }
    query = sa.select(instances.c.uuid, instances.c.name, instances.c.compute_node_id, instances.c.server_group_id)
    where, names = {}, {}
    rows = []
    if wanted.instances:
        rows += bulk.among(connection, query, instances.c.uuid, {each.lower() for each in wanted.instances})
        rows += bulk.among(connection, query, instances.c.name, wanted.instances)
    members = {server_groups[name]["id"]: name for name in wanted.groups if name in server_groups}
    if members:
        rows += bulk.among(connection, query, instances.c.server_group_id, members)
    for row in sorted({tuple(row)[:4] for row in rows}):
        uuid, name, node, group = row
        if node is not None and node < len(places) and places[node] >= 0:
            where[uuid] = int(places[node])
        names.setdefault(name, []).append(uuid)
        if group in members:
            server_groups[members[group]]["members"].append(uuid)
    return {"instances": where, "instance_names": names, "server_groups": server_groups}


def _grouped(connection, what, places):
    """[(row, value, count)] of the instances on each node."""
    node = tables.instances.c.compute_node_id
    query = (
        sa.select(node, what, sa.func.count())
        .where(node.is_not(None), what.is_not(None))
        .group_by(node, what)
    )
    found = []
    for key, value, count in _rows(connection, query):
        if key < len(places) and places[key] >= 0:
            found.append((int(places[key]), value, count))
    return found


def _traits(connection, places, size):
    """A list of traits per row; rows with the same traits share it."""
    names, owned = tables.traits, tables.provider_traits
    known = {row[0]: row[1] for row in _rows(connection, sa.select(names.c.id, names.c.name))}
    found = [[] for _row in range(size)]
    for provider, trait in _rows(connection, sa.select(owned.c.provider_id, owned.c.trait_id).order_by(owned.c.trait_id)):
        if provider < len(places) and places[provider] >= 0:
            found[places[provider]].append(known[trait])
    return found
