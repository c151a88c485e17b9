# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated time: nothing waits, things happen in the order of their moments."""

from __future__ import annotations

import heapq
import itertools

#: When every scenario begins, in seconds since 1970.
BEGIN = 1_800_000_000.0
#: No scenario takes so long, in seconds: something waits for ever.
LONGEST = 7 * 86400


class Endless(BaseException):
    """Something waits for what does not come."""


class Clock:
    """Stands in for the module ``time``, and carries out what is to happen at a time.

    A course is a generator that yields the seconds until it goes on.
    """

    def __init__(self):
        self.now = BEGIN
        self._due = []
        self._number = itertools.count()
        # The one of several courses of commands that has the turn, see together.py.
        self.course = None

    def time(self):
        """As time.time()."""
        return self.now

    monotonic = time

    def at(self, seconds, act):
        """Call a function so many seconds from now."""
        heapq.heappush(self._due, (self.now + seconds, next(self._number), act))

    def start(self, course):
        """Let a course begin now."""
        self.at(0, lambda: self._go_on(course))

    def _go_on(self, course):
        seconds = next(course, None)
        if seconds is not None:
            self.at(seconds, lambda: self._go_on(course))

    def sleep(self, seconds, until=lambda: False):
        """Let time pass, and stop early when ``until`` holds."""
        end = self.now + seconds
        if self.course is not None:
            self.course.wait(end, until)
            return
        while not until() and self._due and self._due[0][0] <= end:
            self.step(end)
        if not until():
            self.now = max(self.now, end)

    def is_past(self, end):
        """Whether a moment is over, with all that happens at it."""
        return self.now >= end and not (self._due and self._due[0][0] <= end)

    def step(self, end):
        """Let the next thing happen, or time pass to the end where nothing happens before."""
        if self.now > BEGIN + LONGEST:
            raise Endless(f"it goes on after {LONGEST} s")
        if self._due and self._due[0][0] <= end:
            self.now, _number, act = heapq.heappop(self._due)
            act()
        else:
            self.now = max(self.now, end)
