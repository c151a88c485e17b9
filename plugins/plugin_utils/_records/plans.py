# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves and plans: the results of the planner, which the conductor carries out and lookups show to
people.

Memory is in MiB, disks are in GiB, times in seconds; ``*_mib`` are MiB, and MiB per second for a
bandwidth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Options

from .claims import Allocations
from .instances import InstanceSummary

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired

#: The forbidden nodes of instances: uuid of the instance -> nodes (names or provider uuids), as a
#: list or as a mapping node -> reason.
Exclusions = Mapping[str, Collection[str]]


class MoveLimits(TypedDict, total=False):
    """The most moves at the same time; None, like a missing key, for no limit."""

    per_source: int | None
    per_destination: int | None
    total: int | None
    #: The bandwidth of each migration, MiB per second; None for no limit.
    bandwidth_mib: float | None


class Move(TypedDict):
    """A move of one instance to one destination, with all that the conductor needs to carry it out.

    Each move of a plan has ``from_node`` and the keys from ``provider`` to ``stage``.
    """

    #: The uuid of the instance; name is its name.
    uuid: str
    name: str
    from_host: str
    #: Missing in the moves of a playbook, if the host has one node.
    from_node: NotRequired[str]
    #: The destination.
    host: str
    node: str
    #: True if the instance moves while it runs or is paused; else it moves shut off.
    live: bool
    #: Uuid of the destination's resource provider.
    provider: NotRequired[str]
    #: Expected duration.
    seconds: NotRequired[float]
    #: Moves of one wave run together; waves follow each other. From 1.
    wave: NotRequired[int]
    #: The place in the order of the starts, from 1 on.
    order: NotRequired[int]
    #: Uuids of instances with moves, earlier in the plan, that leave the destination and must end
    #: first.
    after: NotRequired[list[str]]
    #: The number of the stage, from 1 on. The stage of each move is later than the stages of the
    #: moves in its ``after``.
    stage: NotRequired[int]
    #: The hosts that need the room that this move of another host's instance frees; none for an
    #: instance of a drained host itself.
    for_hosts: NotRequired[list[str]]
    #: {provider uuid: {resource class: amount}}, if the destination may choose between providers.
    allocations: NotRequired[Allocations]
    #: Options of this migration alone, in a move of a playbook, see migrations.options.
    migration: NotRequired[Options]


class Copying(TypedDict):
    """A part of the data that a move copies, and its expected rate."""

    #: memory or disks.
    what: str
    mib: int
    #: MiB per second.
    rate: float
    #: hosts or fleet (measured between its two hosts, or in the whole fleet), configured (the
    #: migration's own limit) or assumed.
    basis: str
    #: Over how many recorded moves the rate was measured.
    moves: int


class DiskMove(TypedDict):
    """The effect of a move on a disk.

    - source: its path, "pool/volume", or the name of a network disk.
    - how: ``shared`` with the destination, ``copied``, or ``unknown``. mib: the copied amount, 0 of
      a shared one, None if it is not known. virtual_mib: its size for the guest, None if it is not
      known.
    """

    target: str | None
    source: str
    how: str
    mib: int | None
    virtual_mib: NotRequired[int | None]


class LocalDisks(NamedTuple):
    """The disks of an instance that are on storage of its host only, so that a move copies them.

    mib: their files, as far as that is known. unknown: the unknown facts about the disks, as
    clauses. disks: each that it writes to, also the shared ones.
    """

    mib: int
    unknown: tuple[str, ...] = ()
    disks: tuple[DiskMove, ...] = ()


class PlannedMove(Move):
    """A move of a plan; a plan of the way home has this class, the other plans have subclasses."""

    #: The state of the domain.
    state: str
    memory_mb: int
    server_group: str | None
    #: The limit of its migration, MiB per second; None without one.
    bandwidth_mib: float | None
    #: MiB of memory that the guest changes per second; None if it is not known.
    dirty_mib: float | None
    #: This key and all further ones come from move_times.expect(). The copied amounts: the memory
    #: of a live move, and disks.
    copies_mib: NotRequired[int]
    copies_disk_mib: NotRequired[int]
    copying: NotRequired[list[Copying]]
    disks: NotRequired[list[DiskMove]]
    #: The unknown facts about its disks, as clauses.
    unknown: NotRequired[list[str]]
    #: True if the memory is copied faster than the guest dirties it.
    converges: NotRequired[bool]


class DrainMove(PlannedMove):
    """A move of a drain or an evacuation."""

    vcpus: int
    disk_gb: int
    #: GiB in further storage pools, by their names.
    pool_disks: dict[str, int]
    #: True if the instance is on another host and moves to make room.
    extra: bool


class RebalanceMove(PlannedMove):
    """A move of a rebalance."""

    #: gain: the amount by which the score falls; cost: the least gain that makes the move worth it.
    gain: float
    cost: float


class NearestHost(TypedDict):
    """The compute node that lacks least for an instance."""

    host: str
    node: str
    #: {resource class: amount that is missing}.
    short: dict[str, int]
    #: The number of members of the instance's server group that must leave it.
    group: int


class UnmovableInstance(InstanceSummary):
    """An instance that a drain cannot move."""

    reason: str
    #: None if no host may take the instance, or if it lacks more than room.
    nearest: NearestHost | None
    #: The change that would let it move, as a clause.
    way_out: str | None
    #: True if a shutdown would lose something of it.
    keep_running: bool


class StayingInstance(TypedDict):
    """An instance that has no destination, and why."""

    uuid: str
    name: str
    reason: str


class BlockedHost(TypedDict):
    """A host that cannot be emptied, and why."""

    host: str
    reason: str


class DrainPlan(TypedDict):
    """Destinations for all instances of one host or several that can move."""

    #: The hosts that are emptied, in one text and one by one.
    host: str
    hosts: list[str]
    #: ok: each instance moves or is shut down; infeasible: proven, see ``proof``; partial: some
    #: cannot move.
    status: Literal["ok", "infeasible", "partial"]
    #: The method that found the destinations, as a phrase.
    method: str
    #: The moves in the order of their starts.
    moves: list[DrainMove]
    #: The number of moves of other hosts' instances.
    extra_moves: int
    #: Instances that are shut down instead of moved, in the order of the shutdowns.
    shutdowns: list[InstanceSummary]
    unmovable: list[UnmovableInstance]
    #: The reason why there is no plan, if that is proven.
    proof: str | None
    #: A change that may still lead to a plan, such as a missing package.
    hint: str | None
    #: The number of waves of the moves.
    waves: int
    #: Expected duration of all waves.
    seconds: float
    #: The duration as text for people, with the rates and the unknown facts. From the conductor, as
    #: ``lines``.
    estimate: NotRequired[list[str]]
    #: Hosts with open moves of an earlier run that make room for these. From the conductor, as
    #: ``lines``.
    unsettled: NotRequired[list[str]]
    #: The hosts that are down, and why. From the conductor.
    down: NotRequired[list[BlockedHost]]
    #: The plan for people.
    lines: NotRequired[list[str]]


class RollingPlan(TypedDict):
    """Batches of hosts that can be down together."""

    batches: list[list[str]]
    blocked: list[BlockedHost]
    #: No plan has fewer batches than this.
    bound: int
    #: The hosts of batches that are down, and why; from the conductor, as ``lines``.
    down: NotRequired[list[BlockedHost]]
    #: The plan for people; from the conductor.
    lines: NotRequired[list[str]]


class RebalancePlan(TypedDict):
    """Moves that even out the load."""

    #: The scores of the fleet before and after the moves; 0 is even.
    score_before: float
    score_after: float
    moves: list[RebalanceMove]
    waves: int
    seconds: float
    #: See DrainPlan.
    estimate: NotRequired[list[str]]
    #: The reason why there are no further moves.
    reason: str
    #: Names of instances that moved too recently. From the lookup, as ``lines``.
    cooling: NotRequired[list[str]]
    lines: NotRequired[list[str]]


class HomePlan(TypedDict):
    """Moves that bring instances back to their compute nodes."""

    moves: list[PlannedMove]
    waves: int
    seconds: float
    #: See DrainPlan.
    estimate: NotRequired[list[str]]
    staying: list[StayingInstance]
    #: The plan for people; from the conductor.
    lines: NotRequired[list[str]]


class Restart(TypedDict):
    """The start of a dead host's instance at its destination."""

    uuid: str
    name: str
    #: The destination and the uuid of its resource provider, None if its compute node is gone.
    host: str
    provider: str | None
    #: Missing for one that an earlier run claimed.
    node: NotRequired[str]
    #: Uuid of the migration; None if nothing is claimed.
    migration: str | None


class FoundInstance(TypedDict):
    """An instance of a dead host that another host already has."""

    uuid: str
    name: str
    host: str
    state: str


class EvacuationPlan(TypedDict):
    """The result for each instance of a dead host, the highest priority first."""

    restarts: list[Restart]
    found: list[FoundInstance]
    #: Instances that are left alone or have no destination.
    left: list[StayingInstance]
    #: Instances that the dead host alone has.
    lost: list[StayingInstance]


class HostCapacity(TypedDict):
    """The number of further instances of one size that fit on a compute node."""

    host: str
    node: str
    count: int
    #: The resource class that runs out first; None if the node may not take the instance.
    short: str | None
    #: The host filter, pre-filter or limit of the request that rejects the node first, with the
    #: reason; None if none does, or the reason is not known.
    rejected_by: str | None
    reason: str | None


class HostLoss(TypedDict):
    """The number of further instances of one size that fit without the host that costs most if it
    is lost.
    """

    total: int
    host: str
    #: True if all its instances fit on the other hosts; else ``total`` is 0.
    survives: bool


class CapacityPlan(TypedDict):
    """The number of further instances of one size that fit."""

    hosts: list[HostCapacity]
    total: int
    #: The resource class that runs out first on most nodes; None if none may take the instance.
    short: str | None
    #: None if the loss of a host was not requested, or the fleet is empty.
    with_loss: HostLoss | None
