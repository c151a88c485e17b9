# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of drains of storage pools."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._planner.pool_drain import (
    GIB,
    PoolAmounts,
    PoolDisk,
    PoolSpace,
    plan,
)

NOTHING = PoolAmounts({}, {})


def disk(name="web", gib=10.0, target="vda", node=1, copied=None, traits=(), **more):
    size = int(gib * GIB)
    return PoolDisk(
        name,
        name,
        target,
        node,
        f"kvm{node}",
        f"/srv/ssd/{name}-{target}",
        size,
        size if copied is None else copied,
        frozenset(traits),
        **more,
    )


def space(name, capacity=100, used=0, node=1, free=10**15, traits=(), place=None, **more):
    return PoolSpace(
        node,
        name,
        name,
        place or (f"{node}-{name}", f"CUSTOM_DISK_GB_{name}"),
        capacity,
        used,
        free,
        frozenset(traits),
        **more,
    )


def went(moves):
    return {move.disk.key: move.space.name for move in moves}


def test_the_largest_goes_first_and_to_the_emptiest():
    moves, staying = plan(
        [disk("a", 10), disk("b", 60)], [space("one", 100, 30), space("two", 200, 20)], NOTHING
    )
    assert not staying and [move.disk.name for move in moves] == ["b", "a"]
    assert went(moves) == {("b", "vda"): "two", ("a", "vda"): "one"}


def test_a_disk_goes_to_a_pool_of_its_own_host_that_has_its_traits():
    spaces = [
        space("fast", traits=["STORAGE_DISK_SSD"], used=90),
        space("slow"),
        space("fast", node=2, traits=["STORAGE_DISK_SSD"]),
    ]
    moves, left = plan([disk(traits=["STORAGE_DISK_SSD"])], spaces, NOTHING)
    assert [(move.space.node, move.space.name) for move in moves] == [(1, "fast")] and not left
    _moves, (lost,) = plan([disk(traits=["CUSTOM_X"])], spaces, NOTHING)
    assert "slow: it lacks CUSTOM_X, which the disk asked for" in lost.reason


def test_what_is_short_is_said():
    _moves, (lost,) = plan([disk(gib=30)], [space("slow", 100, 80), space("full", free=1)], NOTHING)
    assert "slow: 30 GiB are needed and 20 of 100 are left, 10 short" in lost.reason
    assert "full: the copy takes up to 30720 MiB and 0 MiB are free on the storage" in lost.reason


def test_the_wanted_pool_alone():
    moves, left = plan([disk()], [space("slow", used=50), space("empty")], NOTHING, wanted="slow")
    assert went(moves) == {("web", "vda"): "slow"} and not left
    _moves, (lost,) = plan([disk()], [space("slow")], NOTHING, wanted="other")
    assert lost.reason == "kvm1 has no storage pool other that is counted (it has slow)"


def test_a_host_without_another_pool():
    _moves, (lost,) = plan([disk()], [], NOTHING)
    assert (
        lost.reason == "kvm1 has no other storage pool that is counted"
        and "drover_storage_pools" in lost.way_out
    )


def test_what_the_host_refuses_wherever_it_goes_is_its_own_sentence():
    words = "The disk vda of web on kvm1 is shareable."
    refused = {("web", "vda"): {"one": words, "two": words}}
    moves, (lost,) = plan([disk()], [space("one"), space("two")], NOTHING, refused=refused)
    assert not moves and lost.reason == words
    moves, _left = plan(
        [disk()], [space("one"), space("two")], NOTHING, refused={("web", "vda"): {"one": words}}
    )
    assert went(moves) == {("web", "vda"): "two"}


def test_the_disks_of_an_instance_are_added_up_before_they_are_rounded():
    slow = space("slow", 1)
    moves, staying = plan([disk(gib=0.5), disk(gib=0.5, target="vdb")], [slow], NOTHING)
    assert len(moves) == 2 and not staying
    # The pool already has a GiB, and half of it is in use.
    taken = PoolAmounts({("web", slow.place): GIB // 2}, {("web", slow.place): 1})
    moves, staying = plan([disk(gib=0.5)], [slow._replace(used=1)], taken)
    assert len(moves) == 1 and not staying


TRAITS = st.sets(st.sampled_from(["A", "B"]))


@st.composite
def worlds(draw):
    shared = ("shared", "S")
    spaces = []
    for node in (1, 2):
        for name in draw(st.lists(st.sampled_from(["x", "y", "z"]), unique=True)):
            spaces.append(
                space(
                    name,
                    draw(st.integers(0, 40)),
                    draw(st.integers(0, 20)),
                    node,
                    draw(st.none() | st.integers(0, 40 * GIB)),
                    draw(TRAITS),
                )
            )
        if draw(st.booleans()):
            spaces.append(space("s", 30, 5, node, 20 * GIB, ["A"], shared))
    disks = [
        disk(
            f"i{draw(st.integers(0, 3))}-{node}",
            draw(st.floats(0, 20)),
            f"vd{number}",
            node,
            draw(st.none() | st.integers(0, 20 * GIB)),
            draw(TRAITS),
        )
        for number, node in enumerate(draw(st.lists(st.sampled_from([1, 2]), max_size=8)))
    ]
    return disks, spaces


@given(worlds(), st.sampled_from([None, "x", "s"]))
def test_nothing_is_over_capacity_no_disk_is_lost_and_traits_are_kept(world, wanted):
    disks, spaces = world
    moves, staying = plan(disks, spaces, NOTHING, wanted)
    assert sorted(
        [move.disk.key for move in moves] + [each.disk.key for each in staying]
    ) == sorted(each.key for each in disks)
    assert all(each.reason and each.way_out for each in staying)
    taken, copied = {}, {}
    for move in moves:
        assert (
            move.space.node == move.disk.node
            and move.disk.traits <= move.space.traits
            and wanted in (None, move.space.name)
        )
        key = (move.disk.uuid, move.space.place)
        taken[key] = taken.get(key, 0) + move.disk.size
        copied[move.space.place] = copied.get(move.space.place, 0) + move.disk.copied
    for pool_space in spaces:
        more = sum(
            math.ceil(size / GIB)
            for (_uuid, place), size in taken.items()
            if place == pool_space.place
        )
        assert not more or pool_space.used + more <= pool_space.capacity
        assert (
            pool_space.place not in copied
            or pool_space.free is None
            or copied[pool_space.place] <= pool_space.free
        )
