# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that are shut down for a cold move and started again after it.

Before the shutdown of an instance, migrations.claims.begin() records that it must be started again.
If the run is killed, the next run reads that record from the store, and the state of the instance
from libvirt.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .._records.orders import UnopenedOrder
from .._records.statuses import MoveStatus
from .ports import Clock

ACTIVE = ("running", "blocked", "paused", "shutdown", "pmsuspended")
#: Seconds that a domain may take from its start until it runs.
START = 60
#: Seconds that one call waits for the shutdown of a guest.
SLICE = 20


class StillUp(Exception):
    """The instance is not off; the message is a sentence.

    ``status``: failed (it runs at the source as before) or lost (not known). ``state``: the state
    of the domain at the source. ``ignored``: True if the guest had the whole time to shut down.
    """

    def __init__(
        self, message: str, status: MoveStatus, state: str | None, ignored: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.state, self.ignored = status, state, ignored


class Restarts:
    """The shutdowns and starts of instances at both ends of a move.

    :param look: (order) -> (state at the source, state at the destination): absent if libvirt has
        no such domain, None if libvirt did not answer.
    :param switch: (order, there, on, seconds) -> None, or the reason of a failure. It starts the
        domain or shuts it down, at the destination (there) or the source.
    :param timeout: seconds that a guest may take to shut down.
    :param foresee: (order) -> None, or the reason why it could not be started again.
    """

    def __init__(
        self,
        look: Callable[[UnopenedOrder], tuple[str | None, str | None]],
        switch: Callable[[UnopenedOrder, bool, bool, int], str | None],
        timeout: int,
        clock: Clock = time,
        foresee: Callable[[UnopenedOrder], str | None] = lambda order: None,
    ) -> None:
        self._foresee = foresee
        self._look, self._switch, self._timeout, self._clock = look, switch, timeout, clock

    def runs(self, order: UnopenedOrder) -> bool:
        """Return True if an instance runs at the source now."""
        return self._look(order)[0] in ACTIVE

    def shut_down(self, order: UnopenedOrder, keep: Callable[[], None]) -> StillUp | None:
        """Shut an instance down at the source, if it runs there.

        :param keep: a function that is called every SLICE seconds.
        :returns: None if the instance is off.
        """
        deadline = self._clock.monotonic() + self._timeout
        state, destination_state = self._look(order)
        failure = ""
        if state in ACTIVE and (problem := self._foresee(order)) is not None:
            return StillUp(problem, "failed", state)
        while True:
            if state is None and destination_state is None:
                return StillUp("libvirt does not say whether it runs.", "lost", None)
            if state not in ACTIVE:
                return None
            remaining = deadline - self._clock.monotonic()
            if remaining <= 0:
                message = f"It did not shut down within {self._timeout} s and goes on running. {failure}".strip()
                return StillUp(message, "failed", state, ignored=True)
            failure = self._switch(order, False, False, max(1, int(min(SLICE, remaining)))) or ""
            keep()
            state, destination_state = self._look(order)

    def start(self, order: UnopenedOrder, there: bool) -> str | None:
        """Start an instance at the destination (there) or the source.

        :returns: None if it runs, or the reason why it does not.
        """
        return self._switch(order, there, True, START)
