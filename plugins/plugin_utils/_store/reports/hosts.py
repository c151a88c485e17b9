# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as an administrator sees them: services, compute nodes and figures (N8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..._common import capacity_rule, resource_classes
from ..._records.hosts import Figures, FleetColumns, HostStatus, ListedHost, ListedNode
from ..._records.labels import Selector
from ..database import bulk
from ..database.sql import Connection, Row, sa
from ..hosts import host_columns, services
from ..instances import instances, instances_for_plans, labels
from ..schema import tables

#: The suffixes of the names of the figures of a resource; the total of the host has the bare name.
FIGURES = ("", "_used", "_reserved", "_capacity", "_free")
_NAMES = [
    (name + suffix, name == "disk_gb")
    for name in resource_classes.KEYS.values()
    for suffix in FIGURES
]


@bulk.without_collection()
def listing(
    connection: Connection,
    now: float,
    service_down_time: float = 0,
    columns: FleetColumns | None = None,
    selector: Selector | None = None,
    host: str | None = None,
) -> list[ListedHost]:
    """Read all hosts, one host or the hosts of a selector, with their services and compute nodes,
    sorted by host.

    :param columns: the result of host_columns.read_columns(), if the caller has read them.
    """
    if columns is None:
        columns = host_columns.read_columns(connection, now, service_down_time)
    table = tables.compute_nodes
    query = sa.select(
        table.c.uuid,
        table.c.uri,
        table.c.reported,
        table.c.hypervisor_type,
        table.c.hypervisor_version,
    )
    details = {
        row.uuid: row
        for row in connection.execute(query if host is None else query.where(table.c.host == host))
    }
    rows = states(connection, now, service_down_time, host, selector)
    names = {each["host"] for each in rows}
    nodes: dict[str, list[ListedNode]] = {}
    figures = _node_figures(columns)
    for _dummy, place in sorted(
        (name, place)
        for place, name in enumerate(columns["node"])
        if columns["host"][place] in names
    ):
        nodes.setdefault(columns["host"][place], []).append(
            _node(columns, figures, place, details[columns["uuid"][place]])
        )
    zones = instances_for_plans.read_zones(connection)
    return [_host(each, nodes.get(each["host"], []), zones.get(each["host"], [])) for each in rows]


def states(
    connection: Connection,
    now: float,
    service_down_time: float = 0,
    host: str | None = None,
    selector: Selector | None = None,
) -> list[HostStatus]:
    """Read the services of all hosts, of one or of a selector, sorted by host, without compute
    nodes and figures, in one statement.
    """
    table = tables.services
    query = sa.select(table, services.is_unreported().label("is_gone")).where(
        table.c.binary == services.BINARY
    )
    if host is not None:
        query = query.where(table.c.host == host)
    if selector is not None:
        query = query.where(labels.condition(table.c.labels, selector))
    return sorted(
        (_status(row, now, service_down_time) for row in connection.execute(query)),
        key=lambda each: each["host"],
    )


def resource_rows(
    connection: Connection, host: str, hosts: Sequence[ListedHost]
) -> list[dict[str, Any]]:
    """Make the rows that Nova shows of one host: (total), (used_now), (used_max) and one per
    project.

    (used_now) is reserved and allocated; (used_max) and the projects are sums over instances.

    :param hosts: the listing.
    :returns: dicts with host, project, vcpus, memory_mb, disk_gb.
    """
    entry: dict[str, Any] = {**next(found for found in hosts if found["host"] == host)}
    rows = [
        {
            "host": host,
            "project": "(total)",
            **{name: entry[name] for name in resource_classes.KEYS.values()},
        },
        {
            "host": host,
            "project": "(used_now)",
            **{
                name: entry[f"{name}_used"] + entry[f"{name}_reserved"]
                for name in resource_classes.KEYS.values()
            },
        },
    ]
    most = dict.fromkeys(resource_classes.KEYS.values(), 0)
    projects: dict[str, dict[str, int]] = {}
    for instance in instances.listing(connection, host=host):
        sums = projects.setdefault(instance["project"] or "(none)", dict.fromkeys(most, 0))
        for name, amount in (
            ("vcpus", instance["vcpus"]),
            ("memory_mb", instance["memory_mb"]),
            ("disk_gb", instance["disk_gb"]),
        ):
            most[name] += amount
            sums[name] += amount
    rows.append({"host": host, "project": "(used_max)", **most})
    rows.extend(
        {"host": host, "project": project, **projects[project]} for project in sorted(projects)
    )
    return rows


def _node_figures(columns: FleetColumns) -> dict[str, list[int]]:
    """Return the figures of all compute nodes, a list for each."""
    by_name: dict[str, list[int]] = {}
    for resource, name in resource_classes.KEYS.items():
        inventory = columns["resources"][resource]
        capacity = capacity_rule.capacity(
            inventory["total"], inventory["reserved"], inventory["ratio"]
        ).astype(int)
        figures = (
            inventory["total"],
            inventory["used"],
            inventory["reserved"],
            capacity,
            capacity - inventory["used"],
        )
        by_name.update({name + suffix: figure.tolist() for suffix, figure in zip(FIGURES, figures)})
    return by_name


def _node(
    columns: FleetColumns, figures: Mapping[str, Sequence[int]], place: int, row: Row
) -> ListedNode:
    return {
        "node": columns["node"][place],
        "uuid": row.uuid,
        "uri": row.uri,
        "cell": columns["cell"][place],
        "reported": bool(row.reported),
        "hypervisor_type": row.hypervisor_type,
        "hypervisor_version": row.hypervisor_version,
        "instances": int(columns["num_instances"][place]),
        # A node without room must not reduce the free room of others: its figures are 0 if it is
        # not reported.
        **_figures(
            {name: figure[place] if row.reported else 0 for name, figure in figures.items()}
        ),
        "disk_pool": _pool(columns["resources"]["DISK_GB"].get("providers"), place, row.uuid),
    }


def _pool(providers: Mapping[str, Any] | None, place: int, own: str) -> str | None:
    """Return the name of the sharing provider of the disk that a node shows; None for a disk of the
    node itself.
    """
    number = -1 if providers is None else providers["shown"][place]
    return (
        None
        if providers is None or number < 0 or providers["uuid"][number] == own
        else providers["name"][number]
    )


def _status(row: Row, now: float, service_down_time: float) -> HostStatus:
    reason = (
        services.UNREPORTED if row.is_gone else services.down_reason(row, now, service_down_time)
    )
    return {
        "host": row.host,
        "state": "unreported" if row.is_gone else "up" if reason is None else "down",
        "status": "disabled" if row.disabled else "enabled",
        "maintenance": bool(row.maintenance),
        "forced_down": bool(row.forced_down),
        "disabled_reason": row.disabled_reason,
        "down_reason": reason,
        "last_seen_up": row.last_seen_up,
        "drained": services.is_drained(row.status_before_drain),
        "labels": row.labels or {},
    }


def _host(status: HostStatus, nodes: list[ListedNode], zones: list[str]) -> ListedHost:
    pools = {node["disk_pool"]: node for node in nodes if node["disk_pool"]}
    everywhere: list[Mapping[str, Any]] = [*nodes]
    # Two nodes of a host may lie on one pool.
    disks: list[Mapping[str, Any]] = [
        *(node for node in nodes if not node["disk_pool"]),
        *pools.values(),
    ]
    sums = {
        name: sum([node[name] for node in (disks if of_disk else everywhere)])
        for name, of_disk in _NAMES
    }
    return {
        **status,
        "zones": zones,
        "nodes": nodes,
        "instances": sum(node["instances"] for node in nodes),
        "disk_pool": ", ".join(sorted(pools)) or None,
        **_figures(sums),
    }


def _figures(amounts: Mapping[str, int]) -> Figures:
    # The keys come from resource_classes.KEYS, which the type checker does not see.
    return cast(Figures, amounts)
