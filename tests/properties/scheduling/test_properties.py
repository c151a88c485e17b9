# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for any fleet and any batch."""

from __future__ import annotations

import copy

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    schedule,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler import fleets

POLICIES = st.sampled_from([{}, {"weighers": {"RAMWeigher": -1}}, {"host_subset_size": 3}])


def attempt(columns, batch, policy):
    """Return (selections or None, states afterwards)."""
    states = HostStates(columns)
    try:
        return schedule(states, batch, Policy.from_mapping(policy)), states
    except NoValidHost:
        return None, states


def load(columns, rc, index, amount):
    column = columns["resources"][rc]
    return (
        column["used"][index] + amount
        <= (column["total"][index] - column["reserved"][index]) * column["ratio"][index]
    )


@given(fleets.hosts(), fleets.requests(), POLICIES)
@settings(max_examples=150, deadline=None)
def test_a_batch_never_breaks_a_rule(nodes, batch, policy):
    columns = fleets.fleet(*nodes)
    untouched = copy.deepcopy(columns)
    chosen, states = attempt(columns, batch, policy)
    assert columns == untouched
    if chosen is None:
        assert all((column.used == 0).all() for column in states.resources.values())
        return
    sums, members = {}, {}
    row = dict(zip(columns["uuid"], range(len(nodes))))
    for spec, selection in zip(batch, chosen):
        index = row[selection["provider"]]
        assert not columns["disabled"][index] and columns["up"][index]
        assert (selection["host"], selection["node"]) == (
            columns["host"][index],
            columns["node"][index],
        )
        for rc, amount in spec.resources.items():
            sums[index, rc] = sums.get((index, rc), 0) + amount
        if spec.server_group:
            members.setdefault(spec.server_group.name, []).append(selection["host"])
        places = [selection] + selection["alternates"]
        assert len({place["provider"] for place in places}) == len(places) <= 3
        assert {columns["cell"][row[place["provider"]]] for place in places} == {selection["cell"]}
    for (index, rc), amount in sums.items():
        assert load(columns, rc, index, amount)
    assert len(set(members.get("close", []))) <= 1
    most = next(
        (
            s.server_group.max_server_per_host
            for s in batch
            if s.server_group and s.server_group.name == "apart"
        ),
        1,
    )
    for name in members.get("apart", []):
        assert members["apart"].count(name) <= most


@given(fleets.hosts(), fleets.requests())
@settings(max_examples=75, deadline=None)
def test_any_alternate_fits_beside_the_rest_of_the_batch(nodes, batch):
    columns = fleets.fleet(*nodes)
    chosen, states = attempt(columns, batch, {})
    for spec, selection in zip(batch, chosen or []):
        for place in selection["alternates"]:
            index = columns["uuid"].index(place["provider"])
            for rc, amount in spec.resources.items():
                column = states.resources[rc]
                assert column.used[index] + amount <= column.capacity[index]


@given(fleets.hosts(), fleets.requests(), POLICIES)
@settings(max_examples=50, deadline=None)
def test_same_input_same_answer(nodes, batch, policy):
    assert (
        attempt(fleets.fleet(*nodes), batch, policy)[0]
        == attempt(fleets.fleet(*nodes), batch, policy)[0]
    )


@given(fleets.hosts(), fleets.requests(), st.randoms(use_true_random=False))
@settings(max_examples=75, deadline=None)
def test_release_undoes_consume(nodes, batch, rng):
    states = HostStates(fleets.fleet(*nodes))
    before = snapshot(states)
    for spec in batch:
        if spec.server_group:
            states.add_group(spec.server_group)
    placed = [(rng.randrange(states.size), spec) for spec in batch]
    for index, spec in placed:
        states.consume(index, spec)
    assert states.num_instances.sum() == len(batch)
    for rc, key in fleets.CLASSES.items():
        assert states.resources[rc].used.sum() == sum(
            spec.resources.get(rc, 0) for spec in batch
        ), key
    rng.shuffle(placed)
    for index, spec in placed:
        assert index in states.where(spec.key)
        states.release(index, spec)
        assert states.where(spec.key) == ()
    assert snapshot(states) == before
    for spec in batch:
        if spec.server_group:
            group = states.group(spec.server_group.name)
            assert not group.per_host and not group.members


@given(fleets.hosts(), fleets.requests(most=1), st.integers(0, 7))
@settings(max_examples=75, deadline=None)
def test_more_room_never_makes_a_host_fail(nodes, batch, which):
    def passes(columns):
        states = HostStates(columns)
        mask = np.ones(states.size, dtype=bool)
        for each in Policy.from_mapping().filters:
            mask &= each.passes(states, batch[0])
        return mask

    before = passes(fleets.fleet(*nodes))
    for key in fleets.CLASSES.values():
        nodes[which % len(nodes)][key] += 5
    assert (passes(fleets.fleet(*nodes)) >= before).all()


@given(
    fleets.hosts(), fleets.requests(most=1), st.sets(st.sampled_from([f"kvm{i}" for i in range(8)]))
)
@settings(max_examples=75, deadline=None)
def test_ignored_hosts_are_never_taken(nodes, batch, ignored):
    spec = fleets.request(
        "vm", batch[0].resources["VCPU"], ignore_hosts=sorted(name.upper() for name in ignored)
    )
    chosen, _states = attempt(fleets.fleet(*nodes), [spec], {})
    for place in [chosen[0], *chosen[0]["alternates"]] if chosen else []:
        assert place["host"] not in ignored


def snapshot(states):
    return (
        {rc: column.used.tolist() for rc, column in states.resources.items()},
        states.num_instances.tolist(),
        states.disk_available_least.tolist(),
    )
