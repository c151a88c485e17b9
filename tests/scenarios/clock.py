# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated time: the code never waits, and events happen in the order of their times."""

from __future__ import annotations

import heapq
import itertools

#: The begin of every scenario, in seconds since 1970.
BEGIN = 1_800_000_000.0
#: The limit of a scenario, in seconds: a longer one waits for ever.
LONGEST = 7 * 86400


class Endless(BaseException):
    """The error of a course that waits for an event that never comes."""


class Clock:
    """A stand-in for the module ``time``, which carries out events at their times.

    A course is a generator that yields the seconds until its next step.
    """

    def __init__(self):
        self.now = BEGIN
        self._due = []
        self._number = itertools.count()
        # The present one of several courses of commands, see together.py.
        self.course = None

    def time(self):
        """Return the time, as time.time() does."""
        return self.now

    monotonic = time

    def at(self, seconds, act):
        """Call a function after this number of seconds."""
        heapq.heappush(self._due, (self.now + seconds, next(self._number), act))

    def start(self, course):
        """Let a course begin now."""
        self.at(0, lambda: self._go_on(course))

    def _go_on(self, course):
        seconds = next(course, None)
        if seconds is not None:
            self.at(seconds, lambda: self._go_on(course))

    def sleep(self, seconds, until=lambda: False):
        """Let time pass, and stop early when ``until`` is true."""
        end = self.now + seconds
        if self.course is not None:
            self.course.wait(end, until)
            return
        while not until() and self._due and self._due[0][0] <= end:
            self.step(end)
        if not until():
            self.now = max(self.now, end)

    def is_past(self, end):
        """Return True if a moment is over, with all its events."""
        return self.now >= end and not (self._due and self._due[0][0] <= end)

    def step(self, end):
        """Carry out the next event, or let time pass to the end if there is none before."""
        if self.now > BEGIN + LONGEST:
            raise Endless(f"it goes on after {LONGEST} s")
        if self._due and self._due[0][0] <= end:
            self.now, _number, act = heapq.heappop(self._due)
            act()
        else:
            self.now = max(self.now, end)
