# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and instances as an inventory shows them."""

from __future__ import annotations

import fnmatch

from ansible_collections.drover.compute.plugins.plugin_utils import resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.store import aggregates as aggregate_rows
from ansible_collections.drover.compute.plugins.plugin_utils.store import hosts, instances, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

# Few values: Ansible looks at each one of each host.
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
)


def read(connection, now, service_down_time, traits, with_instances):
    """The hosts, and the instances if they are wanted.

    :param traits: shell patterns of the names of traits that matter.
    :returns: a dict: hosts (of hosts.listing() what is in KEPT; nodes, aggregates, cells, hypervisor_types,
        hypervisor_versions and traits, each a sorted list; and of vcpus, memory_mb and disk_gb the capacity
        and with _used and _free appended those), instances (instances.listing() with addresses, those of the
        first interface first).
    """
    aggregates, owned = _aggregates(connection), _traits(connection, traits)
    found = [_host(host, aggregates.get(host["host"], []), owned) for host in hosts.listing(connection, now, service_down_time)]
    shown = instances.listing(connection) if with_instances else []
    if shown:
        addresses = _addresses(connection)
        for each in shown:
            each["addresses"] = addresses.get(each["uuid"], [])
    return {"hosts": found, "instances": shown}


def _host(host, aggregates, owned):
    nodes = host["nodes"]
    found = {name: host[name] for name in KEPT}
    found["nodes"] = [node["node"] for node in nodes]
    found["aggregates"] = aggregates
    for name in ("cell", "hypervisor_type", "hypervisor_version"):
        found[f"{name}s"] = sorted({node[name] for node in nodes if node[name] is not None})
    found["traits"] = sorted({name for node in nodes for name in owned.get(node["uuid"], ())})
    for name in resource_classes.KEYS.values():
        capacity, used = host[f"{name}_capacity"], host[f"{name}_used"]
        found.update({name: capacity, f"{name}_used": used, f"{name}_free": capacity - used})
    return found


def _aggregates(connection):
    found = {}
    for aggregate in aggregate_rows.listing(connection):
        for host in aggregate["hosts"]:
            found.setdefault(host, []).append(aggregate["name"])
    return found


def _traits(connection, patterns):
    """The traits of compute nodes: dict uuid -> list of names."""
    names, owned, providers = tables.traits, tables.provider_traits, tables.resource_providers
    wanted = {
        row.id: row.name
        for row in connection.execute(sa.select(names.c.id, names.c.name))
        if any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)
    }
    if not wanted:
        return {}
    query = (
        sa.select(providers.c.uuid, owned.c.trait_id)
        .join(owned, owned.c.provider_id == providers.c.id)
        .where(owned.c.trait_id.in_(sorted(wanted)))
    )
    found = {}
    for row in connection.execute(query):
        found.setdefault(row.uuid, []).append(wanted[row.trait_id])
    return found


def _addresses(connection):
    """Addresses of instances, where they are now: dict uuid -> list."""
    table, domains = tables.instances, tables.domains
    query = sa.select(domains.c.uuid, domains.c.facts).join(
        table, sa.and_(table.c.uuid == domains.c.uuid, table.c.compute_node_id == domains.c.compute_node_id)
    )
    return {
        row.uuid: [address for each in (row.facts or {}).get("interfaces", ()) for address in each.get("addresses", ())]
        for row in connection.execute(query)
    }
