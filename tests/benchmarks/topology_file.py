# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology files as the peers' gen_fleet.py writes them, loaded into a store."""

from __future__ import annotations

import collections
import time

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables

#: From last to first: a row with a reference comes before its target.
EMPTIED = (
    "allocations",
    "consumers",
    "inventories",
    "provider_traits",
    "provider_aggregates",
    "resource_providers",
    "placement_aggregates",
    "resource_classes",
    "traits",
)
DEFAULTS = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}


def load(store, topology):
    """Replace the providers of a store by a topology file."""
    with store.write() as connection:
        for name in EMPTIED:
            if name == "resource_providers":
                table = tables.metadata.tables[name]
                connection.execute(sa.update(table).values(parent_id=None, root_id=None))
            connection.execute(sa.delete(tables.metadata.tables[name]))
        for name, rows in _rows(topology).items():
            for start in range(0, len(rows), 20000):
                connection.execute(
                    sa.insert(tables.metadata.tables[name]), rows[start : start + 20000]
                )
    with store.write() as connection:
        connection.execute(sa.text("ANALYZE"))


def ordered(providers):
    """Return the providers, every parent before its children."""
    waiting = collections.defaultdict(list)
    by_uuid = {each["uuid"]: each["name"] for each in providers}
    for each in providers:
        parent = each.get("parent")
        waiting[by_uuid.get(parent, parent)].append(each)
    in_order = []
    ready = waiting[None]
    while ready:
        in_order += ready
        ready = [child for each in ready for child in waiting[each["name"]]]
    return in_order


def _rows(topology):
    """Return {table: rows} of a topology, in the order for the writes."""
    providers = ordered(topology["providers"])
    ids = {each["name"]: number for number, each in enumerate(providers, 1)}
    ids_by_uuid = {each["uuid"]: ids[each["name"]] for each in providers}
    parents, roots = {}, {}
    for each in providers:
        number, parent = ids[each["name"]], each.get("parent")
        parents[number] = (ids.get(parent) or ids_by_uuid[parent]) if parent else None
        roots[number] = roots[parents[number]] if parent else number
    classes = _numbers(name for each in providers for name in each["inventories"])
    traits = _numbers(
        [*(name for each in providers for name in each["traits"]), *topology.get("traits", ())]
    )
    aggregates = _numbers(uuid for each in providers for uuid in each["aggregates"])
    allocations = topology.get("allocations") or ()
    allocation_rows = [
        {
            "provider_id": ids.get(name) or ids_by_uuid[name],
            "class_id": classes[resource],
            "consumer_id": consumer,
            "used": amount,
        }
        for consumer, each in enumerate(allocations, 1)
        for name, resources in each["allocations"].items()
        for resource, amount in resources.items()
    ]
    used = collections.Counter()
    for row in allocation_rows:
        used[row["provider_id"], row["class_id"]] += row["used"]
    return {
        "resource_classes": [{"id": number, "name": name} for name, number in classes.items()],
        "traits": [{"id": number, "name": name} for name, number in traits.items()],
        "placement_aggregates": [
            {"id": number, "uuid": uuid} for uuid, number in aggregates.items()
        ],
        "resource_providers": [
            {
                "id": ids[each["name"]],
                "uuid": each["uuid"],
                "name": each["name"],
                "generation": 0,
                "parent_id": parents[ids[each["name"]]],
                "root_id": roots[ids[each["name"]]] if each.get("parent") else None,
            }
            for each in providers
        ],
        "inventories": [
            {
                **DEFAULTS,
                **inventory,
                "provider_id": ids[each["name"]],
                "class_id": classes[name],
                "used": used[ids[each["name"]], classes[name]],
            }
            for each in providers
            for name, inventory in each["inventories"].items()
        ],
        "provider_traits": [
            {"provider_id": ids[each["name"]], "trait_id": traits[name]}
            for each in providers
            for name in each["traits"]
        ],
        "provider_aggregates": [
            {"provider_id": ids[each["name"]], "aggregate_id": aggregates[uuid]}
            for each in providers
            for uuid in each["aggregates"]
        ],
        "consumers": [
            {
                "id": number,
                "uuid": each["consumer"],
                "type": each.get("consumer_type", "INSTANCE"),
                "project": each.get("project_id", "p0"),
                "user": each.get("user_id", "u0"),
                "generation": 1,
                "created_at": time.time(),
            }
            for number, each in enumerate(allocations, 1)
        ],
        "allocations": allocation_rows,
    }


def _numbers(names):
    return {name: number for number, name in enumerate(sorted(set(names)), 1)}
