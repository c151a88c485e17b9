# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools of a host without the storage of its instances: their facts and their disks.

Data in, data out. See docs/pools.md.
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import is_written
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common import resource_classes, storage_identity, validation
from .._common.errors import DroverError
from .._records.hosts import PoolFacts
from .sharing_facts import MarkedPool

GIB = 1024**3
KEYS = ("name", "traits", "allocation_ratio", "reserved_gb")
_LONGEST_NAME = 200
_TRAIT = re.compile("CUSTOM_[A-Z0-9_]{1,248}|STORAGE_DISK_(SSD|HDD)")
_RUNNING = ("running", "degraded")


class StoragePool(TypedDict):
    """A pool as its host reports it.

    - type: libvirt's word.
    - path, real_path: the paths of its folder or its devices, or None.
    - shared_id: its origin; None for a pool of this host alone.
    - origin: the origin from the host, if the operator declares another one.
    - total: GiB; None while it is stopped.
    - reserved: GiB; None if the operator gives no amount.
    """

    name: str
    type: str | None
    resource_class: str
    path: str | None
    real_path: str | None
    shared_id: str | None
    origin: str | None
    total: int | None
    reserved: int | None
    allocation_ratio: float | None
    traits: list[str]


#: The keys of a pool that the store keeps with the facts of its node.
class WantedPool(TypedDict):
    """A pool of the option storage_pools."""

    name: str
    traits: list[str]
    allocation_ratio: float | None
    reserved_gb: int | None


class OwnStorage(TypedDict):
    """The storage of the instances of a host: its paths, and its ids if they are known."""

    paths: list[str]
    shared_id: str | None
    folder_id: str | None


FACTS = ("name", "type", "resource_class", "path", "real_path", "shared_id", "origin", "traits")


def key_of(name: str) -> str:
    """Return the key of the provider of a local pool, see nested_providers.NestedProvider."""
    return f"pool_{name}"


def read(value: Any, where: str) -> list[WantedPool]:
    """Read the option storage_pools.

    :param value: None, or a list of names and of mappings of KEYS.
    :raises DroverError: a wrong form, or a pool that occurs twice.
    """
    if not isinstance(value or [], list):
        raise DroverError(
            f"{where}: storage_pools must be a list of names of storage pools, such as [ssd], not"
            f" {validation.shown(value)}."
        )
    by_class: dict[str, WantedPool] = {}
    for entry in value or []:
        pool = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(pool, dict):
            raise DroverError(
                f"{where}: an item of storage_pools must be a name or a mapping with a name, not"
                f" {validation.shown(entry)}."
            )
        name = pool.get("name")
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= _LONGEST_NAME
            or not name.isprintable()
        ):
            raise DroverError(
                f"{where}: storage_pools: the name of a pool must be a text of 1 to {_LONGEST_NAME}"
                f" characters, not {validation.shown(name)}."
            )
        place = f"{where}: storage_pools, {name}"
        validation.check_keys(place, pool, KEYS)
        found_class = resource_classes.pool_class(name)
        if found_class in by_class:
            raise DroverError(
                f"{place}: it cannot be told from the pool {by_class[found_class]['name']}. Name a"
                " pool once, and give pools names that differ in letters and digits."
            )
        by_class[found_class] = _checked_pool(pool, place)
    return list(by_class.values())


def _checked_pool(pool: Mapping[str, Any], place: str) -> WantedPool:
    traits = pool.get("traits") or []
    if not isinstance(traits, list) or not all(
        isinstance(each, str) and _TRAIT.fullmatch(each) for each in traits
    ):
        raise DroverError(
            f"{place}: traits must be a list of names such as CUSTOM_FAST, STORAGE_DISK_SSD or"
            f" STORAGE_DISK_HDD, not {validation.shown(traits)}."
        )
    ratio, reserved = pool.get("allocation_ratio"), pool.get("reserved_gb")
    if ratio is not None and not (
        isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and 0 < ratio < math.inf
    ):
        raise DroverError(
            f"{place}: allocation_ratio must be a number above 0, not {validation.shown(ratio)}."
        )
    if reserved is not None:
        validation.check_whole(f"{place}: reserved_gb", reserved, 0, validation.MOST)
    return {
        "name": pool["name"],
        "traits": sorted(set(traits)),
        "allocation_ratio": ratio,
        "reserved_gb": reserved,
    }


def of_node(
    wanted: Iterable[WantedPool],
    pools: Sequence[MarkedPool],
    storage: OwnStorage,
    where: str,
    remedy: str = "Correct the name, or define the pool there",
) -> tuple[list[StoragePool], list[str]]:
    """Return the wanted pools with their facts on a host.

    :param remedy: the advice for a pool that the host does not have.
    :returns: (the pools, sentences about pools that the host does not have, and about space that
        counts twice).
    :raises DroverError: the space of a pool would count twice, or more is reserved than it has.
    """
    have = {pool["name"]: pool for pool in pools}
    described: list[StoragePool] = []
    sentences = []
    shares: dict[str, str] = {}
    systems = (
        {_file_system(storage): f"the instances' path {storage['paths'][0]}"}
        if storage["paths"]
        else {}
    )
    for entry in wanted:
        name = entry["name"]
        place, pool = f"{where}: storage_pools (drover_storage_pools), {name}", have.get(name)
        if pool is None:
            sentences.append(
                f"{where}: storage_pools (drover_storage_pools) names the pool {name}, which the"
                f" host does not have (it has {', '.join(sorted(have)) or 'none'}). {remedy}."
            )
            continue
        share = pool.get("shared_id")
        names = [pool.get("path"), pool.get("real_path")]
        if (share and share == storage.get("shared_id")) or any(
            _covers(one, path) for one in names for path in storage["paths"]
        ):
            raise DroverError(
                f"{place} is where the instances' path is, which counts as DISK_GB, so its space"
                " would count twice. Take it out of the list, or give drover_instances_path"
                " another storage."
            )
        if share and share in shares:
            raise DroverError(
                f"{place} is the same storage as the pool {shares[share]} ({share}), so its space"
                " would count twice. Keep one."
            )
        if share:
            shares[share] = name
        other = systems.setdefault(_file_system(pool), f"the storage pool {name}")
        if _file_system(pool) is not None and other != f"the storage pool {name}":
            sentences.append(
                f"{where}: the storage pool {name} is on one file system with {other}, so the same"
                " space counts for both, and plans may promise more than there is. Give each a"
                " file system of its own, or keep some of it back with reserved_gb."
            )
        running = pool.get("state", "running") in _RUNNING
        total = int(pool.get("capacity_gb") or 0) if running else None
        if total is not None and (entry["reserved_gb"] or 0) > total:
            raise DroverError(
                f"{place}: {entry['reserved_gb']} GiB cannot be reserved of the {total} it has."
                " Change reserved_gb."
            )
        if not running:
            sentences.append(
                f"{where}: the storage pool {name} does not run, so nothing new gets space there."
                f" Start it: virsh pool-start {shlex.quote(name)}"
            )
        described.append(
            {
                "name": name,
                "type": pool.get("type"),
                "resource_class": resource_classes.pool_class(name),
                "path": pool.get("path"),
                "real_path": pool.get("real_path"),
                "shared_id": share,
                "origin": pool.get("origin"),
                "total": total,
                "reserved": entry["reserved_gb"],
                "allocation_ratio": entry["allocation_ratio"],
                "traits": entry["traits"],
            }
        )
    return described, sentences


def _file_system(place: PoolFacts | OwnStorage) -> str | None:
    """Return a text for the file system of an unshared folder; None if shared or unknown."""
    known = None if place.get("shared_id") else place.get("folder_id")
    return known.rpartition("/")[0] if known else None


def facts_of(pools: Iterable[StoragePool]) -> list[dict[str, object]]:
    """Return the part of pools that the store keeps with the facts of their node."""
    return [{key: pool.get(key) for key in FACTS} for pool in pools]


def divide(
    disks: Iterable[Mapping[str, Any]], node: Mapping[str, Any]
) -> tuple[dict[str, int | None], int | None]:
    """Return the sum of the disks of a domain by pool; None for a pool with a disk of unknown size.

    :param disks: disks from the facts of a domain.
    :param node: facts of its node.
    :returns: ({resource class: GiB} of the pools with a disk, GiB of all other disks), each sum
        rounded up once.
    """
    sizes: dict[str | None, int | None] = {None: 0}
    for disk in disks:
        if disk.get("device", "disk") != "disk" or not is_written(disk) or not disk.get("source"):
            continue
        name, size = counted_as(disk, node), disk.get("capacity_bytes")
        if name is None and not kinds.of_disk(disk).takes_space:
            # The disk takes no space of the host, nor of a counted pool.
            continue
        before = sizes.get(name, 0)
        sizes[name] = None if before is None or size is None else before + size
    rounded = {
        name: None if size is None else math.ceil(size / GIB) for name, size in sizes.items()
    }
    rest = rounded.pop(None)
    return {name: size for name, size in rounded.items() if name is not None}, rest


def counted_as(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return the resource class of the pool with a disk.

    Return None for the instances' storage, and for all storage that is not counted by pools.
    """
    chosen: Sequence[Mapping[str, Any]] = node.get("storage_pools") or ()
    if not chosen:
        return None
    by_name = {pool["name"]: str(pool["resource_class"]) for pool in chosen}
    return by_name.get(_pool_of(disk, node, chosen) or "")


def pool_of(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return the name of the storage pool with a disk or another file of a domain.

    Return None if it is in none.

    The pool may be counted or not.
    """
    return (
        _pool_of(disk, node, node.get("pools") or ())
        if disk.get("source") or disk.get("path")
        else None
    )


def _pool_of(
    disk: Mapping[str, Any], node: Mapping[str, Any], chosen: Iterable[Mapping[str, Any]]
) -> str | None:
    """Return the name of the pool of a disk.

    :param chosen: the pools that a disk on shared storage may be in.
    """
    text = disk.get("origin") or storage_identity.of_disk(disk, node) or disk.get("shared_id")
    of_share = [
        (len(share), str(pool["name"]))
        for pool in chosen
        for share in (pool.get("shared_id"), pool.get("origin"))
        if share and text and str(text).startswith(f"{share.rstrip('/')}/")
    ]
    if of_share:
        return max(of_share)[1]
    if kinds.of_disk(disk).source is Source.VOLUME:
        return str(disk["source"]).partition("/")[0]
    if not kinds.disk(disk.get("type", "file")).is_path or (
        text and not str(text).startswith(storage_identity.DEVICE)
    ):
        return None
    paths = [path for path in (disk.get("path") or disk["source"], disk.get("real_path")) if path]
    # If a folder has two pools, use the counted one.
    wanted = {pool["name"] for pool in chosen}
    above = [
        (len(pool.get("real_path") or folder), pool["name"] in wanted, str(pool["name"]))
        for pool in node.get("pools") or ()
        for folder in (pool.get("path"), pool.get("real_path"))
        if folder and any(_covers(folder, path) for path in paths)
    ]
    return max(above)[2] if above else None


def _covers(folder: str | None, path: str | None) -> bool:
    """Return True if a path is a folder or is in it."""
    if not folder or not path:
        return False
    return f"{posixpath.normpath(path)}/".startswith(f"{posixpath.normpath(folder).rstrip('/')}/")
