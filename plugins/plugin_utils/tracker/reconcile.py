# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts report against what the store holds: who is new, where, moved, doubled or missing.

Data in, data out. The rules, in the order they are tried for each domain reported:

- one that was evacuated from this host is stale here: it is no sighting while it is shut off, and doubled
  when it runs;
- an instance with an open migration is left to that migration;
- an unknown uuid is adopted;
- an instance recorded here is here;
- an instance recorded elsewhere has moved here, unless another host shows it too: then it is
  doubled, its record stays as it is and the operator is told.

An instance recorded on a reporting host that no longer shows it is missing, unless it is only being
built or another host shows it. Nothing of it is thrown away: in doubt, say so.
"""

from __future__ import annotations


def reconcile(reported, instances, sightings, moving, stale=()):
    """Compare one discovery with the store.

    :param reported: dict node id -> dict uuid -> domain as tracker.domain.describe() returns it.
    :param instances: dict uuid -> row (uuid, name, compute_node_id, state) of the instances concerned.
    :param sightings: dict uuid -> set of ids of nodes that showed it, those not reporting now included.
    :param moving: set of uuids with an open migration.
    :param stale: set of (uuid, node id): the domains that were evacuated from these nodes.
    :returns: a dict: here (dict uuid -> (node id, domain)), adopted, moved, missing, stale, doubled (lists
        of uuids; doubled with all the nodes: list of (uuid, set of node ids)).
    """
    result = {"here": {}, "adopted": [], "moved": [], "missing": [], "stale": [], "doubled": []}
    where = {}
    for node, domains in reported.items():
        for uuid, domain in domains.items():
            if (uuid, node) not in stale:
                where.setdefault(uuid, {})[node] = domain
            elif domain["columns"]["state"] == "shutoff":
                result["stale"].append(uuid)
            else:
                recorded = instances[uuid].compute_node_id if uuid in instances else None
                result["doubled"].append((uuid, {node, recorded} - {None}))
    for uuid, places in sorted(where.items()):
        if uuid in moving:
            continue
        row = instances.get(uuid)
        nodes = set(places) | {node for node in sightings.get(uuid, ()) if node not in reported and (uuid, node) not in stale}
        if len(nodes) > 1:
            result["doubled"].append((uuid, nodes))
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
