# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of the facts of a domain, as drover reads them from its XML.

Private to the collection.
"""

from __future__ import annotations

from typing import Literal, TypedDict

#: The power states of a domain in libvirt, in the words of ``virsh domstate`` without spaces and in
#: the order of virDomainState.
PowerState = Literal[
    "nostate",
    "running",
    "blocked",
    "paused",
    "shutdown",
    "shutoff",
    "crashed",
    "pmsuspended",
]


class NamedDomain(TypedDict):
    """A domain that a module works on. name: None if any name is accepted."""

    uuid: str
    name: str | None


class DiskLayer(TypedDict):
    """An image behind a disk."""

    path: str
    real_path: str | None
    shared_id: str | None


class Located(TypedDict, total=False):
    """The place of a file on its host; missing in XML."""

    #: The file or device, and the same without links.
    path: str | None
    real_path: str | None
    #: The id of the file on shared storage, the same on all hosts.
    shared_id: str | None
    #: The images behind it, the nearest first; None if they are not known.
    chain: list[DiskLayer] | None
    #: The images of Ceph behind it.
    behind_on_network: list[str]


class _Disk(TypedDict):
    #: Empty in XML that libvirt refuses.
    target: str
    device: str
    bus: str | None
    type: str
    #: A path, ``pool/volume`` or ``protocol:name``; None for an empty drive.
    source: str | None
    format: str | None
    cache: str | None
    readonly: bool
    shareable: bool
    capacity_bytes: int | None
    allocation_bytes: int | None


class DomainDisk(_Disk, Located, total=False):
    """The facts of a ``<disk>``. Only the hypervisor knows the sizes, and what is missing in
    XML.
    """

    #: The id of a disk on the network, the same on all hosts; None if it has none.
    origin: str | None
    #: running or next_start, if only one of the two definitions of its domain has it.
    only: str


class _File(TypedDict):
    type: str
    source: str
    #: raw if the file has no backing file, None if it may have one.
    format: str | None
    written: bool


class OtherFile(_File, Located, total=False):
    """A file, folder or volume of a domain that is no disk of its definition."""


class _Interface(TypedDict):
    mac: str | None
    type: str | None
    #: The network, the bridge or the device of the host.
    source: str | None
    model: str | None
    #: The device of the host that the guest has it by.
    target: str | None


class InterfaceFacts(_Interface, total=False):
    """The facts of an ``<interface>``."""

    #: The addresses that libvirt's networks have given out; missing in XML.
    addresses: list[str]


class HostdevFacts(TypedDict):
    """A device of the host that a domain uses."""

    #: pci, usb, scsi, mdev, vdpa or interface.
    type: str | None
    #: The address that names the device on the host; None without one.
    address: str | None


class MemoryPlace(TypedDict):
    """The host cells that memory comes from."""

    #: None without a binding.
    mode: str | None
    #: Empty if numad chooses the cells, or without a binding.
    nodes: list[int]


class GuestCell(MemoryPlace):
    """A NUMA cell of the guest, with the host cells of its memory."""

    id: int
    cpus: list[int]
    memory_mb: int


class GuestPages(TypedDict):
    """The huge pages of a guest."""

    #: KiB; None for the default size of the host.
    size_kb: int | None
    #: Cells of the guest; empty for all.
    cells: list[int]


class NumaBinding(TypedDict, total=False):
    """The binding of a domain to CPUs and cells of its host. A missing key binds nothing.

    CPUs and cells are numbers. Keys of vCPUs and I/O threads are texts, as in JSON.
    """

    #: Host CPUs of all vCPUs without a pin.
    cpuset: list[int] | None
    vcpu_pins: dict[str, list[int]] | None
    emulator_pins: list[int] | None
    memory: MemoryPlace | None
    cells: list[GuestCell] | None
    pages: list[GuestPages] | None
    #: Only for comparison: these follow from the emulator, or bind nothing.
    iothread_pins: dict[str, list[int]]
    locked: bool


class NumaBound(TypedDict):
    """The whole binding of a domain to CPUs and cells of its host."""

    cpuset: list[int] | None
    vcpu_pins: dict[str, list[int]]
    emulator_pins: list[int] | None
    iothread_pins: dict[str, list[int]]
    memory: MemoryPlace | None
    cells: list[GuestCell]
    pages: list[GuestPages]


class NumaFacts(NumaBound):
    """The fact ``numa`` of a domain."""

    #: Its memory is locked.
    locked: bool


class DomainContent(TypedDict):
    """The size and the devices of a domain."""

    name: str
    title: str | None
    #: The maximum.
    vcpus: int
    memory_mb: int
    disks: list[DomainDisk]
    interfaces: list[InterfaceFacts]
    hostdevs: list[HostdevFacts]
    numa: NumaFacts | None
    #: The texts below ``<drover:instance>``.
    metadata: dict[str, str]


class DomainFacts(DomainContent):
    """The content of domain XML."""

    uuid: str | None
    type: str | None


class BindingFacts(TypedDict):
    """A reason that binds a guest to its host, as the module hypervisor_info reports it.

    ``what``: the reason; ``way_out``: the remedy; both are clauses. move: never (no move), off
    (only while shut off), live (only while it runs) or looked_up (the destination decides).
    evacuation: starts or lost. only: running or next_start, if only one of its two definitions has
    the reason; else empty. address: the address of a host that it listens on. keep_running: True if
    a shutdown loses something.
    """

    what: str
    way_out: str
    move: str
    evacuation: str
    only: str
    address: str | None
    keep_running: bool
