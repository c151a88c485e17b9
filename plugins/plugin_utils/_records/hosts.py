# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and compute nodes as the store gives them to plans, conductors and reports. Times are
seconds since 1970 (UTC).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from .numa import NumaHost, PlacedCell
from .statuses import ServiceStatus, UpState

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired

    from .._common.arrays import BoolArray, FloatArray, IntArray


class ServiceState(Protocol):
    """The properties of a service that decide whether it is up."""

    @property
    def forced_down(self) -> bool: ...
    @property
    def last_seen_up(self) -> float | None: ...
    @property
    def last_error(self) -> str | None: ...


class Figures(TypedDict):
    """Amounts of a host or node: memory in MiB, disk in GiB.

    Used is allocated, capacity is (total - reserved) * ratio, free is capacity - used.
    """

    vcpus: int
    vcpus_used: int
    vcpus_reserved: int
    vcpus_capacity: int
    vcpus_free: int
    memory_mb: int
    memory_mb_used: int
    memory_mb_reserved: int
    memory_mb_capacity: int
    memory_mb_free: int
    disk_gb: int
    disk_gb_used: int
    disk_gb_reserved: int
    disk_gb_capacity: int
    disk_gb_free: int


class ListedNode(Figures):
    """A compute node of a ListedHost."""

    node: str
    uuid: str
    #: libvirt's.
    uri: str | None
    cell: str | None
    #: False where its host no longer reports it.
    reported: bool
    hypervisor_type: str | None
    hypervisor_version: int | None
    #: How many.
    instances: int
    #: The name of the sharing provider that the figures of the disk describe; None for a disk of
    #: the host itself.
    disk_pool: str | None


class HostStatus(TypedDict):
    """The state of a host's service."""

    host: str
    state: UpState
    status: ServiceStatus
    maintenance: bool
    forced_down: bool
    disabled_reason: str | None
    down_reason: str | None
    last_seen_up: float | None
    #: A drain began and no undrain followed.
    drained: bool
    labels: dict[str, str]


class CountedHost(HostStatus, Figures):
    """A host without its nodes; its figures are their sums, each pool counted once."""

    zones: list[str]
    #: How many.
    instances: int
    #: The names of the sharing providers of its nodes, separated by commas.
    disk_pool: str | None


class ListedHost(CountedHost):
    """A host as an administrator sees it (store.hosts)."""

    nodes: list[ListedNode]


class ListedPool(TypedDict):
    """A further storage pool of a host as an administrator sees it; a figure is None if the store
    does not have it.
    """

    name: str
    node: str
    #: libvirt's word.
    type: str | None
    #: The state of the pool in libvirt, such as running.
    state: str | None
    #: True if the pool gets no new disks, whatever its capacity; see the drain of a pool.
    drained: bool
    shared: bool
    resource_class: str
    traits: list[str]
    total_gb: int | None
    reserved_gb: int | None
    #: The amount that may be allocated: (total - reserved) x allocation ratio.
    capacity_gb: int | None
    #: The amount that is allocated to instances.
    used_gb: int | None
    #: The space that is used on the storage itself, at libvirt's last refresh.
    physical_used_gb: float | None


class FurtherPool(TypedDict):
    """All further storage pools of one name, see ListedPool. pools: how many storages that are.
    Amounts in GiB.
    """

    name: str
    pools: int
    total_gb: int
    capacity_gb: int
    used_gb: int


class HostAggregate(TypedDict):
    """A host aggregate; the key availability_zone of its metadata makes it a zone."""

    name: str
    metadata: dict[str, str]
    #: Names.
    hosts: list[str]


class StoredServerGroup(TypedDict):
    """A server group of a fleet."""

    uuid: str
    policy: str
    max_server_per_host: int
    #: The number of members that may move at the same time; None for no limit.
    max_moving: int | None
    #: Uuids of instances.
    members: list[str]
    id: int


class NumaAllocation(TypedDict):
    """The NUMA cells of a compute node that a consumer has."""

    #: The uuid of an instance, or of a migration at its source.
    uuid: str
    cells: list[PlacedCell]


class ReportedPciDevice(TypedDict):
    """A PCI device of a report that may be given away, with the tags of its device spec; see the
    table pci_devices.
    """

    address: str
    vendor_id: str
    product_id: str
    device_class: str | None
    numa_node: int | None
    #: type-PCI, type-PF, type-VF or vdpa.
    dev_type: str
    parent_addr: str | None
    iommu_group: int | None
    #: The network interface of the device on the host.
    interface: str | None
    tags: dict[str, str]
    #: The class and the traits for Placement; None and empty if the device spec has none.
    resource_class: str | None
    traits: list[str]


class PciDevice(ReportedPciDevice):
    """A PCI device in the store."""

    #: False for a device that is gone and still has an owner.
    reported: bool
    #: The uuid of an instance, or of a migration at its source; None for a free device.
    owner: str | None


class MdevType(TypedDict):
    """The type of mediated devices that a device may make; total: the number of devices that exist
    and that can still be made.
    """

    parent: str
    type: str
    resource_class: str
    total: int


class ReportedMdev(TypedDict):
    """A mediated device of a report; active: whether it exists, else it is only defined."""

    uuid: str
    parent: str
    type: str
    active: bool


class Mdev(ReportedMdev):
    """A mediated device in the store."""

    #: See PciDevice.
    owner: str | None


class FleetColumns(TypedDict):
    """All compute nodes as lists and arrays of equal length, in no order (store.host_columns).

    The fields of node_fields that are read on demand are further lists, structures in them JSON
    text.
    """

    host: list[str]
    node: list[str]
    uuid: list[str]
    cell: list[str | None]
    disabled: BoolArray
    disabled_reason: list[str | None]
    up: BoolArray
    down_reason: list[str | None]
    #: GiB; infinite if it is not known.
    disk_available_least: FloatArray
    num_instances: IntArray
    num_io_ops: IntArray
    failed_builds: IntArray
    aggregates: list[HostAggregate]
    #: {resource class: {field: array}}, see store.resource_columns.of_nodes().
    resources: dict[str, dict[str, Any]]
    #: The store.provider_arrays.ProviderArrays that ``resources`` are made from.
    provider_arrays: Any
    #: {uuid of an instance: index of its node}.
    instances: dict[str, int]
    #: {name of instances: their uuids, sorted}.
    instance_names: dict[str, list[str]]
    server_groups: dict[str, StoredServerGroup]
    #: [(index of a node, flavor name or image properties as JSON text, number of its instances)].
    node_flavors: NotRequired[list[tuple[int, str, int]]]
    node_images: NotRequired[list[tuple[int, str, int]]]
    #: Names of traits.
    traits: NotRequired[list[list[str]]]
    #: CLASS:TRAIT of the storage pools that each node can take from, of the classes and traits of
    #: the query.
    pool_traits: NotRequired[list[list[str]]]
    #: One list for each node; empty if the node has no allocation.
    numa_allocations: NotRequired[list[list[NumaAllocation]]]
    #: The data of each node that _numa.hosts.NumaHosts reads.
    numa: NotRequired[list[NumaHost]]
    pci_devices: NotRequired[list[list[PciDevice]]]
    free_pci_devices: NotRequired[IntArray]
    #: JSON text, see store.services.read_as_json().
    service: NotRequired[list[str | None]]
    mdev_types: NotRequired[list[list[MdevType]]]
    mdevs: NotRequired[list[list[Mdev]]]


class StorageFacts(TypedDict, total=False):
    """The storage for instances of a host, in whole GiB."""

    instances_path: str
    real_path: str | None
    total_gb: int
    used_gb: int
    free_gb: int
    #: The identity of its folder on shared storage; None for a folder of the host alone.
    shared_id: str | None
    #: The number of its folder in its file system.
    folder_id: str | None
    disk_available_least_gb: int | None


class PoolFacts(TypedDict, total=False):
    """A storage pool of a host; sizes are GiB."""

    name: str
    uuid: str
    #: libvirt's word.
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


class MountFacts(TypedDict, total=False):
    """A mount of a network file system."""

    path: str
    shared_id: str | None


class BlockDevice(TypedDict, total=False):
    """A device of a host, with its worldwide name and its paths."""

    id: str
    names: list[str]


class KnownImage(TypedDict, total=False):
    """The content of an image that a host has by itself, with the stamp of its file."""

    path: str
    digest: str
    size: int
    modified: str
    changed: str


class NodeStorage(TypedDict):
    """The facts of a node that distinguish files, as the module hypervisor_info reports them; empty
    if there are none.
    """

    storage: StorageFacts
    pools: list[PoolFacts]
    mounts: list[MountFacts]
    block_devices: list[BlockDevice]
    #: Patterns of paths that the operator declares to be shared.
    shared_block_devices: list[str]
    images: list[KnownImage]


class StorageOfNode(NodeStorage):
    """The storage of a node, and which node that is."""

    host: str
    node: str


class Sighting(TypedDict):
    """A compute node that showed a domain in its last report."""

    host: str
    node: str
    #: The uuid of the node's provider.
    provider: str
    #: The state of the domain there.
    state: str


class NodeAddress(TypedDict):
    """The addresses at which other hypervisors reach a compute node."""

    node: str
    migration_uri: str | None
    migration_address: str | None


class Occupant(TypedDict):
    """A domain that its host showed in its last report."""

    #: None for a domain that libvirt cannot describe.
    uuid: str | None
    name: str
    state: str
    #: The host of the instance in the store; None if the store has no host for it.
    host: str | None


class Arrival(TypedDict):
    """An instance on its way to a host."""

    uuid: str
    name: str
    #: The host that the instance leaves; None for a new instance.
    source: str | None


class Occupants(TypedDict):
    """The instances on a host and on their way to it, each sorted by name (store.occupancy)."""

    #: All that is not shut off.
    running: list[Occupant]
    shut_off: list[Occupant]
    arriving: list[Arrival]
