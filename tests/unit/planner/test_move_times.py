# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations of moves: from their size, and from the rates of recorded moves."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._planner.move_times import (
    ASSUMED_MIB,
    LEAST_SECONDS,
    PAIR_MOVES,
    SETUP_SECONDS,
    Rates,
    expect,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.outcomes import MeasuredMove
from ansible_collections.drover.compute.plugins.plugin_utils._records.plans import LocalDisks
from ansible_collections.drover.compute.plugins.plugin_utils._report.plans import estimate_lines

HOSTS = ("kvm1", "kvm2", "kvm3")
TIB = 1024 * 1024


def move(name="web1", memory_mb=1100, live=True, wave=1, **more):
    move_data = {
        "uuid": name,
        "name": name,
        "from_host": "kvm1",
        "host": "kvm2",
        "live": live,
        "state": "running" if live else "shutoff",
    }
    return {
        **move_data,
        "memory_mb": memory_mb,
        "bandwidth_mib": None,
        "dirty_mib": 0,
        "wave": wave,
        **more,
    }


def measured(mib, seconds, disk_mib=0, live=True, source="kvm1", destination="kvm2", count=1):
    """Return moves that copied so many MiB of memory and disks in so many seconds, without the
    fixed time of each move."""
    return [MeasuredMove(source, destination, live, mib, disk_mib, seconds + SETUP_SECONDS)] * count


def one(given_move, rates=None, disks=None):
    """Return (seconds, parts that are copied) of a plan of one move."""
    seconds = expect(
        [given_move], rates or Rates(), {} if disks is None else {given_move["uuid"]: disks}
    )
    assert seconds == given_move["seconds"]
    return seconds, [
        (each["what"], each["mib"], each["rate"], each["basis"], each["moves"])
        for each in given_move["copying"]
    ]


def test_memory_and_disks_by_the_assumed_rate():
    assert one(move()) == (12.0, [("memory", 1100, 110, "assumed", 0)])
    assert one(move(), disks=LocalDisks(22000)) == (
        212.0,
        [("memory", 1100, 110, "assumed", 0), ("disks", 22000, 110, "assumed", 0)],
    )
    assert one(move(live=False)) == (2.0, [])
    # A cold move of 80 GiB takes more than 2 s.
    assert one(move(live=False), disks=LocalDisks(80 * 1024)) == (
        746.7,
        [("disks", 81920, 110, "assumed", 0)],
    )


def thin(virtual, written, how="copied"):
    return LocalDisks(
        written,
        (),
        ({"target": "vda", "source": "/a", "how": how, "mib": written, "virtual_mib": virtual},),
    )


def test_walk_f07_a_limit_counts_what_a_thin_disk_has_not_written():
    """The estimate was 4 s; with libvirt 9 and QEMU 7.2 the move took 38 s. With 8 MiB/s it took
    142 s."""
    web1 = move(memory_mb=93, bandwidth_mib=32)
    seconds, copying = one(web1, disks=thin(1024, 15))
    assert 38 / 1.5 < seconds < 38 * 1.5 and ("disks", 1024, 32, "configured", 0) in copying
    assert 142 / 1.5 < one(move(memory_mb=93, bandwidth_mib=8), disks=thin(1024, 15))[0] < 142 * 1.5
    # A disk without data takes time too.
    assert one(move(memory_mb=93, bandwidth_mib=32), disks=thin(1024, 0))[0] > 30
    # Without a limit, and for a move that is off, empty parts take no time; neither does a shared
    # disk.
    assert one(move(memory_mb=93), disks=thin(1024, 15))[0] < 4
    assert one(move(live=False, bandwidth_mib=32), disks=thin(1024, 15))[0] < 4
    assert one(move(memory_mb=93, bandwidth_mib=32), disks=thin(1024, 0, "shared"))[0] < 7
    # A limit above the highest measured rate of disks changes nothing.
    fast = Rates(measured(100, 100, disk_mib=10000, count=3))
    assert one(move(memory_mb=93, bandwidth_mib=100000), fast, thin(10000, 9000))[0] > 80
    web1["copies_disk_mib"] = 15
    lines = estimate_lines({"moves": [web1], "seconds": 37.0})
    assert (
        "Under the limit bandwidth_mib 1,009 MiB of thin disks that nobody has written count too."
        in lines
    )


def test_memory_that_is_dirtied_meanwhile():
    assert one(move(dirty_mib=55))[0] > 20
    restless = move(dirty_mib=200)
    assert one(restless)[0] == 12.0 and restless["converges"] is False
    by_default = move(dirty_mib=None)
    assert one(by_default)[0] > 12 and by_default["converges"] is True


def test_a_measured_rate_gives_back_the_time_that_was_measured():
    """The measured time already contains the pages that the guests dirtied."""
    rates = Rates(
        measured(4096, 40, count=3)
        + measured(2048, 500, 48 * 1024, count=3)
        + measured(0, 1000, 50_000, live=False, count=3)
    )
    assert one(move(memory_mb=4096, dirty_mib=None), rates) == (
        42.0,
        [("memory", 4096, 102.4, "hosts", 3)],
    )
    assert one(move(live=False), rates, LocalDisks(100_000)) == (
        2002.0,
        [("disks", 100_000, 50.0, "hosts", 3)],
    )
    _seconds, copied = one(move(memory_mb=4096), rates, LocalDisks(10_240))
    assert copied[1] == ("disks", 10_240, 102.4, "hosts", 3)


def test_moves_between_the_same_hosts_come_first_in_either_direction_then_the_fleet():
    near = measured(1000, 100, count=PAIR_MOVES - 1) + measured(
        1000, 100, source="kvm2", destination="kvm1"
    )
    far = measured(1000, 20, source="kvm8", destination="kvm9", count=5)
    assert one(move(), Rates(near + far))[1] == [("memory", 1100, 10.0, "hosts", PAIR_MOVES)]
    # Too few moves between these hosts: all moves of the fleet count.
    assert one(move(), Rates(near[1:] + far))[1] == [
        ("memory", 1100, pytest.approx(7000 / 300, abs=0.1), "fleet", 7)
    ]
    assert one(move(host="kvm3"), Rates(near + far))[1][0][4] == 8
    assert one(move(), Rates(measured(1000, 20)))[1] == [("memory", 1100, 50.0, "fleet", 1)]


def test_moves_that_say_nothing_of_a_rate_are_left_out():
    short = measured(640, LEAST_SECONDS - SETUP_SECONDS - 0.1)
    nothing = measured(0, 100) + measured(0, 100, live=False)
    # Nearly all of it is memory, and empty pages take no time.
    mostly_memory = measured(64 * 1024, 10, 32 * 1024)
    little = measured(100, 60) + measured(0, 60, 100) + measured(0, 60, 100, live=False)
    for left_out in (short, nothing, mostly_memory, little):
        for live in (True, False):
            parts = one(move(live=live), Rates(left_out), LocalDisks(1))[1]
            assert {(rate, basis) for _what, _mib, rate, basis, _moves in parts} == {
                (ASSUMED_MIB, "assumed")
            }


def test_a_limit_of_the_migration_holds_for_what_is_measured_too():
    rates = Rates(
        measured(2000, 20) + measured(100, 100, 20_000) + measured(0, 100, 20_000, live=False)
    )
    assert one(move(bandwidth_mib=50), rates)[1] == [("memory", 1100, 50.0, "configured", 0)]
    assert one(move(bandwidth_mib=500), rates)[1] == [("memory", 1100, 100.0, "fleet", 1)]
    assert one(move(bandwidth_mib=500))[1] == [("memory", 1100, 500.0, "configured", 0)]
    # The files of a cold move are sent without the limit.
    assert one(move(live=False, bandwidth_mib=50), rates, LocalDisks(1))[1] == [
        ("disks", 1, 200.0, "fleet", 1)
    ]


def test_moves_at_the_same_time_share_a_link_whose_speed_is_only_assumed():
    pair = [move("web1", 1100), move("web2", 2200)]
    assert expect(pair, Rates(), {}) == 32.0 and [each["seconds"] for each in pair] == [12.0, 22.0]
    apart = [move("web1", 1100), move("web2", 2200, from_host="kvm3", host="kvm4")]
    assert expect(apart, Rates(), {}) == 22.0
    to_one = [move("web1", 1100), move("web2", 2200, from_host="kvm3")]
    assert expect(to_one, Rates(), {}) == 32.0
    waves = [move("web1", 1100), move("web2", 2200, wave=2)]
    assert expect(waves, Rates(), {}) == 34.0
    # The rate was measured beside other moves.
    assert expect(pair, Rates(measured(1100, 10)), {}) == 22.0


def test_what_is_assumed_measured_and_unknown_is_said():
    moves = [
        move("web1", 2048),
        move("web2", 0, live=False),
        move("web3", 0, live=False, state="running"),
        move("web4", 0, live=False, from_host="kvm3"),
    ]
    disks = {
        "web1": LocalDisks(1024),
        "web2": LocalDisks(TIB),
        "web3": LocalDisks(0, ("the size of its disk vdb",)),
    }
    plan = {"moves": moves, "seconds": expect(moves, Rates(measured(2048, 20, count=12)), disks)}
    assert estimate_lines(plan) == [
        "Expected to take about 2 h 39 min.",
        (
            "Copies 1 TiB: memory at 102 MiB/s, measured over 12 moves between these hosts; disks"
            " of running instances, disks of instances that are shut off at 110 MiB/s, assumed."
        ),
        (
            "Not known, so not counted: the size of its disk vdb (web3); how long it takes to shut"
            " down and to start (web3)."
        ),
    ]
    moves = [move("web1", 2048), move("web2", 1024, host="kvm3")]
    rates = Rates(measured(2048, 20, count=3) + measured(1000, 100, destination="kvm3", count=4))
    plan = {"moves": moves, "seconds": expect(moves, rates, {})}
    assert (
        estimate_lines(plan)[1]
        == "Copies 3 GiB: memory at 10 to 102 MiB/s, measured over 7 moves between these hosts."
    )
    moves = [move(bandwidth_mib=30)]
    plan = {"moves": moves, "seconds": expect(moves, Rates(), {})}
    assert (
        estimate_lines(plan)[1] == "Copies 1.07 GiB: memory at 30 MiB/s, the limit bandwidth_mib."
    )
    moves = [move(live=False)]
    plan = {"moves": moves, "seconds": expect(moves, Rates(), {})}
    assert estimate_lines(plan) == ["Expected to take about 2 s."]


RECORDED = st.lists(
    st.builds(
        MeasuredMove,
        st.sampled_from(HOSTS),
        st.sampled_from(HOSTS),
        st.booleans(),
        st.integers(0, 500_000),
        st.integers(0, TIB),
        st.floats(0, 90_000, allow_nan=False),
    ),
    max_size=12,
)
MOVES = st.lists(
    st.builds(
        lambda memory_mb, live, source, to, wave, limit, dirty: move(
            memory_mb=memory_mb,
            live=live,
            from_host=source,
            host=to,
            wave=wave,
            bandwidth_mib=limit,
            dirty_mib=dirty,
        ),
        st.integers(0, 500_000),
        st.booleans(),
        st.sampled_from(HOSTS),
        st.sampled_from(HOSTS),
        st.integers(1, 3),
        st.sampled_from([None, 10, 1000]),
        st.sampled_from([None, 0, 5, 200]),
    ),
    min_size=1,
    max_size=6,
)


def numbered(moves):
    return [{**each, "uuid": str(number)} for number, each in enumerate(moves)]


@settings(max_examples=50, deadline=None)
@given(RECORDED, MOVES, st.lists(st.integers(0, TIB), min_size=6, max_size=6), st.data())
def test_more_to_copy_never_takes_less_time(recorded, moves, sizes, data):
    moves, rates = numbered(moves), Rates(recorded)
    disks = {each["uuid"]: LocalDisks(size) for each, size in zip(moves, sizes)}
    before = expect(moves, rates, disks)
    chosen = data.draw(st.sampled_from(range(len(moves))))
    more = data.draw(st.integers(0, TIB))
    larger = copy.deepcopy(moves)
    if data.draw(st.booleans()):
        larger[chosen]["memory_mb"] += more
    else:
        disks[larger[chosen]["uuid"]] = LocalDisks(sizes[chosen] + more)
    # Each figure is rounded to a tenth of a second.
    assert expect(larger, rates, disks) >= before - 0.1
    assert larger[chosen]["seconds"] >= moves[chosen]["seconds"] - 0.1
    # One more move does not shorten it either.
    assert expect([*larger, move("another", 512)], rates, disks) >= before - 0.1


@settings(max_examples=50, deadline=None)
@given(RECORDED, MOVES, st.lists(st.integers(0, TIB), min_size=6, max_size=6))
def test_what_is_copied_adds_up_and_every_rate_has_its_reason(recorded, moves, sizes):
    moves, rates = numbered(moves), Rates(recorded)
    total = expect(
        moves, rates, {each["uuid"]: LocalDisks(size) for each, size in zip(moves, sizes)}
    )
    assert total >= max(each["seconds"] for each in moves)
    for timed_move, size in zip(moves, sizes):
        assert timed_move["copies_disk_mib"] == size
        assert (
            timed_move["copies_mib"]
            == size + (timed_move["memory_mb"] if timed_move["live"] else 0)
            == sum(part["mib"] for part in timed_move["copying"])
        )
        for part in timed_move["copying"]:
            assert part["rate"] > 0 and part["mib"] > 0
            assert (part["moves"] > 0) == (part["basis"] in ("hosts", "fleet"))
            assert part["basis"] != "assumed" or part["rate"] == ASSUMED_MIB
        # The output rounds the rate.
        least = SETUP_SECONDS + sum(
            part["mib"] / (part["rate"] + 0.1) for part in timed_move["copying"]
        )
        assert timed_move["seconds"] >= least - 0.1


def test_a_file_of_variables_beside_the_memory_is_no_measurement_of_disks():
    rates = Rates(measured(4096, 40, 1, count=PAIR_MOVES))
    assert one(move(), rates, LocalDisks(1100))[1] == [
        ("memory", 1100, 102.4, "hosts", 3),
        ("disks", 1100, 110, "assumed", 0),
    ]


def test_of_many_names_only_the_first_are_in_the_line():
    moves = [move(f"vm{number}", live=False, state="running") for number in range(12)]
    plan = {"moves": moves, "seconds": expect(moves, Rates(), {})}
    assert estimate_lines(plan)[1].endswith(
        "(vm0, vm1, vm2, vm3, vm4, vm5, vm6, vm7, vm8, vm9 and 2 more)."
    )
