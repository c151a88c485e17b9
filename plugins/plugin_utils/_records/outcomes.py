# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of hypervisors, and the outcomes of moves and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from .domains import ReportedDomain
from .instances import Binding, InstanceSummary
from .plans import DrainPlan, EvacuationPlan, StayingInstance, UnmovableInstance
from .statuses import (
    DrainStatus,
    MovePhase,
    MoveResult,
    MoveStatus,
    OperationStatus,
    RestartStatus,
    RollingStage,
)

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired


class MoveOutcome(TypedDict):
    """The outcome of a migration, as the module _migration returns it.

    - uuid, name: of the instance. source, destination: hosts.
    - provider: of the destination; None if there is no objection to that host, or the store no
      longer has it.
    - status: completed, failed, cancelled (both: it is at the source), conflict or lost (both: its
      place is not known).
    - message: why; may be empty.
    - storage: shared, copied, none (no disk), or None if that is not known.
    - elapsed_s: seconds, None if it was not begun.
    - ignores_shutdown: True if its guest did not shut down for the move.
    """

    uuid: str
    name: str
    source: str
    destination: str
    provider: str | None
    status: MoveResult
    message: str
    storage: str | None
    elapsed_s: float | None
    ignores_shutdown: bool


class Copies(TypedDict):
    """MiB that a move copies: memory, and files that are on storage of the source only."""

    memory_mib: int
    disk_mib: int


class MeasuredMove(NamedTuple):
    """A completed move: its ends, the amounts that it copied, and its duration."""

    source: str
    destination: str
    live: bool
    memory_mib: int
    disk_mib: int
    seconds: float


class MoveAnswer(TypedDict):
    """The answer of the source about a move, as the module _domain_migration returns it; that
    module documents each key.

    - status: running, or as in MoveOutcome.
    - source_state, destination_state: of the domain; absent if there is none; None if libvirt did
      not report it.
    - percent, total_mib, remaining_mib, elapsed_s: how far it is.
    - copies: the amounts that it copies, None if they are not known.
    - ignores_shutdown: as in MoveOutcome; the controller adds it.
    """

    uuid: str
    status: MoveStatus
    message: NotRequired[str]
    phase: NotRequired[MovePhase | None]
    percent: NotRequired[float]
    total_mib: NotRequired[float | None]
    remaining_mib: NotRequired[float | None]
    elapsed_s: NotRequired[float | None]
    copies: NotRequired[Copies | None]
    storage: NotRequired[str | None]
    source_state: NotRequired[str | None]
    destination_state: NotRequired[str | None]
    ignores_shutdown: NotRequired[bool]


class PrecheckReport(TypedDict):
    """The state of both ends of a move before it begins, from the module _domain_migration, with
    the source and the provider.

    - uuid, name: of the instance. source, destination: hosts. provider: of the destination.
    - ok: True if the move can be made. message: why not; why: the same without names; both may be
      empty.
    - reached: True if the source reaches libvirt at the destination.
    - storage: as in MoveOutcome. copies_disk_mib: MiB of its files that are copied, None if that is
      not known. copied_disks: MiB of each of its disks that is copied, by target.
    - source_state, destination_state: as in MoveAnswer.
    - bindings: the reasons that bind it to its host, whatever the destination.
    """

    uuid: str
    name: str
    source: str
    destination: str
    provider: str | None
    bindings: NotRequired[list[Binding]]
    ok: bool
    would_start: bool
    message: str
    why: str
    reached: bool
    storage: str | None
    copies_disk_mib: int | None
    copied_disks: dict[str, int]
    source_state: str | None
    destination_state: str | None


class DomainLook(TypedDict):
    """The state on a host of an instance after the withdrawal of its orders there: an entry of the
    module _domain_order.

    - busy: another call works on the domain, so nothing was withdrawn.
    - domain: as the module hypervisor_info describes it; None if there is none.
    - kept_disks: volumes of a build that was cut off which stay, dicts path and reason.
    """

    uuid: str
    busy: bool
    domain: ReportedDomain | None
    kept_disks: list[dict[str, Any]]


class DrainedHost(TypedDict):
    """The outcome of a drain for one host.

    - status: maintenance (nothing runs there), disabled (instances that cannot move still run
      there), failed, or planned (nothing was changed).
    - message: the same in a sentence, with the reason.
    """

    host: str
    status: DrainStatus
    message: str


class DrainResult(TypedDict):
    """The outcome of a drain, as the module drain returns it.

    - plan: the last one. shut_down: instances that were shut down. staying: instances that cannot
      move.
    """

    changed: bool
    hosts: list[DrainedHost]
    plan: DrainPlan
    migrations: list[MoveOutcome]
    shut_down: list[InstanceSummary]
    staying: list[UnmovableInstance]
    message: str


class RestartAnswer(TypedDict):
    """The answer of the module _domain_restart about an instance: restarted, there, failed or
    uncertain; that module documents them.

    state: of the domain; missing if there is none.
    """

    uuid: str
    status: RestartStatus
    state: NotRequired[str | None]
    message: NotRequired[str]


class RestartOutcome(TypedDict):
    """The outcome of the start of an instance of a dead host.

    - host: its destination. provider: of that host.
    - state: of the domain there, None if there is none. message: why it does not run there; may be
      empty.
    """

    uuid: str
    name: str
    host: str
    provider: str
    state: str | None
    message: str


class EvacuationResult(TypedDict):
    """The outcome of the restarts of an evacuation, as the module evacuate returns it.

    - plan: the last one. restarted: the instances that are at their destination now. remaining: the
      other instances, each with the reason.
    """

    changed: bool
    plan: EvacuationPlan
    restarted: list[RestartOutcome]
    remaining: list[StayingInstance]
    message: str


class Home(TypedDict):
    """The place of an instance before the drain of its host."""

    uuid: str
    host: str
    node: str


class RollingRecord(TypedDict):
    """The progress of a rolling maintenance on one host.

    - stage: that was begun last, of store.rolling.STAGES. message: the reason why it failed there;
      None if it did not.
    - boot_id: of the boot that the reboot ends; None before it.
    - instances: the instances on the host before its drain; None before it.
    - created_at, updated_at: seconds since 1970.
    """

    host: str
    stage: RollingStage
    boot_id: str | None
    instances: list[Home] | None
    message: str | None
    created_at: float
    updated_at: float


class MaintainedHost(TypedDict):
    """A host in the report of a rolling maintenance. state: such as "up, enabled". instances: the
    number of instances there.
    """

    host: str
    stage: RollingStage
    message: str | None
    state: str
    instances: int


class InstanceOutcome(TypedDict):
    """The outcome of an operation on one instance (start, stop, reboot, labels, settings or
    removal), as the module instance returns it.

    - status: done, absent (it is not on its host) or failed. message: why.
    - domain: afterwards, as the module hypervisor_info describes it; not of one that is removed or
      labelled.
    - labels: afterwards, of one that was to be labelled.
    - removed_disks, kept_disks (each path and reason): files, of one that is removed.
    """

    uuid: str
    name: str
    changed: bool
    status: OperationStatus
    message: str
    domain: NotRequired[ReportedDomain | None]
    labels: NotRequired[dict[str, str]]
    removed_disks: NotRequired[list[str]]
    kept_disks: NotRequired[list[dict[str, str]]]


class SnapshotOutcome(TypedDict):
    """The outcome of an operation on the snapshots of an instance, as the module instance_snapshot
    returns it.

    - status: done or failed. message: why.
    - snapshots: of the instance afterwards, as the module _domain_snapshot describes them.
    - consistency, consistency_reason, removed_files, kept_files: of that module.
    """

    uuid: str
    name: str
    host: str | None
    changed: bool
    status: str
    message: str
    snapshots: list[dict[str, Any]]
    consistency: str | None
    consistency_reason: str | None
    removed_files: list[str]
    kept_files: list[dict[str, str]]
