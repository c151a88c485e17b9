# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding places for units: the scheduler's host filters and weighers, several orders, two fits."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.planner import units as ordering
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.filter_scheduler import Ranking

try:
    import numpy as np
except ImportError:
    np = None

#: How often what found no place is put first and all is tried again.
RETRIES = 5


class Attempt:
    """What one order and one fit gave.

    places: [(Mover, row number of the destination)] in the order of placing; stuck: [Unit].
    """

    def __init__(self):
        self.places = []
        self.stuck = []

    @property
    def score(self):
        """More instances placed is better, then more memory."""
        memory = sum(mover.spec.resources.get("MEMORY_MB", 0) for mover, _index in self.places)
        return (len(self.places), memory)


def best_attempt(states, units, policy):
    """The attempt that places everything, or else the one that places most.

    Spreads as the policy's weighers say, then packs tightly, each by three orders; then puts first
    what found no place. The first that succeeds wins, so the policy's own choice does where it can.

    :param states: HostStates; as before afterwards.
    """
    free = {
        rc: float(np.clip(column.capacity - column.used, 0, None)[states.enabled & states.up].sum())
        for rc, column in states.resources.items()
    }
    orders = [ordering.by_memory, ordering.by_vcpus, ordering.by_dominant_share(free)]
    best = None
    for fit in (_as_weighed, _tightest):
        for order in orders:
            attempt = _try(states, sorted(units, key=order), policy, fit)
            if not attempt.stuck:
                return attempt
            if best is None or attempt.score > best.score:
                best = attempt
    ahead = []
    for _again in range(RETRIES):
        fresh = [unit for unit in best.stuck if unit not in ahead]
        if not fresh:
            break
        ahead = fresh + ahead
        rest = sorted((unit for unit in units if unit not in ahead), key=ordering.by_memory)
        for fit in (_as_weighed, _tightest):
            attempt = _try(states, ahead + rest, policy, fit)
            if attempt.score > best.score:
                best = attempt
            if not attempt.stuck:
                return attempt
    return best


def apply(states, places):
    """Put movers on their destinations, in memory."""
    for mover, index in places:
        states.consume(index, mover.spec)


def unapply(states, places):
    """The opposite of apply."""
    for mover, index in reversed(places):
        states.release(index, mover.spec)


def leave(states, unit):
    """Take a unit off its source, in memory.

    Only for an affinity group, whose members would otherwise hold each other where they are. All
    others count at their source as long as they may be there.
    """
    left = [mover for mover in unit.movers if mover.source in states.where(mover.spec.key)]
    for mover in left:
        states.release(mover.source, mover.spec)
    return left


def come_back(states, left):
    """The opposite of leave."""
    for mover in left:
        states.consume(mover.source, mover.spec)


def is_affinity(states, mover):
    """Does the mover belong to a server group whose members must share a host?"""
    group = states.group(mover.spec.server_group.name) if mover.spec.server_group else None
    return group is not None and group.policy == "affinity"


def _try(states, units, policy, fit):
    attempt = Attempt()
    for unit in units:
        places = _place(states, unit, policy, fit)
        if places is None:
            attempt.stuck.append(unit)
        else:
            attempt.places.extend(places)
    unapply(states, attempt.places)
    return attempt


def _place(states, unit, policy, fit):
    """Places for the whole unit, consumed; None (and nothing consumed) when there are none."""
    left = leave(states, unit) if is_affinity(states, unit.movers[0]) else []
    try:
        first = max(unit.movers, key=lambda mover: mover.spec.resources.get("MEMORY_MB", 0))
        others = [mover for mover in unit.movers if mover is not first]
        ranking = Ranking(states, first.spec, policy, first.limits + _room_for_all(states, unit))
        for index in fit(states, first.spec, policy, ranking, bool(others)):
            places = [(first, index)]
            states.consume(index, first.spec)
            for mover in others:
                here = ("same host", states.host_of == states.host_of[index], "not with its group")
                found = Ranking(states, mover.spec, policy, mover.limits + (here,))
                if not len(found.passed):
                    break
                row = int(found.passed[int(np.argmax(found.weights))])
                states.consume(row, mover.spec)
                places.append((mover, row))
            else:
                return places
            unapply(states, places)
        return None
    finally:
        come_back(states, left)


def _room_for_all(states, unit):
    """A limit that spares trying hosts that plainly cannot take all of a unit."""
    if not unit.together:
        return ()
    keep = np.ones(states.size, dtype=bool)
    for rc in ordering.RESOURCE_KEYS:
        column = states.resources.get(rc)
        if column is not None and unit.amount(rc):
            room = np.bincount(states.host_of, weights=np.clip(column.capacity - column.used, 0, None))
            keep &= room[states.host_of] >= unit.amount(rc)
    return (("room for its group", keep, "too small for the whole group"),)


def _as_weighed(states, spec, policy, ranking, several):
    """Rows in the order of the policy's weights."""
    if not len(ranking.passed):
        return
    if not several:
        yield int(ranking.passed[ranking.choose(spec, policy)])
        return
    for position in np.argsort(-ranking.weights, kind="stable"):
        yield int(ranking.passed[position])


def _tightest(states, spec, policy, ranking, several):
    """Rows in the order of how little they would have left, the shares of all classes summed."""
    if not len(ranking.passed):
        return
    rest = np.zeros(len(ranking.passed))
    for rc, amount in spec.resources.items():
        column = states.resources[rc]
        capacity = column.capacity[ranking.passed]
        rest += (capacity - column.used[ranking.passed] - amount) / capacity
    for position in np.argsort(rest, kind="stable"):
        yield int(ranking.passed[position])
        if not several:
            return
