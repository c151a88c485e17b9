# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and instances as an inventory shows them."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from ..._common import resource_classes
from ..._records.hosts import ListedHost
from ..database import bulk
from ..database.sql import Connection, sa
from ..hosts import aggregates as aggregate_rows
from ..instances import instances
from ..schema import tables
from . import hosts

# Few, because Ansible processes each value of each host.
KEPT = (
    "host",
    "state",
    "status",
    "maintenance",
    "disabled_reason",
    "down_reason",
    "drained",
    "zones",
    "instances",
    "disk_pool",
    "labels",
)


@bulk.without_collection()
def read(
    connection: Connection,
    now: float,
    service_down_time: float,
    traits: Sequence[str],
    with_instances: bool,
) -> dict[str, list[Any]]:
    """Read the hosts, and the instances on demand.

    :param traits: shell patterns of names of traits.
    :returns: hosts: KEPT of hosts.listing(); nodes, aggregates, cells, hypervisor_types,
        hypervisor_versions and traits as sorted lists; vcpus, memory_mb and disk_gb, each with
        hosts.FIGURES. instances: instances.listing() with addresses.
    """
    aggregates, owned = _aggregates(connection), _traits(connection, traits)
    hosts_shown = [
        _host(host, aggregates.get(host["host"], []), owned)
        for host in hosts.listing(connection, now, service_down_time)
    ]
    shown = instances.listing(connection) if with_instances else []
    if shown:
        known = instances.addresses(connection)
        for each in shown:
            each["addresses"] = known.get(each["uuid"], [])
    return {"hosts": hosts_shown, "instances": shown}


def _host(
    listed: ListedHost, aggregates: list[str], owned: Mapping[str, list[str]]
) -> dict[str, Any]:
    host: dict[str, object] = {**listed}
    nodes = listed["nodes"]
    variables = {name: host[name] for name in KEPT}
    variables["nodes"] = [node["node"] for node in nodes]
    variables["aggregates"] = aggregates
    variables["cells"] = sorted({node["cell"] for node in nodes if node["cell"] is not None})
    variables["hypervisor_types"] = sorted(
        {node["hypervisor_type"] for node in nodes if node["hypervisor_type"] is not None}
    )
    variables["hypervisor_versions"] = sorted(
        {node["hypervisor_version"] for node in nodes if node["hypervisor_version"] is not None}
    )
    variables["traits"] = sorted({name for node in nodes for name in owned.get(node["uuid"], ())})
    for name in resource_classes.KEYS.values():
        variables.update({name + suffix: host[name + suffix] for suffix in hosts.FIGURES})
    return variables


def _aggregates(connection: Connection) -> dict[str, list[str]]:
    by_host: dict[str, list[str]] = {}
    for aggregate in aggregate_rows.listing(connection):
        for host in aggregate["hosts"]:
            by_host.setdefault(host, []).append(aggregate["name"])
    return by_host


def _traits(connection: Connection, patterns: Sequence[str]) -> dict[str, list[str]]:
    """Read the traits of compute nodes that match a pattern, by uuid."""
    names, owned, providers = tables.traits, tables.provider_traits, tables.resource_providers
    matching = {
        row.id: row.name
        for row in connection.execute(sa.select(names.c.id, names.c.name))
        if any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)
    }
    if not matching:
        return {}
    query = (
        sa.select(providers.c.uuid, owned.c.trait_id)
        .join(owned, owned.c.provider_id == providers.c.id)
        .where(owned.c.trait_id.in_(sorted(matching)))
    )
    by_uuid: dict[str, list[str]] = {}
    for uuid, number in connection.execute(query).all():
        by_uuid.setdefault(uuid, []).append(matching[number])
    return by_uuid
