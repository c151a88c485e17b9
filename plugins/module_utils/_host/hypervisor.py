# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that libvirt reports about one hypervisor, as the facts of ``hypervisor_info``.

Private to the collection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .._files import block_devices
from .._libvirt import host_addresses, missing_drivers
from .._libvirt import machine as _machine
from .._libvirt.binding import is_local, libvirt
from .._storage.shared_storage import network_mounts, read_mounts
from . import boot, model, offered, reboot_signs
from .capabilities import cpu_element, features_of, parse_capabilities, read_free_pages
from .devices import read_devices
from .disk_facts import READING, DiskFacts
from .domains import read_domains
from .facts import Cpu, HostCpu
from .storage import read_addresses, read_instances_storage, read_networks, read_pools


def read_hypervisor(
    conn: Any,
    uri: str,
    instances_path: str,
    warn: Callable[[str], object],
    shared_pools: Collection[str] = (),
) -> dict[str, object]:
    """Return the facts of the hypervisor behind ``conn``; plain JSON types only.

    ``shared_pools`` are names of storage pools that are shared though that cannot be seen.
    ``warn`` is called with a sentence for each thing that could not be read.
    Raises libvirt.libvirtError when the connection breaks, or libvirt falls silent.
    """
    local, machine = is_local(uri), _machine.here()
    text = conn.getCapabilities()
    capabilities = parse_capabilities(text)
    info = conn.getInfo()
    mounts = read_mounts(instances_path) if local else None
    pools = read_pools(conn, mounts)
    domains, untold = read_domains(conn, local, warn, pools)
    disk_facts = DiskFacts(mounts, pools, conn, shared_pools) if mounts is not None else None
    if disk_facts is not None:
        disk_facts.add_domains(domains)
    addresses = read_addresses(conn)
    for domain in domains:
        for interface in domain["interfaces"]:
            interface["addresses"] = addresses.get((interface["mac"] or "").lower(), [])
    read_free_pages(conn, capabilities["numa_cells"])
    facts = {
        "uri": uri,
        "hypervisor_hostname": None,
        "hypervisor_type": conn.getType(),
        "hypervisor_version": conn.getVersion(),
        "libvirt_version": conn.getLibVersion(),
        "host_uuid": capabilities["host_uuid"],
        "system_uuid": next(iter(machine["uuids"]), None),
        "firmware_uuid": machine.get("firmware"),
        # A libvirt of another machine has another system.
        "machine_id": machine["machine_id"] if local else None,
        "boot_id": boot.read() if local else None,
        "reboot_sign": reboot_signs.seen() if local else None,
        "cpu": _cpu(conn, capabilities["cpu"], text, info),
        "memory_mb": int(info[1]),
        "memory_used_mb": memory_used_mb(conn),
        "numa_cells": capabilities["numa_cells"],
        "storage": read_instances_storage(conn, mounts, instances_path, domains, pools, warn),
        "pools": pools,
        "mounts": network_mounts(mounts) if mounts is not None else None,
        "block_devices": block_devices.listing() if local else None,
        "images": disk_facts.images(READING) if disk_facts is not None else None,
        "addresses": host_addresses.read() if local else None,
        "networks": read_networks(conn),
        "supported_instances": capabilities["supported_instances"],
        "guest_hardware": offered.read(
            conn, capabilities["cpu"]["arch"], capabilities["supported_instances"]
        ),
        "host_model": model.read(
            conn, capabilities["cpu"]["arch"], capabilities["supported_instances"]
        ),
        **read_devices(conn),
        **missing_drivers.read(conn, local),
        "domains": domains,
        "untold_domains": untold,
    }
    # Last, because a fact that a driver cannot give is left out above. A fact that is missing
    # because of a broken connection must not look like this.
    facts["hypervisor_hostname"] = conn.getHostname()
    return facts


def _cpu(conn: Any, cpu: Cpu, text: str, info: Sequence[Any]) -> HostCpu:
    online = _online(conn, int(info[2]))
    return {
        "arch": cpu["arch"] or info[0],
        "model": cpu["model"],
        "vendor": cpu["vendor"],
        "features": _all_features(conn, text) or cpu["features"],
        "count": len(online),
        "online": online,
        "mhz": int(info[3]),
        "topology": cpu["topology"],
    }


def _online(conn: Any, active: int) -> list[int]:
    """Return the numbers of the CPUs that are online; the first ``active`` ones if libvirt does not
    say.
    """
    try:
        states = conn.getCPUMap(0)[1]
    except libvirt.libvirtError:
        return list(range(active))
    return [number for number, online in enumerate(states) if online]


def _all_features(conn: Any, text: str) -> list[str]:
    """Return the features of the host's CPU with the features that its model implies, or [] if
    libvirt does not list them.

    The capabilities list only the features that the model does not imply; Nova expands them the
    same way.
    """
    element = cpu_element(text)
    if element is None:
        return []
    try:
        return features_of(
            conn.baselineCPU([element], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES)
        )
    except (libvirt.libvirtError, ValueError):
        return []


def memory_used_mb(conn: Any) -> int | None:
    """MiB in use: total less free, buffers and cached, as Nova counts; None if libvirt has none."""
    try:
        stats = conn.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS, 0)
    except libvirt.libvirtError:
        return None
    if "total" not in stats or "free" not in stats:
        return None
    used = stats["total"] - stats["free"] - stats.get("buffers", 0) - stats.get("cached", 0)
    return int(used // 1024)
