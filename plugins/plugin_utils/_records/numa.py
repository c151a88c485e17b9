# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA cells of hosts, and the parts of them that instances have. Memory is MiB, sizes of pages are
KiB.
"""

from __future__ import annotations

from typing import Any, TypedDict


class CellPages(TypedDict, total=False):
    """The pages of one size of a cell."""

    size_kb: int
    total: int
    reserved: int | None


class _Cell(TypedDict):
    id: int
    #: CPUs of shared vCPUs, and of pinned vCPUs.
    cpus: list[int]
    pcpus: list[int]
    memory_mb: int


class HostCell(_Cell, total=False):
    """A NUMA cell of a host."""

    siblings: list[list[int]] | None
    pages: list[CellPages]
    socket: int | None
    physnets: list[str]
    tunneled: bool


class _Placed(TypedDict):
    #: Numbers of the guest's cell and of the host's cell.
    guest: int
    host: int
    memory_mb: int
    #: None without a requested size.
    page_kb: int | None
    #: vCPUs without a pin.
    shared: list[int]
    #: {vCPU as text: CPU of the host}.
    pins: dict[str, int]
    #: CPUs that only the emulator uses.
    reserved: list[int]


class PlacedCell(_Placed, total=False):
    """The part of a host's cell that a guest's cell has. No domain shows the policies: a cell
    without a claim has None.
    """

    cpu_policy: str | None
    #: With ``isolate`` the siblings of its CPUs are taken too.
    thread_policy: str | None
    emulator_policy: str | None


class _Devices(TypedDict):
    #: Each at least with its address.
    devices: list[Any]


class PlacedDevices(_Devices, total=False):
    """The devices of a request for PCI devices."""

    count: int
    policy: str


class Placed(TypedDict, total=False):
    """The cells and PCI devices of a host that an instance has."""

    #: The uuid of an instance, or of a migration at its source.
    uuid: str
    cells: list[PlacedCell]
    pci: list[PlacedDevices]


class NumaHost(TypedDict, total=False):
    """A host with its cells and PCI devices. A missing ratio means the usual one."""

    name: str
    cells: list[HostCell]
    pci: list[Any]
    #: No device may be given away without a device spec.
    device_spec: list[dict[str, str]]
    cpu_allocation_ratio: float | None
    ram_allocation_ratio: float | None
    instances: list[Placed]


class CellUse(TypedDict):
    """The parts of a cell that instances have."""

    id: int
    memory_mb: int
    #: The number of vCPUs without a pin.
    shared: int
    #: CPUs.
    pinned: list[int]
    #: {size in KiB as text: pages}.
    pages_free: dict[str, int]
