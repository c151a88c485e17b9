# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrations, and the orders for hypervisors that are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import NumaBinding
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import (
    Devices,
    Options,
)

from .claims import Resources
from .hosts import NodeStorage
from .instances import Disk
from .statuses import MigrationStatus, MigrationType

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired


class MovedInstance(TypedDict):
    """An instance that is moved, and the options of migrations that its policy has."""

    uuid: str
    name: str
    migration_options: NotRequired[Options]


class MoveEnds(MovedInstance):
    """A move of an instance from a host to another one."""

    #: Hosts.
    source: str
    destination: str
    #: Uuid of the destination's resource provider; None if its compute node is gone.
    provider: str | None


class UnopenedOrder(MoveEnds):
    """The description of a move that a hypervisor needs to check it before it is in the store."""

    source_uri: str
    #: The URI of libvirt at the destination, as the source reaches it; None for the usual one.
    destination_uri: str | None
    #: The URI of libvirt at the destination, as the destination itself reaches it.
    uri_there: str
    #: The uuids that libvirt there may have; empty if no uuid identifies the machine.
    host_uuids_there: list[str]
    #: The address that the memory is sent to; None for the one that libvirt at the destination
    #: names.
    migration_address: str | None
    live: bool
    #: The fact ``numa`` of its domain at the destination; before the migration is in the store, the
    #: fact that the domain must have here.
    numa: NumaBinding
    #: The pairs of a device here and the device of the destination that replaces it, see
    #: module_utils._migration.passthrough; before the migration is in the store, each device is
    #: paired with itself.
    devices: Devices
    #: Arguments of the module _domain_migration: the facts about the storage and the files of other
    #: hosts that the source needs.
    files: NotRequired[dict[str, Any]]


class MoveOrder(UnopenedOrder):
    """The description of a stored migration that a hypervisor needs."""

    migration: str
    #: The instance was shut down for the move and is started again after it.
    restart: bool
    #: An earlier run saw that neither end had the instance.
    nowhere: bool
    #: The destination may still get the instance: it is enabled and was up at the last look.
    begin: bool
    #: The move has not begun, as far as is known.
    waiting: NotRequired[bool]


class OpenedMigration(TypedDict):
    """A migration that was opened, or with ``new`` False was open already."""

    uuid: str
    instance_uuid: str
    name: str
    source: str
    destination: str
    type: MigrationType
    status: MigrationStatus
    new: bool


class OpenMove(NamedTuple):
    """A migration that is under way, or was when its run was killed."""

    uuid: str
    instance_uuid: str
    instance_name: str
    source: str
    destination: str
    type: MigrationType
    details: dict[str, Any] | None
    #: The server group of the instance.
    group_name: str | None


class HostMigration(TypedDict):
    """A migration from or to a host that is open, or a resize that waits to be confirmed."""

    uuid: str
    instance_uuid: str
    #: The name of the instance.
    name: str
    type: MigrationType
    status: MigrationStatus
    #: Hosts.
    source: str
    destination: str
    #: Uuid of the destination's resource provider; None if its compute node is gone.
    provider: str | None
    #: The URI of libvirt at the source.
    source_uri: str
    #: The instance was shut down for it, and is started again afterwards.
    runs: bool
    #: A resize makes its disk larger when it is confirmed.
    disk_grows: bool


@dataclass(frozen=True)
class MigrationLimits:
    """The most migrations at the same time, over all runs; None for no limit."""

    per_source: int | None = None
    per_destination: int | None = None
    overall: int | None = None


class BegunRestart(TypedDict):
    """A restart of an evacuated instance that was ordered at its destination."""

    #: Uuids of the migration and of the instance.
    migration: str
    uuid: str
    name: str
    #: The URI of libvirt at the destination.
    uri: str
    #: Names of the orders of all calls, by which they can be withdrawn.
    orders: list[str]


class RestartOrder(BegunRestart):
    """The description of a restart that the destination of an evacuation needs to start an
    instance.
    """

    status: str
    #: The id of the dead host's node.
    source_id: int
    #: The destination: the id of its node, and the uuid of its resource provider.
    node_id: int
    provider: str
    #: The domain as last seen at the source: its XML, its state, and if it is started with its
    #: host.
    xml: str | None
    state: str
    autostart: bool
    disks: list[Disk]
    #: A snapshot of it was made when its host died.
    snapshotting: bool
    #: The storage of the source and of the destination.
    node: NodeStorage
    there: NodeStorage
    #: The name of the order of this call.
    order: NotRequired[str]


class Size(TypedDict):
    """The size of an instance: MiB, GiB."""

    flavor: str | None
    vcpus: int
    memory_mb: int
    disk_gb: int
    #: The fact ``numa`` of its domain, if the instance has NUMA cells with this size or the other
    #: one of a resize.
    numa: NotRequired[NumaBinding]


class Sizes(TypedDict, total=False):
    """Sizes of an instance, some of them: MiB, GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclass(frozen=True)
class NewSize:
    """The new size of a resize: a flavor, or else sizes without the ones that do not change."""

    flavor: str | None = None
    sizes: Sizes = field(default_factory=Sizes)


class ResizeTarget(TypedDict):
    """The result that a resize must reach.

    running: True if the instance ran when the resize began. sizes: of the domain, {old and new:
    {vcpus, memory_mb (MiB) and maybe disk_gb (GiB)}}. given: the sizes that were requested in place
    of a flavor.
    """

    flavor: str | None
    resources: Resources
    running: NotRequired[bool]
    sizes: NotRequired[dict[str, dict[str, int]]]
    given: NotRequired[Sizes]
    #: The needs of NUMA cells in the selection.
    host_request: NotRequired[dict[str, Any]]


class Resize(MovedInstance):
    """A resize that is in the store."""

    migration: str
    status: MigrationStatus
    source: str
    destination: str
    source_uri: str
    destination_uri: str
    same_host: bool
    #: The instance ran when the resize began.
    running: bool
    #: The instance was seen at the destination with its new size.
    arrived: bool
    #: The instance had the new size, and its old size was restored since.
    undone: bool
    #: An earlier run saw that neither end had the instance.
    nowhere: bool
    old: Size
    new: Size
    #: The requested sizes; empty for a flavor, and for a cold migration.
    given: Sizes
    #: The arguments for the module _domain_migration to move the instance to the destination, and
    #: back.
    order: dict[str, object]
    back: dict[str, object]
