# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource classes that discovery records: one row for each class; all packages derive their
keys, units and inventories from it.

CONTRIBUTING.md lists the files that a new one touches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class DiscoveredClass(NamedTuple):
    """A resource class of compute nodes and instances that discovery records."""

    #: The key of the class in the facts of domains; None if libvirt does not report the amount.
    key: str | None = None
    #: The path of its total in the facts of the module hypervisor_info; empty for CPUs, which the
    #: tracker divides by the CPU sets.
    total: tuple[str, ...] = ()
    #: The unit of an amount; pieces without one.
    unit: str | None = None
    #: True if each request, flavor and instance has an amount, by ``key``; the store has a column
    #: of that name, too.
    sized: bool = False
    #: The option of compute_node for the amount kept for the host, and how many of its units are
    #: one of the class.
    reserved: str = ""
    reserved_unit: int = 1
    #: The option of compute_node for its allocation ratio; without one the ratio is always
    #: ``initial_ratio``.
    ratio: str | None = None
    #: See Nova's initial_*_allocation_ratio: it counts while neither the option nor the store has a
    #: value.
    initial_ratio: float = 1.0


DISCOVERED = {
    "VCPU": DiscoveredClass(
        "vcpus", (), "vCPU", True, "reserved_host_cpus", 1, "cpu_allocation_ratio", 4.0
    ),
    "PCPU": DiscoveredClass(),
    "MEMORY_MB": DiscoveredClass(
        "memory_mb",
        ("memory_mb",),
        "MiB",
        True,
        "reserved_host_memory_mb",
        1,
        "ram_allocation_ratio",
    ),
    "DISK_GB": DiscoveredClass(
        "disk_gb",
        ("storage", "total_gb"),
        "GiB",
        True,
        "reserved_host_disk_mb",
        1024,
        "disk_allocation_ratio",
    ),
}
#: Resource class -> its key in requests, flavors and instances, which is its column in the store
#: too.
KEYS = {name: each.key for name, each in DISCOVERED.items() if each.sized and each.key}
#: Resource class -> its unit. The others are counted in pieces.
UNITS = {name: each.unit for name, each in DISCOVERED.items() if each.unit}

#: The prefix of the classes of further storage pools, in GiB. Each pool has its own class: plain
#: requests, which need DISK_GB, take nothing from it, and the class can have its own quota.
POOL_PREFIX = "CUSTOM_DISK_GB_"


#: Class of a pool -> its name as hosts have declared it, of the pools that this process has read.
_POOLS: dict[str, str] = {}


def pool_class(name: str) -> str:
    """Return the resource class of a further storage pool by the name of the pool."""
    return POOL_PREFIX + re.sub("[^A-Z0-9_]", "_", name.upper())


def remember_pools(names: Iterable[str]) -> None:
    """Keep the names of storage pools for pool_of(): their classes do not keep small letters and
    signs.
    """
    _POOLS.update({pool_class(name): name for name in names})


def known_pools() -> set[str]:
    """Return the classes of the pools with known names."""
    return set(_POOLS)


def pool_of(name: str) -> str:
    """Return the name of a storage pool for people by its class: as hosts have declared it, else in
    small letters.
    """
    return _POOLS.get(name) or name.removeprefix(POOL_PREFIX).lower()


def words_of(name: str) -> str:
    """Return a resource class as a sentence names it: storage pools by their names, all others by
    the class.
    """
    return f"storage pool {pool_of(name)} (GiB)" if name.startswith(POOL_PREFIX) else name


def unit_of(name: str) -> str | None:
    """Return the unit of a resource class; None for pieces."""
    return UNITS.get(name) or ("GiB" if name.startswith(POOL_PREFIX) else None)


def label_of(name: str) -> str:
    """Return the text after an amount of a resource class in a sentence: its unit and the resource,
    or the class.
    """
    return (
        f"GiB in the storage pool {pool_of(name)}"
        if name.startswith(POOL_PREFIX)
        else UNITS.get(name, name)
    )


#: The prefix of the keys for the size of a running domain; keys without it are for its next start.
RUNNING = "running_"


def of_domain(facts: Mapping[str, object]) -> dict[str, int]:
    """Return the amounts of each resource class that a domain takes: the larger of its amount now,
    while it runs, and its amount at its next start.

    More memory or CPUs may have been plugged into it, and its definition may have been changed
    since it was started.
    """
    now = to_resources({key: facts.get(RUNNING + key) for key in KEYS.values()})
    return {name: max(amount, now[name]) for name, amount in to_resources(facts).items()}


def to_resources(sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return the amount of each resource class from a mapping with vcpus, memory_mb (MiB) and
    disk_gb (GiB).
    """
    return {name: int(sizes.get(key) or 0) for name, key in KEYS.items()}


def to_sizes(resources: Mapping[str, int]) -> dict[str, int]:
    """Return vcpus, memory_mb (MiB) and disk_gb (GiB) of amounts by resource class."""
    return {key: resources.get(name, 0) for name, key in KEYS.items()}


def size_text(resources: Mapping[str, int]) -> str:
    """Return amounts by resource class as text for people: ``2 vCPU, 64 MiB, 1 GiB``."""
    in_pools = any(name.startswith(POOL_PREFIX) for name in resources)
    return ", ".join(
        f"{amount} {label_of(name)}" for name, amount in resources.items() if amount or not in_pools
    )
