# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that empties living hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from .._common.errors import PlanError, natural
from .._common.resource_classes import POOL_PREFIX, pool_of
from .._common.validation import check_keys, check_whole, unknown_host
from .._records.claims import Allocations
from .._records.hosts import FleetColumns
from .._records.instances import PlannedInstance
from .._records.plans import DrainMove, DrainPlan, Exclusions, MoveLimits, UnmovableInstance
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from . import greedy
from .destinations import NEEDED_FILTERS, CandidateBuilder, may_step_aside
from .drain_solver import DrainSolver, Solution, undo_all
from .migration_candidates import MigrationCandidate, Unit
from .movability import is_live, is_to_shut_down, why_unmovable
from .move_order import plan_waves
from .move_times import Rates, expect
from .unmovable import Explainer, summary, unmovable_instance

LIMITS = ("per_source", "per_destination", "total", "bandwidth_mib")


def plan_drain(
    fleet: FleetColumns,
    instances: Sequence[PlannedInstance],
    host: str | Sequence[str],
    policy: Policy,
    limits: MoveLimits | None = None,
    excluded: Exclusions | None = None,
    others: Sequence[PlannedInstance] | None = None,
    extra_moves: int = 0,
    solver_seconds: float = 0,
    closed: Collection[str] = (),
) -> DrainPlan:
    """Plan a destination for each instance of one or several hosts that can move, and give a reason
    for each that cannot.

    All instances are placed as one problem. The first method chooses destinations with the
    scheduler's host filters and weighers, the largest instance first. If an instance has no
    destination then, several orders and fits follow; then up to ``extra_moves`` moves of other
    hosts' instances; then an exact model, if highspy is installed. The same input gives the same
    plan, unless the time limit of the exact model is reached.

    - The hosts themselves, ``closed`` ones, other cells (N9.2) and hosts that are disabled or down
      are never destinations.
    - An instance counts at its source as long as it may be there.
    - Members of an anti-affinity group are never together, not even for a moment.
    - Members of an affinity group go to one host, one after the other. If one of them cannot move,
      they all stay. Affinity groups of other hosts never make room.
    - An instance that cannot move does not keep the others from moving.

    :param fleet: all compute nodes; with traits where instances have required_traits.
    :param instances: the instances of the hosts to empty.
    :param host: the host to empty, with all its compute nodes; or several.
    :param others: the instances of all other hosts; without them there are no extra moves and no
        proofs.
    :param extra_moves: the maximum of moves of other hosts' instances.
    :param solver_seconds: time limit of the exact model.
    :param closed: hosts that are left alone: no instance goes to them or leaves them.
    :raises PlanError: the store does not know the host, or a limit is not a number >= 1.
    """
    bandwidth = _bandwidth(limits)
    states = HostStates(fleet)
    names = [host] if isinstance(host, str) else sorted(set(host), key=natural)
    sources = _sources(states, names)
    policy = policy.requiring(NEEDED_FILTERS)
    builder = CandidateBuilder(
        states, [*sources, *(row for row in range(states.size) if states.host[row] in closed)]
    )
    excluded = excluded or {}
    by_uuid = {each["uuid"]: each for each in [*instances, *(others or ())]}
    unmovable: list[UnmovableInstance] = []
    shutdowns, candidates = [], []
    for instance in sorted(instances, key=lambda each: (each["name"], each["uuid"])):
        if is_to_shut_down(instance):
            shutdowns.append(instance)
            continue
        reason = why_unmovable(instance)
        if reason is None:
            candidates.append(
                builder.candidate(instance, sources, excluded.get(instance["uuid"], ()))
            )
        else:
            unmovable.append(unmovable_instance(instance, reason))
    units = _units(states, candidates, by_uuid, unmovable)

    def find_others() -> list[MigrationCandidate]:
        found = may_step_aside(states, others, [*names, *closed])
        return [builder.candidate(each, None, excluded.get(each["uuid"], ())) for each in found]

    solver = DrainSolver(states, policy, units, find_others, others is not None)
    solution = solver.solve(extra_moves, solver_seconds)
    unmovable += Explainer(solver, solution, excluded, by_uuid).explain()
    unmovable.sort(key=lambda each: (each["name"], each["uuid"]))
    shutdowns.sort(key=lambda each: (_priority(each), each["name"], each["uuid"]))
    moves = _moves(states, solution, by_uuid, bandwidth, names)
    waves = plan_waves(moves, fleet, limits)
    # A proof concerns capacity alone, while the excluded destinations may have it.
    proof = _proof(solution) if solution.stuck and not excluded else None
    return {
        "host": ", ".join(names),
        "hosts": names,
        "status": "infeasible" if proof else "partial" if unmovable else "ok",
        "method": solution.method,
        "moves": moves,
        "extra_moves": len(solution.steps),
        "shutdowns": [summary(each) for each in shutdowns],
        "unmovable": unmovable,
        "proof": proof,
        "hint": None if proof else solution.hint,
        "waves": waves,
        "seconds": expect(moves, Rates(), {}),
    }


def _bandwidth(limits: MoveLimits | None) -> float | None:
    """Check the limits; return the bandwidth limit in MiB per second."""
    limits = limits or {}
    check_keys("A drain", limits, LIMITS, "limit", PlanError)
    for key, value in limits.items():
        if value is not None:
            check_whole(f"The limit '{key}' of a drain", value, least=1, refuse=PlanError)
    return limits.get("bandwidth_mib")


def _sources(states: HostStates, names: Sequence[str]) -> list[int]:
    rows = [index for index in range(states.size) if states.host[index] in names]
    missing = sorted(set(names) - {states.host[index] for index in rows})
    if missing or not rows:
        raise unknown_host((missing or ["none"])[0], states.host)
    return rows


def _priority(instance: PlannedInstance) -> int:
    return int(instance.get("priority") or 0)


def _units(
    states: HostStates,
    candidates: Iterable[MigrationCandidate],
    known: Mapping[str, PlannedInstance],
    unmovable: list[UnmovableInstance],
) -> list[Unit]:
    """Group the candidates that go together; candidates of an affinity group with an unmovable
    member become unmovable.
    """
    stuck_members: dict[str, str] = {}
    for stuck_instance in unmovable:
        name = known[stuck_instance["uuid"]].get("server_group")
        if name:
            stuck_members.setdefault(name, stuck_instance["name"])
    units: list[Unit] = []
    together: dict[str, list[MigrationCandidate]] = {}
    for candidate in candidates:
        request = candidate.spec.server_group
        if request is None or not greedy.is_affinity(states, candidate):
            units.append(Unit((candidate,)))
        elif request.name in stuck_members:
            reason = (
                f"its server group {request.name} (affinity) stays together, and"
                f" {stuck_members[request.name]} cannot move"
            )
            unmovable.append(unmovable_instance(known[candidate.spec.key], reason))
        else:
            together.setdefault(request.name, []).append(candidate)
    return units + [Unit(tuple(members)) for members in together.values()]


def _proof(solution: Solution) -> str | None:
    if solution.impossible:
        names = ", ".join(unit.name for unit in solution.impossible)
        return (
            f"no host that {names} may go to could hold it, even if all that can move had left it"
        )
    return solution.certificate


def _moves(
    states: HostStates,
    solution: Solution,
    known: Mapping[str, PlannedInstance],
    bandwidth: float | None,
    names: Sequence[str],
) -> list[DrainMove]:
    """Return the moves of a solution: first the moves that make room, then the moves off the hosts
    by priority.
    """
    taken = _chosen_allocations(states, solution)
    extra = {candidate.spec.key for candidate, _row in solution.steps}
    leaving = sorted(solution.places, key=lambda place: -_priority(known[place[0].spec.key]))
    moves: list[DrainMove] = []
    for candidate, row in [*solution.steps, *leaving]:
        uuid = candidate.spec.key
        move = _make_move(states, candidate, row, known[uuid], bandwidth)
        move["extra"] = uuid in extra
        move["for_hosts"] = list(names) if uuid in extra else []
        if uuid in taken:
            move["allocations"] = taken[uuid]
        moves.append(move)
    return moves


def _chosen_allocations(states: HostStates, solution: Solution) -> dict[str, Allocations]:
    """Return the allocations at the destinations, by uuid, of instances with a node that can choose
    between providers.
    """
    if not states.choosing:
        return {}
    done = solution.carry_out(states)
    moves = [*solution.steps, *solution.places]
    taken = {
        candidate.spec.key: states.holding(row, candidate.spec)
        for candidate, row in moves
        if states.choosing.intersection(candidate.spec.resources)
    }
    undo_all(done)
    return taken


def _make_move(
    states: HostStates,
    candidate: MigrationCandidate,
    index: int,
    instance: PlannedInstance,
    bandwidth: float | None,
) -> DrainMove:
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "state": instance["state"],
        "live": is_live(instance),
        "from_host": states.host[candidate.source],
        "from_node": states.node[candidate.source],
        "host": states.host[index],
        "node": states.node[index],
        "provider": states.uuid[index],
        "vcpus": int(instance.get("vcpus") or 0),
        "memory_mb": int(instance.get("memory_mb") or 0),
        "disk_gb": int(instance.get("disk_gb") or 0),
        "server_group": instance.get("server_group"),
        "extra": False,
        "bandwidth_mib": (instance.get("migration") or {}).get("bandwidth_mib") or bandwidth,
        "dirty_mib": instance.get("dirty_mib"),
        "pool_disks": {
            pool_of(name): amount
            for name, amount in (instance.get("resources") or {}).items()
            if name.startswith(POOL_PREFIX) and amount
        },
    }
