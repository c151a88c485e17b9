# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools and pools of IP addresses that nodes share, in the store.

See docs/shared-storage.md. A storage pool becomes a sharing provider with the second node that sees
it, a pool of addresses with the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._common.errors import DroverError
from .._placement import providers, sharing
from .._store.engine import Connection
from . import record_pools
from .node import NodeKey, NodeRows, Nodes
from .sharing_facts import uuid_of

DISK, ADDRESS = "DISK_GB", "IPV4_ADDRESS"
# The number of nodes that makes a storage pool shared.
_SEVERAL = 2


def write(
    connection: Connection, wanted: Nodes, before: NodeRows, ids: Mapping[NodeKey, int], now: float
) -> dict[str, Any]:
    """Write the pools that nodes share.

    :returns: a dict: disk (dict id of a node's provider -> id of the sharing provider that is its
        disk), changed.
    :raises DroverError: hosts define one pool of IP addresses differently.
    """
    storage, addresses = _storage_pools(wanted), _ip_pools(connection, wanted, before)
    places = {key: _uuids(node["columns"]["facts"]) for key, node in wanted.items()}
    leaving = {
        key: _uuids(before[key].facts) - place for key, place in places.items() if key in before
    }
    joined, changed = sharing.set_members(
        connection,
        {ids[key]: place for key, place in places.items() if place},
        {ids[key]: gone for key, gone in leaving.items() if gone},
    )
    established = set(providers.ids(connection, storage))
    counts = sharing.count_members(connection, set(storage) - established)
    shared = {uuid for uuid in storage if uuid in established or counts.get(uuid, 0) >= _SEVERAL}
    disks = record_pools.shared(wanted, {uuid: storage[uuid] for uuid in shared})
    record_pools.refuse_two_classes(connection, disks, _texts(wanted))
    pools = {**disks, **addresses}
    sharing_ids, written = sharing.ensure(connection, pools)
    written |= record_pools.write_traits(connection, wanted, before, sharing_ids)
    newcomers = sharing.members(connection, shared - established)
    newcomers.update({uuid: joined[uuid] for uuid in shared & established if uuid in joined})
    moves = {
        provider: sharing_ids[uuid] for uuid, members in newcomers.items() for provider in members
    }
    if moves:
        sharing.move(connection, moves, DISK, now)
    disk = {}
    for key, node in wanted.items():
        found = node["columns"]["facts"].get("shared_storage")
        if found and uuid_of(found["id"]) in shared:
            disk[ids[key]] = sharing_ids[uuid_of(found["id"])]
    return {"disk": disk, "changed": changed or written or bool(moves)}


def tidy(connection: Connection, before: Iterable[Any]) -> bool:
    """Remove the pools without a node and without an allocation.

    :returns: True if a pool was removed.
    """
    return sharing.remove_unused(connection, {uuid for row in before for uuid in _uuids(row.facts)})


def _uuids(facts: Mapping[str, Any] | None) -> set[str]:
    """Return the aggregates of a node: of its storage, its further pools and its IP pools."""
    facts = facts or {}
    found = {_ip_uuid(name) for name in facts.get("ip_pools") or {}}
    if facts.get("shared_storage"):
        found.add(uuid_of(facts["shared_storage"]["id"]))
    return found.union(record_pools.uuids(facts))


def _texts(wanted: Nodes) -> dict[str, str]:
    """Return the origins of the storage of nodes, by the uuid of its provider."""
    facts = [node["columns"]["facts"] for node in wanted.values()]
    texts = [each["shared_storage"]["id"] for each in facts if each.get("shared_storage")]
    texts += [
        pool["shared_id"]
        for each in facts
        for pool in each.get("storage_pools") or ()
        if pool["shared_id"]
    ]
    return {uuid_of(text): text for text in texts}


def _ip_uuid(name: str) -> str:
    return uuid_of(f"ip:{name}")


def _storage_pools(wanted: Nodes) -> dict[str, sharing.Pool]:
    pools: dict[str, sharing.Pool] = {}
    for _dummy, node in sorted(wanted.items()):
        found = node["columns"]["facts"].get("shared_storage")
        if not found:
            continue
        pool = pools.setdefault(
            uuid_of(found["id"]),
            {
                "name": f"pool/{found['name']}",
                "resource": DISK,
                "total": None,
                "allocation_ratio": None,
                "reserved": None,
            },
        )
        # Use the largest of several values, so that their order does not matter.
        pool["total"] = max(pool["total"] or 0, found["total"] or 0) or None
        pool["allocation_ratio"] = (
            max(pool["allocation_ratio"] or 0, node["shared_disk_ratio"] or 0) or None
        )
    return pools


def _ip_pools(connection: Connection, wanted: Nodes, before: NodeRows) -> dict[str, sharing.Pool]:
    """Return the pools of addresses by uuid. All hosts must define them in the same way."""
    definitions: dict[str, tuple[NodeKey, dict[str, Any]]] = {}
    for key, node in sorted(wanted.items()):
        for name, pool in (node["columns"]["facts"].get("ip_pools") or {}).items():
            first, other = definitions.setdefault(name, (key, pool))
            if other != pool:
                raise _contradiction(name, first[0], other, key[0], pool)
    hosts = {host for host, dummy in wanted}
    for name, (key, pool) in definitions.items():
        last = sharing.latest_reporter(connection, _ip_uuid(name), hosts)
        if last is None:
            continue
        recorded = ((last.facts or {}).get("ip_pools") or {}).get(name)
        if recorded in (None, pool):
            continue
        # A host with the recorded definition may change it: the operator has edited the variable,
        # and hosts are discovered one after the other.
        if not _was(before, wanted, name, recorded):
            raise _contradiction(name, last.host, recorded, key[0], pool)
    return {
        _ip_uuid(name): {
            "name": f"ip/{name}",
            "resource": ADDRESS,
            "total": pool["total"],
            "allocation_ratio": None,
            "reserved": None,
        }
        for name, (dummy, pool) in definitions.items()
    }


def _was(before: NodeRows, wanted: Nodes, name: str, recorded: Mapping[str, Any]) -> bool:
    """Return True if all nodes that name the pool now had the recorded definition."""
    return all(
        key in before and ((before[key].facts or {}).get("ip_pools") or {}).get(name) == recorded
        for key, node in wanted.items()
        if name in (node["columns"]["facts"].get("ip_pools") or {})
    )


def _contradiction(
    name: str, host: str, pool: Mapping[str, Any], other_host: str, other_pool: Mapping[str, Any]
) -> DroverError:
    return DroverError(
        f"The IP pool {name} is defined differently: {host} has {', '.join(pool['addresses'])}, "
        f"{other_host} has {', '.join(other_pool['addresses'])}. Give both hosts the same ip_pools (drover_ip_pools), "
        "best in a variable of their group; nothing was recorded."
    )
