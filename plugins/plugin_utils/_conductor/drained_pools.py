# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a drained storage pool: its hosts, its contents, and their other pools."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Form

from .._common import capacity_rule
from .._common.errors import DroverError, natural
from .._common.validation import did_you_mean
from .._placement import allocations, pool_drains, providers
from .._placement.shared_pools import DISK
from .._planner.pool_drain import GIB, Place, PoolAmounts, PoolDisk, PoolSpace
from .._records.hosts import PoolFacts
from .._store.engine import Connection
from .._store.hosts import pool_domains
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.hosts.pool_domains import DomainFacts, NodeFacts
from .._tracker import record_pools, sharing_facts, storage_pools

_RUNNING = ("running", "degraded")


class HostPool(NamedTuple):
    """The pool on one node.

    - places: the places where it may be counted. A pool of the instances' own storage is counted by
      its origin, or by its node.
    """

    node: NodeFacts
    name: str
    places: tuple[Place, ...]
    shared_id: str | None

    @property
    def uri(self) -> str:
        """Return the URI of libvirt on the node."""
        return self.node.uri or DEFAULT_URI


class OtherFile(NamedTuple):
    """A file in the pool that a domain needs and that no move takes away.

    disk: the target of the disk or drive that needs the file; None for another file.
    """

    uuid: str
    name: str
    disk: str | None
    host: str
    path: str
    reason: str
    way_out: str


def find(connection: Connection, name: str, hosts: Sequence[str]) -> list[HostPool]:
    """Return a pool on its hosts.

    :param hosts: their names; if empty, all hosts that have a pool of that name.
    :raises DroverError: there is no such pool, it is not counted, or only some hosts of a shared
        pool are named.
    """
    every = pool_domains.nodes(connection)
    having = [each for node in every for each in _counted_pools(node) if each.name == name]
    names = sorted(
        {pool["name"] for node in every for pool in node.facts.get("pools") or ()}, key=natural
    )
    if name not in names:
        raise DroverError(
            f"No host has a storage pool {name}{did_you_mean(name, names)}; they have"
            f" {', '.join(names) or 'none'}. Nothing was done: correct drover_pool, or run"
            " drover.compute.discover if the pool is new."
        )
    chosen = [each for each in having if not hosts or each.node.host in hosts]
    without = sorted(set(hosts) - {each.node.host for each in chosen}, key=natural) if hosts else []
    if without or not chosen:
        where = ", ".join(without) or "any host"
        raise DroverError(
            f"The storage pool {name} is not counted on {where}, so new disks could not be kept out"
            " of it. Nothing was done: name it in drover_storage_pools of each host that has it"
            " and discover these hosts, or leave the others out of drover_host."
        )
    shared = {each.shared_id for each in chosen if each.shared_id}
    _refuse_uncounted(name, every, shared)
    beside = sorted(
        {each.node.host for each in having if each.shared_id in shared and each not in chosen},
        key=natural,
    )
    if beside:
        raise DroverError(
            f"The storage pool {name} is one that {', '.join(beside)} and"
            f" {', '.join(sorted({each.node.host for each in chosen}, key=natural))} share, so it"
            " is emptied for all of them or not at all. Nothing was done: leave drover_host out."
        )
    inventories = pool_drains.read(connection, [place for each in chosen for place in each.places])
    # Hosts with another name for the same storage have disks in it too.
    chosen += [
        pool
        for node in every
        for pool in _counted_pools(node)
        if pool.shared_id in shared and pool.name != name
    ]
    return [
        each._replace(places=tuple(place for place in each.places if place in inventories)[:1])
        for each in chosen
    ]


def refuse_stopped(pools: Iterable[HostPool]) -> None:
    """Refuse a pool that does not run, because its contents and its size are unknown."""
    stopped = []
    for host_pool in pools:
        facts = next(
            (
                pool
                for pool in host_pool.node.facts.get("pools") or ()
                if pool["name"] == host_pool.name
            ),
            PoolFacts(),
        )
        if facts.get("state", "running") not in _RUNNING:
            stopped.append(f"{host_pool.name} on {host_pool.node.host}")
    if stopped:
        raise DroverError(
            f"The storage pool {', '.join(stopped)} does not run, so it is not known what is in it:"
            " start it (virsh pool-start), and run this again."
        )


def _refuse_uncounted(name: str, nodes: Iterable[NodeFacts], shared: Collection[str]) -> None:
    """Refuse a shared pool that a host has but does not count.

    The plan would not see the disks of its instances in that pool.
    """
    uncounted = set()
    for node in nodes:
        counted = {each.shared_id for each in _counted_pools(node)}
        if any(
            pool.get("shared_id") in shared and pool["shared_id"] not in counted
            for pool in node.facts.get("pools") or ()
        ):
            uncounted.add(node.host)
    if uncounted:
        raise DroverError(
            f"The storage pool {name} is shared, and {', '.join(sorted(uncounted, key=natural))}"
            " has it too but does not count it, so new disks could not be kept out of it. Nothing"
            " was done: name it in drover_storage_pools of each host that has it, and discover"
            " these hosts."
        )


def _counted_pools(node: NodeFacts) -> list[HostPool]:
    """Return the counted pools of a node."""
    facts = node.facts
    pools = [
        HostPool(
            node,
            pool["name"],
            ((record_pools.provider_uuid(node.uuid, pool), str(pool["resource_class"])),),
            pool["shared_id"],
        )
        for pool in facts.get("storage_pools") or ()
        if pool.get("name")
    ]
    own = sharing_facts.covering(facts.get("pools") or (), _path(facts))
    if own is not None and own["name"] not in {each.name for each in pools}:
        share = (facts.get("shared_storage") or {}).get("id")
        places = (
            ((sharing_facts.uuid_of(share), DISK), (node.uuid, DISK))
            if share
            else ((node.uuid, DISK),)
        )
        pools.append(HostPool(node, own["name"], places, share))
    return pools


def _path(facts: Mapping[str, Any]) -> str | None:
    path = (facts.get("storage") or {}).get("instances_path")
    return None if path is None else str(path)


class Contents:
    """The contents of the pool and their possible destinations, from the last reports."""

    def __init__(self, connection: Connection, pools: Sequence[HostPool]) -> None:
        self._pools = {each.node.id: each for each in pools}
        self.nodes = {
            node.id: node
            for node in pool_domains.nodes(connection, {each.node.host for each in pools})
            if node.id in self._pools
        }
        #: {node id: the names of the pool and of all pools with the same folder}.
        self._names = {
            node.id: _names_of(node, self._pools[node.id].name) for node in self.nodes.values()
        }
        self.domains = pool_domains.domains(connection, self.nodes)
        #: The disks that can move.
        self.disks: list[PoolDisk] = []
        #: The other files of domains in the pool.
        self.others: list[OtherFile] = []
        for domain in self.domains:
            self._sort(domain)
        self.spaces = self._spaces(connection)
        self.taken = self._read_amounts(connection)

    def _sort(self, domain: DomainFacts) -> None:
        node = self.nodes[domain.node_id]
        named = set()
        for drive in domain.facts.get("disks") or ():
            target = str(drive.get("target"))
            behind = [
                str(each["path"])
                for each in drive.get("chain") or ()
                if each.get("path") and self._is_in(each, node)
            ]
            if drive.get("source") and self._is_in(drive, node):
                named.add(drive["source"])
                if drive.get("device", "disk") == "disk":
                    self.disks.append(self._disk(domain, drive, bool(behind)))
                else:
                    what = f"its drive {target} has the medium {drive['source']}"
                    self._add_other(
                        domain,
                        target,
                        str(drive["source"]),
                        what,
                        "take it out with drover.compute.instance_cdrom",
                    )
            elif behind:
                what = f"its disk {target} is in another pool, and is backed by {behind[0]}"
                way = (
                    "have all data in that disk, while the guest runs: virsh blockpull"
                    f" {shlex.quote(domain.name)} {target} --wait"
                )
                self._add_other(domain, target, behind[0], what, way)
        for file in domain.facts.get("other_files") or ():
            needed_file: Mapping[str, object] = next(
                (each for each in (file, *(file.get("chain") or ())) if self._is_in(each, node)), {}
            )
            path = str(needed_file.get("source") or needed_file.get("path"))
            if needed_file and path not in named:
                what = f"it needs {path}, which is no disk of its definition"
                way = (
                    "if only the running guest has it as a disk (virsh domblklist), detach it"
                    " there, or attach it with virsh attach-disk --config too and run this again;"
                    " delete its snapshots or its saved memory if these need it; of a guest that is"
                    " off, move the file and change the definition with virsh edit"
                )
                self._add_other(domain, None, path, what, way)

    def _disk(self, domain: DomainFacts, drive: Mapping[str, Any], whole: bool) -> PoolDisk:
        node, pool = self.nodes[domain.node_id], self._pools[domain.node_id]
        size, allocated = (
            drive.get("capacity_bytes") or drive.get("allocation_bytes") or 0,
            drive.get("allocation_bytes"),
        )
        return PoolDisk(
            domain.uuid,
            domain.name,
            str(drive["target"]),
            node.id,
            node.host,
            str(drive["source"]),
            size,
            # The exact size of an image that is copied with its backing images is not known. Use
            # the maximum.
            size if whole or allocated is None else allocated,
            _traits(domain.extra_specs or {}, pool.places[0][1]) if pool.places else frozenset(),
            whole,
            pool.shared_id is not None,
        )

    def _add_other(
        self, domain: DomainFacts, target: str | None, path: str, reason: str, way_out: str
    ) -> None:
        host = self.nodes[domain.node_id].host
        self.others.append(OtherFile(domain.uuid, domain.name, target, host, path, reason, way_out))

    def _is_in(self, file: Mapping[str, object], node: NodeFacts) -> bool:
        return storage_pools.pool_of(file, node.facts) in self._names[node.id]

    def _spaces(self, connection: Connection) -> list[PoolSpace]:
        drained = {place for each in self._pools.values() for place in each.places}
        counted = [
            (node, pool)
            for node in self.nodes.values()
            for pool in _counted_pools(node)
            if pool.name != self._pools[node.id].name
        ]
        places = [place for _node, pool in counted for place in pool.places]
        inventories, reasons = (
            pool_drains.read(connection, places),
            pool_drains.reasons(connection, places),
        )
        traits = providers.traits_of(connection, {uuid for uuid, _name in places})
        spaces = []
        for node, pool in counted:
            place = next((each for each in pool.places if each in inventories), None)
            facts = next(
                (each for each in node.facts.get("pools") or () if each["name"] == pool.name),
                PoolFacts(),
            )
            if place is None or place in drained:
                continue
            inventory, free = inventories[place], facts.get("available_gb")
            is_own = place[1] == DISK
            spaces.append(
                PoolSpace(
                    node.id,
                    pool.name,
                    str(_path(node.facts)) if is_own else pool.name,
                    place,
                    capacity_rule.capacity(
                        inventory.total, inventory.reserved, inventory.allocation_ratio
                    ),
                    inventory.used,
                    None if free is None else int(float(free) * GIB),
                    frozenset(traits.get(place[0], ())),
                    self._why_refused(node, facts, reasons.get(place)),
                    kinds.of_pool(facts).makes_volumes,
                )
            )
        return spaces

    def _why_refused(self, node: NodeFacts, pool: PoolFacts, reason: str | None) -> str | None:
        if reason is not None:
            return f"it is drained itself ({reason})"
        if kinds.of_pool(pool).maker is None:
            return f"it is of the type {pool.get('type')}, to which no disk is moved"
        if pool.get("state", "running") not in _RUNNING:
            return "it does not run: virsh pool-start"
        drained = {
            each
            for other in node.facts.get("pools") or ()
            if other["name"] in self._names[node.id]
            for each in _folders(other)
        }
        if any(
            f"{folder}/".startswith(f"{each.rstrip('/')}/")
            for folder in _folders(pool)
            for each in drained
        ):
            return "its folder is in the pool that is drained"
        return None

    def _read_amounts(self, connection: Connection) -> PoolAmounts:
        """Return the amounts that the instances of the disks have in the destination pools."""
        uuids = {each.uuid for each in self.disks}
        ids = providers.ids(connection, {space.place[0] for space in self.spaces})
        by_id = {key: uuid for uuid, key in ids.items()}
        claimed = {
            (uuid, (by_id[provider], name)): amount
            for uuid, each in allocations.read(connection, uuids).items()
            for provider, amounts in each.items()
            if provider in by_id
            for name, amount in amounts.items()
        }
        classes: dict[tuple[int, str | None], Place] = {
            (space.node, space.place[1]): space.place for space in self.spaces
        }
        size: dict[tuple[str, Place], int] = {}
        for domain in self.domains:
            if domain.uuid not in uuids:
                continue
            for disk in domain.facts.get("disks") or ():
                name = storage_pools.counted_as(disk, self.nodes[domain.node_id].facts)
                # A disk on the network is only in a pool that counts it.
                of_host = DISK if kinds.of_disk(disk).takes_space else None
                place = classes.get((domain.node_id, name or of_host))
                if place is not None:
                    size[domain.uuid, place] = size.get((domain.uuid, place), 0) + (
                        disk.get("capacity_bytes") or 0
                    )
        return PoolAmounts(size, claimed)


def _folders(pool: PoolFacts) -> set[str]:
    """Return the paths of the folder of a pool: its name and its real path."""
    return {posixpath.normpath(path) for path in (pool.get("path"), pool.get("real_path")) if path}


def _names_of(node: NodeFacts, name: str) -> set[str]:
    pools = node.facts.get("pools") or ()
    folders = {
        folder
        for each in pools
        if each["name"] == name and kinds.of_pool(each).form is Form.FOLDER
        for folder in _folders(each)
    }
    return {name} | {
        str(each["name"])
        for each in pools
        if kinds.of_pool(each).form is Form.FOLDER and folders & _folders(each)
    }


def _traits(extra_specs: Mapping[str, str], name: str) -> frozenset[str]:
    """Return the traits that extra specs require of the pools of a resource class."""
    groups: Iterable[str] = [
        key.partition(":")[0][len("resources") :]
        for key in extra_specs
        if key.endswith(f":{name}") and key.startswith("resources_")
    ]
    return frozenset(
        key.partition(":")[2]
        for key, value in extra_specs.items()
        if value == "required" and key.partition(":")[0] in {f"trait{group}" for group in groups}
    )


def places_of(pools: Collection[HostPool]) -> list[Place]:
    """Return the places where pools are counted, each once."""
    return list(dict.fromkeys(place for each in pools for place in each.places))
