# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of reports with the store: new, present, moved, doubled and missing instances.

Data in, data out. The rules, in their order, for each reported domain:

- A domain that was evacuated from this host is stale here. It is not a sighting while off, and
  doubled when it runs.
- An instance with an open migration is left to that migration.
- An unknown uuid is adopted.
- An instance recorded here is here.
- An instance recorded elsewhere has moved here, unless another host shows it too. Then it is
  doubled, its record stays as it is, and the operator gets a message.

An instance recorded on a reporting host that no longer shows it is missing, unless it is still
being built or another host shows it. No record of it is removed; in doubt the operator gets a
message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from .domain import DomainReport

#: Domains by the ids of the nodes that report them, and by their uuids.
Reported = Mapping[int, Mapping[str, DomainReport]]
#: (uuid, node id) of domains that were evacuated from these nodes.
Stale = Collection[tuple[str, int]]


class DiscoveryResults(TypedDict):
    """The results of a discovery, by uuids of instances."""

    #: (Node id, domain) of the instances at their place in the store.
    here: dict[str, tuple[int, DomainReport]]
    adopted: list[str]
    moved: list[str]
    missing: list[str]
    stale: list[str]
    #: The doubled instances, with all nodes that show them.
    doubled: list[tuple[str, set[int]]]


def reconcile(
    reported: Reported,
    instances: Mapping[str, Any],
    sightings: Mapping[str, Collection[int]],
    moving: Collection[str],
    stale: Stale = (),
    old: Collection[int] = (),
) -> DiscoveryResults:
    """Compare one discovery with the store.

    :param instances: dict uuid -> row (uuid, name, compute_node_id, state) of the instances
        concerned.
    :param sightings: dict uuid -> set of ids of nodes that showed it, also of nodes without a
        report now.
    :param old: ids of nodes with a last report from another look. An instance that they showed then
        and others show now is not a double, because it may have moved.
    """
    result: DiscoveryResults = {
        "here": {},
        "adopted": [],
        "moved": [],
        "missing": [],
        "stale": [],
        "doubled": [],
    }
    where: dict[str, dict[int, DomainReport]] = {}
    for node, domains in reported.items():
        for uuid, domain in domains.items():
            if (uuid, node) not in stale:
                where.setdefault(uuid, {})[node] = domain
            elif domain["columns"]["state"] == "shutoff":
                result["stale"].append(uuid)
            else:
                recorded = instances[uuid].compute_node_id if uuid in instances else None
                result["doubled"].append((uuid, {node} if recorded is None else {node, recorded}))
    for uuid, places in sorted(where.items()):
        if uuid in moving:
            continue
        row = instances.get(uuid)
        nodes = set(places) | {
            node
            for node in sightings.get(uuid, ())
            if node not in reported and (uuid, node) not in stale
        }
        at_once = nodes - set(old)
        if len(at_once) > 1:
            result["doubled"].append((uuid, at_once))
        recorded = row.compute_node_id if row is not None else None
        if recorded in places:
            result["here"][uuid] = (recorded, places[recorded])
        elif row is None:
            node = min(places)
            result["here"][uuid] = (node, places[node])
            result["adopted"].append(uuid)
        elif len(nodes) == 1:
            node = min(places)
            result["here"][uuid] = (node, places[node])
            result["moved"].append(uuid)
    for uuid, row in sorted(instances.items()):
        if row.compute_node_id in reported and uuid not in where and uuid not in moving:
            elsewhere = {node for node in sightings.get(uuid, ()) if node not in reported}
            if row.state != "building" and not elsewhere:
                result["missing"].append(uuid)
    return result
