# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pools that compute nodes share, written as sharing providers in the caller's transaction.

See docs/shared-storage.md. A storage pool becomes a sharing provider with the second node that sees
it, a pool of addresses with the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from .._common.errors import DroverError
from .._common.resource_classes import POOL_PREFIX, pool_of
from .._store.engine import Connection
from .._store.providers.provider_arrays import SHARES
from . import providers, sharing

DISK, ADDRESS = "DISK_GB", "IPV4_ADDRESS"
# The number of nodes that makes a storage pool shared.
_SEVERAL = 2


class Addresses(NamedTuple):
    """A pool of IP addresses, as the hosts of a discovery define it.

    - host: one of them.
    - definition: its addresses and their number.
    - earlier: the definitions that the nodes with the pool had before; None for a node that had
      none.
    """

    name: str
    host: str
    definition: Mapping[str, Any]
    earlier: Sequence[Mapping[str, object] | None]


class SharedPools(NamedTuple):
    """The shared pools of the nodes of a discovery. A pool has the uuid of its aggregate.

    - places: {uuid of a node: the pools that it sees now}.
    - leaving: {uuid of a node: the pools that it no longer sees}.
    - instances: the pools with the storage of instances.
    - further: the other storage pools.
    - addresses: the pools of addresses.
    - disks: {uuid of a node: the pool with its storage of instances}.
    - origins: the texts that the uuids of storage pools are made of.
    - traits, reported: the traits of further pools now and by the last discovery; all other traits
      belong to the operator.
    """

    places: Mapping[str, Collection[str]]
    leaving: Mapping[str, Collection[str]]
    instances: Mapping[str, sharing.SharingProvider]
    further: Mapping[str, sharing.SharingProvider]
    addresses: Mapping[str, Addresses]
    disks: Mapping[str, str]
    origins: Mapping[str, str]
    traits: Mapping[str, Collection[str]]
    reported: Mapping[str, Collection[str]]


def write(
    connection: Connection,
    pools: SharedPools,
    ids: Mapping[str, int],
    hosts: Collection[str],
    now: float,
) -> tuple[dict[int, int], bool]:
    """Write the pools that nodes share.

    :param ids: {uuid of a node: id of its provider}.
    :param hosts: the hosts of this discovery.
    :returns: {id of the provider of a node: id of the sharing provider that is its disk}, and True
        if anything changed.
    :raises DroverError: hosts define one pool of IP addresses differently, or give one storage
        different names.
    """
    if pools.addresses:
        _refuse_contradictions(connection, pools.addresses, hosts)
    joined, changed = sharing.set_members(
        connection,
        {ids[node]: place for node, place in pools.places.items() if place},
        {ids[node]: gone for node, gone in pools.leaving.items() if gone},
    )
    established = set(providers.ids(connection, pools.instances))
    counts = sharing.count_members(connection, set(pools.instances) - established)
    shared = {
        uuid for uuid in pools.instances if uuid in established or counts.get(uuid, 0) >= _SEVERAL
    }
    storage = {**{uuid: pools.instances[uuid] for uuid in sorted(shared)}, **pools.further}
    for uuid in sorted(shared & set(pools.further)):
        raise counts_twice(pools.origins[uuid], DISK, pools.further[uuid]["resource"])
    for uuid, name in sharing.classes(connection, storage):
        if name != storage[uuid]["resource"]:
            raise counts_twice(pools.origins[uuid], name, storage[uuid]["resource"])
    addresses = _wanted_providers(pools.addresses) if pools.addresses else {}
    sharing_ids, written = sharing.ensure(connection, {**storage, **addresses})
    if pools.traits:
        written |= _write_traits(connection, pools, sharing_ids)
    new = shared - established
    newcomers = sharing.members(connection, new) if new else {}
    newcomers.update({uuid: joined[uuid] for uuid in shared & established if uuid in joined})
    moves = {
        provider: sharing_ids[uuid] for uuid, members in newcomers.items() for provider in members
    }
    if moves:
        sharing.move(connection, moves, DISK, now)
    disk = {ids[node]: sharing_ids[uuid] for node, uuid in pools.disks.items() if uuid in shared}
    return disk, changed or written or bool(moves)


def _wanted_providers(addresses: Mapping[str, Addresses]) -> dict[str, sharing.SharingProvider]:
    return {
        uuid: {
            "name": f"ip/{pool.name}",
            "resource": ADDRESS,
            "total": pool.definition["total"],
            "allocation_ratio": None,
            "reserved": None,
        }
        for uuid, pool in addresses.items()
    }


def _write_traits(connection: Connection, pools: SharedPools, ids: Mapping[str, int]) -> bool:
    """Write the traits of further pools; return True if any changed."""
    reported = {ids[uuid]: traits for uuid, traits in pools.reported.items() if uuid in ids}
    return bool(
        providers.set_traits(
            connection,
            {ids[uuid]: {SHARES, *traits} for uuid, traits in pools.traits.items()},
            owned=lambda key, trait: trait in reported.get(key, ()),
        )
    )


def _refuse_contradictions(
    connection: Connection, addresses: Mapping[str, Addresses], hosts: Collection[str]
) -> None:
    """Refuse a pool of addresses that another host defines in another way.

    A host with the recorded definition may change it: the operator has edited the variable, and
    hosts are discovered one after the other.
    """
    for uuid, pool in addresses.items():
        last = sharing.latest_reporter(connection, uuid, hosts)
        if last is None:
            continue
        recorded = ((last.facts or {}).get("ip_pools") or {}).get(pool.name)
        if recorded not in (None, pool.definition) and any(
            each != recorded for each in pool.earlier
        ):
            raise contradiction(pool.name, last.host, recorded, pool.host, pool.definition)


def contradiction(
    name: str, host: str, pool: Mapping[str, Any], other_host: str, other_pool: Mapping[str, Any]
) -> DroverError:
    """Make the error for a pool of addresses that two hosts define differently."""
    return DroverError(
        f"The IP pool {name} is defined differently: {host} has {', '.join(pool['addresses'])},"
        f" {other_host} has {', '.join(other_pool['addresses'])}. Give both hosts the same ip_pools"
        " (drover_ip_pools), best in a variable of their group; nothing was recorded."
    )


def counts_twice(storage: str, one: str, other: str) -> DroverError:
    """Make the error for a storage with two resource classes.

    It may have two names, or be instances' storage and a further pool.
    """
    return DroverError(
        f"The storage {storage} would count twice, as {_storage_of(one)} and as"
        f" {_storage_of(other)}. Give the storage pool one name on all hosts, and do not name the"
        " instances' storage of one host in drover_storage_pools of another; nothing was recorded."
        " After you changed the name of a pool, discover the hosts that still have the old name"
        " first."
    )


def _storage_of(resource_class: str) -> str:
    return (
        f"the storage pool {pool_of(resource_class)}"
        if resource_class.startswith(POOL_PREFIX)
        else "the instances' storage"
    )
