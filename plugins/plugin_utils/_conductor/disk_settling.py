# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves of disks that an earlier run has left. They continue to their destination.

The host knows the destination.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common.errors import DroverError, RunOver
from .._store.hosts import pool_domains
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import orders
from .._tracker import storage_pools
from .disk_move import DiskMoveOrder, DiskMoveRequest
from .ports import Ports


class DiskSettling:
    """The run that ends open moves of disks on hosts. It holds the leases of the hosts.

    :param options: of migrations, as in disk_move.DiskMoveRequest.
    """

    def __init__(self, ports: Ports, options: Mapping[str, object]) -> None:
        self._ports, self._options = ports, options

    def settle(self, host: str, pool: str) -> bool:
        """End the open moves of disks on a host. Return True if something was changed.

        Report a move that cannot be ended; it stays as it is.

        :param pool: a storage pool; no disk keeps a backing image in it.
        """
        with self._ports.store.read() as connection:
            if not any(
                row.task_state in orders.MOVING_DISKS for row in orders.open_at(connection, host)
            ):
                return False
        # Read the present places of the disks; the last report may be old.
        self._ports.hosts.discover(host)
        with self._ports.store.read() as connection:
            nodes = {node.id: node for node in pool_domains.nodes(connection, [host])}
            open_ones = [
                each
                for each in pool_domains.domains(connection, nodes)
                if each.task_state in orders.MOVING_DISKS
            ]
        changed = False
        for domain in open_ones:
            try:
                changed |= self._settle_disk(nodes[domain.node_id], domain, pool)
            except RunOver:
                raise
            except DroverError as problem:
                self._ports.say(str(problem))
        return changed

    def _settle_disk(
        self, node: pool_domains.NodeFacts, domain: pool_domains.DomainFacts, pool: str
    ) -> bool:
        disks = {
            each["target"]: each for each in domain.facts.get("disks") or () if each.get("source")
        }
        hand = self._ports.hosts.hand(node.host)
        place, target = None, None
        for name in disks:
            options = {
                "uri": node.uri or DEFAULT_URI,
                "uuid": domain.uuid,
                "target": name,
                "state": "aborted",
            }
            foreseen = hand.foretell("_domain_disk_move", options)
            if not foreseen.get("failed") and foreseen.get("destination"):
                place, target = foreseen["pool"], name
        if target is None:
            # The host has nothing left of the move; only its order is in the store. The present
            # place of the disk is then its destination.
            places = {name: _place_of(each, node.facts) for name, each in disks.items()}
            target = next((name for name, each in places.items() if each), None)
            if target is None:
                return False
            place = places[target]
        whole = any(
            storage_pools.pool_of(each, node.facts) == pool
            for each in disks[target].get("chain") or ()
        )
        self._ports.say(
            f"{domain.name}: the move of {target} that an earlier run began on {node.host} goes on"
        )
        request = DiskMoveRequest(domain.uuid, str(target), str(place), self._options, False, whole)
        return bool(DiskMoveOrder(self._ports, request).run()["changed"])


def _place_of(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return the place of a disk as the destination of a move: the folder of a file, or a pool."""
    if kinds.of_disk(disk).source is Source.FILE:
        return posixpath.dirname(disk["source"])
    return storage_pools.pool_of(disk, node)
