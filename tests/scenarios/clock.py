# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated time: nothing waits, things happen in the order of their moments."""

from __future__ import annotations

import heapq
import itertools

#: When every scenario begins, in seconds since 1970.
BEGIN = 1_800_000_000.0


class Clock:
    """Stands in for the module ``time``, and carries out what is to happen at a time.

    A course is a generator that yields the seconds until it goes on.
    """

    def __init__(self):
        self.now = BEGIN
        self._due = []
        self._number = itertools.count()

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
        while not until() and self._due and self._due[0][0] <= end:
            self.now, _number, act = heapq.heappop(self._due)
            act()
        if not until():
            self.now = max(self.now, end)
