# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The further storage pools of nodes in the store: providers, and amounts of instances.

All is done in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._common import storage_identity
from .._placement import discovered_children, provider_uuids, providers, sharing
from .._placement.shared_pools import counts_twice
from .._records.claims import Resources
from .._store.engine import Connection
from . import storage_pools
from .domain import DomainReport
from .node import NodeReport
from .sharing_facts import uuid_of


def children(
    node: NodeReport, uuid: str, prefix: str, known: Mapping[str, Collection[str]]
) -> dict[str, discovered_children.ChildProvider]:
    """Return the providers of the unshared pools of a node, by their uuids.

    :param uuid: the uuid of the node.
    :param prefix: the beginning of the names.
    :param known: the traits that the last discovery reported, by key of the provider.
    """
    by_uuid = {}
    for pool in node["storage_pools"]:
        key = storage_pools.key_of(pool["name"])
        if pool["shared_id"]:
            continue
        by_uuid[provider_uuids.uuid_of(uuid, key)] = discovered_children.ChildProvider(
            f"{prefix}{key}",
            None,
            pool["resource_class"],
            pool["total"],
            pool["traits"],
            frozenset(known.get(key, ())),
            pool["reserved"] or 0,
            pool["allocation_ratio"],
        )
    return by_uuid


def merge(
    pools: dict[str, sharing.SharingProvider], uuid: str, pool: storage_pools.StoragePool
) -> None:
    """Add the report of a node on a shared pool.

    :param pools: the shared pools by the uuid of their provider, changed in place.
    :raises DroverError: hosts give one storage different names.
    """
    merged = pools.setdefault(
        uuid,
        {
            "name": f"pool/{pool['name']}",
            "resource": pool["resource_class"],
            "total": None,
            "allocation_ratio": None,
            "reserved": None,
        },
    )
    if merged["resource"] != pool["resource_class"]:
        raise counts_twice(str(pool["shared_id"]), merged["resource"], pool["resource_class"])
    # Use the largest of several values, so that their order does not matter.
    merged["total"] = max(merged["total"] or 0, pool["total"] or 0) or None
    merged["allocation_ratio"] = (
        max(merged["allocation_ratio"] or 0, pool["allocation_ratio"] or 0) or None
    )
    if pool["reserved"] is not None:
        merged["reserved"] = max(merged["reserved"] or 0, pool["reserved"])


class Pools:
    """The further pools of nodes, for the amounts that domains take.

    :param nodes: {node id: its row}.
    """

    def __init__(self, connection: Connection, nodes: Mapping[int, Any]) -> None:
        self._facts = {
            key: row.facts for key, row in nodes.items() if (row.facts or {}).get("storage_pools")
        }
        uuids = {
            key: {
                pool["resource_class"]: provider_uuid(nodes[key].uuid, pool)
                for pool in facts["storage_pools"]
            }
            for key, facts in self._facts.items()
        }
        ids = (
            providers.ids(connection, {uuid for each in uuids.values() for uuid in each.values()})
            if uuids
            else {}
        )
        #: {node id: {class of a pool: id of its provider}}.
        self.ids = {
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
            for name in self.ids.get(node, ()):
                amounts[name] = max(amounts.get(name, 0), held.get(name, 0))
        amounts = {
            name: amount for name, amount in amounts.items() if name in self.ids.get(node, ())
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
