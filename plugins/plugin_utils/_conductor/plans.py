# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of drains, rolling maintenance, rebalances and returns, from the present store."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import DroverError
from .._common.validation import shown
from .._migrations import limits as migration_limits
from .._migrations.policy import MOST_PRIORITY
from .._planner import move_times
from .._planner.drain import plan_drain
from .._planner.movability import why_unmovable
from .._planner.rebalance import plan_rebalance
from .._planner.return_home import plan_return
from .._planner.rolling import plan_rolling
from .._records.hosts import FleetColumns
from .._records.instances import Binding, PlannedInstance
from .._records.orders import MigrationLimits
from .._records.outcomes import PrecheckReport
from .._records.plans import (
    BlockedHost,
    DiskMove,
    DrainMove,
    DrainPlan,
    Exclusions,
    HomePlan,
    LocalDisks,
    MoveLimits,
    PlannedMove,
    RebalancePlan,
    RollingPlan,
)
from .._report.plans import drain_lines, estimate_lines, home_lines, rebalance_lines, rolling_lines
from .._scheduler.policy import Policy
from .._store.database import bulk, clock
from .._store.engine import Connection
from .._store.hosts import addresses, continuity, services
from .._store.instances import local_disks, measured_moves
from .._store.instances.instances_for_plans import moved_since, read_instances
from .._store.instances.migrations_open import left_open_for, note_open_resizes
from .own_machines import OwnMachines
from .scheduling import read_fleet, read_whole_fleet


def live_and_last(
    instances: list[PlannedInstance], own: Mapping[str, str]
) -> list[PlannedInstance]:
    """Return the instances of a plan.

    The run's own machines move live and last, whatever their policy.
    """
    for each in instances:
        if each["uuid"] in own:
            each["move_policy"], each["move_policy_error"], each["priority"] = (
                "live",
                None,
                -MOST_PRIORITY - 1,
            )
    return instances


def own_line(instance: PlannedInstance, own: Mapping[str, str]) -> str:
    """Return a line that names an instance of a plan which the run itself needs."""
    return (
        f"{instance['name']} is {own[instance['uuid']]}: it is moved live and last, and never"
        " stopped."
    )


@dataclasses.dataclass(frozen=True)
class DrainQuestion:
    """The settings of the plan of a drain.

    - bandwidth_mib: the bandwidth of a migration in MiB/s, or None.
    - extra_moves: the most moves of instances of other hosts.
    - solver_seconds: the time for the exact model.
    - service_down_time: seconds.
    - own: the instances that the run itself needs, see own_machines.OwnMachines.guests().
    """

    policy: Policy
    limits: MigrationLimits
    bandwidth_mib: float | None = None
    extra_moves: int = 0
    solver_seconds: float = 0
    service_down_time: int = 0
    own: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_options(cls, policy: Policy, options: Mapping[str, Any]) -> DrainQuestion:
        """Return the settings from the options of the module plan_drain_info or drain.

        :raises DroverError: a number is below its minimum.
        """
        for name in ("extra_moves", "solver_seconds"):
            if options[name] < 0:
                raise DroverError(f"{name} must be 0 or more.")
        return cls(
            policy,
            migration_limits.of_options(options),
            (options["migration"] or {}).get("bandwidth_mib"),
            options["extra_moves"],
            options["solver_seconds"],
            options["service_down_time"],
        )

    @bulk.without_collection()
    def plan(
        self,
        connection: Connection,
        hosts: Sequence[str],
        excluded: Mapping[str, Mapping[str, str]] | None = None,
        unreached: Mapping[str, Mapping[str, str]] | None = None,
        closed: Collection[str] = (),
        inventory: Collection[str] = (),
        held: Mapping[str, list[Binding]] | None = None,
    ) -> DrainPlan:
        """Plan how to empty hosts, all in one plan.

        :param excluded: dict uuid of an instance -> {provider that it must not go to: the reason}.
        :param unreached: dict host -> {provider: the reason}: no instance of this host can go
            there.
        :param closed: hosts that the plan leaves alone: no instance goes there or leaves them.
        :param inventory: the hosts of the inventory. In a new store, a host that was never read
            counts as unread.
        :param held: dict uuid of an instance -> the bindings that its host has found.
        :raises PlanError: an unknown host.
        """
        drained: list[PlannedInstance] = live_and_last(read_instances(connection, hosts), self.own)
        note_open_resizes(connection, drained)
        unread = continuity.why_it_may_run_elsewhere(connection, inventory)
        if unread is not None:
            for instance in drained:
                instance["may_run_elsewhere"] = unread
        others: list[PlannedInstance] | None = None
        excluded, unreached = dict(excluded or {}), unreached or {}
        without = addresses.nodes_without(
            connection, {each["uuid"]: _addresses(each) for each in drained}
        )
        for instance in drained:
            instance["bindings"] = [
                *(instance["bindings"] or ()),
                *(held or {}).get(instance["uuid"], ()),
            ]
            if instance["uuid"] in without:
                excluded[instance["uuid"]] = {
                    **without[instance["uuid"]],
                    **excluded.get(instance["uuid"], {}),
                }
            if instance["host"] in unreached:
                excluded[instance["uuid"]] = {
                    **unreached[instance["host"]],
                    **excluded.get(instance["uuid"], {}),
                }
        plan, columns = self._plan(connection, drained, None, hosts, excluded, closed)
        unplaced = {each["uuid"] for each in plan["unmovable"]}
        if any(each["uuid"] in unplaced and why_unmovable(each) is None for each in drained):
            # Read the others only now. They are needed to make room, or to prove that no room can
            # be made.
            others = live_and_last(
                read_instances(connection, _concerned(columns, hosts), but=hosts), self.own
            )
            note_open_resizes(connection, others)
            plan, _columns = self._plan(connection, drained, others, hosts, excluded, closed)
        estimate(connection, plan, drained + (others or []), _by_source(plan["moves"]))
        for stays in plan["unmovable"]:
            if stays["uuid"] in self.own:
                stays["keep_running"] = True
        lines = [
            *drain_lines(plan),
            *(own_line(each, self.own) for each in drained if each["uuid"] in self.own),
        ]
        return {**plan, "lines": lines, "unsettled": left_open_for(connection, hosts)}

    def _plan(
        self,
        connection: Connection,
        there: list[PlannedInstance],
        others: list[PlannedInstance] | None,
        hosts: Sequence[str],
        excluded: Exclusions,
        closed: Collection[str],
    ) -> tuple[DrainPlan, FleetColumns]:
        columns = read_fleet(
            connection,
            there + (others or []),
            self.policy,
            clock.now(connection),
            self.service_down_time,
        )
        limits: MoveLimits = {
            "per_source": self.limits.per_source,
            "per_destination": self.limits.per_destination,
            "total": self.limits.overall,
            "bandwidth_mib": self.bandwidth_mib,
        }
        plan = plan_drain(
            columns,
            there,
            hosts,
            self.policy,
            limits,
            excluded,
            others=others,
            extra_moves=self.extra_moves,
            solver_seconds=self.solver_seconds,
            closed=closed,
        )
        return {**plan, "down": _hosts_down(columns, plan["hosts"])}, columns


@dataclasses.dataclass(frozen=True)
class RollingQuestion:
    """The settings of the batches of a rolling maintenance.

    - spare_hosts: the number of further hosts that may be lost during the maintenance.
    - batch_size: most hosts in a batch, 0 for no limit.
    - back: True if instances return before the next batch.
    - unmovable: "fail", or "shutdown" to shut down instances that cannot move.
    - service_down_time: seconds.
    """

    policy: Policy
    spare_hosts: int = 0
    batch_size: int = 0
    back: bool = True
    unmovable: str = "fail"
    service_down_time: int = 0

    def __post_init__(self) -> None:
        for name in ("spare_hosts", "batch_size"):
            if getattr(self, name) < 0:
                raise DroverError(f"{name} must be 0 or more, not {getattr(self, name)}.")

    def plan(
        self, connection: Connection, hosts: Sequence[str] | None, empty: Collection[str] = ()
    ) -> RollingPlan:
        """Form batches of hosts.

        :param hosts: None for all hosts of the store.
        :param empty: hosts that count as empty, even if the store has instances there.
        :raises PlanError: an unknown host.
        """
        columns, instances = read_whole_fleet(
            connection, self.policy, clock.now(connection), self.service_down_time
        )
        instances = [each for each in instances if each["host"] not in empty]
        if self.unmovable == "shutdown":
            instances = [each for each in instances if why_unmovable(each) is None]
        plan: RollingPlan = plan_rolling(
            columns,
            instances,
            self.policy,
            hosts,
            self.spare_hosts,
            self.batch_size or None,
            self.back,
        )
        plan["down"] = _hosts_down(columns, [host for batch in plan["batches"] for host in batch])
        return {**plan, "lines": rolling_lines(plan)}


def naming_own(plan: RollingPlan, own: OwnMachines) -> RollingPlan:
    """Add the machines that this run itself needs to the lines of a plan with batches."""
    return {**plan, "lines": [*plan["lines"], *own.sentences()]} if plan["batches"] else plan


@dataclasses.dataclass(frozen=True)
class RebalanceQuestion:
    """The settings of the plan of a rebalance.

    - max_moves: the most moves.
    - threshold, margin, cost_per_gib, weights: see plan_rebalance().
    - cooldown: seconds that an instance stays after a move.
    - despite_maintenance: True if the others may move while a host is drained.
    - max_migrations: most migrations at a time from and to one host.
    - service_down_time: seconds.
    - own: see DrainQuestion.
    """

    policy: Policy
    max_moves: int = 10
    threshold: float = 0.01
    margin: float = 0.005
    cost_per_gib: float = 0.0
    cooldown: int = 3600
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    despite_maintenance: bool = False
    max_migrations: int = 2
    service_down_time: int = 0
    own: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("max_migrations", 1), ("cooldown", 0)):
            if getattr(self, name) < least:
                raise DroverError(f"{name} must be {least} or more, not {getattr(self, name)}.")

    def plan(self, connection: Connection) -> RebalancePlan:
        """Plan the moves that even out the load."""
        now = clock.now(connection)
        columns, instances = read_whole_fleet(connection, self.policy, now, self.service_down_time)
        instances = live_and_last(instances, self.own)
        moved = moved_since(connection, now - self.cooldown)
        drained = [] if self.despite_maintenance else services.drained_hosts(connection)
        plan: RebalancePlan = plan_rebalance(
            columns,
            [each for each in instances if each["uuid"] not in moved],
            self.policy,
            0 if drained else self.max_moves,
            self.threshold,
            self.margin,
            self.cost_per_gib,
            {"per_source": self.max_migrations, "per_destination": self.max_migrations},
            self.weights,
        )
        if drained:
            plan["reason"] = (
                f"{', '.join(drained)} is drained, and nothing moves until it is back;"
                " drover_rebalance_despite_maintenance lifts this rule"
            )
        plan["cooling"] = sorted(each["name"] for each in instances if each["uuid"] in moved)
        estimate(connection, plan, instances)
        plan["lines"] = rebalance_lines(plan)
        return plan


def _addresses(instance: PlannedInstance) -> dict[str, str]:
    """Return the host addresses that an instance uses: {address: its use, and the way out}."""
    return {
        each["address"]: f"{each['what']}: {each['way_out']}"
        for each in instance["bindings"] or ()
        if each["address"] and each["move"] == "looked_up"
    }


def homes_of(instances: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """Return the homes for plan_home() from mappings with uuid, host and node.

    :raises DroverError: an element is not such a mapping.
    """
    homes = {}
    for home in instances:
        if not isinstance(home, dict) or not all(
            isinstance(home.get(key), str) for key in ("uuid", "host", "node")
        ):
            raise DroverError(
                "The earlier compute node of an instance is a mapping with uuid, host and node,"
                f" not {shown(home)}."
            )
        homes[home["uuid"]] = (home["host"], home["node"])
    return homes


def plan_home(
    connection: Connection,
    homes: Mapping[str, tuple[str, str]],
    policy: Policy,
    max_migrations: int | None,
    service_down_time: int,
    own: Mapping[str, str],
) -> HomePlan:
    """Plan the moves that bring instances back to their compute nodes.

    :param homes: {instance uuid: (host, node)}.
    :param max_migrations: most migrations at a time from and to one host; None for no limit.
    :param service_down_time: seconds.
    :param own: see DrainQuestion.
    """
    columns, instances = read_whole_fleet(
        connection, policy, clock.now(connection), service_down_time
    )
    instances = live_and_last(instances, own)
    plan: HomePlan = plan_return(
        columns,
        instances,
        policy,
        homes,
        {"per_source": max_migrations, "per_destination": max_migrations},
    )
    estimate(connection, plan, instances)
    return {**plan, "lines": home_lines(plan)}


def _concerned(columns: FleetColumns, hosts: Iterable[str]) -> set[str] | None:
    """Return the hosts with instances that can make room for the instances of some hosts.

    They are the hosts of the same cells, because no instance leaves its cell.

    :returns: None for all hosts if nodes share a provider, because it may serve several cells.
    """
    if any(column.get("providers") is not None for column in columns["resources"].values()):
        return None
    drained = set(hosts)
    cells = {cell for host, cell in zip(columns["host"], columns["cell"]) if host in drained}
    return {host for host, cell in zip(columns["host"], columns["cell"]) if cell in cells}


def _hosts_down(columns: FleetColumns, hosts: Iterable[str]) -> list[BlockedHost]:
    """Return the hosts that are down, in their order, with the reasons."""
    reasons = {
        host: reason
        for host, reason in zip(columns["host"], columns["down_reason"])
        if reason is not None
    }
    return [{"host": host, "reason": reasons[host]} for host in hosts if host in reasons]


def estimate(
    connection: Connection,
    plan: DrainPlan | RebalancePlan | HomePlan,
    instances: Iterable[PlannedInstance],
    parts: Sequence[Sequence[PlannedMove]] | None = None,
) -> None:
    """Estimate the duration of a plan, in place, from the records of disks and earlier moves.

    :param instances: the instances that move, and any others.
    :param parts: the moves in parts that run one after the other; None for one part.
    """
    moving = {move["uuid"] for move in plan["moves"]}
    disks = local_disks.read(connection, [each for each in instances if each["uuid"] in moving])
    _expect(connection, plan, disks, parts or [plan["moves"]])


def count_disks(connection: Connection, plan: DrainPlan, reports: Sequence[PrecheckReport]) -> None:
    """Count the disks that hypervisors have seen, in the moves, seconds and lines of a plan."""
    disks_by_uuid = {
        move["uuid"]: LocalDisks(
            move["copies_disk_mib"], tuple(move["unknown"]), tuple(move["disks"])
        )
        for move in plan["moves"]
    }
    for report in reports:
        if report["copies_disk_mib"] is not None:
            disks = [
                _disk_with_facts(disk, report["copied_disks"])
                for disk in disks_by_uuid[report["uuid"]].disks
            ]
            disks_by_uuid[report["uuid"]] = LocalDisks(report["copies_disk_mib"], (), tuple(disks))
    _expect(connection, plan, disks_by_uuid, _by_source(plan["moves"]))
    plan["lines"] = drain_lines(plan)


def _disk_with_facts(disk: DiskMove, copied: Mapping[str, int]) -> DiskMove:
    """Return the move of a disk with the facts that its hypervisor has seen."""
    mib = copied.get(disk["target"] or "")
    return {**disk, "how": "shared" if mib is None else "copied", "mib": mib or 0}


def _by_source(moves: Sequence[DrainMove]) -> list[list[DrainMove]]:
    """Return moves in the order of StagedMoves: all moves of one host before the next."""
    return [
        [move for move in moves if move["from_host"] == source]
        for source in dict.fromkeys(move["from_host"] for move in moves)
    ]


def _expect(
    connection: Connection,
    plan: DrainPlan | RebalancePlan | HomePlan,
    disks: Mapping[str, LocalDisks],
    parts: Sequence[Sequence[PlannedMove]],
) -> None:
    rates = move_times.Rates(measured_moves.read(connection))
    plan["seconds"] = round(sum(move_times.expect(part, rates, disks) for part in parts), 1)
    plan["estimate"] = estimate_lines(plan)
