# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances as the store gives them to plans, conductors and reports: one base, and the additions
of each reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import BindingFacts
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Options

from .claims import Allocations
from .numa import PlacedCell
from .statuses import MigrationStatus, MigrationType

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired


#: The task state of an instance while one of its disks moves to another storage of its host.
MOVING_DISK = "moving_disk"
#: The task state from the moment at which the guest may write to the copy alone.
SWITCHING_DISK = "switching_disk"
MOVING_DISKS = (MOVING_DISK, SWITCHING_DISK)


class DiskLayer(TypedDict):
    """An image behind a disk."""

    path: str
    #: The path without symbolic links; None if it is not known.
    real_path: str | None
    #: The identity of the file on shared storage; None for a file of the host alone.
    shared_id: str | None


class Disk(TypedDict, total=False):
    """A disk of a domain, as the module hypervisor_info reports it; hosts given as data may leave
    out any key.
    """

    target: str | None
    #: disk, lun, cdrom or floppy.
    device: str
    #: file, block, dir, volume or network.
    type: str
    #: The name in the domain: a path, "pool/volume", or the name of a network disk.
    source: str | None
    format: str | None
    readonly: bool
    shareable: bool
    capacity_bytes: int | None
    allocation_bytes: int | None
    path: str | None
    real_path: str | None
    shared_id: str | None
    #: The images behind it, the nearest first; None if they are not known.
    chain: list[DiskLayer] | None
    #: running or next_start, if only one of the two definitions of its domain has it.
    only: str
    bus: str | None


#: A reason that binds a guest to its host, as the module hypervisor_info reports it.
Binding = BindingFacts


class HostDevice(TypedDict, total=False):
    """A device of its host that a domain uses."""

    #: pci, usb, scsi or mdev.
    type: str | None
    address: str | None


class InstanceFigures(TypedDict):
    """Name, state and size of an instance."""

    uuid: str
    name: str
    #: libvirt's state of its domain (running, shutoff, ...), else building or missing.
    state: str
    vcpus: int
    #: MiB.
    memory_mb: int
    #: GiB.
    disk_gb: int


class InstanceSummary(InstanceFigures):
    """The facts that a plan shows of an instance that it does not move."""

    host: str


class Instance(InstanceFigures):
    """The properties of an instance that every query of the store returns."""

    #: The name of its server group.
    server_group: str | None
    availability_zone: str | None
    project: str | None


class ListedInstance(Instance):
    """An instance for people and programs (store.instances)."""

    #: None for an instance on no host.
    host: str | None
    node: str | None
    user: str | None
    labels: dict[str, str]
    #: PROJECT/NAME of its definition.
    definition: str | None
    autostart: bool
    #: The addresses for the inventory, in the order of the interfaces.
    addresses: NotRequired[list[str]]


class HeldMigration(TypedDict):
    """The migration of an instance that holds resources at two places."""

    uuid: str
    type: MigrationType
    status: MigrationStatus
    source: str
    destination: str
    details: dict[str, Any] | None


class MovePolicy(TypedDict, total=False):
    """The moves that are allowed for an instance, see migrations.policy."""

    move: str
    on_drain: str
    priority: int
    migration: Options
    #: Why the policy cannot be read, as a sentence; then it has no other key.
    error: str


class NamedInstance(Instance):
    """An instance that the operator names (store.instance_lookup)."""

    host: str | None
    node: str | None
    #: libvirt's URI of its node.
    uri: str | None
    #: The name of its flavor.
    flavor: str | None
    user: str | None
    #: The extra specs of the instance itself; they override the extra specs of its flavor.
    extra_specs: dict[str, str] | None
    #: The properties of its image.
    image: dict[str, Any] | None
    image_name: str | None
    image_id: str | None
    #: The disk format of the image.
    image_format: str | None
    policy: MovePolicy | None
    #: The fields of its open order.
    task_state: str | None
    order_uuid: str | None
    #: The XML of its domain when it was last seen.
    xml: str | None
    #: All nodes that showed its domain in their last report: HOST, or HOST/NODE.
    nodes: list[str]
    migration: HeldMigration | None
    #: True if the operator gave its name.
    named: bool


class PlacedInstance(Instance):
    """An instance on a compute node, from the store's own tables."""

    host: str
    node: str
    #: The name of its flavor.
    flavor: str | None


class InstanceAmounts(PlacedInstance):
    """The amounts that an instance needs, and its place."""

    #: {provider uuid: {resource class: amount}} of all classes. Missing if it has VCPU, MEMORY_MB
    #: and DISK_GB only; empty while a resize or an evacuation holds two places.
    allocations: NotRequired[Allocations]
    #: The sums of the allocations, {resource class: amount}.
    resources: NotRequired[dict[str, int]]
    #: Traits that the extra specs of its flavor require. Missing if the flavors were not read.
    required_traits: NotRequired[list[str]]
    #: CLASS:TRAIT for each trait that its claim requires of a storage pool of its disks.
    required_pool_traits: NotRequired[list[str]]
    #: The NUMA cells of the instance on its node, see records.hosts.NumaAllocation; missing if the
    #: instance is bound to no cells, empty if it is bound but its cells are unknown.
    cells: NotRequired[list[PlacedCell]]


class PlannedInstance(InstanceAmounts):
    """An instance with all data that planners need (store.instances_for_plans); no key of
    InstanceAmounts is missing.
    """

    user: str | None
    #: The present extra specs of its flavor, and its own ones.
    extra_specs: dict[str, str]
    #: The properties of its image.
    image: dict[str, Any] | None
    image_name: str | None
    image_id: str | None
    #: The disk format of the image.
    image_format: str | None
    #: never, cold, live, shutdown or None.
    move_policy: str | None
    #: Why the policy cannot be read, as a sentence.
    move_policy_error: str | None
    #: Instances with a higher one move and start first.
    priority: int
    #: The migration options of the instance itself.
    migration: Options
    #: The fields of its open order.
    task_state: str | None
    persistent: bool
    autostart: bool
    disks: list[Disk]
    #: The disks that only the running guest has.
    running_disks: list[Disk]
    hostdevs: list[HostDevice]
    #: The devices of hostdevs that no claim gave the instance.
    own_devices: list[HostDevice]
    #: The PCI devices in its claim, as in HostRequest.as_data(); empty if it has none of them.
    pci_requests: list[dict[str, Any]]
    #: None if its host has not reported them.
    bindings: list[Binding] | None
    managed_save: bool
    snapshots: bool
    #: The names of the snapshots that prevent a move; None if that is not known.
    fixed_snapshots: list[str] | None
    #: True if a disk that may have a snapshot is not known to be shared; present only if the
    #: instance has snapshots.
    local_disks: NotRequired[bool]
    #: Names of instances on its node that are backed by a disk of it that is not known to be
    #: shared.
    backs: list[str]
    #: MiB of memory that the guest changes per second, if that is known.
    dirty_mib: NotRequired[float]
    #: The host that holds the old allocations of a resize that is neither confirmed nor reverted.
    resized_from: NotRequired[str]
    #: The reason why an instance that is shut off may run on another host, as a clause, if it may.
    may_run_elsewhere: NotRequired[str]


class EvacuatedInstance(PlannedInstance):
    """An instance of a dead host (store.evacuations)."""

    #: The XML of its domain when it was last seen.
    xml: str | None
