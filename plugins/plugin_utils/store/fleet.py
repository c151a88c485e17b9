# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole fleet in a handful of queries, as columns for the scheduler and the planner."""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.store import services, tables

RESOURCE_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
ZONE_KEY = "availability_zone"


def read_fleet(connection, now, service_down_time=0):
    """Every compute node with its room, zones and state, and where every instance is.

    :param now: the time (seconds since 1970) heartbeats are held against.
    :returns: a dict of lists of equal length, sorted by (host, node): host, node, uuid, cell, zones,
        disabled, disabled_reason, up, down_reason, disk_available_least_gb, num_instances; and
        resources (dict class -> dict field -> list), instances (dict uuid -> index of its node),
        instance_names (dict name -> list of uuids) and server_groups (dict name -> dict).
    """
    nodes = _nodes(connection)
    index = {row.id: position for position, row in enumerate(nodes)}
    zones = read_zones(connection)
    reasons = [down_reason(row, now, service_down_time) for row in nodes]
    columns = {
        "host": [row.host for row in nodes],
        "node": [row.hypervisor_hostname for row in nodes],
        "uuid": [row.uuid for row in nodes],
        "cell": [row.cell for row in nodes],
        "zones": [zones.get(row.host, []) for row in nodes],
        "disabled": [bool(row.disabled) for row in nodes],
        "disabled_reason": [row.disabled_reason for row in nodes],
        "up": [reason is None for reason in reasons],
        "down_reason": reasons,
        "disk_available_least_gb": [row.disk_available_least for row in nodes],
    }
    columns["resources"] = _resources(connection, nodes)
    columns.update(_instances(connection, index))
    columns["num_instances"] = [0] * len(nodes)
    for position in columns["instances"].values():
        columns["num_instances"][position] += 1
    return columns


def read_zones(connection):
    """The availability zones of hosts, from the metadata of their aggregates.

    :returns: dict host -> sorted list of zones.
    """
    aggregates, hosts = tables.aggregates, tables.aggregate_hosts
    query = sa.select(hosts.c.host, aggregates.c.metadata).join(aggregates, aggregates.c.id == hosts.c.aggregate_id)
    zones = {}
    for row in connection.execute(query):
        zone = row.metadata.get(ZONE_KEY)
        if zone:
            zones.setdefault(row.host, set()).update(part.strip() for part in zone.split(","))
    return {host: sorted(names) for host, names in zones.items()}


def read_host_instances(connection, host):
    """The instances of one host with what a planner needs to know of them.

    :returns: a list of dicts sorted by name: uuid, name, node, state (of the domain, or building or
        missing), vcpus, memory_mb, disk_gb, server_group, availability_zone, project, and of the
        domain: persistent, autostart, disks, hostdevs, managed_save, snapshots.
    """
    instances, nodes, domains, groups = tables.instances, tables.compute_nodes, tables.domains, tables.server_groups
    query = (
        sa.select(
            instances,
            nodes.c.hypervisor_hostname,
            groups.c.name.label("group_name"),
            domains.c.state.label("domain_state"),
            domains.c.persistent,
            domains.c.autostart,
            domains.c.facts,
        )
        .join(nodes, nodes.c.id == instances.c.compute_node_id)
        .outerjoin(groups, groups.c.id == instances.c.server_group_id)
        .outerjoin(
            domains,
            sa.and_(domains.c.uuid == instances.c.uuid, domains.c.compute_node_id == instances.c.compute_node_id),
        )
        .where(nodes.c.host == host)
        .order_by(instances.c.name, instances.c.uuid)
    )
    found = []
    for row in connection.execute(query):
        facts = row.facts or {}
        found.append(
            {
                "uuid": row.uuid,
                "name": row.name,
                "node": row.hypervisor_hostname,
                "state": row.domain_state if row.state == "active" and row.domain_state else row.state,
                "vcpus": row.vcpus,
                "memory_mb": row.memory_mb,
                "disk_gb": row.disk_gb,
                "server_group": row.group_name,
                "availability_zone": row.availability_zone,
                "project": row.project,
                "persistent": bool(row.persistent) if row.persistent is not None else True,
                "autostart": bool(row.autostart),
                "disks": facts.get("disks", []),
                "hostdevs": facts.get("hostdevs", []),
                "managed_save": bool(facts.get("managed_save")),
                "snapshots": bool(facts.get("snapshots")),
            }
        )
    return found


def _nodes(connection):
    nodes, known = tables.compute_nodes, tables.services
    query = (
        sa.select(
            nodes.c.id,
            nodes.c.uuid,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            nodes.c.cell,
            nodes.c.reported,
            nodes.c.disk_available_least,
            known.c.disabled,
            known.c.disabled_reason,
            known.c.forced_down,
            known.c.last_seen_up,
            known.c.last_error,
        )
        .join(known, known.c.id == nodes.c.service_id)
        .order_by(nodes.c.host, nodes.c.hypervisor_hostname)
    )
    # Sorted here too: the database may order text by another alphabet than Python.
    return sorted(connection.execute(query).all(), key=lambda row: (row.host, row.hypervisor_hostname))


def down_reason(row, now, service_down_time):
    """Why a compute node counts as down, in words; None when it is up."""
    if not row.reported:
        return "no longer reported by its host"
    return services.down_reason(row, now, service_down_time)


def _resources(connection, nodes):
    position = {row.uuid: place for place, row in enumerate(nodes)}
    empty = {"total": 0, "reserved": 0, "ratio": 1.0, "used": 0, "min_unit": 1, "max_unit": 0, "step_size": 1}
    columns = {name: {field: [value] * len(nodes) for field, value in empty.items()} for name in RESOURCE_CLASSES}
    inventories, classes, providers = tables.inventories, tables.resource_classes, tables.resource_providers
    query = (
        sa.select(
            providers.c.uuid,
            classes.c.name,
            inventories.c.total,
            inventories.c.reserved,
            inventories.c.allocation_ratio,
            inventories.c.min_unit,
            inventories.c.max_unit,
            inventories.c.step_size,
            inventories.c.used,
        )
        .join(providers, providers.c.id == inventories.c.provider_id)
        .join(classes, classes.c.id == inventories.c.class_id)
        .where(classes.c.name.in_(RESOURCE_CLASSES))
    )
    for uuid, name, total, reserved, ratio, least, most, step, taken in connection.execute(query):
        place = position.get(uuid)
        if place is None:
            continue
        column = columns[name]
        column["total"][place] = total
        column["reserved"][place] = reserved
        column["ratio"][place] = ratio
        column["min_unit"][place] = least
        column["max_unit"][place] = most
        column["step_size"][place] = step
        column["used"][place] = int(taken)
    return columns


def _instances(connection, index):
    instances, groups = tables.instances, tables.server_groups
    where, names, members = {}, {}, {}
    query = sa.select(
        instances.c.uuid, instances.c.name, instances.c.compute_node_id, instances.c.server_group_id
    ).order_by(instances.c.uuid)
    for uuid, name, node, group in connection.execute(query):
        if node in index:
            where[uuid] = index[node]
        names.setdefault(name, []).append(uuid)
        if group is not None:
            members.setdefault(group, []).append(uuid)
    server_groups = {
        row.name: {
            "uuid": row.uuid,
            "policy": row.policy,
            "max_server_per_host": row.max_server_per_host,
            "members": members.get(row.id, []),
        }
        for row in connection.execute(sa.select(groups))
    }
    return {"instances": where, "instance_names": names, "server_groups": server_groups}
