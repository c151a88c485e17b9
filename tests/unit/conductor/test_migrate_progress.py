# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves that take long tell where they are, and do not fill the log."""

from __future__ import annotations

import time
import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils.conductor.progress import MENTION, pause
from ansible_collections.drover.compute.tests.unit.conductor import test_migrate
from ansible_collections.drover.compute.tests.unit.conductor.test_migrate import NAMES, World, mover, plan

CALL_SECONDS = 2
CALLS = 900


class SlowWorld(World):
    """Each call takes the time it may take; nobody waits for it."""

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
    told = [line for line in lines if " MiB left" in line]
    # Of each: at first every 15 s, as there are three, then ever less often.
    assert {name: 10 < sum(line.startswith(name) for line in told) < 45 for name in NAMES} == dict.fromkeys(NAMES, True)


@pytest.mark.parametrize(
    "elapsed, count, wanted",
    [(0, 1, MENTION), (None, 2, MENTION), (5, 20, 10 * MENTION), (3600, 1, 360), (3600, 200, 1000)],
)
def test_pause(elapsed, count, wanted):
    assert pause(elapsed, count) == wanted
