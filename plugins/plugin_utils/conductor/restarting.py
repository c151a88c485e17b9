# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that are shut down for a cold move and started again after it.

That one is to run again is in the store before it is shut down, see migrations.claims.begin(). So the next
run knows it, wherever this one is killed; what is left to do libvirt tells.
"""

from __future__ import annotations

import time

ACTIVE = ("running", "blocked", "paused", "shutdown", "pmsuspended")
#: How long (seconds) a domain may take to run once it is started.
START = 60
#: How long (seconds) one call waits for a guest to go down.
SLICE = 20


class StillUp(Exception):
    """The instance is not off, in a sentence.

    ``status``: failed (it runs at the source as before) or lost (nobody knows). ``state``: the one at the source.
    """

    def __init__(self, message, status, state):
        super().__init__(message)
        self.status, self.state = status, state


class Restarts:
    """Shuts down and starts instances on both ends of a move.

    :param look: a function (order) -> (state at the source, state at the destination), absent where there is
        no such domain, None where libvirt did not tell.
    :param switch: a function (order, there, on, timeout) -> None or why it failed: brings the domain up or
        down in good order, at the destination (there) or the source.
    :param timeout: seconds that a guest may take to shut down.
    :param clock: ports.Clock.
    """

    def __init__(self, look, switch, timeout, clock=time):
        self._look, self._switch, self._timeout, self._clock = look, switch, timeout, clock

    def runs(self, order):
        """Whether it runs at the source now."""
        return self._look(order)[0] in ACTIVE

    def shut_down(self, order, keep):
        """Shut an instance down at the source, where it still runs there.

        :param keep: a function that is called now and then, as long as it takes.
        :returns: None when it is off, or StillUp.
        """
        deadline = self._clock.monotonic() + self._timeout
        state, there = self._look(order)
        why = ""
        while True:
            if state is None and there is None:
                return StillUp("libvirt does not tell whether it runs.", "lost", None)
            if state not in ACTIVE:
                return None
            left = deadline - self._clock.monotonic()
            if left <= 0:
                message = f"It did not shut down within {self._timeout} s and goes on running. {why}".strip()
                return StillUp(message, "failed", state)
            why = self._switch(order, False, False, max(1, int(min(SLICE, left)))) or ""
            keep()
            state, there = self._look(order)

    def start(self, order, there):
        """Start an instance.

        :returns: None when it runs, or why not.
        """
        return self._switch(order, there, True, START)
