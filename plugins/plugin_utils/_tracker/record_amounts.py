# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The amounts that instances take as their hosts show them, with the columns of the instances.

All is done in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from .._common.resource_classes import KEYS, POOL_PREFIX
from .._placement import allocations, provider_trees
from .._placement.shared_pools import DISK
from .._records.claims import Resources
from .._store.engine import Connection
from .._store.instances import orders
from .domain import DomainReport
from .record_hardware import Hardware
from .record_pools import Pools

#: The (node id, domain) of instances at their place in the store, by uuid.
Here = Mapping[str, tuple[int, DomainReport]]


class Places(NamedTuple):
    """The places where instances of some nodes may have amounts.

    - providers: {node id: its provider}.
    - disk: {provider of a node: the sharing provider that is its disk}.
    """

    providers: Mapping[int, int]
    disk: Mapping[int, int]
    hardware: Hardware
    pools: Pools


class Amounts:
    """The amounts of instances by the report of their hosts, and the columns of the instances.

    :param known: {uuid: row of the instance}.
    :param groups: {uuid of a server group: its id}.
    """

    def __init__(
        self,
        connection: Connection,
        known: Mapping[str, Any],
        here: Here,
        places: Places,
        groups: Mapping[str, int],
    ) -> None:
        self._places = places
        #: {uuid: columns of the instance}.
        self.columns: dict[str, dict[str, Any]] = {}
        #: {uuid: allocations} of the instances with other allocations than before.
        self.claims: dict[str, allocations.Held] = {}
        #: (uuid, pool) of instances with disks of unknown size there; the pool is None for the
        #: instances' storage.
        self.unmeasured: list[tuple[str, str | None]] = []
        before = allocations.read(connection, here)
        totals = {uuid: allocations.total(held) for uuid, held in before.items()}
        shares: dict[int, set[int]] = {}
        for provider, pool in places.disk.items():
            shares.setdefault(pool, set()).add(provider)
        #: {sharing provider or root of a tree: providers of nodes that take amounts from it}.
        self._shares: dict[int, Collection[int]] = {**shares}
        own = set(places.providers.values())
        others = {
            key
            for uuid, held in before.items()
            for key in held
            if key not in own and places.disk.get(places.providers[here[uuid][0]]) != key
        }
        if others:
            self._shares.update(provider_trees.reachable(connection, own, others))
            self._shares.update(provider_trees.roots(connection, others))
        changing = {uuid for uuid, row in known.items() if row.task_state in orders.UNSEEN_DISKS}
        for uuid, (node, domain) in here.items():
            row, has = known.get(uuid), totals.get(uuid, {})
            resources = dict(domain["resources"])
            on_pools, resources[DISK], unknown = places.pools.divide(
                node, domain, has, uuid in changing
            )
            self.unmeasured += [(uuid, pool) for pool in unknown]
            if resources[DISK] is None:
                resources[DISK] = row.disk_gb if row is not None else 0
                self.unmeasured += [] if resources[DISK] else [(uuid, None)]
            if uuid in changing:
                # Keep the claim for a disk that its host does not show yet.
                resources[DISK] = max(resources[DISK], has.get(DISK, 0))
            taken = self._amounts_by_provider(
                node, domain, resources, before.get(uuid, {}), on_pools
            )
            if before.get(uuid, {}) != taken:
                self.claims[uuid] = taken
            self.columns[uuid] = _columns(row, node, domain, resources, groups)

    def _amounts_by_provider(
        self,
        node: int,
        domain: DomainReport,
        resources: Resources,
        held: allocations.Held,
        on_pools: Resources,
    ) -> allocations.Held:
        """Return the amounts that an instance takes, by provider."""
        on_node, of_devices, on_devices = self._places.hardware.part(node, domain, resources)
        taken = self._on_node(on_node, self._places.providers[node], held)
        taken = {key: each for key, each in taken.items() if key not in of_devices} | on_devices
        taken = {
            key: {name: n for name, n in each.items() if not name.startswith(POOL_PREFIX)}
            for key, each in taken.items()
        }
        for name, amount in on_pools.items():
            if amount:
                taken.setdefault(self._places.pools.ids[node][name], {})[name] = amount
        return {key: each for key, each in taken.items() if each}

    def _on_node(
        self, resources: Resources, provider: int, held: allocations.Held
    ) -> allocations.Held:
        """Return the amounts of an instance on its node and on providers that share with it.

        libvirt does not show some amounts, such as addresses and custom classes. They stay as
        claimed, on the node's own providers and on providers that share with it. Amounts that
        libvirt shows stay at their claim too, or else go to the node; a disk goes to the disk
        provider of the node.
        """
        served = {
            key: held[key]
            for key in held
            if key == provider or provider in self._shares.get(key, ())
        }
        # A domain that shows no pins has its claimed pins.
        dedicated = (
            0 if "PCPU" in resources else sum(amounts.get("PCPU", 0) for amounts in served.values())
        )
        if "PCPU" not in resources and dedicated > resources.get("VCPU", 0):
            served = {
                key: {name: n for name, n in amounts.items() if name != "PCPU"}
                for key, amounts in served.items()
            }
        else:
            resources = {**resources, "VCPU": resources.get("VCPU", 0) - dedicated}
        taken = {
            key: {name: amount for name, amount in amounts.items() if name not in resources}
            for key, amounts in served.items()
        }
        for name, amount in resources.items():
            places = {key: amounts[name] for key, amounts in served.items() if name in amounts}
            if sum(places.values()) != amount:
                usual = self._places.disk.get(provider, provider) if name == DISK else provider
                places = {next(iter(places), usual): amount}
            for key, part in places.items():
                if part:
                    taken.setdefault(key, {})[name] = part
        return {key: amounts for key, amounts in taken.items() if amounts}


def _columns(
    row: Any | None,
    node: int,
    domain: DomainReport,
    resources: Mapping[str, int],
    groups: Mapping[str, int],
) -> dict[str, Any]:
    metadata = domain["metadata"]
    kept = {
        name: metadata.get(name) or (getattr(row, name) if row is not None else None)
        for name in ("availability_zone", "project", "user", "flavor")
    }
    return {
        "name": domain["columns"]["name"],
        "compute_node_id": node,
        "state": "active",
        "server_group_id": (
            row.server_group_id
            if row is not None and row.server_group_id
            else groups.get(metadata.get("server_group") or "")
        ),
        **{key: resources.get(name, 0) for name, key in KEYS.items()},
        **kept,
        # The metadata is the only place of the policy: a removed policy is no longer valid.
        "policy": domain["policy"],
        # The metadata is the only place of the labels too.
        "labels": domain["labels"] or None,
    }
