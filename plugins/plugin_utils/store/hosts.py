# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as an administrator sees them: services, their nodes, their figures (N8)."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import capacity_rule, resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.store import (
    host_columns,
    instances,
    instances_for_plans,
    services,
    tables,
)
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def listing(connection, now, service_down_time=0, columns=None):
    """Every host with its service and its compute nodes.

    :param columns: of host_columns.read_columns() where they have been read.
    :returns: a list of dicts sorted by host: host, state (up or down), status (enabled or disabled),
        maintenance, forced_down, disabled_reason, down_reason, last_seen_up, drained, zones, instances,
        nodes (a list of dicts: node, uuid, cell, hypervisor_type, hypervisor_version, uri, and the
        disk_pool, and the figures) and the figures summed: vcpus, vcpus_used, vcpus_capacity, memory_mb,
        memory_mb_used, memory_mb_capacity, disk_gb, disk_gb_used, disk_gb_capacity. Used is allocated;
        capacity is (total - reserved) x ratio. disk_pool (of the host, too) is the name of the sharing
        provider whose figures those of the disk are, each pool counted once; None for a disk of its own.
    """
    if columns is None:
        columns = host_columns.read_columns(connection, now, service_down_time)
    table = tables.compute_nodes
    query = sa.select(table.c.uuid, table.c.uri, table.c.reported, table.c.hypervisor_type, table.c.hypervisor_version)
    details = {row.uuid: row for row in connection.execute(query)}
    nodes = {}
    for _dummy, place in sorted((name, place) for place, name in enumerate(columns["node"])):
        nodes.setdefault(columns["host"][place], []).append(_node(columns, place, details[columns["uuid"][place]]))
    zones = instances_for_plans.read_zones(connection)
    found = states(connection, now, service_down_time)
    return [{**state, **_figures(nodes.get(state["host"], []), zones.get(state["host"], []))} for state in found]


def states(connection, now, service_down_time=0, host=None):
    """Read the services of hosts, without compute nodes and figures, in one statement.

    :param host: read only this host.
    :returns: a list of records.hosts.HostState, sorted by host; empty if the store does not have the host.
    """
    table = tables.services
    query = sa.select(table).where(table.c.binary == services.BINARY)
    if host is not None:
        query = query.where(table.c.host == host)
    return sorted((_state(row, now, service_down_time) for row in connection.execute(query)), key=lambda each: each["host"])


def resource_rows(connection, host, hosts):
    """The rows Nova shows of one host: (total), (used_now), (used_max) and one per project.

    (used_now) is what is reserved and allocated; (used_max) and the projects are sums over instances.

    :param hosts: the listing.
    :returns: a list of dicts: host, project, vcpus, memory_mb, disk_gb.
    """
    entry = next(found for found in hosts if found["host"] == host)
    rows = [
        {"host": host, "project": "(total)", **{name: entry[name] for name in resource_classes.KEYS.values()}},
        {
            "host": host,
            "project": "(used_now)",
            **{name: entry[f"{name}_used"] + entry[f"{name}_reserved"] for name in resource_classes.KEYS.values()},
        },
    ]
    projects, most = {}, dict.fromkeys((name for name in resource_classes.KEYS.values()), 0)
    for instance in instances.listing(connection, host=host):
        sums = projects.setdefault(instance["project"] or "(none)", dict.fromkeys(most, 0))
        for name in most:
            most[name] += instance[name]
            sums[name] += instance[name]
    rows.append({"host": host, "project": "(used_max)", **most})
    rows.extend({"host": host, "project": project, **projects[project]} for project in sorted(projects))
    return rows


def _node(columns, place, row):
    node = {
        "node": columns["node"][place],
        "uuid": row.uuid,
        "uri": row.uri,
        "cell": columns["cell"][place],
        "reported": bool(row.reported),
        "hypervisor_type": row.hypervisor_type,
        "hypervisor_version": row.hypervisor_version,
        "instances": int(columns["num_instances"][place]),
    }
    for resource, name in resource_classes.KEYS.items():
        column = {key: columns["resources"][resource][key][place].item() for key in ("total", "used", "reserved", "ratio")}
        node[name] = column["total"]
        node[f"{name}_used"] = column["used"]
        node[f"{name}_reserved"] = column["reserved"]
        node[f"{name}_capacity"] = int(capacity_rule.capacity(column["total"], column["reserved"], column["ratio"]))
    node["disk_pool"] = _pool(columns["resources"]["DISK_GB"].get("providers"), place, row.uuid)
    return node


def _pool(providers, place, own):
    """The name of the sharing provider whose disk a node shows, None for a disk of its own."""
    number = -1 if providers is None else providers["shown"][place]
    return None if number < 0 or providers["uuid"][number] == own else providers["name"][number]


def _state(row, now, service_down_time):
    reason = services.down_reason(row, now, service_down_time)
    return {
        "host": row.host,
        "state": "up" if reason is None else "down",
        "status": "disabled" if row.disabled else "enabled",
        "maintenance": bool(row.maintenance),
        "forced_down": bool(row.forced_down),
        "disabled_reason": row.disabled_reason,
        "down_reason": reason,
        "last_seen_up": row.last_seen_up,
        "drained": services.is_drained(row.status_before_drain),
    }


def _figures(nodes, zones):
    host = {"zones": zones, "nodes": nodes, "instances": sum(node["instances"] for node in nodes)}
    pools = {node["disk_pool"]: node for node in nodes if node["disk_pool"]}
    host["disk_pool"] = ", ".join(sorted(pools)) or None
    for name in resource_classes.KEYS.values():
        # Two nodes of a host may lie on one pool.
        counted = nodes
        if name == "disk_gb":
            counted = [node for node in nodes if not node["disk_pool"]] + list(pools.values())
        for suffix in ("", "_used", "_reserved", "_capacity"):
            host[name + suffix] = sum(node[name + suffix] for node in counted)
    return host
