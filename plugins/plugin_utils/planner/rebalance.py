# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing: a score of imbalance, and the few moves that better it most."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils.planner.destinations import may_step_aside, packing_state_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movability import is_live
from ansible_collections.drover.compute.plugins.plugin_utils.planner.move_order import move_seconds, plan_seconds, plan_waves
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates

#: The fleet is left alone while its score is not above this.
THRESHOLD = 0.01
#: Least gain of a move.
MARGIN = 0.0005
#: What counts as no gain at all.
LEAST = 1e-9
#: In fleets of more nodes than this one climb has to do.
LARGE = 100
#: How often all moves are looked at for a better one in their place.
PASSES = 5
#: What a move costs, in units of the score, for each GiB of its memory.
COST_PER_GIB = 0.0


def plan_rebalance(
    fleet,
    instances,
    policy,
    max_moves=10,
    threshold=THRESHOLD,
    margin=MARGIN,
    cost_per_gib=COST_PER_GIB,
    limits=None,
    weights=None,
):
    """Moves that even the load out, best first, none that costs more than it gains.

    The score is the sum, over resource classes, of the standard deviation of the free share of the
    hosts' capacity (as in Ganeti's hbal), over hosts that are enabled and up. 0 is even. Step by step
    the move with the greatest gain over its cost is taken; each finds room when those before it are
    done. An instance moves once. At last moves are exchanged for better ones as long as that
    helps; moves that only pay together (an exchange of two) are planned together.

    :param fleet: columns as the store's read_fleet returns them.
    :param instances: all instances as the store gives them, with host.
    :param policy: scheduler Policy; its host filters hold, its weighers are not asked.
    :param max_moves: most moves.
    :param threshold: nothing is planned while the score is not above this.
    :param margin: least gain of a move.
    :param cost_per_gib: how much a move must gain more for each GiB of its memory.
    :param limits: None, or a dict per_source, per_destination, total: most moves at once.
    :param weights: None, or how much each resource class counts, {class: number}; 1 where it is not named.
    :returns: a dict score_before, score_after, moves [{uuid, name, from_host, from_node, host, node,
        provider, live, memory_mb, server_group, gain, cost, seconds, wave, order}], waves, seconds, reason
        (why nothing more is done).
    :raises PlanError: max_moves is negative.
    """
    if max_moves < 0:
        raise PlanError(f"max_moves of a rebalance must be 0 or more, not {max_moves}.")
    states = HostStates(fleet)
    packing_state, items = packing_state_of(states, policy, may_step_aside(states, instances))
    rows = np.flatnonzero(states.enabled & states.up)
    weigh = np.array([float((weights or {}).get(rc, 1.0)) for rc in packing_state.classes])
    before = score = imbalance(packing_state, rows, weigh)
    reason = None
    chosen = {}
    if packing_state.changing:
        reason = f"the host filters {', '.join(sorted(packing_state.changing))} depend on the load"
    elif score <= threshold:
        reason = f"the score is not above the threshold of {threshold:g}"
    else:
        search = _Search(packing_state, rows, items, max_moves, margin, cost_per_gib, weigh)
        chosen = search.run(threshold)
    moves = []
    worth = max(margin, LEAST)
    while chosen:
        # Each in its turn: the one that then gains most and finds room then.
        ranked = []
        for item, node in chosen.items():
            if packing_state.fits(item)[node]:
                origin = int(packing_state.at[item])
                packing_state.move(item, node)
                gain = score - imbalance(packing_state, rows, weigh)
                packing_state.move(item, origin)
                ranked.append((_cost(packing_state, item, cost_per_gib) - gain, packing_state.label[item], item, node, gain))
        if not ranked or (-min(ranked)[0] < worth and not _together(packing_state, rows, chosen, score, worth, cost_per_gib, weigh)):
            break
        _key, _label, item, node, gain = min(ranked)
        cost = _cost(packing_state, item, cost_per_gib)
        moves.append({**move_of(packing_state, item, node), "gain": round(gain, 6), "cost": round(cost, 6)})
        packing_state.move(item, node)
        del chosen[item]
        score = imbalance(packing_state, rows, weigh)
    if reason is None:
        full = len(moves) >= max_moves and score > threshold
        reason = f"{max_moves} moves are as many as are allowed" if full else "no further move gains more than it costs"
        if score <= threshold:
            reason = f"the score is not above the threshold of {threshold:g}"
    waves = plan_waves(moves, fleet, limits)
    return {
        "score_before": round(before, 6),
        "score_after": round(score, 6),
        "moves": moves,
        "waves": waves,
        "seconds": plan_seconds(moves),
        "reason": reason,
    }


class _Search:
    """Which instances should be elsewhere; the board is as before afterwards."""

    def __init__(self, packing_state, rows, items, max_moves, margin, cost_per_gib, weigh):
        self.packing_state, self.rows, self.items = packing_state, rows, items
        self.max_moves, self.margin = max_moves, margin
        self.cost_per_gib, self.weigh = cost_per_gib, weigh
        self.origin = {}

    def run(self, threshold):
        """{item: node}: the best of several climbs, each of which begins with another class counting more."""
        true, best = self.weigh, None
        starts = [None, *range(len(true))] if self.packing_state.size <= LARGE else [None]
        for start in starts:
            self.origin = {}
            if start is not None:
                self.weigh = true.copy()
                self.weigh[start] *= 2
                self._climb(threshold)
                self.weigh = true
            self._climb(threshold)
            for _again in range(PASSES):
                if not self._exchange():
                    break
            found = (self._score(), len(self.origin), {item: int(self.packing_state.at[item]) for item in self.origin})
            if best is None or found[:2] < best[:2]:
                best = found
            self._home()
        return best[2]

    def _home(self):
        """Everything back to where it came from: from the final places, so in whatever order."""
        for item, origin in self.origin.items():
            self.packing_state.move(item, origin)

    def _score(self):
        return imbalance(self.packing_state, self.rows, self.weigh)

    def _climb(self, threshold):
        for _step in range(4 * self.max_moves):
            score = self._score()
            if score <= threshold or not self._step(score):
                break

    def _step(self, score):
        """Take the best move that there is; one that moved already may move on for nothing."""
        items = self.items if len(self.origin) < self.max_moves else sorted(self.origin)
        found = _best(self.packing_state, self.rows, items, score, self.margin, self.cost_per_gib, self.weigh)
        if found is None:
            return False
        self._put(found[0], found[1])
        return True

    def _put(self, item, node):
        origin = self.origin.setdefault(item, int(self.packing_state.at[item]))
        self.packing_state.move(item, node)
        if node == origin:
            del self.origin[item]

    def _exchange(self):
        """Give one move back and take a better one in its place; True when that helped."""
        helped = False
        for item in sorted(self.origin):
            if item not in self.origin or not self.packing_state.fits(item)[self.origin[item]]:
                continue
            before, node = self._score(), int(self.packing_state.at[item])
            kept = dict(self.origin)
            places = {each: int(self.packing_state.at[each]) for each in kept}
            self._put(item, self.origin[item])
            while self._step(self._score()):
                pass
            if self._score() < before - LEAST:
                helped = True
                continue
            for each in sorted(set(self.origin) | set(kept)):
                target = places[each] if each in kept else self.origin[each]
                if int(self.packing_state.at[each]) != target:
                    self.packing_state.move(each, target)
            self.origin = kept
            if int(self.packing_state.at[item]) != node:
                self.packing_state.move(item, node)
        return helped


def _together(packing_state, rows, chosen, score, worth, cost_per_gib, weigh):
    """Do the moves that are left gain, all together, what each must? Two may only pay as a pair."""
    origins = {item: int(packing_state.at[item]) for item in chosen}
    for item, node in chosen.items():
        packing_state.move(item, node)
    gain = score - imbalance(packing_state, rows, weigh)
    for item, origin in origins.items():
        packing_state.move(item, origin)
    return gain >= sum(worth + _cost(packing_state, item, cost_per_gib) for item in chosen)


def _cost(packing_state, item, cost_per_gib):
    memory = packing_state.classes.index("MEMORY_MB") if "MEMORY_MB" in packing_state.classes else None
    return float(packing_state.need[item][memory] / 1024 * cost_per_gib) if memory is not None else 0.0


def move_of(packing_state, item, node):
    """The move of an item from where it is to a node, as plans give it."""
    states, origin = packing_state.states, int(packing_state.at[item])
    instance = packing_state.candidates[item][0].instance
    live = is_live(instance)
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "from_host": states.host[origin],
        "from_node": states.node[origin],
        "host": states.host[node],
        "node": states.node[node],
        "provider": states.uuid[node],
        "live": live,
        "memory_mb": int(instance.get("memory_mb") or 0),
        "server_group": instance.get("server_group"),
        "seconds": move_seconds(int(instance.get("memory_mb") or 0), live, None, instance.get("dirty_mib"))[0],
    }


def imbalance(packing_state, rows, weigh):
    """The score of the rows: the standard deviations of the free shares, summed over the classes."""
    if not len(rows):
        return 0.0
    share = _shares(packing_state, rows)
    return float(share.std(axis=0) @ weigh)


def _shares(packing_state, rows):
    return packing_state.free[rows] / np.maximum(packing_state.capacity[rows], 1)


def _best(packing_state, rows, items, score, margin, cost_per_gib, weigh):
    """(item, node, gain, cost) of the move with the greatest gain over its cost, or None."""
    here = np.zeros(packing_state.size, dtype=bool)
    here[rows] = True
    equivalent = {}
    for item in items:
        if here[packing_state.at[item]]:
            equivalent.setdefault((int(packing_state.at[item]), int(packing_state.kind[item]), packing_state.groups[item]), item)
    if not equivalent:
        return None
    chosen = list(equivalent.values())
    at, need = packing_state.at[chosen], packing_state.need[chosen]
    capacity = np.maximum(packing_state.capacity, 1)
    share = packing_state.free / capacity
    count = len(rows)
    total, squares = share[rows].sum(axis=0), (share[rows] ** 2).sum(axis=0)
    new_from = share[at] + need / capacity[at]
    after = np.zeros((len(chosen), count))
    for number in range(len(packing_state.classes)):
        new_to = share[rows, number][None, :] - need[:, number, None] / capacity[rows, number][None, :]
        change = (new_from[:, number] - share[at, number])[:, None] + new_to - share[rows, number][None, :]
        square = (new_from[:, number] ** 2 - share[at, number] ** 2)[:, None] + new_to**2 - share[rows, number][None, :] ** 2
        mean = (total[number] + change) / count
        after += weigh[number] * np.sqrt(np.maximum((squares[number] + square) / count - mean**2, 0))
    gain = score - after
    memory = packing_state.classes.index("MEMORY_MB") if "MEMORY_MB" in packing_state.classes else None
    cost = (need[:, memory] / 1024 if memory is not None else np.zeros(len(chosen))) * cost_per_gib
    worth = gain - cost[:, None]
    limit = max(margin, LEAST)
    while True:
        position = int(np.argmax(worth))
        one, row = divmod(position, count)
        if worth[one, row] < limit:
            return None
        fits = packing_state.fits(chosen[one])[rows]
        if fits[row]:
            return chosen[one], int(rows[row]), float(gain[one, row]), float(cost[one])
        worth[one, ~fits] = -np.inf
