# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs at the same simulated time: one runs until it waits, then the next; the order is the
same every time."""

from __future__ import annotations

import threading


class Course:
    """One of the runs, in a separate thread, which runs only during its turn."""

    def __init__(self, clock, act):
        self._clock, self._act = clock, act
        self._mine, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._until = lambda: True
        self.end, self.over, self.problem = clock.now, False, None
        self._thread.start()

    def _run(self):
        self._mine.acquire()
        try:
            self._act()
        except BaseException as problem:  # pylint: disable=broad-exception-caught
            self.problem = problem
        self.over = True
        self._back.release()

    def ready(self):
        """Return True if it no longer waits."""
        return not self.over and (self._until() or self._clock.is_past(self.end))

    def go_on(self):
        """Give it the turn until it waits or ends."""
        self._clock.course = self
        self._mine.release()
        self._back.acquire()
        self._clock.course = None

    def wait(self, end, until):
        """Give the turn back until a moment, or until a condition is true; the course itself calls
        this."""
        self.end, self._until = end, until
        self._back.release()
        self._mine.acquire()


def carry_out(clock, acts):
    """Carry out functions that all begin now; raise the first problem of one when all have
    ended.
    """
    courses = [Course(clock, act) for act in acts]
    while not all(course.over for course in courses):
        ready = [course for course in courses if course.ready()]
        for course in ready:
            course.go_on()
        if not ready:
            clock.step(min(course.end for course in courses if not course.over))
    for course in courses:
        if course.problem is not None:
            raise course.problem
