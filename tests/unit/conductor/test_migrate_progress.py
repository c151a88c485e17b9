# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages about moves: at once at their beginning and end, sometimes in between, and never enough
to fill the log."""

from __future__ import annotations

import time
import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.progress import (
    MENTION,
    Progress,
    pause,
)
from ansible_collections.drover.compute.tests.unit.conductor import test_migrate
from ansible_collections.drover.compute.tests.unit.conductor.test_migrate import (
    NAMES,
    World,
    mover,
    plan,
)

CALL_SECONDS = 2
CALLS = 900


class SlowWorld(World):
    """A world where each call takes its whole time limit, without a real wait."""

    seconds = 0.0

    def __call__(self, start, follow, wait, until):
        self.seconds += CALL_SECONDS
        return super().__call__(start, follow, wait, until)

    def answer(self, order):
        return {**super().answer(order), "elapsed_s": self.seconds}


@pytest.fixture
def fleet_url(prepared_url):
    test_migrate.begin_again(prepared_url)
    return prepared_url


def test_half_an_hour_of_moves(fleet_url):
    world, lines = SlowWorld(rounds=CALLS), []
    clock = types.SimpleNamespace(monotonic=lambda: world.seconds, time=time.time, sleep=time.sleep)
    mover(fleet_url, world, limit=3, lines=lines, clock=clock).run(plan(*NAMES))
    assert world.seconds >= CALLS * CALL_SECONDS
    progress_lines = [line for line in lines if " of 64 MiB" in line]
    # Lines per instance: at first every 15 s, because there are three, then less and less often.
    assert {
        name: 10 < sum(line.startswith(name) for line in progress_lines) < 45 for name in NAMES
    } == dict.fromkeys(NAMES, True)


@pytest.mark.parametrize(
    "elapsed, count, wanted",
    [(0, 1, MENTION), (None, 2, MENTION), (5, 20, 10 * MENTION), (3600, 1, 360), (3600, 200, 1000)],
)
def test_pause(elapsed, count, wanted):
    assert pause(elapsed, count) == wanted


class Told:
    """Progress with a fake clock; the messages since the last look."""

    def __init__(self, seconds):
        self.now, self.lines = 0.0, []
        clock = types.SimpleNamespace(monotonic=lambda: self.now)
        self.progress = Progress(self.lines.append, clock)
        self.orders = {
            name: {
                "uuid": name,
                "name": name,
                "source": "kvm1",
                "destination": "kvm2",
                "live": True,
                "restart": False,
            }
            for name in seconds
        }
        self.progress.expect(seconds)

    def started(self, *names):
        for name in names:
            self.progress.started(self.orders[name])

    def goes_on(self, name, percent, total, left, elapsed):
        result = {
            "percent": percent,
            "total_mib": total,
            "remaining_mib": left,
            "elapsed_s": elapsed,
        }
        self.progress.goes_on(self.orders[name], result, 1)

    def ended(self, name, status="completed"):
        message = "" if status == "completed" else "why"
        self.progress.ended(
            {**self.orders[name], "status": status, "message": message, "elapsed_s": self.now},
            "running",
        )

    def said(self):
        lines, self.lines[:] = list(self.lines), []
        return lines


def test_a_move_says_its_share_its_amount_and_the_time_left():
    progress = Told({"web1": 30})
    progress.started("web1")
    assert progress.said() == ["web1: kvm1 -> kvm2, live, started [0 of 1]"]
    progress.now = 9
    progress.goes_on("web1", 20, 2867, 2293, 9)
    assert progress.said() == [], "it has just begun"
    progress.now = 15
    progress.goes_on("web1", 43, 2867, 1638, 15)
    assert progress.said() == [
        "web1: 43 %, 1.2 of 2.8 GiB, about 20 s left [0 of 1, 43 %, about 20 s left]"
    ]
    progress.now = 24
    progress.goes_on("web1", 80, 2867, 573, 24)
    assert progress.said() == []
    progress.now = 30
    progress.ended("web1")
    assert progress.said() == ["web1: kvm1 -> kvm2, running there after 30.0 s [1 of 1]"]


@pytest.mark.parametrize(
    "total, elapsed, words",
    [(None, 25, "under way for 25 s"), (0, None, "under way"), (512, 3, "0 %, 0 of 512 MiB")],
)
def test_what_is_not_known_of_a_move_is_not_said(total, elapsed, words):
    progress = Told({"web1": 30})
    progress.started("web1")
    progress.now = 20
    progress.goes_on("web1", 0, total, total, elapsed)
    assert progress.said()[1] == f"web1: {words} [0 of 1]"


def test_the_time_left_goes_by_what_moves_were_expected_to_take_and_how_fast_they_are():
    """40 of the expected 360 s took 20 s: the links are twice as fast."""
    progress = Told({"a": 20, "b": 20, "c": 320})
    progress.started("a", "b")
    progress.now = 20
    progress.ended("a")
    progress.ended("b")
    assert progress.said()[2:] == [
        "a: kvm1 -> kvm2, running there after 20.0 s [1 of 3, 5 %, about 6 min left]",
        "b: kvm1 -> kvm2, running there after 20.0 s [2 of 3, 11 %, about 3 min left]",
    ]
    progress.started("c")
    progress.now = 60
    progress.goes_on("c", 25, 40960, 30720, 40)
    assert progress.said()[1:] == [
        "c: 25 %, 10 of 40 GiB, about 2 min left [2 of 3, 33 %, about 2 min left]"
    ]


def test_one_that_failed_is_counted_once_however_often_it_is_tried():
    progress = Told({"a": 20, "b": 20})
    progress.started("a", "b")
    progress.ended("a", "failed")
    progress.ended("b")
    progress.progress.expect({"a": 20})
    progress.started("a")
    progress.ended("a")
    counts = [line.rpartition(" [")[2] for line in progress.said()]
    assert [each for each in counts if each.startswith("2 of 2")] == ["2 of 2]", "2 of 2]"]


def test_what_was_not_begun_in_the_end_is_left_out():
    progress = Told({"a": 20, "b": 20})
    progress.progress.leave_out(["b"])
    progress.started("a")
    progress.ended("a")
    assert progress.said()[-1].endswith("[1 of 1]")


def test_the_hypervisor_is_told_which_have_not_begun(fleet_url):
    """A short limit: the module answers soon after one of them."""
    asked = []

    class Asked(World):
        def __call__(self, start, follow, wait, until):
            asked.append({order["name"]: order["waiting"] for order in [*start, *follow]})
            return super().__call__(start, follow, wait, until)

    mover(fleet_url, Asked(), limit=1).run(plan(*NAMES))
    assert asked[0] == {"web1": False, "web2": True, "web3": True}
    assert asked[-1] == {"web3": False}


def test_the_whole_takes_at_least_as_long_as_what_is_left_of_one():
    progress = Told({"quick": 10, "slow": 10})
    progress.started("quick", "slow")
    progress.now = 20
    progress.ended("quick")
    progress.now = 60
    progress.goes_on("slow", 20, 1000, 800, 60)
    assert (
        progress.lines[-1]
        == "slow: 20 %, 200 of 1,000 MiB, about 4 min left [1 of 2, 60 %, about 4 min left]"
    )
