# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of moves: ``after`` and ``stage``."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._planner.move_order import assign_waves

HOSTS = ("kvm1", "kvm2", "kvm3", "kvm4")


def move(number, source, to):
    return {
        "uuid": str(number),
        "from_host": source,
        "from_node": source,
        "host": to,
        "node": to,
        "server_group": None,
    }


def test_limits_make_waves_but_no_stages():
    moves = [move(number, "kvm1", "kvm2") for number in range(4)]
    assert assign_waves(moves, {"per_source": 1}) == 4
    assert {each["stage"] for each in moves} == {1} and all(each["after"] == [] for each in moves)


def test_a_move_waits_for_those_that_leave_its_destination_before_it():
    moves = [
        move(1, "kvm3", "kvm4"),
        move(2, "kvm2", "kvm3"),
        move(3, "kvm1", "kvm2"),
        move(4, "kvm1", "kvm4"),
    ]
    assign_waves(moves)
    found = {each["uuid"]: (each["stage"], each["after"]) for each in moves}
    assert found == {"1": (1, []), "2": (2, ["1"]), "3": (3, ["2"]), "4": (1, [])}


@given(
    st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), max_size=12),
    st.integers(1, 3),
)
def test_stages_go_with_what_is_waited_for_and_never_beyond_the_waves(pairs, limit):
    moves = [move(number, source, to) for number, (source, to) in enumerate(pairs) if source != to]
    given_order = [each["uuid"] for each in moves]
    assign_waves(moves, {"per_destination": limit})
    by_uuid = {each["uuid"]: each for each in moves}
    for follower in moves:
        for before in follower["after"]:
            other = by_uuid[before]
            assert other["from_host"] == follower["host"] and other["stage"] < follower["stage"]
            assert other["wave"] < follower["wave"] and given_order.index(
                before
            ) < given_order.index(follower["uuid"])
        assert follower["stage"] <= follower["wave"]
