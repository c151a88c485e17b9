# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter scheduler: for every instance the best host that may take it, and spares."""

from __future__ import annotations

import random

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.diagnosis import explain_failure
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import RequestError
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.narrowing import narrow
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.weighing import best, weigh

try:
    import numpy as np
except ImportError:
    np = None

#: How many hosts an explanation shows.
TOP = 5


class Ranking:
    """The hosts that passed for one instance, with their weights.

    passed: int array of rows; weights: float64 array; stages, parts: see narrow and weigh.
    """

    def __init__(self, states, spec, policy, limits=()):
        self.passed, self.stages = narrow(states, spec, policy, limits)
        self.weights, self.parts = np.zeros(0), []
        if len(self.passed):
            self.weights, self.parts = weigh(states, spec, policy, self.passed)

    def choose(self, spec, policy):
        """Position (in passed) of the host to take.

        One of the host_subset_size best. The pick is random over instances yet the same each time
        the same instance is asked for: a lookup is evaluated any number of times.
        """
        if policy.host_subset_size == 1 or len(self.passed) == 1:
            return int(np.argmax(self.weights))
        among = best(self.weights, policy.host_subset_size)
        return int(among[random.Random(spec.key).randrange(len(among))])


def schedule(states, specs, policy):
    """A host for every instance of a batch, all or nothing.

    Each instance is consumed from the states before the next is placed, in the order given. Among
    equal weights the first by (host, node) wins. A host that was dropped for one instance is looked
    at again for the next, unlike in Nova (NOVA_SEMANTICS 1.5), because the instances of a batch may
    differ. Alternates are sought when the whole batch has its hosts: for each instance as if it
    alone were not placed yet, from the cell of its host, and never the host itself. Nova also skips
    every host of the batch; here such a host may serve, if all host filters still say so, for on a
    fleet of three there would be no alternate otherwise. Alternates are not consumed.

    :param states: HostStates; holds the batch afterwards, and is as before when this raises.
    :param specs: list of RequestSpec.
    :param policy: Policy.
    :returns: list of selections, plain dicts: name, uuid, host, node, provider, cell, resources, weight,
        server_group ({name, policy, max_server_per_host} or None), availability_zone, project, user,
        alternates [{host, node, provider, weight}], explanation {hosts, filters, weighers, top}.
    :raises NoValidHost: some instance fits nowhere; its explanation is attached.
    :raises RequestError: two specs share a name or uuid, or contradict a server group.
    """
    _check_batch(states, specs)
    added, placed = [], []
    try:
        # Mappings first, so that a request may name a group that a later one of the batch defines.
        groups = [spec.server_group for spec in specs if spec.server_group is not None]
        for group in sorted(groups, key=lambda each: each.policy is None):
            if states.add_group(group):
                added.append(group.name)
        for spec in specs:
            ranking = Ranking(states, spec, policy)
            if not len(ranking.passed):
                raise _failure(states, spec, policy, len(placed), len(specs))
            position = ranking.choose(spec, policy)
            index = int(ranking.passed[position])
            selection = _selection(states, spec, ranking, position)
            states.consume(index, spec)
            placed.append((index, spec, selection, ranking if len(specs) == 1 else None))
    except Exception:
        for index, spec, _selected, _ranking in reversed(placed):
            states.release(index, spec)
        for name in added:
            states.drop_group(name)
        raise
    if policy.max_attempts > 1:
        for index, spec, selection, ranking in placed:
            selection["alternates"] = _alternates(states, spec, policy, index, ranking)
    return [selection for _index, _spec, selection, _ranking in placed]


def _failure(states, spec, policy, done, total):
    failure = explain_failure(states, spec, policy)
    if done:
        failure.args = (
            f"{failure.args[0]} It is number {done + 1} of {total} in the batch;"
            f" room for the {done} before it is already taken off, and nothing is placed.",
        )
    return failure


def _check_batch(states, specs):
    names, keys = set(), set()
    for spec in specs:
        if spec.name in names:
            raise RequestError(f"Two requests have the name '{spec.name}'; names must differ within a batch.")
        if spec.key in keys:
            raise RequestError(f"Two requests have the uuid {spec.key} (one is '{spec.name}'); give each its own.")
        names.add(spec.name)
        keys.add(spec.key)


def _place(states, index, weight):
    return {
        "host": states.host[index],
        "node": states.node[index],
        "provider": states.uuid[index],
        "weight": float(weight),
    }


def _selection(states, spec, ranking, position):
    index = int(ranking.passed[position])
    group = states.group(spec.server_group.name) if spec.server_group else None
    selection = {"name": spec.name, "uuid": spec.uuid, "cell": states.cell[index]}
    selection.update(_place(states, index, ranking.weights[position]))
    selection.update(
        resources=dict(spec.resources),
        server_group=None if group is None else group.description,
        availability_zone=spec.availability_zone,
        project=spec.project,
        user=spec.user,
        alternates=[],
        explanation=_explanation(states, ranking),
    )
    return selection


def _explanation(states, ranking):
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
                        "raw": float(raw[position]),
                        "normalised": float(normalised[position]),
                        "multiplier": float(multiplier),
                    }
                    for name, multiplier, raw, normalised in ranking.parts
                },
            }
        )
    return {
        "hosts": states.size,
        "filters": ranking.stages,
        "weighers": [{"name": name, "multiplier": float(multiplier)} for name, multiplier, _raw, _n in ranking.parts],
        "top": top,
    }


def _alternates(states, spec, policy, index, ranking=None):
    if ranking is None:
        states.release(index, spec)
        try:
            ranking = Ranking(states, spec, policy)
        finally:
            states.consume(index, spec)
    usable = np.flatnonzero((states.cell_of[ranking.passed] == states.cell_of[index]) & (ranking.passed != index))
    if not len(usable):
        return []
    chosen = usable[best(ranking.weights[usable], policy.max_attempts - 1)]
    return [_place(states, int(ranking.passed[position]), ranking.weights[position]) for position in chosen]
