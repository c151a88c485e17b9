# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of compute nodes with all that belongs to them, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypedDict

from .._common import resource_classes
from .._store.engine import Connection
from . import discovered_children, provider_uuids, providers, shared_pools
from .inventory import InventoryFields


class NodeInventory(TypedDict):
    """An inventory as its host reports it; an allocation_ratio of None keeps the stored ratio."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float | None


class NodeProvider(NamedTuple):
    """The provider of a compute node, as discovery wants it.

    - name: its name, which begins the names of the providers below it.
    - traits: the traits that it has by discovery.
    - reported: the traits that it had by the last discovery; None if there was none, or if it did
      not record them.
    - children: the providers below it, by uuid.
    """

    name: str
    inventories: Mapping[str, NodeInventory]
    traits: Collection[str]
    reported: Collection[str] | None
    children: Mapping[str, discovered_children.ChildProvider]


class NodeWrite(NamedTuple):
    """The result of write().

    - ids: {uuid of a node: id of its provider}.
    - disk: {id of the provider of a node: id of the sharing provider that is its disk}.
    """

    ids: dict[str, int]
    disk: dict[int, int]
    changed: bool


def write(
    connection: Connection,
    nodes: Mapping[str, NodeProvider],
    pools: shared_pools.SharedPools,
    hosts: Collection[str],
    now: float,
) -> NodeWrite:
    """Write the providers of nodes, the pools that they share, and the providers below them.

    :param nodes: by the uuid of the node.
    :param hosts: the hosts of this discovery.
    :raises DroverError: the name of a new provider is taken, or see shared_pools.write().
    """
    ids = providers.ensure(connection, {uuid: node.name for uuid, node in nodes.items()})
    uuids = {ids[uuid]: uuid for uuid in nodes}
    stored = providers.ratios(connection, uuids)
    disk, shared = shared_pools.write(connection, pools, ids, hosts, now)

    def is_ours(root: int, uuid: str, name: str) -> bool:
        # Such a uuid is made from the name.
        key = name.removeprefix(f"{nodes[uuids[root]].name}_")
        return uuid in {provider_uuids.uuid_of(uuids[root], each) for each in (key, key.lower())}

    children = {ids[uuid]: node.children for uuid, node in nodes.items()}
    nested = discovered_children.write(connection, children, is_ours)
    reported = {key: nodes[uuid].reported for key, uuid in uuids.items()}
    changed = providers.set_traits(
        connection,
        {key: nodes[uuid].traits for key, uuid in uuids.items()},
        owned=lambda provider, trait: providers.is_discovered(trait, reported[provider]),
    )
    inventories: dict[int, dict[str, InventoryFields]] = {
        key: {
            name: {
                **values,
                "allocation_ratio": (
                    values["allocation_ratio"]
                    or stored.get((key, name))
                    or resource_classes.DISCOVERED[name].initial_ratio
                ),
            }
            for name, values in nodes[uuid].inventories.items()
            # The disk of such a node belongs to a pool, which counts once for all its nodes.
            if name != shared_pools.DISK or key not in disk
        }
        for key, uuid in uuids.items()
    }
    changed |= providers.set_inventories(
        connection, inventories, owned=providers.DISCOVERED_CLASSES
    )
    return NodeWrite(ids, disk, bool(changed) or shared or nested)
