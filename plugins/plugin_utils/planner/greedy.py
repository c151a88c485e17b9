# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places as the scheduler would choose them: by its host filters and weighers, one unit after the other."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.planner import migration_candidates as ordering
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.filter_scheduler import Ranking, RequestClass


class Attempt:
    """What one order and one fit gave.

    places: [(MigrationCandidate, row number of the destination)] in the order of placing; stuck: [Unit].
    """

    def __init__(self):
        self.places = []
        self.stuck = []


def weighed_attempt(states, units, policy):
    """Places as the policy's weighers like them best, the largest memory first.

    :param states: HostStates; as before afterwards.
    """
    attempt = Attempt()
    request_class = RequestClasses(states, policy)
    for unit in sorted(units, key=ordering.by_memory):
        places = _place(states, unit, policy, request_class)
        if places is None:
            attempt.stuck.append(unit)
        else:
            attempt.places.extend(places)
    unapply(states, attempt.places)
    return attempt


class RequestClasses:
    """What alike candidates that are placed one after the other have in common."""

    def __init__(self, states, policy):
        self._states, self._policy = states, policy
        self._last = (None, None)

    def of(self, candidate):
        """The RequestClass for a candidate."""
        key, request_class = self._last
        if request_class is None or key != candidate.limits_key or not request_class.spec.is_equivalent(candidate.spec):
            request_class = RequestClass(self._states, candidate.spec, self._policy, candidate.limits)
            self._last = (candidate.limits_key, request_class)
        return request_class


def apply(states, places):
    """Put candidates on their destinations, in memory."""
    for candidate, index in places:
        states.consume(index, candidate.spec)


def unapply(states, places):
    """The opposite of apply."""
    for candidate, index in reversed(places):
        states.release(index, candidate.spec)


def leave(states, unit):
    """Take a unit off its source, in memory.

    Only for an affinity group, whose members would otherwise hold each other where they are. All
    others count at their source as long as they may be there.
    """
    left = [candidate for candidate in unit.candidates if candidate.source in states.where(candidate.spec.key)]
    for candidate in left:
        states.release(candidate.source, candidate.spec)
    return left


def come_back(states, left):
    """The opposite of leave."""
    for candidate in left:
        states.consume(candidate.source, candidate.spec)


def is_affinity(states, candidate):
    """Does the candidate belong to a server group whose members must share a host?"""
    group = states.group(candidate.spec.server_group.name) if candidate.spec.server_group else None
    return group is not None and group.policy == "affinity"


def _place(states, unit, policy, is_equivalent):
    """Places for the whole unit, consumed; None (and nothing consumed) when there are none."""
    if not unit.together and not is_affinity(states, unit.candidates[0]):
        candidate = unit.candidates[0]
        ranking = Ranking(states, candidate.spec, policy, request_class=is_equivalent.of(candidate), detail=False)
        position = ranking.choose(candidate.spec, policy)
        if position is None:
            return None
        index = int(ranking.passed[position])
        states.consume(index, candidate.spec)
        return [(candidate, index)]
    left = leave(states, unit)
    try:
        first = max(unit.candidates, key=lambda candidate: candidate.spec.resources.get("MEMORY_MB", 0))
        others = [candidate for candidate in unit.candidates if candidate is not first]
        ranking = Ranking(states, first.spec, policy, first.limits + _fits_together(states, unit), detail=False)
        for position in np.argsort(-ranking.weights, kind="stable"):
            index = int(ranking.passed[position])
            places = [(first, index)]
            states.consume(index, first.spec)
            for candidate in others:
                here = ("same host", states.host_of == states.host_of[index], "not with its group")
                found = Ranking(states, candidate.spec, policy, candidate.limits + (here,), detail=False)
                if not len(found.passed):
                    break
                row = int(found.passed[int(np.argmax(found.weights))])
                states.consume(row, candidate.spec)
                places.append((candidate, row))
            else:
                return places
            unapply(states, places)
        return None
    finally:
        come_back(states, left)


def _fits_together(states, unit):
    """A limit that spares trying hosts that plainly cannot take all of a unit."""
    if not unit.together:
        return ()
    keep = np.ones(states.size, dtype=bool)
    for rc, column in states.resources.items():
        if unit.amount(rc):
            free = np.bincount(states.host_of, weights=column.free)
            keep &= free[states.host_of] >= unit.amount(rc)
    return (("room for its group", keep, "too small for the whole group"),)
