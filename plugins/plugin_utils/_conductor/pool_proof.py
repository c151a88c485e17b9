# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof that a storage pool is empty, from its lists and the needs of domains and instances.

The pool is empty if each host answers, no domain of that host needs a file in it, and no file left
there belongs to an instance. A file belongs to an instance if a domain of another host uses it, or
if its name has the uuid of an instance. Unknown is never empty: an instance with room in the pool
that its host does not show may have its disk there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .._common.errors import HostTimeout, Unreachable
from .._placement import allocations, providers
from .._store.engine import Connection
from .._store.hosts import pool_domains
from .drained_pools import Contents, HostPool
from .ports import Ports
from .removing import Removing


class PoolRest(NamedTuple):
    """The contents of the pool on one host.

    - needed, others: dicts path and reason; needed files belong to an instance, others do not. The
      reason of others may be None.
    - doubts: sentences on unknown facts.
    """

    pool: HostPool
    needed: list[dict[str, str]]
    others: list[dict[str, str]]
    doubts: list[str]

    @property
    def is_empty(self) -> bool:
        """Return True if it is proven that the pool has no file of an instance."""
        return not self.needed and not self.doubts


def look(ports: Ports, contents: Contents, pools: Iterable[HostPool]) -> list[PoolRest]:
    """Let each host list its pool.

    :param contents: the contents by the last discovery of the hosts; they count too.
    """
    return [_read_pool(ports, contents, pool) for pool in pools]


def _read_pool(ports: Ports, contents: Contents, pool: HostPool) -> PoolRest:
    host = pool.node.host
    try:
        listing = ports.hosts.hand(host).read(
            "_pool_contents", {"uri": pool.uri, "pool": pool.name}
        )
    except (Unreachable, HostTimeout) as problem:
        listing = {"failed": True, "msg": str(problem)}
    if listing.get("failed"):
        listing = {"needed": [], "others": [], "doubts": [str(listing.get("msg"))]}
    needed = {each["path"]: each["reason"] for each in listing["needed"]}
    for disk in contents.disks:
        if disk.node == pool.node.id:
            needed.setdefault(disk.source, f"it is the disk {disk.target} of {disk.name}")
    for other in contents.others:
        if other.host == host:
            needed.setdefault(other.path, f"{other.name} needs it")
    paths = [each["path"] for each in listing["others"]]
    elsewhere = Removing(ports).look_shared(host, paths)
    with ports.store.read() as connection:
        owners = pool_domains.named_for(connection, paths)
        unseen = _unseen(connection, pool)
    needed.update(
        {
            path: f"it is named for the instance {name}, whose domain does not have it"
            for path, name in owners.items()
        }
    )
    needed.update(elsewhere)
    others = [each for each in listing["others"] if each["path"] not in needed]
    return PoolRest(
        pool,
        [{"path": path, "reason": reason} for path, reason in sorted(needed.items())],
        others,
        [*listing["doubts"], *unseen],
    )


def _unseen(connection: Connection, pool: HostPool) -> list[str]:
    """Return the instances with room in the pool that their host does not show, in words."""
    instances = pool_domains.unseen(connection, [pool.node.id])
    claimed, ids = (
        allocations.read(connection, [uuid for uuid, _name, _state in instances]),
        providers.ids(connection, [each[0] for each in pool.places]),
    )
    return [
        f"where the disks of the instance {name} are, which has space in the pool and is {state} on"
        f" {pool.node.host}"
        for uuid, name, state in instances
        if any(
            claimed.get(uuid, {}).get(ids.get(provider, 0), {}).get(resource)
            for provider, resource in pool.places
        )
    ]
