# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of the facts of a host, as the module hypervisor_info returns them.

Private to the collection.
"""

from __future__ import annotations

from typing import TypedDict

from .._domain.facts import (
    BindingFacts,
    DomainContent,
    DomainDisk,
    OtherFile,
    PowerState,
)


class HostDomain(DomainContent, total=False):
    """The facts of a domain and its disks on this host."""

    uuid: str
    state: PowerState
    persistent: bool
    autostart: bool
    managed_save: bool
    snapshots: bool
    #: Names of snapshots that no other host can have; None if they are not known.
    fixed_snapshots: list[str] | None
    #: None for a domain that is off.
    running_vcpus: int | None
    running_memory_mb: int | None
    #: CPUs that only the next start is pinned to.
    next_start_cpus: list[int]
    #: Disks that only the running guest has.
    running_disks: list[DomainDisk]
    other_files: list[OtherFile]
    bindings: list[BindingFacts]
    #: The definition of the next start.
    xml: str


class Pool(TypedDict):
    """A storage pool; sizes are GiB with two digits."""

    name: str
    uuid: str
    type: str | None
    state: str
    path: str | None
    real_path: str | None
    shared_id: str | None
    folder_id: str | None
    capacity_gb: float
    allocation_gb: float
    available_gb: float
    autostart: bool
    persistent: bool


class InstancesStorage(TypedDict):
    """The size and room of the storage for instances, in whole GiB."""

    instances_path: str
    real_path: str | None
    total_gb: int
    used_gb: int
    free_gb: int
    shared_id: str | None
    folder_id: str | None
    disk_available_least_gb: int | None


class Network(TypedDict):
    """A virtual network of libvirt."""

    name: str
    uuid: str
    bridge: str | None
    active: bool


#: ``class`` is a word of Python.
PciDevice = TypedDict(
    "PciDevice",
    {
        "name": str,
        "address": str,
        "class": "str | None",
        "vendor_id": "str | None",
        "product_id": "str | None",
        "vendor": "str | None",
        "product": "str | None",
        "numa_node": "int | None",
        "driver": "str | None",
        "dev_type": str,
        "parent_addr": "str | None",
        "virtual_functions": "list[str]",
        "max_virtual_functions": "int | None",
        "iommu_group": "int | None",
        "iommu_group_members": "list[str]",
        "interface": "str | None",
        "mac": "str | None",
        "vdpa": "str | None",
    },
)


class MdevType(TypedDict):
    """A type of mediated devices that a device can make."""

    parent: str
    type: str
    name: str | None
    device_api: str | None
    available_instances: int


class MdevDevice(TypedDict):
    """A mediated device, there or only defined."""

    name: str
    uuid: str
    type: str | None
    parent: str | None
    iommu_group: int | None
    active: bool


class HostDevices(TypedDict):
    """The devices that guests may get."""

    pci_devices: list[PciDevice]
    mdev_types: list[MdevType]
    mdev_devices: list[MdevDevice]


class CpuTopology(TypedDict):
    """The parts of the CPUs of a host."""

    cells: int
    sockets: int
    cores: int
    threads: int


class Cpu(TypedDict):
    """The CPU of a host, as the capabilities of libvirt have it."""

    arch: str | None
    model: str | None
    vendor: str | None
    features: list[str]
    topology: CpuTopology


class HostCpu(Cpu):
    """The CPU of a host, with its numbers."""

    count: int
    online: list[int]
    mhz: int


class CellCpu(TypedDict):
    """A CPU of a cell. If it is offline, libvirt knows its number only."""

    id: int
    socket: int | None
    die: int | None
    cluster: int | None
    core: int | None
    siblings: list[int]


class Pages(TypedDict):
    """The pages of one size of a cell."""

    size_kb: int
    count: int
    #: None if the driver does not tell it.
    free: int | None


class Distance(TypedDict):
    """The distance to a cell."""

    id: int
    value: int


class HostCell(TypedDict):
    """A NUMA cell of a host."""

    id: int
    memory_mb: int
    cpus: list[CellCpu]
    pages: list[Pages]
    distances: list[Distance]


class Capabilities(TypedDict):
    """The capabilities of libvirt on a host."""

    host_uuid: str | None
    cpu: Cpu
    numa_cells: list[HostCell]
    #: Architecture, domain type and type of the operating system of each.
    supported_instances: list[list[str]]


class ImageDigest(TypedDict):
    """The content of an image that is on this host alone, with the stamp of its file."""

    path: str
    digest: str
    size: int
    modified: str
    changed: str
