# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The further storage pools of nodes in the store: providers, and amounts of instances.

All is done in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._common import storage_identity
from .._common.errors import DroverError
from .._common.resource_classes import POOL_PREFIX, pool_of
from .._placement import discovered_children, provider_uuids, providers, sharing
from .._records.claims import Resources
from .._store.engine import Connection
from .._store.hosts import compute_nodes
from .._store.providers.provider_arrays import SHARES
from . import storage_pools
from .domain import DomainReport
from .node import NodeReport, NodeRows, Nodes
from .sharing_facts import uuid_of


def children(
    node: NodeReport, uuid: str, prefix: str, known: Mapping[str, Collection[str]]
) -> dict[str, discovered_children.Child]:
    """Return the providers of the unshared pools of a node, by their uuids.

    :param uuid: the uuid of the node.
    :param prefix: the beginning of the names.
    :param known: the traits that the last discovery reported, by key of the provider.
    """
    found = {}
    for pool in node["storage_pools"]:
        key = storage_pools.key_of(pool["name"])
        if pool["shared_id"]:
            continue
        found[provider_uuids.uuid_of(uuid, key)] = discovered_children.Child(
            f"{prefix}{key}",
            None,
            pool["resource_class"],
            pool["total"],
            pool["traits"],
            frozenset(known.get(key, ())),
            pool["reserved"] or 0,
            pool["allocation_ratio"],
        )
    return found


def shared(wanted: Nodes, storage: Mapping[str, sharing.Pool]) -> dict[str, sharing.Pool]:
    """Return the shared pools, by the uuid of their provider.

    :param storage: the pools of instances' storage; the result includes them.
    :raises DroverError: hosts give one storage different names.
    """
    pools: dict[str, sharing.Pool] = dict(storage)
    for _key, node in sorted(wanted.items()):
        for each in node["storage_pools"]:
            if not each["shared_id"]:
                continue
            pool = pools.setdefault(
                uuid_of(each["shared_id"]),
                {
                    "name": f"pool/{each['name']}",
                    "resource": each["resource_class"],
                    "total": None,
                    "allocation_ratio": None,
                    "reserved": None,
                },
            )
            if pool["resource"] != each["resource_class"]:
                raise _counts_twice(each["shared_id"], pool["resource"], each["resource_class"])
            # Use the largest of several values, so that their order does not matter.
            pool["total"] = max(pool["total"] or 0, each["total"] or 0) or None
            pool["allocation_ratio"] = (
                max(pool["allocation_ratio"] or 0, each["allocation_ratio"] or 0) or None
            )
            if each["reserved"] is not None:
                pool["reserved"] = max(pool["reserved"] or 0, each["reserved"])
    return pools


def refuse_two_classes(
    connection: Connection, wanted: Mapping[str, sharing.Pool], names: Mapping[str, str]
) -> None:
    """Refuse a storage with two resource classes.

    It may have two names, or be instances' storage and a further pool.

    :param names: the texts of storage by uuid of its provider.
    :raises DroverError: a storage has two classes.
    """
    ids = providers.ids(connection, wanted)
    by_id = {key: uuid for uuid, key in ids.items()}
    for row in providers.inventories(connection, by_id):
        uuid = by_id[row.provider_id]
        if row.name != wanted[uuid]["resource"]:
            raise _counts_twice(names[uuid], row.name, wanted[uuid]["resource"])


def _storage_of(resource_class: str) -> str:
    return (
        f"the storage pool {pool_of(resource_class)}"
        if resource_class.startswith(POOL_PREFIX)
        else "the instances' storage"
    )


def _counts_twice(storage: str, one: str, other: str) -> DroverError:
    return DroverError(
        f"The storage {storage} would count twice, as {_storage_of(one)} and as {_storage_of(other)}. Give the storage pool one name on all hosts, "
        "and do not name the instances' storage of one host in drover_storage_pools of another; nothing was recorded. After you changed the name of a "
        "pool, discover the hosts that still have the old name first."
    )


def write_traits(
    connection: Connection, wanted: Nodes, before: NodeRows, ids: Mapping[str, int]
) -> bool:
    """Write the traits of shared pools. Traits that no discovery reported belong to the operator.

    :param ids: {uuid of a sharing provider: its id}.
    :returns: True if any changed.
    """
    traits: dict[int, set[str]] = {}
    reported: dict[int, set[str]] = {}
    for key, node in wanted.items():
        known = ((before[key].facts or {}).get("storage_pools") or ()) if key in before else ()
        for each in known:
            if each["shared_id"] and uuid_of(each["shared_id"]) in ids:
                reported.setdefault(ids[uuid_of(each["shared_id"])], set()).update(each["traits"])
        for pool in node["storage_pools"]:
            if pool["shared_id"]:
                traits.setdefault(ids[uuid_of(pool["shared_id"])], {SHARES}).update(pool["traits"])
    return (
        bool(
            providers.set_traits(
                connection, traits, owned=lambda key, trait: trait in reported.get(key, ())
            )
        )
        if traits
        else False
    )


class Pools:
    """The further pools of nodes, for the amounts that domains take.

    :param facts: {node id: facts of the node}.
    """

    def __init__(self, connection: Connection, facts: Mapping[int, Mapping[str, Any]]) -> None:
        self._facts = {node: found for node, found in facts.items() if found.get("storage_pools")}
        rows = compute_nodes.cells(connection, self._facts) if self._facts else {}
        uuids = {
            node: {
                pool["resource_class"]: provider_uuid(rows[node].uuid, pool)
                for pool in found["storage_pools"]
            }
            for node, found in self._facts.items()
            if node in rows
        }
        ids = (
            providers.ids(connection, {uuid for each in uuids.values() for uuid in each.values()})
            if uuids
            else {}
        )
        self._ids = {
            node: {name: ids[uuid] for name, uuid in each.items() if uuid in ids}
            for node, each in uuids.items()
        }

    def divide(
        self, node: int, domain: DomainReport, held: Resources, attaching: bool = False
    ) -> tuple[Resources, Any, list[str]]:
        """Divide the disks of a domain between the pools and the storage of the instances.

        :param held: the present amounts of the instance, by class; it keeps them if the size of a
            disk is not known.
        :param attaching: keep the claim for a disk that its host does not show yet.
        :returns: the amounts by resource class; DISK_GB, None if it is not known; and the pools
            with an unknown amount.
        """
        disks = storage_identity.all_disks(domain["columns"]["facts"])
        if node not in self._facts or not disks:
            return {}, domain["resources"]["DISK_GB"], []
        shown, rest = storage_pools.divide(disks, self._facts[node])
        amounts = {
            name: held.get(name, 0) if amount is None else amount for name, amount in shown.items()
        }
        unknown = {name for name, amount in shown.items() if amount is None and name not in held}
        if attaching:
            for name in self._ids.get(node, ()):
                amounts[name] = max(amounts.get(name, 0), held.get(name, 0))
        amounts = {
            name: amount for name, amount in amounts.items() if name in self._ids.get(node, ())
        }
        return (
            amounts,
            rest,
            [
                pool["name"]
                for pool in self._facts[node]["storage_pools"]
                if pool["resource_class"] in unknown
            ],
        )

    def provider(self, node: int, name: str) -> int | None:
        """Return the id of the provider of a class of pools; None for other classes."""
        return self._ids.get(node, {}).get(name)

    def put(
        self, node: int, taken: Mapping[int, Resources], amounts: Resources
    ) -> dict[int, Resources]:
        """Return the amounts of an instance by provider, with new amounts of pools."""
        found = {
            key: {name: n for name, n in each.items() if not name.startswith(POOL_PREFIX)}
            for key, each in taken.items()
        }
        for name, amount in amounts.items():
            if amount:
                found.setdefault(self._ids[node][name], {})[name] = amount
        return {key: each for key, each in found.items() if each}


def provider_uuid(node: str, pool: Mapping[str, Any]) -> str:
    """Return the uuid of the provider of a pool.

    :param node: the uuid of its node.
    :param pool: a pool from the facts of the node.
    """
    return (
        uuid_of(pool["shared_id"])
        if pool["shared_id"]
        else provider_uuids.uuid_of(node, storage_pools.key_of(pool["name"]))
    )


def uuids(facts: Mapping[str, Any]) -> Iterable[str]:
    """Return the aggregates of a node for its further pools."""
    return [
        uuid_of(pool["shared_id"]) for pool in facts.get("storage_pools") or () if pool["shared_id"]
    ]
