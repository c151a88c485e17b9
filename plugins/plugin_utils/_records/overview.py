# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the store that a report shows. Times are seconds since 1970 (UTC)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from .hosts import CountedHost, FurtherPool, HostAggregate, ListedNode
from .instances import ListedInstance
from .outcomes import RollingRecord
from .statuses import MigrationStatus, MigrationType


class PhysicalNode(ListedNode):
    """A compute node with the amounts in use on the hypervisor; None if it does not report them."""

    #: MiB.
    memory_mb_physical: int | None
    #: GiB.
    disk_gb_physical: int | None


class ShownHost(CountedHost):
    """A host of a report."""

    nodes: list[PhysicalNode]


class NewInstance(TypedDict):
    """One of the newest instances."""

    uuid: str
    created_at: float


class Migration(TypedDict):
    """A migration without its type. Its ends are compute nodes, HOST or HOST/NODE."""

    uuid: str
    instance_uuid: str
    instance_name: str
    source: str
    destination: str
    status: MigrationStatus
    message: str | None
    created_at: float
    updated_at: float


class MigrationRow(Migration):
    """A migration of the store."""

    type: MigrationType


class DayCount(TypedDict):
    """The migrations of one type and status that began on a day, counted from 1970 in UTC."""

    day: int
    type: MigrationType
    status: MigrationStatus
    count: int


class PowerEvent(TypedDict):
    """A power action."""

    host: str
    action: str
    driver: str
    status: str
    power_state: str | None
    message: str | None
    created_at: float
    updated_at: float


class Lease(TypedDict):
    """A lease of a host or of the fleet."""

    name: str
    holder: str
    purpose: str
    acquired_at: float


class FlavorSize(TypedDict):
    """A flavor and its size."""

    name: str
    vcpus: int
    #: MiB.
    memory_mb: int
    #: GiB.
    disk_gb: int


class ActionRow(TypedDict):
    """A recorded action and its user."""

    created_at: float
    kind: str
    message: str
    instance_uuid: str | None
    instance_name: str | None
    host: str | None
    destination: str | None
    user: str
    controller: str
    command: str
    reason: str
    #: The job of AWX; None without one.
    job: Mapping[str, str] | None


class WentDown(TypedDict):
    """A host that was restarted with its instances."""

    host: str
    #: Names of instances.
    names: list[str]
    #: The command that starts them.
    command: str


class OwnMachine(TypedDict):
    """The controller or the server of the store, if it is a host or an instance of this fleet."""

    what: str
    host: str | None
    #: None for a host.
    uuid: str | None
    name: str | None


class StageCount(TypedDict):
    """A host filter of a decision, with the hosts before and after it."""

    name: str
    before: int
    after: int
    rejected: int


class WeighedHost(TypedDict):
    """One of the best hosts of a decision, with the weighers that changed its weight."""

    host: str
    node: str
    weight: float
    #: {name of a weigher: its raw and normalised value, and its multiplier}.
    weighers: dict[str, dict[str, float]]


class _KeptExplanation(TypedDict):
    #: The number of hosts.
    hosts: int
    filters: list[StageCount]


class KeptExplanation(_KeptExplanation, total=False):
    """The part of an explanation that is kept."""

    top: list[WeighedHost]


class DecisionRow(TypedDict):
    """A decision of the scheduler."""

    created_at: float
    purpose: str
    actor: str
    instance_uuid: str | None
    instance_name: str
    host: str | None
    node: str | None
    alternates: list[dict[str, str]] | None
    message: str | None
    explanation: KeptExplanation | None
    #: The request, as it was made.
    request: Any


class StoredOverview(TypedDict):
    """The rows at one moment, except instances and flavors."""

    hosts: list[ShownHost]
    aggregates: list[HostAggregate]
    newest: list[NewInstance]
    migrations: list[MigrationRow]
    days: list[DayCount]
    decisions: list[DecisionRow]
    actions: list[ActionRow]
    power_events: list[PowerEvent]
    leases: list[Lease]
    rolling: list[RollingRecord]
    went_down: list[WentDown]


class Overview(StoredOverview):
    """All rows of a report."""

    instances: list[ListedInstance]
    own: list[OwnMachine]
    further_pools: list[FurtherPool]
