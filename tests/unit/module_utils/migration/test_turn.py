# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A given number of moves at a time, in the order of their arrival, also if one of them dies."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time

import pytest

from ansible_collections.drover.compute.plugins.module_utils._migration.turn import Turn
from ansible_collections.drover.compute.plugins.module_utils._orders.records import uptime

fork = multiprocessing.get_context("fork")


def turn(tmp_path, number, since=None):
    made = Turn(str(tmp_path), f"vm{number}")
    made.take_place(since)
    return made


def test_first_come_first_served(tmp_path):
    line = [turn(tmp_path, number) for number in range(4)]
    assert [each.has_come(2) for each in line] == [True, True, False, False]
    line[1].leave()
    assert [each.has_come(2) for each in (line[0], *line[2:])] == [True, True, False]
    assert line[3].has_come(None) and line[3].has_come(3)


def test_how_many_stand_in_a_line(tmp_path):
    line = [turn(tmp_path, number) for number in range(3)]
    assert [each.count() for each in line] == [3, 3, 3]
    assert Turn(str(tmp_path), "vm9", "checks").count() == 0
    line[0].leave()
    assert line[0].count() == 2


def test_leaving_twice_or_without_a_place_does_no_harm(tmp_path):
    never, once = Turn(str(tmp_path), "vm1"), turn(tmp_path, 2)
    never.leave()
    once.leave()
    once.leave()
    assert os.listdir(tmp_path / "turns") == ["lock"]


def test_what_goes_on_without_having_waited_stands_where_it_began(tmp_path):
    began = uptime()
    waits = turn(tmp_path, 1)
    goes_on = turn(tmp_path, 2, since=began)
    assert (goes_on.has_come(1), waits.has_come(1)) == (True, False)


@pytest.mark.parametrize("now", [0.0, 1e9, 1e11])
def test_suspected_9_a_clock_that_is_set_lets_nobody_past(tmp_path, monkeypatch, now):
    first = turn(tmp_path, 1)
    monkeypatch.setattr(time, "time", lambda: now)
    second = turn(tmp_path, 2)
    monkeypatch.undo()
    third = turn(tmp_path, 3)
    assert [each.has_come(1) for each in (first, second, third)] == [True, False, False]
    assert [each.has_come(2) for each in (first, second, third)] == [True, True, False]


def test_a_place_is_free_when_its_process_dies(tmp_path):
    def stand(ready):
        turn(tmp_path, 1)
        ready.set()
        time.sleep(600)

    ready = fork.Event()
    process = fork.Process(target=stand, args=(ready,))
    process.start()
    assert ready.wait(30)
    waits = turn(tmp_path, 2)
    assert not waits.has_come(1)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert waits.has_come(1)
    assert len(os.listdir(tmp_path / "turns")) == 2


@pytest.mark.parametrize("most", [1, 3])
def test_never_more_at_a_time_and_in_order(tmp_path, most):
    """Eight processes; two of them die while it is their turn."""
    under_way, seen = fork.Value("i", 0), tmp_path / "seen"

    def move(number, mine, said):
        place = turn(tmp_path, number)
        mine.set()
        while not place.has_come(most):
            time.sleep(0.002)
        with under_way.get_lock():
            under_way.value += 1
            with seen.open("a") as handle:
                handle.write(f"{number} {under_way.value}\n")
        time.sleep(random.random() / 50)
        with under_way.get_lock():
            under_way.value -= 1
        said.set()
        if number in (2, 5):
            os.kill(os.getpid(), signal.SIGSTOP)
        place.leave()

    processes, over = [], []
    for number in range(8):
        mine, end_event = fork.Event(), fork.Event()
        process = fork.Process(target=move, args=(number, mine, end_event))
        process.start()
        assert mine.wait(30)
        processes.append(process)
        over.append(end_event)
    for number in (2, 5):
        assert over[number].wait(30)
        os.kill(processes[number].pid, signal.SIGKILL)
    for process in processes:
        process.join(30)
        assert process.exitcode is not None
    lines = [line.split() for line in seen.read_text().splitlines()]
    assert max(int(count) for dummy, count in lines) <= most
    numbers = [int(number) for number, dummy in lines]
    assert sorted(numbers) == list(range(8))
    assert all(abs(place - number) < most for place, number in enumerate(numbers)), numbers
