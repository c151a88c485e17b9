# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of drains of any fleet, carried out step by step against the rules."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.tests.unit.planner.guests import act_out, drain, guest
from ansible_collections.drover.compute.tests.unit.scheduler import fleets

STATES = st.sampled_from(["running", "running", "paused", "shutoff", "crashed"])
GROUPS = {"apart": ("anti-affinity", 1), "pairs": ("anti-affinity", 2), "close": ("affinity", None)}


@st.composite
def worlds(draw):
    """Return a fleet that breaks no rule, and the instances of its hosts."""
    nodes = draw(fleets.hosts())
    free = {node["host"]: dict.fromkeys(fleets.CLASSES.values(), 0) for node in nodes}
    guests = []
    members = {}
    for number in range(draw(st.integers(0, 14))):
        node = nodes[draw(st.integers(0, len(nodes) - 1))]
        size = {
            "vcpus": draw(st.integers(1, 3)),
            "memory_mb": draw(st.integers(1, 5)),
            "disk_gb": draw(st.integers(0, 3)),
        }
        room = all(
            free[node["host"]][key] + amount
            <= (node[key] - node["reserved"].get(key, 0)) * node["ratio"][key]
            for key, amount in size.items()
        )
        if not room:
            continue
        for key, amount in size.items():
            free[node["host"]][key] += amount
        group = draw(st.sampled_from([None, None, *GROUPS]))
        group_hosts = members.get(group, [])
        if (
            group == "close"
            and group_hosts
            and group_hosts[0] != node["host"]
            or group in ("apart", "pairs")
            and group_hosts.count(node["host"]) >= GROUPS[group][1]
        ):
            group = None
        members.setdefault(group, []).append(node["host"])
        guests.append(
            guest(f"vm{number}", host=node["host"], state=draw(STATES), group=group, **size)
        )
    source = draw(st.sampled_from([node["host"] for node in nodes]))
    limits = {
        "per_source": draw(st.sampled_from([None, 1, 2])),
        "per_destination": draw(st.sampled_from([None, 1])),
    }
    return nodes, guests, source, limits


@given(worlds())
@settings(max_examples=200, deadline=None)
def test_no_rule_is_broken_at_any_step(world):
    nodes, guests, source, limits = world
    plan, columns = drain(nodes, guests, host=source, groups=GROUPS, limits=limits)
    group_of = {each["name"]: each["server_group"] for each in guests}

    def check(used, where):
        for rc, column in columns["resources"].items():
            for index, amount in enumerate(used[rc]):
                assert (
                    amount
                    <= (column["total"][index] - column["reserved"][index]) * column["ratio"][index]
                )
        for group in ("apart", "pairs"):
            for name in set(columns["host"]):
                on_host = [
                    vm for vm, hosts in where.items() if group_of[vm] == group and name in hosts
                ]
                assert len(on_host) <= GROUPS[group][1]

    _used, where = act_out(plan, columns, guests, check)
    assert len({next(iter(where[vm])) for vm in where if group_of[vm] == "close"}) <= 1
    moved = {move["name"] for move in plan["moves"]}
    stuck = {each["name"] for each in plan["unmovable"]}
    here = {each["name"] for each in guests if each["host"] == source}
    assert moved | stuck == here and not moved & stuck
    assert {vm for vm, hosts in where.items() if hosts == {source}} == stuck
    for move in plan["moves"]:
        index = columns["host"].index(move["host"])
        assert move["host"] != source and columns["up"][index] and not columns["disabled"][index]
        assert columns["cell"][index] == columns["cell"][columns["host"].index(source)]
    for wave in range(1, plan["waves"] + 1):
        moves = [move for move in plan["moves"] if move["wave"] == wave]
        assert moves and len(moves) <= (limits["per_source"] or 99)
        assert (
            len({move["host"] for move in moves}) == len(moves) or limits["per_destination"] is None
        )


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_same_input_same_plan_and_the_input_is_left_alone(world):
    nodes, guests, source, limits = world
    kept = copy.deepcopy((nodes, guests))
    plan, _columns = drain(nodes, guests, host=source, groups=GROUPS, limits=limits)
    again, _columns = drain(
        nodes, list(reversed(guests)), host=source, groups=GROUPS, limits=limits
    )
    assert plan == again
    assert (nodes, guests) == kept


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_whoever_fits_nowhere_really_does(world):
    nodes, guests, source, limits = world
    plan, columns = drain(nodes, guests, host=source, groups=GROUPS, limits=limits)
    size = {each["name"]: each for each in guests}
    for instance in plan["unmovable"]:
        if (
            not instance["reason"].startswith("fits on no other host:")
            or size[instance["name"]]["server_group"]
        ):
            continue
        for index, name in enumerate(columns["host"]):
            if name == source or columns["disabled"][index] or not columns["up"][index]:
                continue
            if columns["cell"][index] != columns["cell"][columns["host"].index(source)]:
                continue
            assert any(
                column["used"][index] + size[instance["name"]][fleets.CLASSES[rc]]
                > (column["total"][index] - column["reserved"][index]) * column["ratio"][index]
                or size[instance["name"]][fleets.CLASSES[rc]] > column["max_unit"][index]
                for rc, column in columns["resources"].items()
            )
