# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons why instances have no destination in a drain, and the remedies."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from .._common.errors import natural, some
from .._records.instances import InstanceSummary, PlannedInstance
from .._records.plans import Exclusions, NearestHost, UnmovableInstance
from .._scheduler.explanation import explain_failure
from .._scheduler.filtering import filter_hosts
from . import greedy, infeasibility, packing, relocation_search
from .drain_solver import DrainSolver, Solution, undo_all
from .migration_candidates import MigrationCandidate, Unit
from .movability import why_keep_running

#: A remedy is searched for this number of units; for the others only the shortage is named.
WAYS_OUT = 8


def summary(instance: PlannedInstance) -> InstanceSummary:
    """Return the summary of an instance that a plan does not move."""
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "host": instance["host"],
        "state": instance["state"],
        "vcpus": int(instance.get("vcpus") or 0),
        "memory_mb": int(instance.get("memory_mb") or 0),
        "disk_gb": int(instance.get("disk_gb") or 0),
    }


def unmovable_instance(
    instance: PlannedInstance,
    reason: str,
    nearest: NearestHost | None = None,
    way_out: str | None = None,
) -> UnmovableInstance:
    return {
        **summary(instance),
        "reason": reason,
        "nearest": nearest,
        "way_out": way_out,
        "keep_running": why_keep_running(instance) is not None,
    }


class Explainer:
    """The explanation of the units of a solution without a destination.

    :param known: the instances of all candidates, by uuid.
    """

    def __init__(
        self,
        solver: DrainSolver,
        solution: Solution,
        excluded: Exclusions,
        known: Mapping[str, PlannedInstance],
    ) -> None:
        self._solver, self._solution, self._excluded, self._known = (
            solver,
            solution,
            excluded,
            known,
        )
        self._states, self._policy = solver.states, solver.policy

    def explain(self) -> list[UnmovableInstance]:
        """Return the instances without a destination."""
        return [
            each
            for number, unit in enumerate(self._solution.stuck)
            for each in self._of_unit(unit, number < WAYS_OUT)
        ]

    def _of_unit(self, unit: Unit, seek: bool) -> list[UnmovableInstance]:
        near: NearestHost | None = None
        way_out: str | None
        refused = next((each for each in unit.candidates if self._are_all_refused(each)), None)
        if refused is not None:
            culprit = refused
            cause = (
                "no host that has room takes it:"
                f" {self._refusals(self._excluded[refused.spec.key])}"
            )
            way_out = "correct what these hosts report, or shut the instance down"
        else:
            culprit = unit.largest
            cause = self._why_not(unit, culprit)
            near, way_out = self._way_out(unit, seek)
            given = self._excluded.get(culprit.spec.key)
            if given:
                cause += f"; {self._refusals(given)}"
                # The excluded hosts were not examined for room, so a larger host may not help.
                way_out = way_out if near is not None else None
        instances = []
        for candidate in unit.candidates:
            reason = cause
            if candidate is not culprit and candidate.spec.server_group is not None:
                reason = (
                    f"its server group {candidate.spec.server_group.name} (affinity) stays"
                    f" together, and {culprit.spec.name} cannot move"
                )
            instances.append(
                unmovable_instance(self._known[candidate.spec.key], reason, near, way_out)
            )
        return instances

    def _why_not(self, unit: Unit, candidate: MigrationCandidate) -> str:
        states, policy = self._states, self._policy
        leaving = greedy.leave(states, unit) if greedy.is_affinity(states, candidate) else []
        if not self._passes_filters(candidate):
            reason = (
                "fits on no other host:"
                f" {explain_failure(states, candidate.spec, policy, candidate.limits).why}"
            )
        else:
            done = self._solution.carry_out(states)
            if self._passes_filters(candidate):
                reason = "no host has room for it and the rest of its server group together"
            else:
                failure = explain_failure(states, candidate.spec, policy, candidate.limits)
                reason = f"fits on no other host once the others have their places: {failure.why}"
            undo_all(done)
        greedy.come_back(states, leaving)
        return reason

    def _passes_filters(self, candidate: MigrationCandidate) -> bool:
        return (
            len(filter_hosts(self._states, candidate.spec, self._policy, candidate.limits)[0]) > 0
        )

    def _are_all_refused(self, candidate: MigrationCandidate) -> bool:
        """Return True if a candidate fits on hosts, but on excluded ones only."""
        refusals = self._excluded.get(candidate.spec.key)
        if not refusals:
            return False
        states = self._states
        rows = filter_hosts(
            states, replace(candidate.spec, ignore_nodes=()), self._policy, candidate.limits
        )[0]
        return len(rows) > 0 and all(
            states.uuid[row] in refusals or states.node[row] in refusals for row in rows
        )

    def _refusals(self, given: Collection[str]) -> str:
        """Return the reason why nodes are excluded. Equal reasons appear once, also if they differ
        only in the name of the host.
        """
        states = self._states
        reasons = (
            given if isinstance(given, Mapping) else dict.fromkeys(given, "a move there failed")
        )
        # The keys are reasons without the name of the host. The values: the reason of the first
        # node, the nodes with exactly that reason, and the others.
        refused: dict[str, tuple[str, list[str], list[str]]] = {}
        labels = {
            provider: next(
                (states.label(row) for row in range(states.size) if states.uuid[row] == provider),
                provider,
            )
            for provider in reasons
        }
        # In one order, so that several instances have the same sentence.
        for provider, label in sorted(labels.items(), key=lambda pair: natural(pair[1])):
            reason = reasons[provider]
            text = reason.rstrip(". ")
            host = re.escape(label.partition("/")[0])
            first, same, others = refused.setdefault(
                re.sub(rf"(?<![\w.-]){host}(?![\w-])", "", text), (text, [], [])
            )
            (same if text == first else others).append(label)
        return "; ".join(
            f"{', '.join(sorted(same, key=natural))}: {first}"
            + (f"; the same for {some(sorted(others, key=natural))}" if others else "")
            for first, same, others in refused.values()
        )

    def _way_out(self, unit: Unit, seek: bool) -> tuple[NearestHost | None, str | None]:
        """Return the nearest host after all planned moves, and the cheapest remedy in words.

        :param seek: whether further moves of other instances are searched.
        """
        solver, solution, packing_state = self._solver, self._solution, self._solver.packing_state
        item = solver.item_of(unit)
        by_key = {
            candidates[0].spec.key: number
            for number, candidates in enumerate(packing_state.candidates)
        }
        steps = [
            (by_key[candidate.spec.key], candidate.source, row) for candidate, row in solution.steps
        ]
        for moved_item, _origin, row in steps:
            packing_state.move(moved_item, row)
        placed = {
            by_key[candidate.spec.key]: row
            for candidate, row in solution.places
            if candidate.spec.key in by_key
        }
        packing_state.put_all(placed)
        near = infeasibility.nearest(packing_state, item)
        way_out = None
        if item in [solver.item_of(each) for each in solution.impossible]:
            way_out = "a host that is large enough, or a smaller instance"
        elif seek and solver.others and not solution.certificate:
            moved = {each for each, _origin, _row in steps}
            search = relocation_search.Search(
                packing_state, [item], [each for each in solver.others if each not in moved], 8
            )
            search.run([item], packing.best_fit, False)
            if not search.stuck and search.steps:
                names = ", ".join(
                    f"{packing_state.label[each][0]} to {self._states.label(to)}"
                    for each, _origin, to in search.steps
                )
                count = len(search.steps)
                way_out = f"allow {count} more move{'' if count == 1 else 's'} of others ({names})"
            search.undo()
        if way_out is None and near is not None:
            way_out = (
                f"{infeasibility.nearest_text(near)}; free that there, or shut the instance down"
            )
        packing_state.take_all(placed)
        for moved_item, origin, _row in reversed(steps):
            packing_state.move(moved_item, origin)
        return near, way_out
