# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of the parts of the page about a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from .._records.instances import ListedInstance
from .._records.outcomes import RollingRecord
from .._records.overview import ActionRow, Migration, PhysicalNode, PowerEvent, StageCount
from .._records.plans import HostLoss

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired

#: The kind of a host, which decides its place and its colour.
HostKind = Literal["down", "disabled", "unreported", "maintenance", "well"]


class Figure(TypedDict):
    """Allocated (used) and usable (capacity) amounts of one resource, and the percentage of the one
    in the other.

    physical, physical_total: amounts in use and in total, on the nodes that reported them; None if
    none did. text, physical_text: for people.
    """

    name: str
    label: str
    used: float
    capacity: float
    total: float
    physical: float | None
    physical_total: float | None
    percent: int | None
    physical_percent: int | None
    shared: bool
    text: str
    physical_text: str | None


class InstanceRow(ListedInstance):
    """An instance, with its sizes as texts and its first addresses."""

    memory: str | None
    disk: str | None
    address: str | None


class NewestRow(InstanceRow):
    """One of the newest instances."""

    created_at: float


class HostView(TypedDict):
    """A host of the page."""

    host: str
    zones: list[str]
    #: The number of its instances.
    instances: int
    disk_pool: str | None
    maintenance: bool
    drained: bool
    last_seen_up: float | None
    nodes: list[PhysicalNode]
    #: Its anchor in the page.
    id: str
    kind: HostKind
    down: bool
    #: The host has left: no host reports its nodes any more.
    left: bool
    disabled: bool
    #: For people, see text.state().
    state: str
    reason: str
    figures: list[Figure]
    #: The percentage and the label of the fullest figure of the host itself; None without one.
    full: int | None
    fullest: str | None
    instance_rows: list[InstanceRow]


class Seen(TypedDict):
    """The times of discovery of the hosts."""

    newest: float | None
    oldest: HostView | None
    #: The number of hosts.
    never: int


class Summary(TypedDict):
    """The counts of hosts, by state, and of instances."""

    hosts: int
    left: int
    up: int
    down: int
    disabled: int
    maintenance: int
    instances: int
    missing: int
    building: int
    pools: int
    figures: list[Figure]


class PoolFigure(Figure):
    """The figure of a shared pool. hosts: how many share it."""

    hosts: int


class FurtherPoolFigure(Figure):
    """The figure of all further storage pools of one name. pools: how many storages that are."""

    pools: int
    total_gb: int
    capacity_gb: int
    used_gb: int


class AggregateRow(TypedDict):
    """A host aggregate, sorted."""

    name: str
    metadata: list[tuple[str, str]]
    hosts: list[str]


class Zone(TypedDict):
    """An availability zone. hosts: how many."""

    zone: str
    hosts: int
    up: int
    instances: int
    figures: list[Figure]


class Cell(TypedDict):
    """A cell of the heat map. percents and bands: by the letters of heat.SHOWN."""

    host: str
    id: str
    kind: HostKind
    percents: dict[str, int | None]
    bands: dict[str, int | None]
    text: str


class HeatGroup(TypedDict):
    """The hosts of a zone in the heat map."""

    zone: str
    hosts: list[Cell]
    #: (band, number of hosts) of the fullest figure, from the fullest band on.
    counts: list[tuple[int, int]]
    #: (kind, number of hosts) of the hosts that are not well.
    kinds: list[tuple[str, int]]


class WeigherPart(TypedDict):
    """The part of a weigher in a weight."""

    name: str
    value: float


class RankedHost(TypedDict):
    """One of the best hosts of a decision."""

    where: str | None
    chosen: bool
    weight: float
    parts: list[WeigherPart]
    reasons: list[str]


class Decision(TypedDict):
    """A decision of the scheduler as figures."""

    created_at: float
    purpose: str
    actor: str
    name: str
    #: Host, or host/node; None without a host.
    where: str | None
    alternates: list[str | None]
    message: str | None
    #: The number of examined hosts, and of those after the host filters; None without an
    #: explanation.
    hosts: int | None
    left: int | None
    filters: list[StageCount]
    top: list[RankedHost]


class MigrationView(Migration):
    """A migration. outcome: well, open, undone or failed. took: seconds, None while under way."""

    #: In words.
    type: str
    outcome: str
    took: float | None


class Bar(TypedDict):
    """A part of a bar in the picture of migrations by day."""

    outcome: str
    y: float
    height: float


class Day(TypedDict):
    """The migrations of a day, by outcome, and their place in the picture."""

    day: int
    date: str
    well: int
    open: int
    undone: int
    failed: int
    total: int
    x: float
    bars: list[Bar]


class Days(TypedDict):
    """The migrations by day. most: on one day. dropped: the number of older ones."""

    days: list[Day]
    most: int
    dropped: int


class ActionView(ActionRow):
    """A recorded action, with its person and its place as texts."""

    who: str
    where: str | None


class Look(TypedDict):
    """One line: its kind (down, disabled, maintenance, or calm for information), the target of its
    link, and the runbook.

    since: seconds since 1970. command: None if none helps, or if the name is not possible in a
    command.
    """

    kind: str
    label: str
    link: str | None
    name: str | None
    text: str
    reason: str | None
    since: float | None
    command: str | None
    guide: str | None


class View(TypedDict):
    """All parts of the page, except capacity, growth, projects and plans."""

    summary: Summary
    seen: Seen
    attention: list[Look]
    hosts: list[HostView]
    #: Instances on no host.
    nowhere: list[InstanceRow]
    decisions: list[Decision]
    map: list[HeatGroup]
    pools: list[PoolFigure]
    further_pools: list[FurtherPoolFigure]
    zones: list[Zone]
    aggregates: list[AggregateRow]
    migrations: list[MigrationView]
    days: Days
    power_events: list[PowerEvent]
    actions: list[ActionView]
    newest: list[NewestRow]
    rolling: list[RollingRecord]


class SizeLoss(TypedDict):
    """The number of further instances of a size that fit, now and after the loss of a host."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    total: int
    #: The resource that most hosts run out of first; None if no host may take any.
    short: str | None
    loss: HostLoss | None


class HostLosses(TypedDict):
    """The capacity of the fleet after the loss of a host."""

    rows: list[SizeLoss]
    verdict: str
    #: The hosts that the others cannot replace.
    fatal: list[str]


class WantedSize(TypedDict):
    """A size to count capacity for."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    #: The name of the flavor, if it is one.
    flavor: NotRequired[str]


class PlannedRow(TypedDict):
    """A move of a plan, with the size of its instance."""

    uuid: str | None
    name: str
    from_host: str
    host: str
    wave: int | None
    live: bool | None
    extra: bool
    seconds: float | None
    vcpus: int
    memory_mb: int
    disk_gb: int
    memory: str | None
    took: str | None


class FigureChange(TypedDict):
    """A figure of a host before and after the moves of a plan."""

    name: str
    label: str
    capacity: float
    shared: bool
    before: float
    after: float
    before_percent: int | None
    after_percent: int | None
    before_text: str | None
    after_text: str | None
    capacity_text: str | None


class ChangedHost(TypedDict):
    """A host that moves leave or reach. before, after: the numbers of instances."""

    host: str
    #: The store has the host.
    known: bool
    moves: int
    before: int
    after: int
    figures: list[FigureChange]


class PlanBatch(TypedDict):
    """The hosts of a batch of a rolling maintenance."""

    hosts: list[str]
    instances: int
    memory: str | None


class DrawnHost(TypedDict):
    """A row of the picture. before, after: shares of memory in percent."""

    host: str
    y: int
    before: int
    after: int
    instances_before: int
    instances_after: int


class DrawnMoves(TypedDict):
    """A line of the picture: the moves from a host to another one."""

    from_host: str
    host: str
    count: int
    width: int
    path: str


class Drawing(TypedDict):
    """The picture of the moves. left_out: the number of hosts that are not drawn."""

    height: int
    rows: list[DrawnHost]
    lines: list[DrawnMoves]
    left_out: int


class PlanView(TypedDict):
    """The parts of the page about a plan. The rows of a plan are as its lookup returned them."""

    kind: str
    title: str
    facts: list[tuple[str, str]]
    notes: list[str]
    hosts: list[ChangedHost]
    drawing: Drawing
    moves: list[PlannedRow]
    batches: list[PlanBatch]
    shutdowns: list[Any]
    #: Instances that do not move, with reasons.
    staying: list[Any]
    #: Hosts, with reasons.
    blocked: list[Any]
    #: Differences of the plan and the store.
    stale: list[str]


class ProjectRow(TypedDict):
    """A project. cells: a text for each name of ProjectsView. full: the limits that are reached."""

    project: str
    cells: list[str | None]
    full: list[str]


class ProjectsView(TypedDict):
    """The projects with an instance or a quota. names: of the limits, one for each column."""

    names: list[str]
    rows: list[ProjectRow]


class ReportView(View):
    """All parts of the page."""

    capacity: HostLosses
    growth: list[str]
    projects: ProjectsView
    plans: list[PlanView]
