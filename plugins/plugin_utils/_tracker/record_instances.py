# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances that the hosts of a discovery show, in the caller's transaction."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .._common.errors import natural, node_label, said_once
from .._migrations import claims
from .._placement import allocations
from .._store.engine import Connection
from .._store.hosts import compute_nodes, devices, numa
from .._store.instances import (
    evacuations,
    files,
    instances,
    migrations_open,
    orders,
    went_down,
)
from .._store.instances.files import Use
from . import ended_moves
from .reconcile import Reported, Stale, reconcile
from .record_amounts import Amounts, Places
from .record_hardware import Hardware
from .record_pools import Pools


class Instances:
    """The instances of a discovery: the state in the store, and the comparison with the reports.

    :param hosts: {node id: host}, of all nodes that hosts report or no longer report.
    :param reported: {node id: domains by uuid}; a node that is no longer reported has none.
    """

    def __init__(
        self, connection: Connection, hosts: Mapping[int, str], reported: Reported, now: float
    ) -> None:
        self._connection, self._hosts, self._reported, self._now = connection, hosts, reported, now
        stale: Stale = ()
        self.cleared: list[str] = []
        evacuated = evacuations.left_behind(connection, set(hosts.values()))
        if evacuated:
            stale, self.cleared = ended_moves.clear(connection, evacuated, hosts, reported, now)
        uuids = {uuid for domains in reported.values() for uuid in domains}
        self._known = instances.concerned(connection, uuids, reported)
        self._groups = instances.group_ids(connection)
        self._down: list[str] = []
        self._changing = {
            uuid for uuid, row in self._known.items() if row.task_state in orders.UNSEEN_DISKS
        }
        concerned = uuids | set(self._known)
        self._migrations = migrations_open.holding(connection, concerned)
        if self._migrations and ended_moves.end_elsewhere(
            connection, self._migrations.values(), hosts, reported, now
        ):
            self._migrations = migrations_open.holding(connection, concerned)
        # Include moves to these nodes of instances that are recorded on another node.
        self._moves = migrations_open.holding_at(connection, reported)
        seen = compute_nodes.sightings(connection, concerned)
        others = {node for nodes in seen.values() for node in nodes} - set(reported)
        old = {
            node
            for node, read_at in compute_nodes.read_at(connection, others).items()
            if abs(now - read_at) > compute_nodes.ONE_LOOK
        }
        # Only the build of an instance, or its next run, may start a domain that is still off.
        built = {
            uuid
            for domains in reported.values()
            for uuid, domain in domains.items()
            if domain["columns"]["state"] == "shutoff"
            and uuid in self._known
            and self._known[uuid].task_state == orders.SPAWNING
        }
        self._result = reconcile(
            reported, self._known, seen, set(self._migrations) | built, stale, old
        )

    def write_shown(
        self,
        needs: Mapping[int, Mapping[str, set[Use]]],
        facts_before: Mapping[int, Mapping[str, object]],
        facts: Mapping[int, Mapping[str, object]],
    ) -> None:
        """Write the domains and their files.

        :param needs: {node id: {uuid: files}}.
        :param facts_before: {node id: facts} of the last reports; ``facts`` has the new ones.
        """
        connection = self._connection
        leaving = [
            uuid
            for uuid, migration in self._migrations.items()
            if migration.status in claims.UNDER_WAY
        ]
        finished = [
            uuid for uuid, migration in self._migrations.items() if migration.status == "finished"
        ]
        # An instance with an unconfirmed resize may have gone down like any other.
        waiting = {
            uuid: (node, self._reported[node][uuid])
            for uuid in finished
            if uuid in self._known
            and uuid in self._reported.get(node := self._known[uuid].compute_node_id, {})
        }
        off = {
            uuid: place
            for uuid, place in {**self._result["here"], **waiting}.items()
            if place[1]["columns"]["state"] == went_down.OFF
        }
        if off:
            self._down = went_down.mark(connection, off, facts_before, facts, self._now)
        compute_nodes.write_domains(connection, self._reported, self._now, leaving)
        # Only the domain of a resized instance shows its files, so keep them when the domain is
        # gone.
        files.write(connection, needs, [*leaving, *finished], self._changing)

    def write_allocations(
        self,
        nodes: Mapping[int, Any],
        known: devices.NodeDevices,
        provider_ids: Mapping[int, int],
        disk: Mapping[int, int],
    ) -> bool:
        """Write the allocations of the instances; return True if any changed.

        :param nodes: {node id: its row}; ``known`` are the devices of these nodes.
        :param provider_ids: {node id: its provider}; ``disk``, see Places.
        """
        # In a resize, the domain arrives with its old size and gets the new one there.
        self._resized = {
            (node, row.instance_uuid)
            for row in self._moves
            if row.type == claims.RESIZE
            for node in (row.source_node_id, row.destination_node_id)
        }
        self._hardware = Hardware(self._connection, nodes, known, self._reported, self._resized)
        places = Places(provider_ids, disk, self._hardware, Pools(self._connection, nodes))
        positions = self._result["here"]
        self._amounts = Amounts(self._connection, self._known, positions, places, self._groups)
        owners = {
            uuid: (each["project"], each["user"]) for uuid, each in self._amounts.columns.items()
        }
        allocations.confirm(self._connection, positions)
        allocations.replace(self._connection, self._amounts.claims, self._now, owners=owners)
        return bool(self._amounts.claims)

    def found(self) -> dict[str, Any]:
        """Return the lists for people, see record.record()."""
        result, rows, taken = self._result, self._known, self._amounts.columns
        down = [
            (uuid, str(taken[uuid]["name"] if uuid in taken else rows[uuid].name))
            for uuid in sorted(self._down)
        ]
        policies = sorted(
            (row["name"], row["policy"]["error"])
            for row in taken.values()
            if "error" in (row["policy"] or {})
        )
        unmeasured = [
            (
                taken[uuid]["name"],
                _unmeasured(taken[uuid]["name"], self._hosts[result["here"][uuid][0]], pool),
            )
            for uuid, pool in self._amounts.unmeasured
        ]
        return {
            "adopted": sorted(taken[uuid]["name"] for uuid in result["adopted"]),
            "moved": sorted(taken[uuid]["name"] for uuid in result["moved"]),
            "missing": sorted(rows[uuid].name for uuid in result["missing"]),
            "went_down": [
                {"uuid": uuid, "name": name}
                for uuid, name in sorted(down, key=lambda each: natural(each[1]))
            ],
            "stale": sorted(rows[uuid].name if uuid in rows else uuid for uuid in result["stale"]),
            "doubled": self._doubled() if result["doubled"] else [],
            "policies": said_once(policies) if policies else [],
            "unmeasured": said_once(unmeasured) if unmeasured else [],
        }

    def write(self) -> bool:
        """Write the instances, and who has which cells and devices.

        :returns: True if anything changed.
        """
        connection, taken, hardware = self._connection, self._amounts.columns, self._hardware
        rows = self._known
        changed = bool(instances.write(connection, taken, rows, self._now))
        lost = [rows[uuid] for uuid in self._result["missing"] if rows[uuid].state != "missing"]
        instances.set_state(connection, lost, "missing")
        orders.forget(connection, [rows[uuid] for uuid in taken if uuid in rows])
        # Instances that are being built, moved or missing, and migrations, keep their amounts on
        # nodes that do not show them.
        keep = {(row.compute_node_id, uuid) for uuid, row in rows.items() if uuid not in taken}
        keep |= {
            (node, uuid)
            for row in self._moves
            for node in (row.source_node_id, row.destination_node_id)
            for uuid in (row.instance_uuid, row.uuid)
        }
        keep = (keep - hardware.shown) | self._resized
        changed |= numa.write(connection, hardware.cells, keep)
        changed |= devices.set_owners(connection, hardware.owners, keep)
        if hardware.for_one_use:
            changed |= hardware.reserve_used()
        return changed or bool(lost)

    def _doubled(self) -> list[dict[str, object]]:
        doubled = self._result["doubled"]
        machines = compute_nodes.machines(
            self._connection, {node for _uuid, nodes in doubled for node in nodes}
        )
        states = compute_nodes.domain_states(self._connection, [uuid for uuid, _nodes in doubled])
        return [
            _doubled(
                uuid,
                [(*machines[node], states.get((uuid, node), "unknown")) for node in nodes],
                self._reported,
            )
            for uuid, nodes in doubled
        ]


def _unmeasured(name: str, host: str, pool: str | None) -> str:
    """Return the sentence on disks that count as nothing."""
    where, start = "the instances' storage", ""
    if pool:
        # A running pool lists its contents from its start or its last refresh.
        where, start = (
            f"the storage pool {pool}",
            (
                f"start the pool (virsh pool-start {shlex.quote(pool)}), or read it anew if it runs"
                f" (virsh pool-refresh {shlex.quote(pool)}),"
            ),
        )
    return (
        f"Instance {name} on {host}: the size of its disks in {where} is not known, so they count"
        f" as nothing and others may get their space. On {host}{f' {start} and' if start else ''}"
        " see that the disks are there, and run drover.compute.discover again."
    )


def _doubled(
    uuid: str, shown: Sequence[tuple[str, str, str | None, str]], reported: Reported
) -> dict[str, object]:
    """Return the entry of a doubled instance.

    :param shown: (host, hypervisor_hostname, host_uuid or None, state of the domain) of each
        compute node that shows it.
    """
    name = next(
        domains[uuid]["columns"]["name"] for domains in reported.values() if uuid in domains
    )
    hosts = {host for host, *dummy in shown}
    host_uuids = {host_uuid for dummy, node, host_uuid, state in shown}
    states = {
        host if len(hosts) == len(shown) else node_label(host, node): state
        for host, node, dummy, state in shown
    }
    return {
        "uuid": uuid,
        "name": name,
        "nodes": sorted(states),
        "states": states,
        "one_machine": len(hosts) > 1 and len(host_uuids) == 1 and None not in host_uuids,
    }
