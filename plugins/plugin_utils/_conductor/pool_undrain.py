# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The return of a storage pool after its drain: it gets new disks again."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import natural
from .._placement import pool_drains
from . import drained_pools
from .ports import Ports


def bring_back(
    ports: Ports, pool: str, hosts: Sequence[str], check_mode: bool = False
) -> dict[str, object]:
    """Give a pool its state from before its drain, on the given hosts or on all its hosts.

    :returns: a dict: changed, pool, hosts (their names), started (always empty), message.
    :raises DroverError: there is no such pool.
    """
    with ports.store.read() as connection:
        pools = drained_pools.find(connection, pool, hosts)
    names = sorted({each.node.host for each in pools}, key=natural)
    if check_mode:
        with ports.store.read() as connection:
            drained = set(pool_drains.reasons(connection, drained_pools.places_of(pools)))
    else:
        # A running drain holds the lease, so the undrain is refused then.
        with (
            ports.leasing.held(names, f"undrain of the storage pool {pool}"),
            ports.store.write() as connection,
        ):
            drained = pool_drains.end(connection, drained_pools.places_of(pools))
    messages = []
    for host_pool in pools:
        back = (
            f"{'would get' if check_mode else 'gets'} new disks again, as before its drain"
            if drained.intersection(host_pool.places)
            else "was not drained; nothing was changed"
        )
        messages.append(f"The storage pool {host_pool.name} of {host_pool.node.host} {back}.")
        ports.say(messages[-1])
    return {
        "changed": bool(drained),
        "pool": pool,
        "hosts": [{"host": name} for name in names],
        "started": [],
        "message": " ".join(messages),
    }
