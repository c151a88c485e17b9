# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Destinations as the scheduler would choose them: by its host filters and weighers, one unit after
the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._common.arrays import np
from .._scheduler.filter_scheduler import Ranking, RequestClass
from .._scheduler.filtering import Limit
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .migration_candidates import MigrationCandidate, Place, Unit, by_memory


def weighed_attempt(
    states: HostStates, units: Iterable[Unit], policy: Policy
) -> tuple[list[Place], list[Unit]]:
    """Find the destinations that the policy's weighers prefer, the largest memory first; afterwards
    the host states are unchanged.

    :returns: the destinations in the order of placing, and the units without one.
    """
    placed: list[Place] = []
    stuck = []
    request_classes = _RequestClasses(states, policy)
    for unit in sorted(units, key=by_memory):
        places = _place_unit(states, unit, policy, request_classes)
        if places is None:
            stuck.append(unit)
        else:
            placed.extend(places)
    _release(states, placed)
    return placed, stuck


class _RequestClasses:
    """The request class of candidates that are placed one after the other: equivalent ones share
    it.
    """

    def __init__(self, states: HostStates, policy: Policy) -> None:
        self._states, self._policy = states, policy
        self._last: tuple[MigrationCandidate, RequestClass] | None = None

    def of(self, candidate: MigrationCandidate) -> RequestClass:
        if self._last is not None:
            last, request_class = self._last
            if last.limits_key == candidate.limits_key and request_class.spec.is_equivalent(
                candidate.spec
            ):
                return request_class
        request_class = RequestClass(self._states, candidate.spec, self._policy, candidate.limits)
        self._last = (candidate, request_class)
        return request_class


def _release(states: HostStates, places: Sequence[Place]) -> None:
    for candidate, index in reversed(places):
        states.release(index, candidate.spec)


def leave(states: HostStates, unit: Unit) -> list[MigrationCandidate]:
    """Take the candidates of an affinity group off their source, in memory; return the candidates
    that were on their source.

    On the source they would keep each other from leaving. All other candidates count at their
    source as long as they may be there.
    """
    leaving = [
        candidate
        for candidate in unit.candidates
        if candidate.source in states.where(candidate.spec.key)
    ]
    for candidate in leaving:
        states.release(candidate.source, candidate.spec)
    return leaving


def come_back(states: HostStates, left: Iterable[MigrationCandidate]) -> None:
    """Undo leave()."""
    for candidate in left:
        states.consume(candidate.source, candidate.spec)


def is_affinity(states: HostStates, candidate: MigrationCandidate) -> bool:
    """Return True if the members of the candidate's server group must share a host."""
    group = states.group_of(candidate.spec)
    return group is not None and group.policy == "affinity"


def _place_unit(
    states: HostStates, unit: Unit, policy: Policy, request_classes: _RequestClasses
) -> list[Place] | None:
    """Find and consume destinations for a whole unit; return None and consume nothing if there are
    none.
    """
    if not unit.together and not is_affinity(states, unit.candidates[0]):
        candidate = unit.candidates[0]
        ranking = Ranking(
            states,
            candidate.spec,
            policy,
            request_class=request_classes.of(candidate),
            detail=False,
        )
        position = ranking.choose(candidate.spec, policy)
        if position is None:
            return None
        index = int(ranking.passed[position])
        states.consume(index, candidate.spec)
        return [(candidate, index)]
    leaving = leave(states, unit)
    try:
        first = unit.largest
        others = [candidate for candidate in unit.candidates if candidate is not first]
        ranking = Ranking(
            states, first.spec, policy, first.limits + _fits_together(states, unit), detail=False
        )
        for each in np.argsort(-ranking.weights, kind="stable"):
            index = int(ranking.passed[each])
            places = [(first, index)]
            states.consume(index, first.spec)
            for candidate in others:
                here = ("same host", states.host_of == states.host_of[index], "not with its group")
                ranked = Ranking(
                    states, candidate.spec, policy, candidate.limits + (here,), detail=False
                )
                if not len(ranked.passed):
                    break
                row = int(ranked.passed[int(np.argmax(ranked.weights))])
                states.consume(row, candidate.spec)
                places.append((candidate, row))
            else:
                return places
            _release(states, places)
        return None
    finally:
        come_back(states, leaving)


def _fits_together(states: HostStates, unit: Unit) -> tuple[Limit, ...]:
    """Make a limit that excludes hosts without enough capacity for a whole unit."""
    if not unit.together:
        return ()
    keep = np.ones(states.size, dtype=bool)
    for rc, column in states.resources.items():
        if unit.amount(rc):
            free = np.bincount(states.host_of, weights=column.free)
            keep &= free[states.host_of] >= unit.amount(rc)
    return (("room for its group", keep, "too small for the whole group"),)
