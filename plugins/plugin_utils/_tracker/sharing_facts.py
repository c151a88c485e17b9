# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared storage pool behind the disk of a compute node, and pools of routed IP addresses.

Data in, data out. See docs/shared-storage.md.
"""

from __future__ import annotations

import functools
import ipaddress
import itertools
import posixpath
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from .._common import validation
from .._common.errors import DroverError
from .._records.hosts import PoolFacts
from .facts import StorageFacts

# An own namespace, so that a uuid from the same text elsewhere is never equal to one of these.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://drover.compute/sharing")
_LONGEST_ID = 1000


class MarkedPool(PoolFacts, total=False):
    """A storage pool of a host with the id from the operator."""

    #: The id from the host, if the operator gives another one.
    origin: str | None


class SharedStorage(TypedDict):
    """The shared storage of the disks of instances."""

    id: str
    #: For people.
    name: str
    #: GiB; None if a stopped pool does not report it.
    total: int | None


class IpPool(TypedDict):
    """A pool of IP addresses: texts in one spelling, and their number."""

    addresses: list[str]
    total: int


@functools.lru_cache(maxsize=1024)
def uuid_of(shared_id: str) -> str:
    """Return the uuid of a sharing provider and its aggregate, equal in every discovery."""
    return str(uuid.uuid5(_NAMESPACE, shared_id))


def declared(value: Any, where: str) -> dict[str, str]:
    """Return the pools that the operator declares as shared, by name.

    :param value: the option shared_pools: None, a list of names of pools, or a mapping of a name to
        the id that the pool has on all hosts.
    :raises DroverError: it has another form.
    """
    if value is None:
        return {}
    names = dict(zip(value, value)) if isinstance(value, list) and _all_texts(value) else value
    if not isinstance(names, dict) or not _all_texts([*names, *names.values()]):
        raise DroverError(
            f"{where}: shared_pools must be a list of names of storage pools, such as [nfs], or a"
            " mapping of a name to an id that all hosts give the pool, such as nfs: rack1, not"
            f" {value!r}."
        )
    return names


def _all_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) and 0 < len(value) <= _LONGEST_ID for value in values)


def mark(pools: Iterable[PoolFacts], names: Mapping[str, str]) -> list[MarkedPool]:
    """Return the pools with the ids from the operator. These override the ids from the host."""
    return [
        (
            {
                **pool,
                "shared_id": f"declared:{names[pool['name']]}",
                "origin": pool.get("shared_id"),
            }
            if pool.get("name") in names
            else {**MarkedPool(), **pool}
        )
        for pool in pools
    ]


def of_instances(
    storage: StorageFacts, pools: Sequence[PoolFacts], instances_path: str | None
) -> SharedStorage | None:
    """Return the shared storage with the disks of the instances.

    It is the pool with the longest path above the instances' path if that pool is shared, else the
    file system of the path.

    :param storage: the fact storage of hypervisor_info.
    :param pools: the fact pools, as mark() returns it.
    :returns: None if the storage belongs to this host alone.
    """
    pool = covering(pools, instances_path)
    total = storage.get("total_gb") or None
    origin = pool.get("shared_id") if pool is not None else None
    if pool is not None and origin:
        stopped = pool.get("state", "running") not in ("running", "degraded")
        return {"id": origin, "name": pool["name"], "total": None if stopped else total}
    shared = storage.get("shared_id")
    return {"id": shared, "name": shared.partition(":")[2], "total": total} if shared else None


def covering(pools: Iterable[PoolFacts], path: str | None) -> PoolFacts | None:
    """Return the pool with the longest path at or above ``path``, or None."""
    if not path:
        return None
    path = posixpath.normpath(path)
    best: tuple[str, PoolFacts] | None = None
    for pool in pools:
        folder = pool.get("path")
        above = posixpath.normpath(folder).rstrip("/") if folder else None
        if above is None or not (path + "/").startswith(above + "/"):
            continue
        if best is None or len(above) > len(best[0]):
            best = (above, pool)
    return best[1] if best else None


def unknown(pools: Iterable[PoolFacts], names: Iterable[str], node: str) -> list[str]:
    """Return sentences on declared pools that a node does not have."""
    have = sorted(pool["name"] for pool in pools)
    return [
        f"Compute node {node}: shared_pools (drover_shared_pools) names the pool {name}, which the"
        f" host does not have (it has {', '.join(have) or 'none'}). Correct the name, or define the"
        " pool there."
        for name in sorted(set(names) - set(have))
    ]


_LONGEST_NAME = 150


def describe_ip_pools(value: Any, where: str) -> dict[str, IpPool]:
    """Return the pools of IP addresses of a node.

    :param value: the option ip_pools: None, or a list of mappings with name and addresses (networks
        as 10.0.0.0/24, ranges as 10.0.0.10-10.0.0.20, or single addresses).
    :returns: the pools by their names.
    :raises DroverError: a wrong form, a name or an address that occurs twice, or IPv6.
    """
    if not isinstance(value or [], list) or not all(isinstance(pool, dict) for pool in value or []):
        raise DroverError(
            f"{where}: ip_pools must be a list of mappings with name and addresses, not {value!r}."
        )
    by_name: dict[str, IpPool] = {}
    taken = []
    for pool in value or []:
        name = pool.get("name")
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= _LONGEST_NAME
            or not name.isprintable()
        ):
            raise DroverError(
                f"{where}: the name of an IP pool must be a text of 1 to {_LONGEST_NAME}"
                f" characters, not {name!r}."
            )
        place = f"{where}: ip_pools, {name}"
        validation.check_keys(place, pool, ("name", "addresses"))
        if name in by_name:
            raise DroverError(
                f"{place} stands twice. Give the pool all its addresses in one place."
            )
        addresses = pool.get("addresses")
        if not isinstance(addresses, list) or not addresses:
            raise DroverError(
                f"{place}: addresses must be a list such as [10.0.0.0/24, 10.1.0.10-10.1.0.20]."
            )
        ranges = sorted((*_range(text, place), name) for text in addresses)
        taken.extend(ranges)
        by_name[name] = {
            "addresses": [_spelled(first, last) for first, last, dummy in ranges],
            "total": sum(last - first + 1 for first, last, dummy in ranges),
        }
    _refuse_twice(sorted(taken), where)
    return by_name


def _range(text: Any, place: str) -> tuple[int, int]:
    """Return the first and the last address as numbers.

    For a network, only addresses for hosts count.
    """
    try:
        if isinstance(text, str) and "/" in text:
            network = ipaddress.ip_network(text.strip())
            first, last = network.network_address, network.broadcast_address
            if network.version == 4 and network.prefixlen < 31:
                first, last = first + 1, last - 1
        else:
            lower, dash, upper = str(text).partition("-")
            first = ipaddress.ip_address(lower.strip())
            last = ipaddress.ip_address(upper.strip()) if dash else first
        if {first.version, last.version} != {4}:
            raise DroverError(
                f"{place}: {text} is IPv6. There is a resource class for IPv4 addresses only"
                " (IPV4_ADDRESS); make a custom one with drover.compute.resource_provider."
            )
    except ValueError as problem:
        raise DroverError(
            f"{place}: {text!r} is no network, range or address ({problem}). Write 10.0.0.0/24,"
            " 10.0.0.10-10.0.0.20 or 10.0.0.5."
        ) from None
    if int(last) < int(first):
        raise DroverError(f"{place}: {text} runs backwards. Write the lower address first.")
    return int(first), int(last)


def _spelled(first: int, last: int) -> str:
    lower, upper = ipaddress.IPv4Address(first), ipaddress.IPv4Address(last)
    return str(lower) if lower == upper else f"{lower}-{upper}"


def _refuse_twice(ranges: Iterable[tuple[int, int, str]], where: str) -> None:
    for before, after in itertools.pairwise(ranges):
        if after[0] <= before[1]:
            pools = " and ".join(sorted({before[2], after[2]}))
            raise DroverError(
                f"{where}: ip_pools, {pools}: {ipaddress.IPv4Address(after[0])} stands twice. An"
                " address can be given out once only."
            )
