# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the simple to the dear: the ways to place all that leaves a host, tried one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.drover.compute.plugins.plugin_utils.planner import greedy, infeasibility, milp, packing, relocation_search
from ansible_collections.drover.compute.plugins.plugin_utils.planner import migration_candidates as ordering
from ansible_collections.drover.compute.plugins.plugin_utils.planner.migration_candidates import Unit
from ansible_collections.drover.compute.plugins.plugin_utils.planner.packing_state import PackingState
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.filtering import ask_filter

#: The method of a plan that is what the scheduler would choose.
AS_WEIGHED = "as the policy weighs"
#: How often a host filter that the board does not keep may say no to a plan before it is given up.
OBJECTIONS = 25


@dataclass
class Solution:
    """Where everything goes.

    steps: [(MigrationCandidate, row of the destination)] of other hosts' instances, in the order of the moves;
    places: [(MigrationCandidate, row)] of what is to leave; stuck: [Unit]; method: words;
    certificate: None, or words that prove that stuck can not become empty by any moves allowed;
    hint: None, or a sentence on what may still find a plan where neither a plan nor a proof was found.
    """

    places: list = field(default_factory=list)
    stuck: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    method: str = ""
    certificate: str | None = None
    impossible: list = field(default_factory=list)
    hint: str | None = None


class DrainSolver:
    """The search for one drain.

    :param states: HostStates.
    :param units: [Unit] to be placed.
    :param others: gives [MigrationCandidate], those that may step aside; asked when it comes to that.
    :param complete: True when these are really all that may, so that a proof may count on it.
    """

    def __init__(self, states, policy, units, others, complete):
        self.states, self.policy = states, policy
        self.units = sorted(units, key=ordering.by_memory)
        self.complete = complete
        self._find_others = others
        self._packing_state = None

    @property
    def packing_state(self):
        """The PackingState with all items; made when it is first needed."""
        if self._packing_state is None:
            self._packing_state = PackingState(self.states, self.policy)
            self.items = self._packing_state.add([unit.candidates for unit in self.units])
            self.others = self._packing_state.add([(candidate,) for candidate in self._find_others()])
        return self._packing_state

    def solve(self, extra_moves, solver_seconds):
        """A Solution: everything placed, or else the most that was found and what is known about the rest."""
        weighed = greedy.weighed_attempt(self.states, self.units, self.policy)
        first = Solution(weighed.places, weighed.stuck, method=AS_WEIGHED)
        if not first.stuck:
            return first
        best = self._checked(self._packed)
        if len(_members(best.stuck)) >= len(_members(first.stuck)):
            best = first
        if not best.stuck:
            return best
        sure = self.complete and not self.packing_state.bent
        impossible = [item for item in self.items if sure and infeasibility.fits_nowhere(self.packing_state, item, self.others)]
        certificate = infeasibility.counting(self.packing_state, self.items, self.others) if sure else None
        hopeless = certificate is not None or infeasibility.counting(self.packing_state, self.items, []) is not None
        if not hopeless and all(self.packing_state.fits(item).any() for item in self.items):
            # No proof that it cannot be done without the others: those already placed change places.
            found = self._checked(lambda: relocation_search.make_room(self.packing_state, self.items, [], 0))
            if len(_members(found.stuck)) < len(_members(best.stuck)):
                best = found
            if not best.stuck:
                return best
        if extra_moves and not impossible and certificate is None:
            found = self._checked(lambda: relocation_search.make_room(self.packing_state, self.items, self.others, extra_moves))
            if len(_members(found.stuck)) < len(_members(best.stuck)):
                best = found
            if best.stuck:
                best = self._exactly(best, sure, extra_moves, solver_seconds)
        best.impossible = [self._unit(item) for item in impossible]
        if certificate is not None and best.stuck:
            best.certificate = infeasibility.count_text(certificate)
        return best

    def _exactly(self, best, sure, extra_moves, solver_seconds):
        """What the exact model gives, where it gives more than the best so far."""
        if not (solver_seconds and milp.AVAILABLE):
            best.hint = milp.NEEDS_TIME if milp.AVAILABLE else milp.NOT_INSTALLED
            return best
        status, answer = milp.solve(self.packing_state, self.items, self.others, extra_moves, solver_seconds)
        if status == "infeasible" and sure and not self.packing_state.bent:
            best.certificate = "the exact model has no solution, whichever of the other instances move"
        elif answer is not None:
            found = self._checked(lambda: answer, run_filter_once_per_request=True)
            if len(_members(found.stuck)) < len(_members(best.stuck)):
                return found
        else:
            best.hint = milp.UNDECIDED
        return best

    def _packed(self):
        placed, stuck, method = packing.pack(self.packing_state, self.items)
        return placed, stuck, [], method

    def _checked(self, search, run_filter_once_per_request=False):
        """What a search gives, once every host filter agrees to it."""
        for _again in range(1 if run_filter_once_per_request else OBJECTIONS):
            placed, stuck, steps, method = search()
            refused = self._objection(placed, steps) if self.packing_state.changing or self.states.choosing else None
            if refused is None:
                return self._solution(placed, stuck, steps, method)
            self.packing_state.forbid(*refused)
        return Solution([], list(self.units), method="nothing that the host filters agree to")

    def _objection(self, placed, steps):
        """(item, row) of the first move that a host filter, or the room on providers, refuses when its turn comes, or None."""
        states, done, refused = self.states, [], None
        moves = [(item, to) for item, _origin, to in steps] + self._in_turn(placed)
        origin = {item: source for item, source, _to in steps}
        for item, row in moves:
            for candidate in self.packing_state.candidates[item]:
                filters = [each for each in self.policy.filters if each.name in self.packing_state.changing]
                fits = states.fits_at(row, candidate.spec, sorted(states.choosing.intersection(candidate.spec.resources)))
                if not fits or not all(
                    ask_filter(each, states, candidate.spec)[row] for each in filters if not each.not_applicable(candidate.spec)
                ):
                    refused = (item, row)
                    break
                states.consume(row, candidate.spec)
                done.append((states.release, row, candidate.spec))
                if item in origin:
                    states.release(origin[item], candidate.spec)
                    done.append((states.consume, origin[item], candidate.spec))
            if refused:
                break
        for undo, row, spec in reversed(done):
            undo(row, spec)
        return refused

    def _in_turn(self, placed):
        """[(item, row)] in the order of the moves: where nodes choose between providers each item finds room in the order of placing."""
        return list(placed.items()) if self.states.choosing else sorted(placed.items())

    def _solution(self, placed, stuck, steps, method):
        packing_state = self.packing_state
        order = {item: number for number, item in enumerate(self.items)}
        places = [(candidate, row) for item, row in self._in_turn(placed) for candidate in packing_state.candidates[item]]
        return Solution(
            places,
            [self._unit(item) for item in sorted(stuck, key=order.__getitem__)],
            [(packing_state.candidates[item][0], to) for item, _origin, to in steps],
            method,
        )

    def _unit(self, item):
        return Unit(self.packing_state.candidates[item])

    def item_of(self, unit):
        """The number of a unit's item on the board."""
        packing_state = self.packing_state
        return next(item for item in self.items if packing_state.candidates[item][0] is unit.candidates[0])


def _members(units):
    return [candidate for unit in units for candidate in unit.candidates]
