# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing: a score of imbalance, and the few moves that improve it most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .._common.arrays import np
from .._common.errors import PlanError, counted
from .._records.hosts import FleetColumns
from .._records.instances import PlannedInstance
from .._records.plans import MoveLimits, PlannedMove, RebalanceMove, RebalancePlan
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .destinations import may_step_aside, packing_state_of
from .imbalance import BestMove, Score
from .movability import is_live
from .move_order import plan_waves
from .move_times import Rates, expect
from .packing_state import PackingState, Placed

#: Moves are planned only if the score is above this.
THRESHOLD = 0.01
#: Least gain of a move, times the number of hosts.
MARGIN = 0.005
#: A smaller gain counts as none.
LEAST = 1e-9
#: The number of times that each move is compared with a better one in its place.
PASSES = 5
#: Cost of a move for each GiB of its memory, times the number of hosts.
COST_PER_GIB = 0.0


def plan_rebalance(
    fleet: FleetColumns,
    instances: Iterable[PlannedInstance],
    policy: Policy,
    max_moves: int = 10,
    threshold: float = THRESHOLD,
    margin: float = MARGIN,
    cost_per_gib: float = COST_PER_GIB,
    limits: MoveLimits | None = None,
    weights: Mapping[str, float] | None = None,
) -> RebalancePlan:
    """Plan the moves that even out the load, the best first; none costs more than it gains.

    The score is the sum, over resource classes, of the standard deviation of the free share of the
    hosts' capacity (as in Ganeti's hbal), over hosts that are enabled and up. 0 is even. The gain
    of a move is proportional to one over the number of nodes, and so are margin and cost. Each step
    takes the move with the greatest gain minus cost; it fits after the moves before it. An instance
    moves once. In the end moves are exchanged for better ones as long as that helps. Moves that
    only gain as a pair are planned together.

    :param instances: the instances that may move.
    :param policy: its host filters apply, its weighers do not.
    :param threshold: moves are planned only if the score is above this.
    :param margin: least gain of a move, in units of the score times the number of nodes.
    :param cost_per_gib: cost of a move for each GiB of its memory, in the same units.
    :param weights: {resource class: weight in the score}; 1 for a class that is not named.
    :raises PlanError: max_moves is negative.
    """
    if max_moves < 0:
        raise PlanError(f"max_moves of a rebalance must be 0 or more, not {max_moves}.")
    states = HostStates(fleet)
    movable = may_step_aside(states, instances)
    by_uuid = {each["uuid"]: each for each in movable}
    packing_state, items = packing_state_of(states, policy, movable)
    class_weights = np.array([float((weights or {}).get(rc, 1.0)) for rc in packing_state.classes])
    score_of = Score(
        packing_state, np.flatnonzero(states.enabled & states.up), class_weights, cost_per_gib
    )
    before = score = score_of.now()
    worth = max(score_of.each(margin), LEAST)
    reason = None
    chosen: Placed = {}
    if packing_state.changing:
        reason = f"the host filters {', '.join(sorted(packing_state.changing))} depend on the load"
    elif score <= threshold:
        reason = f"the score is not above the threshold of {threshold:g}"
    else:
        chosen = _Search(score_of, items, max_moves, worth).run(threshold)
    moves: list[RebalanceMove] = []
    while chosen:
        # The next one is the move that now fits and gains most.
        ranked = []
        for item, node in chosen.items():
            if packing_state.fits(item)[node]:
                origin = int(packing_state.at[item])
                packing_state.move(item, node)
                gain = score - score_of.now()
                packing_state.move(item, origin)
                ranked.append(
                    (score_of.cost(item) - gain, packing_state.label[item], item, node, gain)
                )
        if not ranked or (-min(ranked)[0] < worth and not _gain_together(score_of, chosen, worth)):
            break
        _key, (_name, uuid), item, node, gain = min(ranked)
        move = move_of(packing_state, item, node, by_uuid[uuid])
        moves.append({**move, "gain": round(gain, 6), "cost": round(score_of.cost(item), 6)})
        packing_state.move(item, node)
        del chosen[item]
        score = score_of.now()
    if reason is None:
        full = len(moves) >= max_moves and score > threshold
        reason = (
            f"the limit of {counted(max_moves, 'move')} is reached"
            if full
            else "no further move gains more than it costs"
        )
        if score <= threshold:
            reason = f"the score is not above the threshold of {threshold:g}"
    waves = plan_waves(moves, fleet, limits)
    return {
        "score_before": round(before, 6),
        "score_after": round(score, 6),
        "moves": moves,
        "waves": waves,
        "seconds": expect(moves, Rates(), {}),
        "reason": reason,
    }


class _Search:
    """The search for the instances to move; the packing state is unchanged afterwards."""

    def __init__(self, score: Score, items: Sequence[int], max_moves: int, worth: float) -> None:
        self.packing_state, self.score = score.packing_state, score
        self.moves = BestMove(score, items)
        self.max_moves, self.worth = max_moves, worth
        self.origin: dict[int, int] = {}

    def run(self, threshold: float) -> Placed:
        """Return the destinations of the best of several climbs. Each climb begins with another
        class that counts double.
        """
        true = self.score
        best: tuple[float, int, Placed] | None = None
        for start in (None, *range(len(true.weights))):
            self.origin = {}
            if start is not None:
                weights = true.weights.copy()
                weights[start] *= 2
                self.score = true._replace(weights=weights)
                self._climb(threshold)
                self.score = true
            self._climb(threshold)
            for _again in range(PASSES):
                if not self._exchange():
                    break
            climb = (
                self.score.now(),
                len(self.origin),
                {item: int(self.packing_state.at[item]) for item in self.origin},
            )
            if best is None or climb[:2] < best[:2]:
                best = climb
            self._restore()
        return {} if best is None else best[2]

    def _restore(self) -> None:
        for item, origin in self.origin.items():
            self.packing_state.move(item, origin)

    def _climb(self, threshold: float) -> None:
        for _make_best_move in range(4 * self.max_moves):
            if self.score.now() <= threshold or not self._make_best_move():
                break

    def _make_best_move(self) -> bool:
        """Take the best move, if there is one; an item that has moved already may move on without
        counting again.
        """
        move = self.moves.find(
            self.score, self.origin, len(self.origin) < self.max_moves, self.worth
        )
        if move is None:
            return False
        self._put(*move)
        return True

    def _put(self, item: int, node: int) -> None:
        origin = self.origin.setdefault(item, int(self.packing_state.at[item]))
        self.packing_state.move(item, node)
        if node == origin:
            del self.origin[item]

    def _exchange(self) -> bool:
        """Replace moves by better ones if there are any; return True if that helped."""
        helped = False
        for item in sorted(self.origin):
            if item not in self.origin or not self.packing_state.fits(item)[self.origin[item]]:
                continue
            before, node = self.score.now(), int(self.packing_state.at[item])
            kept = dict(self.origin)
            places = {each: int(self.packing_state.at[each]) for each in kept}
            self._put(item, self.origin[item])
            while self._make_best_move():
                pass
            if self.score.now() < before - LEAST:
                helped = True
                continue
            for moved_item in sorted(set(self.origin) | set(kept)):
                target = places[moved_item] if moved_item in kept else self.origin[moved_item]
                if int(self.packing_state.at[moved_item]) != target:
                    self.packing_state.move(moved_item, target)
            self.origin = kept
            if int(self.packing_state.at[item]) != node:
                self.packing_state.move(item, node)
        return helped


def _gain_together(score: Score, chosen: Placed, worth: float) -> bool:
    """Return True if the remaining moves together gain as much as each of them must: two moves may
    only gain as a pair.
    """
    packing_state, before = score.packing_state, score.now()
    origins = {item: int(packing_state.at[item]) for item in chosen}
    for item, node in chosen.items():
        packing_state.move(item, node)
    gain = before - score.now()
    for item, origin in origins.items():
        packing_state.move(item, origin)
    return gain >= sum(worth + score.cost(item) for item in chosen)


def move_of(
    packing_state: PackingState, item: int, node: int, instance: PlannedInstance
) -> PlannedMove:
    """Return the move of an item from its node to another one."""
    states, origin = packing_state.states, int(packing_state.at[item])
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "from_host": states.host[origin],
        "from_node": states.node[origin],
        "host": states.host[node],
        "node": states.node[node],
        "provider": states.uuid[node],
        "state": instance["state"],
        "live": is_live(instance),
        "memory_mb": int(instance.get("memory_mb") or 0),
        "server_group": instance.get("server_group"),
        "bandwidth_mib": (instance.get("migration") or {}).get("bandwidth_mib"),
        "dirty_mib": instance.get("dirty_mib"),
    }
