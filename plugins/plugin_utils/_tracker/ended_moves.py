# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ends of evacuations and moves that the reports of hosts show, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._common import certainty
from .._migrations import claims
from .._store.engine import Connection
from .._store.hosts import compute_nodes, continuity
from .._store.instances import migrations_open
from .reconcile import Reported, Stale


def clear(
    connection: Connection,
    evacuated: Iterable[Mapping[str, Any]],
    hosts: Mapping[int, str],
    reported: Reported,
    now: float,
) -> tuple[Stale, list[str]]:
    """Close evacuations from hosts that are back and no longer have the evacuated instances (N9.4).

    :param evacuated: the entries of evacuations.left_behind() of these hosts.
    :returns: (set of (uuid, node id) that are still there, sorted names of instances that are
        gone).
    """
    stale_pairs: set[tuple[str, int]] = set()
    cleared = []
    for instance in evacuated:
        # The new host of the instance may be in this discovery too, or the instance may have
        # moved back.
        nodes = [
            node
            for node, domains in reported.items()
            if instance["uuid"] in domains and hosts[node] == instance["source"] != instance["host"]
        ]
        if nodes:
            stale_pairs.update((instance["uuid"], node) for node in nodes)
        else:
            claims.clear_source(
                connection, instance["migration"], certainty.is_not_shown(instance["source"]), now
            )
            cleared.append(instance["name"])
    return stale_pairs, sorted(cleared)


def end_elsewhere(
    connection: Connection,
    migrations: Iterable[Any],
    hosts: Mapping[int, str],
    reported: Reported,
    now: float,
) -> bool:
    """Close the moves of instances that neither end had, if a third host shows them.

    :returns: True if such a move was closed.
    """
    ended = False
    for migration in migrations_open.lost_track_of(connection, migrations):
        ends = (migration.source, migration.destination)
        reporting_hosts = {
            hosts[node] for node, domains in reported.items() if migration.instance_uuid in domains
        }
        if reporting_hosts and reporting_hosts.isdisjoint(ends):
            where = " and ".join(sorted(reporting_hosts))
            proof = certainty.is_elsewhere(*ends, where)
            claims.end_elsewhere(
                connection, migration.uuid, proof, f"Somebody moved it to {where}.", now
            )
            ended = True
    return ended


def end_moved_back(
    connection: Connection,
    evacuated: Mapping[str, Mapping[str, Any]],
    absent: Mapping[str, certainty.Proof],
    now: float,
) -> None:
    """Close evacuations of instances that a person has moved back: only their source shows them.

    A definition that is off at the source may be old: a person may have moved the instance to a
    third host after the last discovery of that host. So such an evacuation is closed only if all
    other hosts were read after the new host was first seen without the instance.

    :param evacuated: entries of left_behind(), by the uuids of the instances, each with the state
        that its source shows.
    :param absent: proofs that their hosts do not have them any more, by the uuids.
    """
    seen = compute_nodes.sightings(connection, absent)
    for uuid, migration in evacuated.items():
        first = migration["absent_since"]
        if (uuid in absent) != (first is not None):
            first = now if uuid in absent else None
            claims.note(connection, migration["migration"], {"absent_since": first}, now)
        if first is None or set(seen.get(uuid, ())) - {migration["source_node"], migration["node"]}:
            continue
        if (
            continuity.knows_all(connection)
            if migration["state"] != "shutoff"
            else continuity.knows_all(connection, first, [migration["source"]])
        ):
            claims.end_moved_back(
                connection,
                migration["migration"],
                absent[uuid],
                f"Somebody moved it back to {migration['source']}.",
                now,
            )
