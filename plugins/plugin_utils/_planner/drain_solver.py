# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for the destinations of a drain: from cheap methods to expensive ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .._scheduler.filtering import ask_filter
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from . import greedy, infeasibility, milp, packing, relocation_search
from .migration_candidates import MigrationCandidate, Place, Unit, by_memory
from .packing_state import Found, PackingState, Placed, Step

#: The method of a plan with the destinations that the scheduler would choose.
AS_WEIGHED = "as the policy weighs"
#: The number of plans that a host filter which fits() does not check may reject before the search
#: ends.
OBJECTIONS = 25
#: The call that undoes a change of host states: (HostStates.consume or release, row, spec).
Undo = tuple[Callable[[int, RequestSpec], object], int, RequestSpec]


@dataclass
class Solution:
    """Destinations of the units that leave, and the units without one."""

    places: list[Place]
    stuck: list[Unit]
    #: Moves of other hosts' instances, in their order.
    steps: list[Place] = field(default_factory=list)
    #: The method that found it, in words.
    method: str = ""
    #: The proof that no allowed moves would place all units, in words.
    certificate: str | None = None
    #: Units that fit nowhere, even if all candidates for a move leave.
    impossible: list[Unit] = field(default_factory=list)
    #: A sentence about further ways to find a plan or a proof.
    hint: str | None = None

    @property
    def missing(self) -> int:
        """The number of candidates without a destination."""
        return sum(len(unit.candidates) for unit in self.stuck)

    def carry_out(self, states: HostStates) -> list[Undo]:
        """Apply the solution to the host states; return the calls that undo it."""
        done: list[Undo] = []
        for candidate, row in self.steps:
            states.consume(row, candidate.spec)
            states.release(candidate.source, candidate.spec)
            done += [
                (states.release, row, candidate.spec),
                (states.consume, candidate.source, candidate.spec),
            ]
        for candidate, row in self.places:
            states.consume(row, candidate.spec)
            done.append((states.release, row, candidate.spec))
        return done


class DrainSolver:
    """The search for one drain.

    :param units: to be placed.
    :param find_others: returns the candidates that may move to make room; it is called once, if the
        destinations by weight do not suffice.
    :param complete: whether the others are all instances that may move; only then proofs are
        possible.
    """

    def __init__(
        self,
        states: HostStates,
        policy: Policy,
        units: Iterable[Unit],
        find_others: Callable[[], Sequence[MigrationCandidate]],
        complete: bool,
    ) -> None:
        self.states, self.policy = states, policy
        self.units = sorted(units, key=by_memory)
        self.complete = complete
        self._find_others = find_others
        #: Items of the packing state: the units, and the candidates that may make room.
        self.items: list[int] = []
        self.others: list[int] = []

    @cached_property
    def packing_state(self) -> PackingState:
        """The PackingState with all items; made when it is first needed."""
        packing_state = PackingState(self.states, self.policy)
        self.items = packing_state.add([unit.candidates for unit in self.units])
        self.others = packing_state.add([(candidate,) for candidate in self._find_others()])
        return packing_state

    def solve(self, extra_moves: int, solver_seconds: float) -> Solution:
        """Place all units, or as many as any method can, with a proof or a hint about the rest.

        :param extra_moves: the maximum of moves of other hosts' instances.
        :param solver_seconds: time limit of the exact model; 0 to leave it out.
        """
        places, stuck = greedy.weighed_attempt(self.states, self.units, self.policy)
        first = Solution(places, stuck, method=AS_WEIGHED)
        if not first.stuck:
            return first
        best = _better(self._repeat_search(self._pack_instances), first)
        if not best.stuck:
            return best
        sure = self.complete and not self.packing_state.bent
        impossible = [
            item
            for item in self.items
            if sure and infeasibility.fits_nowhere(self.packing_state, item, self.others)
        ]
        shortage = (
            infeasibility.find_shortage(self.packing_state, self.items, self.others)
            if sure
            else None
        )
        hopeless = (
            shortage is not None
            or infeasibility.find_shortage(self.packing_state, self.items, []) is not None
        )
        if not hopeless and all(self.packing_state.fits(item).any() for item in self.items):
            # Moves of others may be unnecessary: items that are already placed change places.
            solution = self._repeat_search(
                lambda: relocation_search.make_room(self.packing_state, self.items, [], 0)
            )
            best = _better(solution, best)
            if not best.stuck:
                return best
        if extra_moves and not impossible and shortage is None:
            solution = self._repeat_search(
                lambda: relocation_search.make_room(
                    self.packing_state, self.items, self.others, extra_moves
                )
            )
            best = _better(solution, best)
            if best.stuck:
                best = self._exactly(best, sure, extra_moves, solver_seconds)
        best.impossible = [self._unit(item) for item in impossible]
        if shortage is not None and best.stuck:
            best.certificate = infeasibility.shortage_text(shortage)
        return best

    def _exactly(
        self, best: Solution, sure: bool, extra_moves: int, solver_seconds: float
    ) -> Solution:
        """Return the solution of the exact model, or the best so far with a proof or a hint."""
        if not (solver_seconds and milp.AVAILABLE):
            best.hint = milp.NEEDS_TIME if milp.AVAILABLE else milp.NOT_INSTALLED
            return best
        status, answer = milp.solve(
            self.packing_state, self.items, self.others, extra_moves, solver_seconds
        )
        if status == "infeasible" and sure and not self.packing_state.bent:
            best.certificate = (
                "the exact model has no solution, whichever of the other instances move"
            )
        elif answer is not None:
            return _better(self._repeat_search(lambda: answer, attempts=1), best)
        else:
            best.hint = milp.UNDECIDED
        return best

    def _pack_instances(self) -> Found:
        placed, stuck, method = packing.pack(self.packing_state, self.items)
        return placed, stuck, [], method

    def _repeat_search(self, search: Callable[[], Found], attempts: int = OBJECTIONS) -> Solution:
        """Repeat a search, each time without the destination that a host filter rejected, until all
        host filters pass.
        """
        for _again in range(attempts):
            placed, stuck, steps, method = search()
            refused = (
                self._objection(placed, steps)
                if self.packing_state.changing or self.states.choosing
                else None
            )
            if refused is None:
                return self._solution(placed, stuck, steps, method)
            self.packing_state.forbid(*refused)
        return Solution([], list(self.units), method="nothing that the host filters agree to")

    def _objection(self, placed: Placed, steps: Sequence[Step]) -> tuple[int, int] | None:
        """Return (item, row) of the first move that does not pass the host filters or fit on its
        providers when its turn comes.
        """
        states = self.states
        done: list[Undo] = []
        refused: tuple[int, int] | None = None
        moves = [(item, to) for item, _origin, to in steps] + self._in_turn(placed)
        origin = {item: source for item, source, _to in steps}
        for item, row in moves:
            for candidate in self.packing_state.candidates[item]:
                filters = [
                    each for each in self.policy.filters if each.name in self.packing_state.changing
                ]
                fits = states.fits_at(
                    row,
                    candidate.spec,
                    sorted(states.choosing.intersection(candidate.spec.resources)),
                )
                if not fits or not all(
                    ask_filter(each, states, candidate.spec)[row]
                    for each in filters
                    if not each.not_applicable(candidate.spec)
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
        undo_all(done)
        return refused

    def _in_turn(self, placed: Placed) -> list[tuple[int, int]]:
        """Return [(item, row)] in the order of the moves. It is the order of placing if nodes
        choose between providers.
        """
        return list(placed.items()) if self.states.choosing else sorted(placed.items())

    def _solution(
        self, placed: Placed, stuck: Iterable[int], steps: Iterable[Step], method: str
    ) -> Solution:
        packing_state = self.packing_state
        order = {item: number for number, item in enumerate(self.items)}
        places = [
            (candidate, row)
            for item, row in self._in_turn(placed)
            for candidate in packing_state.candidates[item]
        ]
        return Solution(
            places,
            [self._unit(item) for item in sorted(stuck, key=order.__getitem__)],
            [(packing_state.candidates[item][0], to) for item, _origin, to in steps],
            method,
        )

    def _unit(self, item: int) -> Unit:
        return Unit(self.packing_state.candidates[item])

    def item_of(self, unit: Unit) -> int:
        """Return the item of a unit in the packing state."""
        packing_state = self.packing_state
        return next(
            item for item in self.items if packing_state.candidates[item][0] is unit.candidates[0]
        )


def _better(found: Solution, best: Solution) -> Solution:
    return found if found.missing < best.missing else best


def undo_all(done: Sequence[Undo]) -> None:
    """Undo changes of host states, the last one first."""
    for undo, row, spec in reversed(done):
        undo(row, spec)
