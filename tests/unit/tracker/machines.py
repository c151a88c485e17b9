# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host with NUMA cells and devices, as the module hypervisor_info returns them."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ET

from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._host.devices import parse_devices
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.tests.unit.store import fleets

NODEDEVS = pathlib.Path(__file__).parents[1] / "module_utils" / "data" / "nodedevs.xml"

#: CPUs 0-3 and 8-11 in cell 0, 4-7 and 12-15 in cell 1; two threads per core: 0 and 8, 1 and 9, ...
CELLS = [
    {
        "id": cell,
        "memory_mb": 16384,
        "cpus": [
            {
                "id": cpu,
                "socket": cell,
                "die": 0,
                "cluster": 0,
                "core": cpu % 8,
                "siblings": [cpu % 8, cpu % 8 + 8],
            }
            for cpu in [*range(4 * cell, 4 * cell + 4), *range(4 * cell + 8, 4 * cell + 12)]
        ],
        "pages": [
            {"size_kb": 4, "count": 1966080, "free": 1900000},
            {"size_kb": 2048, "count": 2048, "free": 2048},
            {"size_kb": 1048576, "count": 4, "free": 4},
        ],
        "distances": [],
    }
    for cell in (0, 1)
]


def devices():
    """Return the devices of the recorded host: pci_devices, mdev_types, mdev_devices."""
    return parse_devices(
        (ET.tostring(each, encoding="unicode"), True) for each in ET.parse(NODEDEVS).getroot()
    )


def facts(*domains, **more):
    return {
        "hypervisor_hostname": "kvm1",
        "hypervisor_type": "QEMU",
        "cpu": {"arch": "x86_64", "count": 16, "online": list(range(16))},
        "memory_mb": 32768,
        "storage": {"total_gb": 100},
        "numa_cells": CELLS,
        "domains": list(domains),
        **more,
    }


def node(*domains, host="kvm1", options=None, **more):
    """Return a node as compute_node takes it in a list of nodes."""
    return {
        "host": host,
        "hypervisor": facts(*domains, **{"hypervisor_hostname": host, **more}),
        **(options or {}),
    }


def numa(xml):
    """Return the fact of a domain whose XML has these elements."""
    return parse_numa(parse(f"<domain>{xml}</domain>"))


def domain(name, vcpus, memory_mb, xml="", devices=(), **more):
    """Return a domain whose XML has these elements, and devices as (type, address)."""
    hostdevs = [{"type": kind, "address": address} for kind, address in devices]
    return {
        **fleets.domain(name, vcpus, memory_mb),
        "numa": numa(xml),
        "hostdevs": hostdevs,
        **more,
    }


def pins(*cpus, cell=None, emulator=None):
    """Return elements that pin vCPUs 0, 1, ... to CPUs, with their memory in a cell."""
    vcpu_pins = "".join(f"<vcpupin vcpu='{vcpu}' cpuset='{cpu}'/>" for vcpu, cpu in enumerate(cpus))
    more = f"<emulatorpin cpuset='{emulator}'/>" if emulator is not None else ""
    where = (
        f"<numatune><memory mode='strict' nodeset='{cell}'/></numatune>" if cell is not None else ""
    )
    return f"<cputune>{vcpu_pins}{more}</cputune>{where}"
