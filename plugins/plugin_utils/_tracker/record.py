# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of one discovery of any number of hosts, in the caller's transaction.

The reports are walked once, see walk.py. Then each package gets its part: first the store gets
hosts, nodes and domains, then placement gets providers and allocations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._placement import node_providers, providers, sharing
from .._store.engine import Connection
from .._store.hosts import compute_nodes, devices, services
from . import record_hardware, record_sharing, retirement
from .node import NodeReport
from .record_instances import Instances
from .walk import Walk


def record(
    connection: Connection, reports: Mapping[str, Sequence[NodeReport]], now: float
) -> dict[str, Any]:
    """Record hosts: heartbeat, compute nodes, inventories, traits, instances, allocations.

    :param reports: dict host -> list of compute nodes as tracker.node.describe() returns them. The
        list is complete: a node of the host that is not in it is removed, or kept and marked if
        something is allocated on it. A host with an empty list, and without a node left, is removed
        too.
    :returns: a dict of plain types: changed (bool; heartbeats and figures of use do not count),
        nodes, instances (counts), and lists of names for people: added, removed, unreported,
        adopted, moved, missing, went_down (uuid and name of instances that ran when the host went
        down, and are off), cleared (evacuated from here and gone from here: their room is free),
        stale (evacuated from here and still defined here, off), doubled; and sentences: policies
        (policies that cannot be read), unmeasured (disks that count as nothing, because their size
        is not known).
    :raises DroverError: two nodes of one host have one name, or different availability zones.
    """
    return Record(connection, reports, now).write()


def withdraw(connection: Connection, host: str, now: float) -> None:
    """Record that a host has nothing left, like record() with an empty list."""
    record(connection, {host: []}, now)


class Record:
    """The record of the reports of some hosts, see record()."""

    def __init__(
        self, connection: Connection, reports: Mapping[str, Sequence[NodeReport]], now: float
    ) -> None:
        self._connection, self._now = connection, now
        self._hosts_without_nodes = {host for host, nodes in reports.items() if not nodes}
        self._before = compute_nodes.by_host(connection, set(reports))
        self._walk = Walk(reports, self._before)
        self._gone = {key: row for key, row in self._before.items() if key not in self._walk.nodes}

    def write(self) -> dict[str, Any]:
        """Write everything, and return the result of record()."""
        connection, walk = self._connection, self._walk
        changed = self._write_nodes()
        gone = self._gone.values()
        # The hosts have reported without these nodes, so their old domains are gone.
        reported = {self._rows[key].id: domains for key, domains in walk.domains.items()}
        reported.update({row.id: {} for row in gone})
        hosts = {self._rows[key].id: key[0] for key in walk.nodes}
        hosts.update({row.id: key[0] for key, row in self._gone.items()})
        instances = Instances(connection, hosts, reported, self._now)
        files = {self._rows[key].id: files for key, files in walk.files.items()}
        instances.write_shown(
            files | {row.id: {} for row in gone},
            {row.id: row.facts or {} for row in self._before.values()},
            {self._rows[key].id: node["columns"]["facts"] for key, node in walk.nodes.items()},
        )
        nodes = {self._rows[key].id: self._rows[key] for key in walk.nodes}
        written = self._write_providers()
        provider_ids = {key: written.ids[row.uuid] for key, row in nodes.items()}
        changed |= instances.write_allocations(nodes, self._devices, provider_ids, written.disk)
        removed, unreported = retirement.retire(connection, self._gone) if gone else ([], [])
        uuids_left = {
            uuid for row in self._before.values() for uuid in record_sharing.aggregates(row.facts)
        }
        changed |= sharing.remove_unused(connection, uuids_left)
        lists = instances.found()
        changed |= instances.write()
        if self._hosts_without_nodes:
            changed |= services.remove_without_nodes(connection, self._hosts_without_nodes)
        return {
            "changed": bool(
                changed
                or written.changed
                or any(row.reported for row in gone)
                or removed
                or instances.cleared
            ),
            "nodes": len(nodes),
            "instances": sum(len(domains) for domains in reported.values()),
            "added": sorted(node for host, node in set(walk.nodes) - set(self._before)),
            "removed": removed,
            "unreported": unreported,
            "cleared": instances.cleared,
            **lists,
        }

    def _write_nodes(self) -> bool:
        """Write hosts, nodes and devices; return True if anything changed."""
        connection, walk = self._connection, self._walk
        hosts = {host for host, _name in walk.nodes}
        service_ids, returned = services.heartbeat(connection, hosts, self._now)
        changed = services.set_labels(connection, walk.labels)
        self._disabled = services.disabled_hosts(connection, hosts)
        columns = {key: node["columns"] for key, node in walk.nodes.items()}
        self._rows, changed_nodes = compute_nodes.write(connection, columns, service_ids, self._now)
        changed_zones = compute_nodes.set_zones(connection, walk.zones)
        reports = {self._rows[key].id: node for key, node in walk.nodes.items()}
        changed |= devices.write_all(
            connection,
            {key: node["pci_devices"] for key, node in reports.items()},
            {key: node["mdev_types"] for key, node in reports.items()},
            {key: node["mdevs"] for key, node in reports.items()},
        )
        self._devices = devices.read_all(connection, list(reports))
        return changed or bool(returned or changed_nodes or changed_zones)

    def _write_providers(self) -> node_providers.NodeWrite:
        """Write the providers of the nodes, and of the pools that they share."""
        walk, node_specs = self._walk, {}
        for key, node in walk.nodes.items():
            before, uuid = self._before.get(key), self._rows[key].uuid
            facts = before.facts if before is not None else None
            disabled = {providers.DISABLED_TRAIT} if key[0] in self._disabled else set()
            node_specs[uuid] = node_providers.NodeProvider(
                walk.names[key],
                node["inventories"],
                node["traits"] | disabled,
                (facts or {}).get("traits"),
                (
                    record_hardware.children(node, uuid, walk.names[key], facts)
                    if node["nested"] or node["storage_pools"]
                    else {}
                ),
            )
        pools = walk.shared.part(self._rows[key].uuid for key in sorted(walk.nodes))
        hosts = {host for host, _name in walk.nodes}
        return node_providers.write(self._connection, node_specs, pools, hosts, self._now)
