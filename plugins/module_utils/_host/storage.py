# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Storage of a hypervisor: the instances' path, the pools, and the possible growth of disks.

Private to the collection. The rules come from Nova's libvirt driver (get_available_resource).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._files import access
from .._files.mounts import Mount
from .._libvirt import binding, missing_drivers
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, parse
from .._storage import file_names, kinds
from .._storage.kinds import Identity, Source, Usage
from .._storage.shared_storage import pool_id, real_path_id
from .facts import HostDomain, InstancesStorage, Network, Pool

GIB = 2**30

_POOL_STATES = ("inactive", "building", "running", "degraded", "inaccessible")
_RUNNING = _POOL_STATES.index("running")


def read_pools(conn: Any, mounts: Sequence[Mount] | None) -> list[Pool]:
    """Return the storage pools, sorted by name; sizes in GiB (fractions kept to two digits).

    :param mounts: the mounts of this machine; None when the URI names another one.
    :raises libvirt.libvirtError: there are pools, and libvirt does not list them.
    """
    pools = []
    for pool in missing_drivers.listed(conn.listAllStoragePools, 0):
        try:
            pools.append(_pool(pool, mounts))
        except libvirt.libvirtError as exc:
            # Undefined between the list and the look. Any other error is raised: a pool that cannot
            # be read is not gone.
            if binding.code_of(exc) != libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise
    return sorted(pools, key=lambda pool: pool["name"])


def _pool(pool: Any, mounts: Sequence[Mount] | None) -> Pool:
    root = parse(pool.XMLDesc(0))
    kind = kinds.of_pool(root)
    state, capacity, allocation, available = pool.info()
    path = child_text(root, "target/path")
    real_path = access.real_path(path) if path and mounts is not None else None
    shared_id = pool_id(root)
    if kind.identity is Identity.MOUNT and real_path and mounts is not None:
        shared_id = real_path_id(real_path, mounts)
    return {
        "name": pool.name(),
        "uuid": pool.UUIDString(),
        "type": root.get("type"),
        "state": _POOL_STATES[state] if state < len(_POOL_STATES) else "unknown",
        "path": path,
        "real_path": real_path,
        "shared_id": shared_id,
        "folder_id": (
            file_names.inode(real_path, mounts) if real_path and mounts is not None else None
        ),
        "capacity_gb": round(capacity / GIB, 2),
        "allocation_gb": round(allocation / GIB, 2),
        "available_gb": round(_available(kind.usage, state, real_path, available) / GIB, 2),
        "autostart": bool(pool.autostart()),
        "persistent": bool(pool.isPersistent()),
    }


def _available(usage: Usage, state: int, real_path: str | None, last: int) -> int:
    """Return the bytes that are free in a pool.

    libvirt sees changes that others make in a folder only when its pool is refreshed.

    :param real_path: the real path of its folder; None if it is not known, or is on another
        machine.
    :param last: the number that libvirt has read last.
    """
    if state != _RUNNING or usage is not Usage.FILE_SYSTEM or real_path is None:
        return last
    try:
        status = access.call(os.statvfs, real_path)
    except (OSError, access.Unresponsive):
        return last
    return status.f_frsize * status.f_bavail


def read_instances_storage(
    conn: Any,
    mounts: Sequence[Mount] | None,
    instances_path: str,
    domains: Sequence[HostDomain],
    pools: Sequence[Pool],
    warn: Callable[[str], object],
) -> InstancesStorage:
    """Return the size and room of the storage below ``instances_path``, in whole GiB.

    On the hypervisor the numbers are of the file system of the nearest existing parent; from
    elsewhere, of the running pool that covers the path. ``warn`` gets a sentence if there is
    neither.

    :param mounts: the mounts of this machine; None when the URI names another one.
    """
    sizes, reason = None, None
    if mounts is None:
        sizes = _from_pools(instances_path, pools)
        reason = (
            "the URI names another machine and none of its running storage pools covers the path. "
            "Run the module on the hypervisor, or define such a pool."
        )
    else:
        try:
            sizes = access.call(_from_filesystem, instances_path)
            reason = "its file system does not tell."
        except access.Unresponsive as exc:
            reason = str(exc)
    total, used, free = sizes or (0, 0, 0)
    real_path = access.real_path(instances_path) if mounts is not None else None
    facts: InstancesStorage = {
        "instances_path": instances_path,
        "real_path": real_path,
        "total_gb": int(total // GIB),
        "used_gb": int(used // GIB),
        "free_gb": int(free // GIB),
        "shared_id": real_path_id(real_path, mounts) if real_path and mounts is not None else None,
        "folder_id": (
            file_names.inode(real_path, mounts) if real_path and mounts is not None else None
        ),
        "disk_available_least_gb": None,
    }
    if sizes is None:
        warn(f"The room below {instances_path} on {conn.getHostname()} is unknown: {reason}")
    else:
        facts["disk_available_least_gb"] = int(
            (facts["free_gb"] * GIB - over_committed(domains)) // GIB
        )
    return facts


def _from_filesystem(path: str) -> tuple[int, int, int] | None:
    """Return ``(total, used, free)`` in bytes of the file system of ``path``, or of its nearest
    folder that exists.
    """
    place = os.path.abspath(path)
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    try:
        info = os.statvfs(place)
    except OSError:
        return None
    return (
        info.f_frsize * info.f_blocks,
        info.f_frsize * (info.f_blocks - info.f_bfree),
        info.f_frsize * info.f_bavail,
    )


def _from_pools(path: str, pools: Iterable[Pool]) -> tuple[float, float, float] | None:
    """Return the same numbers of the running pool with the longest target path that covers
    ``path``.
    """
    normal_path = os.path.normpath(path)
    best, longest = None, 0
    for pool in pools:
        if pool["state"] != "running" or not pool["path"]:
            continue
        target = os.path.normpath(pool["path"])
        below = normal_path == target or normal_path.startswith(target.rstrip("/") + "/")
        if below and (best is None or len(target) > longest):
            best, longest = pool, len(target)
    if best is None:
        return None
    return best["capacity_gb"] * GIB, best["allocation_gb"] * GIB, best["available_gb"] * GIB


def over_committed(domains: Iterable[HostDomain]) -> int:
    """Return the bytes that the domains' local disks may still grow by.

    The count is Nova's: virtual size less space taken, at least zero, for image files; block
    devices have a fixed size; volumes and disks on the network are not on this storage.
    """
    total = 0
    for domain in domains:
        for disk in domain["disks"]:
            is_file = kinds.of_disk(disk).source is Source.FILE
            if not is_file or disk["device"] not in ("disk", "lun"):
                continue
            if disk["capacity_bytes"] is None or disk["allocation_bytes"] is None:
                continue
            total += max(0, disk["capacity_bytes"] - disk["allocation_bytes"])
    return total


def read_networks(conn: Any) -> list[Network]:
    """Return the virtual networks, sorted by name, with the bridge of each and whether it is up.

    :raises libvirt.libvirtError: there are networks, and libvirt does not list them.
    """
    networks: list[Network] = []
    for network in missing_drivers.listed(conn.listAllNetworks, 0):
        try:
            bridge = parse(network.XMLDesc(0)).find("bridge")
            networks.append(
                {
                    "name": network.name(),
                    "uuid": network.UUIDString(),
                    "bridge": bridge.get("name") if bridge is not None else None,
                    "active": bool(network.isActive()),
                }
            )
        except (libvirt.libvirtError, ValueError) as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_NETWORK:
                continue
            raise
    return sorted(networks, key=lambda network: network["name"])


def read_addresses(conn: Any) -> dict[str, list[str]]:
    """Return the addresses that libvirt's own networks have given out: dict MAC address -> list;
    one call for each network.

    Empty where libvirt does not report them.
    """
    try:
        networks = conn.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE)
    except libvirt.libvirtError:
        return {}
    by_mac: dict[str, set[str]] = {}
    for network in networks:
        try:
            leases = network.DHCPLeases()
        except libvirt.libvirtError:
            continue
        for lease in leases or ():
            by_mac.setdefault((lease.get("mac") or "").lower(), set()).add(lease["ipaddr"])
    # Addresses of IPv4 come first.
    return {
        mac: sorted(addresses, key=lambda each: (":" in each, each))
        for mac, addresses in by_mac.items()
    }
