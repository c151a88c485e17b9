# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of crowded fleets: an independent checker judges them, and a test compares them with all
possible plans."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._planner import (
    capacity,
    maintenance_batches,
    milp,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.capacity import (
    plan_capacity,
    unbearable_losses,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.destinations import (
    packing_state_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils._planner.movability import (
    is_to_shut_down,
    why_unmovable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rebalance import (
    plan_rebalance,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.return_home import plan_return
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rolling import plan_rolling
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.planner.checking import (
    CLASSES,
    check_moves,
    moved_to,
)
from ansible_collections.drover.compute.tests.unit.planner.crowds import GROUPS, crowds

POLICY = Policy.from_mapping(None)
LIMITS = st.fixed_dictionaries(
    {
        "per_source": st.sampled_from([None, 1, 2]),
        "per_destination": st.sampled_from([None, 1]),
        "total": st.sampled_from([None, 2]),
    }
)


def drain(columns, guests, host, **more):
    hosts = [host] if isinstance(host, str) else host
    here = [each for each in guests if each["host"] in hosts]
    others = [each for each in guests if each["host"] not in hosts]
    return plan_drain(columns, here, host, POLICY, others=others, **more)


@given(crowds(), LIMITS, st.sampled_from([0, 2, 20]))
@settings(max_examples=50, deadline=None)
def test_every_plan_can_be_carried_out_and_says_what_stays(crowd, limits, extra_moves):
    columns, guests, host = crowd
    plan = drain(columns, guests, host, limits=limits, extra_moves=extra_moves)
    errors, where = check_moves(columns, guests, plan["moves"], {host}, limits)
    assert errors == []
    names = {each["name"] for each in guests if each["host"] == host}
    moved = {move["name"] for move in plan["moves"] if not move["extra"]}
    stays = {each["name"] for each in plan["unmovable"]}
    off = {each["name"] for each in plan["shutdowns"]}
    assert moved | stays | off == names and len(moved) + len(stays) + len(off) == len(names)
    assert {name for name in where if where[name] == host} == stays | off
    assert sum(move["extra"] for move in plan["moves"]) == plan["extra_moves"] <= extra_moves
    assert (plan["status"] == "ok") == (not stays)
    assert (plan["proof"] is not None) == (plan["status"] == "infeasible")
    assert all(each["reason"] for each in plan["unmovable"])


@given(crowds(), LIMITS, st.sampled_from([0, 2, 20]), st.data())
@settings(max_examples=50, deadline=None)
def test_no_destination_is_one_of_the_drained_hosts(crowd, limits, extra_moves, data):
    """No destination is a closed host, and no instance of a closed host moves; each instance of the
    drained hosts moves, or is named."""
    columns, guests, host = crowd
    rest = sorted(set(columns["host"]) - {host})
    hosts = (
        [host, *data.draw(st.lists(st.sampled_from(rest), unique=True, max_size=len(rest) - 1))]
        if rest
        else [host]
    )
    left = sorted(set(rest) - set(hosts))
    closed = data.draw(st.lists(st.sampled_from(left), unique=True, max_size=1)) if left else []
    plan = drain(columns, guests, hosts, limits=limits, extra_moves=extra_moves, closed=closed)
    errors, where = check_moves(columns, guests, plan["moves"], set(hosts), limits)
    assert errors == []
    assert not {move["host"] for move in plan["moves"]} & {*hosts, *closed}
    assert not {move["from_host"] for move in plan["moves"]} & set(closed)
    assert {move["from_host"] for move in plan["moves"] if not move["extra"]} <= set(hosts)
    named = {each["name"]: each["host"] for each in [*plan["unmovable"], *plan["shutdowns"]]}
    moved = {move["name"]: move["from_host"] for move in plan["moves"] if not move["extra"]}
    assert {**named, **moved} == {
        each["name"]: each["host"] for each in guests if each["host"] in hosts
    }
    assert not set(named) & set(moved) and {name for name in where if where[name] in hosts} == set(
        named
    )


@given(crowds(), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_the_input_changes_nothing(crowd, random):
    columns, guests, host = crowd
    plan = drain(columns, guests, host, extra_moves=20)
    mixed = list(guests)
    random.shuffle(mixed)
    assert drain(columns, mixed, host, extra_moves=20) == plan


@given(crowds(), st.integers(0, 6))
@settings(max_examples=50, deadline=None)
def test_cut_anywhere_and_planned_again_the_host_ends_as_empty(crowd, cut):
    """S17: if the drain is possible, it stays possible at each cut; the next plan empties the
    host.
    """
    columns, guests, host = crowd
    plan = drain(columns, guests, host, extra_moves=20)
    done = [move for move in plan["moves"] if move["wave"] <= cut]
    errors, where = check_moves(columns, guests, done, {host})
    assert errors == []
    between, moved = moved_to(columns, guests, where)
    again = drain(between, moved, host, extra_moves=40)
    errors, _where = check_moves(between, moved, again["moves"], {host})
    assert errors == []
    if plan["status"] == "ok":
        assert again["status"] == "ok"


def possible(columns, guests, host):
    """Return True if any assignment empties the host, with any order of moves. The function tries
    all assignments."""
    names = [name for name in columns["host"] if name != host]
    free = {
        name: [columns["resources"][rc]["total"][columns["host"].index(name)] for rc in CLASSES]
        for name in names
    }
    counts = {}
    loose = []
    for guest in guests:
        if guest["move_policy"] in ("never", "shutdown"):
            if guest["host"] != host:
                free[guest["host"]] = [
                    a - guest[key] for a, key in zip(free[guest["host"]], CLASSES.values())
                ]
                counts[guest["server_group"], guest["host"]] = (
                    counts.get((guest["server_group"], guest["host"]), 0) + 1
                )
        else:
            loose.append(guest)

    def place(rest):
        if not rest:
            return True
        each, need = rest[0], [rest[0][key] for key in CLASSES.values()]
        group = each["server_group"]
        for name in names:
            if any(a < b for a, b in zip(free[name], need)):
                continue
            if group and counts.get((group, name), 0) >= GROUPS[group][1]:
                continue
            free[name] = [a - b for a, b in zip(free[name], need)]
            counts[group, name] = counts.get((group, name), 0) + 1
            if place(rest[1:]):
                return True
            free[name] = [a + b for a, b in zip(free[name], need)]
            counts[group, name] -= 1
        return False

    return place(sorted(loose, key=lambda each: -each["memory_mb"]))


@given(crowds(most_hosts=4, most_guests=10))
@settings(max_examples=50, deadline=None)
def test_infeasible_is_never_wrong(crowd):
    columns, guests, host = crowd
    plan = drain(columns, guests, host, extra_moves=20)
    if plan["status"] == "infeasible":
        assert not possible(columns, guests, host)


@pytest.mark.skipif(not milp.AVAILABLE, reason="highspy is not installed")
@given(crowds(most_hosts=4, most_guests=10))
@settings(max_examples=50, deadline=None)
def test_the_exact_model_is_right_too(crowd):
    columns, guests, host = crowd
    plan = drain(columns, guests, host, extra_moves=20, solver_seconds=20)
    errors, _where = check_moves(columns, guests, plan["moves"], {host})
    assert errors == []
    if plan["status"] == "infeasible":
        assert not possible(columns, guests, host)


@given(crowds(), st.integers(0, 1), st.booleans(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_batches_hold_every_host_once_and_fit(crowd, spare, back, large):
    columns, guests, _host = crowd
    with mock.patch.object(maintenance_batches, "PAIRS", 0 if large else 20000):
        plan = plan_rolling(columns, guests, POLICY, spare_hosts=spare, back=back)
    hosts = list(itertools.chain(*plan["batches"], [each["host"] for each in plan["blocked"]]))
    assert sorted(hosts) == sorted(columns["host"])
    if not back:
        return
    assert len(plan["batches"]) >= plan["bound"]
    for batch in plan["batches"]:
        # The other instances keep their resources, and the batch's instances fit beside them.
        need = {
            key: sum(
                each[key]
                for each in guests
                if each["host"] in batch and each["move_policy"] != "shutdown"
            )
            for key in CLASSES.values()
        }
        for rc, key in CLASSES.items():
            rows = [i for i, name in enumerate(columns["host"]) if name not in batch]
            room = sum(
                columns["resources"][rc]["total"][i] - columns["resources"][rc]["used"][i]
                for i in rows
            )
            assert need[key] <= room


@given(crowds(), st.integers(0, 1))
@settings(max_examples=50, deadline=None)
def test_places_that_are_kept_are_places(crowd, spare):
    """A batch keeps the room that it claims, after each host that joined."""
    columns, guests, _host = crowd
    states = HostStates(columns)
    moving = [each for each in guests if why_unmovable(each) is None and not is_to_shut_down(each)]
    packing_state, items = packing_state_of(states, POLICY, moving)
    before = packing_state.free.copy()
    batch = maintenance_batches.Batch(
        maintenance_batches.MaintenanceFleet(packing_state, items, spare)
    )
    for name in sorted(set(states.host)):
        batch.add(name)
        assert (packing_state.free == before).all() and packing_state.open.all()
        rows = [row for row in range(states.size) if states.host[row] in batch.names]
        leaving = {item for item in items if states.host[packing_state.at[item]] in batch.names}
        assert set(batch.placed) == leaving and not set(batch.placed.values()) & set(rows)
        free = before.copy()
        for item, node in batch.placed.items():
            free[node] -= packing_state.need[item]
        assert (free == batch._load[0]).all()
        assert all((free[node] >= 0).all() for node in batch.placed.values())


@given(crowds())
@settings(max_examples=100, deadline=None)
def test_what_is_foreseen_of_a_host_is_what_a_search_finds(crowd):
    columns, guests, _host = crowd
    states = HostStates(columns)
    moving = [each for each in guests if why_unmovable(each) is None and not is_to_shut_down(each)]
    fleet = maintenance_batches.MaintenanceFleet(*packing_state_of(states, POLICY, moving), 0)
    for name in sorted(set(states.host)):
        foreseen = fleet.foresee(name)
        assert foreseen is None or foreseen == (fleet.places([name]) is not None)


@given(crowds(), st.data())
@settings(max_examples=50, deadline=None)
def test_the_way_home_keeps_the_rules(crowd, data):
    columns, guests, _host = crowd
    places = sorted(zip(columns["host"], columns["node"]))
    homes = {each["uuid"]: data.draw(st.sampled_from(places)) for each in guests}
    plan = plan_return(columns, guests, POLICY, homes)
    errors, _where = check_moves(columns, guests, plan["moves"])
    assert errors == []
    assert all((move["host"], move["node"]) == homes[move["uuid"]] for move in plan["moves"])
    away = {each["uuid"] for each in guests if (each["host"], each["node"]) != homes[each["uuid"]]}
    assert {move["uuid"] for move in plan["moves"]} | {
        each["uuid"] for each in plan["staying"]
    } == away


@given(crowds(), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_rebalancing_never_worsens_and_keeps_the_rules(crowd, most):
    columns, guests, _host = crowd
    plan = plan_rebalance(columns, guests, POLICY, max_moves=most)
    assert len(plan["moves"]) <= most
    errors, where = check_moves(columns, guests, plan["moves"])
    assert errors == []
    assert plan["score_after"] <= plan["score_before"]
    assert (
        abs(
            plan["score_before"] - plan["score_after"] - sum(move["gain"] for move in plan["moves"])
        )
        < 1e-4
    )
    # A balanced fleet stays as it is: a second plan within the margin has no moves.
    after, moved = moved_to(columns, guests, where)
    if len(plan["moves"]) < most:
        again = plan_rebalance(after, moved, POLICY, max_moves=most)
        assert again["score_after"] <= plan["score_after"] + 1e-6


@given(crowds(), st.integers(1, 3), st.sampled_from([1, 2, 4]))
@settings(max_examples=50, deadline=None)
def test_capacity_counts_what_fits(crowd, vcpus, memory):
    columns, guests, _host = crowd
    request = {"name": "new", "vcpus": vcpus, "memory_mb": memory, "disk_gb": 1}
    answer = plan_capacity(columns, request, POLICY, guests)
    for number, entry in enumerate(answer["hosts"]):
        room = {
            rc: columns["resources"][rc]["total"][number] - columns["resources"][rc]["used"][number]
            for rc in CLASSES
        }
        assert entry["count"] == min(
            room["VCPU"] // vcpus, room["MEMORY_MB"] // memory, room["DISK_GB"]
        )
    assert answer["total"] == sum(each["count"] for each in answer["hosts"])
    assert 0 <= answer["with_loss"]["total"] <= answer["total"]


@given(crowds())
@settings(max_examples=100, deadline=None)
def test_the_losses_that_cannot_be_borne_are_those_of_placing_each(crowd):
    """The shortcuts (all instances fit, or one fits on no host) give the result of placing the
    instances of each host."""
    columns, guests, _host = crowd
    losses = unbearable_losses(columns, POLICY, guests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity._Losses, "_room", lambda self, item: None)
        assert unbearable_losses(columns, POLICY, guests) == losses
