# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as columns, in a number of queries that the fleet does not change: for whoever decides or shows.

Only what is wanted is read: a fleet of a hundred thousand hosts has millions of instances, and most
requests ask about none of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from ansible_collections.drover.compute.plugins.plugin_utils import resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.store import (
    bulk,
    column_reader,
    provider_arrays,
    resource_columns,
    services,
    tables,
)
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

RESOURCE_CLASSES = tuple(resource_classes.KEYS)
#: In place of names: every instance, every server group with its members.
ALL = "all"
#: Columns of compute_nodes that are read only when wanted.
ON_WISH = ("host_ip", "hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances", "stats", "metrics")


@dataclass
class ColumnQuery:
    """What to read beside what is always read.

    columns: names out of ON_WISH, traits, node_flavors, node_images and num_io_ops (which without being
    wanted is only what hosts reported); instances: uuids or names, or ALL, or all instances as
    instances_for_plans has them, which are not read again then; groups: names of server
    groups, or ALL; classes: names of resource classes beside RESOURCE_CLASSES; provider_traits: names of
    traits that the providers' arrays shall have.
    """

    columns: set = field(default_factory=set)
    instances: set | list | str = field(default_factory=set)
    groups: set | str = field(default_factory=set)
    classes: set = field(default_factory=set)
    provider_traits: set = field(default_factory=set)


def read_columns(connection, now, service_down_time=0, wanted=None):
    """Every compute node with its room and state, and where the instances that are wanted are.

    :param now: the time (seconds since 1970) heartbeats are held against.
    :param wanted: Wanted.
    :returns: a dict of lists and arrays of equal length, in any order of the nodes: host, node, uuid, cell,
        disabled, disabled_reason, up, down_reason, disk_available_least_gb (infinite when not known),
        num_instances, num_io_ops, failed_builds and the columns that are wanted; and aggregates ([{name,
        metadata, hosts}], of which zones come), resources (dict class -> dict field -> array, see
        resource_columns.of_nodes), provider_arrays (the ProviderArrays that these are made of), instances (dict uuid
        -> index of its node), instance_names (dict name -> sorted list of uuids) and server_groups (dict name
        -> dict, members of those that are wanted). Numbers are NumPy arrays.
    """
    with column_reader.uncollected():
        return _read(connection, now, service_down_time, wanted or ColumnQuery())


def _read(connection, now, service_down_time, wanted):
    columns, ids = _nodes(connection, now, service_down_time, wanted)
    size = len(columns["host"])
    place_of = _places(ids)
    names = (*RESOURCE_CLASSES, *sorted(wanted.classes - set(RESOURCE_CLASSES)))
    arrays = provider_arrays.read(connection, names, sorted(wanted.provider_traits), figures=True)
    provider_of = dict(zip(arrays.uuids, range(arrays.size)))
    nodes = np.array([provider_of.get(uuid, -1) for uuid in columns["uuid"]], dtype=np.int64)
    columns["provider_arrays"] = arrays
    columns["resources"] = resource_columns.of_nodes(arrays, nodes, names)
    columns["aggregates"] = _aggregates(connection)
    columns["num_instances"] = _counts(connection, place_of, size)
    columns.update(_named(connection, wanted, place_of, columns))
    instances = tables.instances
    if "node_flavors" in wanted.columns:
        columns["node_flavors"] = _grouped(connection, instances.c.flavor, place_of)
    if "node_images" in wanted.columns:
        columns["node_images"] = _grouped(connection, sa.cast(instances.c.image, sa.Text), place_of)
    if "traits" in wanted.columns:
        columns["traits"] = _traits(connection, _places(np.append(arrays.ids, -1)[nodes]), size)
    if "num_io_ops" in wanted.columns:
        columns["num_io_ops"] += _io_ops(connection, place_of, size)
    return columns


def _nodes(connection, now, service_down_time, wanted):
    nodes = tables.compute_nodes
    extra = [name for name in ON_WISH if name in wanted.columns]

    def column(name):
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
            nodes.c.disk_available_least,
            nodes.c.num_io_ops,
            nodes.c.failed_builds,
            nodes.c.reported,
            *[column(name) for name in extra],
        ),
    )
    found = list(zip(*rows)) if rows else [()] * (10 + len(extra))
    size = len(rows)
    disabled, disabled_reason, reasons = _service_states(connection, found[1], found[9], now, service_down_time)
    columns = {
        "host": list(found[2]),
        "node": list(found[3]),
        "uuid": list(found[4]),
        "cell": list(found[5]),
        "disk_available_least_gb": np.nan_to_num(np.array(found[6], dtype=np.float64), nan=np.inf, posinf=np.inf),
        "num_io_ops": np.array(found[7], dtype=np.int64),
        "failed_builds": np.array(found[8], dtype=np.int64),
        "disabled": disabled,
        "disabled_reason": disabled_reason,
        "up": np.fromiter((reason is None for reason in reasons), dtype=bool, count=size),
        "down_reason": reasons,
    }
    for number, name in enumerate(extra, start=10):
        columns[name] = list(found[number])
    return columns, found[0]


def _service_states(connection, service_ids, reported, now, service_down_time):
    """disabled (bool array), disabled_reason and down_reason (lists) per row.

    Only services with something to tell are read; of a healthy fleet these are few.
    """
    known = tables.services
    telling = [
        known.c.disabled.is_(True),
        known.c.forced_down.is_(True),
        known.c.last_error.is_not(None),
        known.c.last_seen_up.is_(None),
    ]
    if service_down_time:
        telling += [known.c.last_seen_up < now - service_down_time, known.c.last_seen_up > now + service_down_time]
    fields = ("id", "disabled", "disabled_reason", "forced_down", "last_seen_up", "last_error")
    query = sa.select(*[known.c[each] for each in fields]).where(sa.or_(*telling))
    by_service = {row[0]: row[1:] for row in column_reader.rows(connection, query)}
    size = len(service_ids)
    disabled, disabled_reason, reasons = np.zeros(size, dtype=bool), [None] * size, [None] * size
    for place, service in enumerate(service_ids):
        if service in by_service:
            off, why, *state = by_service[service]
            disabled[place], disabled_reason[place] = bool(off), why
            reasons[place] = services.down_reason(_Service(*state), now, service_down_time)
        if not reported[place]:
            reasons[place] = "no longer reported by its host"
    return disabled, disabled_reason, reasons


@dataclass
class _Service:
    """What services.down_reason looks at."""

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
    return places[np.where((ids >= 0) & (ids < len(places)), ids, len(places) - 1)]


def _table(rows, width):
    """Rows of numbers as a float64 array; amounts below 2**53 are exact."""
    flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.float64, count=len(rows) * width)
    return flat.reshape(-1, width)


def _aggregates(connection):
    aggregates, hosts = tables.aggregates, tables.aggregate_hosts
    found = {
        row.id: {"name": row.name, "metadata": row.metadata, "hosts": []}
        for row in connection.execute(sa.select(aggregates).order_by(aggregates.c.name))
    }
    if found:
        # One text per aggregate rather than a row per member.
        joined = sa.func.aggregate_strings(hosts.c.host, "\n")
        query = sa.select(hosts.c.aggregate_id, joined).group_by(hosts.c.aggregate_id)
        for aggregate, names in column_reader.rows(connection, query):
            found[aggregate]["hosts"] = names.split("\n")
    return list(found.values())


def _counts(connection, places, size):
    node = tables.instances.c.compute_node_id
    return _per_node(connection, sa.select(sa.func.coalesce(node, -1), sa.func.count()).group_by(node), places, size)


def _io_ops(connection, places, size):
    """Builds, and moves from and to each node, that are under way (N5.1, io_workload)."""
    instances, migrations = tables.instances, tables.migrations
    building = sa.select(instances.c.compute_node_id.label("node")).where(sa.text(tables.IS_BUILDING))
    moving = [
        sa.select(node).where(migrations.c.status.in_(tables.OPEN_MIGRATION))
        for node in (migrations.c.source_node_id, migrations.c.destination_node_id)
    ]
    busy = sa.union_all(building, *moving).subquery()
    query = sa.select(sa.func.coalesce(busy.c.node, -1), sa.func.count()).group_by(busy.c.node)
    return _per_node(connection, query, places, size)


def _per_node(connection, query, places, size):
    """int64 array: the second column of a query on the rows of the nodes that its first one names."""
    counts = np.zeros(size, dtype=np.int64)
    table = _table(column_reader.rows(connection, query), 2).astype(np.int64)
    where = _place(places, table[:, 0])
    counts[where[where >= 0]] = table[where >= 0, 1]
    return counts


def _named(connection, wanted, places, columns):
    """instances, instance_names and server_groups, of those that are wanted."""
    instances, groups = tables.instances, tables.server_groups
    server_groups = {
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
    query = sa.select(instances.c.uuid, instances.c.name, instances.c.compute_node_id, instances.c.server_group_id)
    asked = server_groups if wanted.groups == ALL else wanted.groups
    members = {server_groups[name]["id"]: name for name in asked if name in server_groups}
    if isinstance(wanted.instances, list):
        node_of = {place: node for node, place in enumerate(zip(columns["host"], columns["node"]))}
        group_of = {name: group for group, name in members.items()}
        places = np.arange(len(columns["host"]))
        rows = [
            (each["uuid"], each["name"], node_of.get((each["host"], each["node"])), group_of.get(each["server_group"]))
            for each in wanted.instances
        ]
    elif wanted.instances == ALL:
        rows = column_reader.rows(connection, query)
    else:
        found = bulk.among(connection, query, instances.c.uuid, {each.lower() for each in wanted.instances})
        found += bulk.among(connection, query, instances.c.name, wanted.instances)
        found += bulk.among(connection, query, instances.c.server_group_id, members)
        rows = {tuple(row)[:4] for row in found}
    where, names = {}, {}
    for uuid, name, node, group in rows:
        if node is not None and node < len(places) and places[node] >= 0:
            where[uuid] = int(places[node])
        names.setdefault(name, []).append(uuid)
        if group in members:
            server_groups[members[group]]["members"].append(uuid)
    for uuids in names.values():
        uuids.sort()
    return {"instances": where, "instance_names": names, "server_groups": server_groups}


def _grouped(connection, what, places):
    """[(row, value, count)] of the instances on each node."""
    node = tables.instances.c.compute_node_id
    query = sa.select(node, what, sa.func.count()).where(node.is_not(None), what.is_not(None)).group_by(node, what)
    found = []
    for key, value, count in column_reader.rows(connection, query):
        if key < len(places) and places[key] >= 0:
            found.append((int(places[key]), value, count))
    return found


def _traits(connection, places, size):
    """A list of traits per row; rows with the same traits share it."""
    names, owned = tables.traits, tables.provider_traits
    known = {row[0]: row[1] for row in column_reader.rows(connection, sa.select(names.c.id, names.c.name))}
    found = [[] for _row in range(size)]
    for provider, trait in column_reader.rows(connection, sa.select(owned.c.provider_id, owned.c.trait_id).order_by(owned.c.trait_id)):
        if provider < len(places) and places[provider] >= 0:
            found[places[provider]].append(known[trait])
    return found
