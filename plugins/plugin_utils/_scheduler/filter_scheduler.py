# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter scheduler: for every instance the best host that may take it, and alternates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from .._common.arrays import np
from .._records.claims import Destination, Explanation, Selection, Stage
from .errors import NoValidHost, RequestError
from .explanation import explain_failure
from .filtering import Filtering, Limit
from .host_states import HostStates
from .policy import Policy
from .request_spec import RequestSpec
from .weighing import Part, Weighing, at, best

#: The number of hosts in an explanation.
TOP = 5


class SchedulerDriver(Protocol):
    """A method to pick hosts."""

    def place(self, spec: RequestSpec, done: int, total: int) -> tuple[int, Selection]:
        """Return (row, selection) of the host for an instance; ``done`` of ``total`` instances of
        the batch are placed already.

        :raises NoValidHost: there is no host.
        """

    def finish(self) -> None:
        """Complete the selections after all instances are placed."""


class Ranking:
    """The hosts that passed for one instance, with their weights.

    passed: int array of rows; weights: float64 array; stages, parts: see Filtering and Weighing,
    empty without detail.
    """

    def __init__(
        self,
        states: HostStates,
        spec: RequestSpec,
        policy: Policy,
        limits: Sequence[Limit] = (),
        request_class: RequestClass | None = None,
        detail: bool = True,
    ) -> None:
        request_class = request_class or RequestClass(states, spec, policy, limits)
        self._filtering = request_class.filtering
        request_class.filtering.next_instance(spec)
        self.stages: list[Stage] = []
        self.parts: list[Part] = []
        self.passed = request_class.filtering.passed()
        if detail or not len(self.passed):
            self.stages = request_class.filtering.stages()[1]
        self.weights = np.zeros(0)
        if len(self.passed):
            self.weights, self.parts = request_class.weighing.weigh(self.passed, detail)

    def choose(self, spec: RequestSpec, policy: Policy) -> int | None:
        """Return the position (in passed) of the host to take, None if none of them has room left.

        It is one of the host_subset_size best hosts, or of the equally best ones with
        shuffle_best_same_weighed_hosts. The pick is random over instances, but always the same for
        the same instance: a lookup may be evaluated several times.
        """
        if not len(self.passed):
            return None
        position = self._best_host(spec, policy)
        if self._filtering.has_capacity_left(int(self.passed[position])):
            return position
        # Rarely the loop is needed: a host that an equivalent instance of this batch has filled is
        # still weighed.
        for each in np.argsort(-self.weights, kind="stable"):
            if self._filtering.has_capacity_left(int(self.passed[each])):
                return int(each)
        return None

    def _best_host(self, spec: RequestSpec, policy: Policy) -> int:
        first = int(np.argmax(self.weights))
        if len(self.passed) == 1 or (policy.host_subset_size == 1 and not policy.shuffle):
            return first
        among = np.flatnonzero(self.weights == self.weights[first]) if policy.shuffle else ()
        if policy.host_subset_size > 1:
            among = best(self.weights, policy.host_subset_size)
        return int(among[random.Random(spec.key).randrange(len(among))])


class RequestClass:
    """The shared state of equivalent instances that are placed one after the other."""

    def __init__(
        self, states: HostStates, spec: RequestSpec, policy: Policy, limits: Sequence[Limit] = ()
    ) -> None:
        self.spec = spec
        self.filtering = Filtering(states, spec, policy, limits)
        self.weighing = Weighing(states, spec, policy)


def schedule(
    states: HostStates, specs: Sequence[RequestSpec], policy: Policy, explain: bool = True
) -> list[Selection]:
    """Return a host for every instance of a batch, all or nothing.

    Each instance is consumed from the states before the next is placed, in the order given. Among
    equal weights the first by (host, node) wins. A host that was dropped for one instance is
    examined again for the next, unlike in Nova (N1.5), because the instances of a batch may differ.
    Alternates are sought after the whole batch has its hosts: for each instance as if it alone were
    not placed yet, from the cell of its host, without this host. Nova also skips every host of the
    batch. Here such a host may serve if all host filters still pass it, because otherwise a fleet
    of three hosts would have no alternate. Alternates are not consumed.

    :param states: has the instances of the batch afterwards; it is unchanged after an exception.
    :param explain: False leaves out the explanations of successes.
    :raises NoValidHost: some instance fits nowhere; its explanation is attached.
    :raises RequestError: two specs share a name or uuid, or contradict a server group.
    """
    return place_batch(states, specs, FilterScheduler(states, specs, policy, explain))


class FilterScheduler:
    """The driver filter_scheduler, for one batch."""

    def __init__(
        self, states: HostStates, specs: Sequence[RequestSpec], policy: Policy, explain: bool = True
    ) -> None:
        self._states = states
        self._policy = policy
        self._explain = explain
        self._alone = len(specs) == 1
        self._request_class: RequestClass | None = None
        self._kept: list[tuple[int, RequestSpec, Policy, Selection, Ranking | None]] = []

    def place(self, spec: RequestSpec, done: int, total: int) -> tuple[int, Selection]:
        """Return (row, selection without alternates) of the host for an instance; see
        place_batch.
        """
        policy = self._policy.of(spec)
        if self._request_class is None or not self._request_class.spec.is_equivalent(spec):
            self._request_class = RequestClass(self._states, spec, policy)
        ranking = Ranking(
            self._states, spec, policy, request_class=self._request_class, detail=self._explain
        )
        position = ranking.choose(spec, policy)
        if position is None:
            raise failure(self._states, spec, policy, done, total)
        index = int(ranking.passed[position])
        selection = make_selection(self._states, spec, index, ranking.weights[position])
        if self._explain:
            selection["explanation"] = _explanation(self._states, ranking)
        if policy.max_attempts > 1:
            self._kept.append((index, spec, policy, selection, ranking if self._alone else None))
        return index, selection

    def finish(self) -> None:
        """Find the alternates, after the whole batch has its hosts."""
        for index, spec, policy, selection, ranking in self._kept:
            selection["alternates"] = _alternates(self._states, spec, policy, index, ranking)


def place_batch(
    states: HostStates, specs: Sequence[RequestSpec], driver: SchedulerDriver
) -> list[Selection]:
    """Return selections for a batch, all or nothing; the states have the batch on success."""
    check_batch(specs)
    added = []
    placed: list[tuple[int, RequestSpec, Selection]] = []
    try:
        # Mappings first, so that a request may name a group that a later one of the batch defines.
        groups = [spec.server_group for spec in specs if spec.server_group is not None]
        for group in sorted(groups, key=lambda each: each.policy is None):
            if states.add_group(group):
                added.append(group.name)
        for spec in specs:
            index, selection = driver.place(spec, len(placed), len(specs))
            allocations = states.consume(index, spec)
            if allocations is not None:
                selection["allocations"] = allocations
            mappings = states.mappings(index, spec)
            if mappings is not None:
                selection["mappings"] = mappings
            placed.append((index, spec, selection))
    except Exception as problem:
        if isinstance(problem, NoValidHost):
            problem.instance = (spec.uuid, spec.name)
        for index, placed_spec, _selection in reversed(placed):
            states.release(index, placed_spec)
        for name in added:
            states.drop_group(name)
        raise
    driver.finish()
    return [selection for _index, _spec, selection in placed]


def failure(
    states: HostStates, spec: RequestSpec, policy: Policy, done: int, total: int
) -> NoValidHost:
    problem = explain_failure(states, spec, policy)
    if done:
        problem.args = (
            (
                f"{problem.args[0]} It is number {done + 1} of {total} in the batch; the {done}"
                " before it would fit, and their room is counted as used. Nothing was placed."
            ),
        )
    return problem


def check_batch(specs: Sequence[RequestSpec]) -> None:
    """Refuse requests that are not distinguishable.

    :raises RequestError: two have one name or one uuid.
    """
    names, keys = set(), set()
    for spec in specs:
        if spec.name in names:
            raise RequestError(
                f"Two requests have the name '{spec.name}'; names must differ within a batch."
            )
        if spec.key in keys:
            raise RequestError(
                f"Two requests have the uuid {spec.key} (one is '{spec.name}'); give each its own."
            )
        names.add(spec.name)
        keys.add(spec.key)


def place(states: HostStates, index: int, weight: float) -> Destination:
    """Return a destination in the form of selections and alternates."""
    return {
        "host": states.host[index],
        "node": states.node[index],
        "provider": states.uuid[index],
        "weight": float(weight),
    }


def alternate(states: HostStates, spec: RequestSpec, index: int, weight: float) -> Destination:
    """Return an alternate, with its allocations unless they are plain; the instance must not be on
    its host yet.
    """
    destination = place(states, index, weight)
    candidate = states.candidate(index, spec) if states.asks_providers(spec) else None
    if candidate is not None:
        destination["allocations"], destination["mappings"] = (
            candidate.allocations,
            candidate.mappings,
        )
    elif states.provider_capacity is not None:
        destination["allocations"] = states.provider_capacity.choose(spec, index)
    return destination


def make_selection(states: HostStates, spec: RequestSpec, index: int, weight: float) -> Selection:
    """Return the selection of a row for an instance, without alternates and explanation."""
    group = states.group_of(spec)
    return {
        "name": spec.name,
        "uuid": spec.uuid,
        "cell": states.cell[index],
        **place(states, index, weight),
        "resources": dict(spec.resources),
        "server_group": None if group is None else group.description,
        "availability_zone": spec.availability_zone,
        "project": spec.project,
        "user": spec.user,
        **spec.recorded(),
        "alternates": [],
        "explanation": {"hosts": states.size, "filters": [], "weighers": [], "top": []},
    }


def _explanation(states: HostStates, ranking: Ranking) -> Explanation:
    top = []
    for position in best(ranking.weights, TOP):
        index = int(ranking.passed[position])
        top.append(
            {
                "host": states.host[index],
                "node": states.node[index],
                "weight": float(ranking.weights[position]),
                "weighers": {
                    name: {
                        "raw": at(raw, position),
                        "normalised": at(normalised, position),
                        "multiplier": at(multiplier, position),
                    }
                    for name, multiplier, raw, normalised in ranking.parts
                },
            }
        )
    return {
        "hosts": states.size,
        "filters": ranking.stages,
        "weighers": [
            {"name": name, "multiplier": at(multiplier, 0)}
            for name, multiplier, _raw, _normalised in ranking.parts
        ],
        "top": top,
    }


def _alternates(
    states: HostStates,
    spec: RequestSpec,
    policy: Policy,
    index: int,
    ranking: Ranking | None = None,
) -> list[Destination]:
    if ranking is not None and states.provider_capacity is None:
        return _spares(states, spec, policy, index, ranking)
    allocations = states.release(index, spec)
    try:
        return _spares(
            states, spec, policy, index, ranking or Ranking(states, spec, policy, detail=False)
        )
    finally:
        states.consume(index, spec, allocations)


def _spares(
    states: HostStates, spec: RequestSpec, policy: Policy, index: int, ranking: Ranking
) -> list[Destination]:
    usable = np.flatnonzero(
        (states.cell_of[ranking.passed] == states.cell_of[index]) & (ranking.passed != index)
    )
    if not len(usable):
        return []
    chosen = usable[best(ranking.weights[usable], policy.max_attempts - 1)]
    return [
        alternate(states, spec, int(ranking.passed[position]), ranking.weights[position])
        for position in chosen
    ]
