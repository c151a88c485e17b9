# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of management controllers, and the course of a request.

A busy controller gets the request again. After a lost answer the request may have been executed:
only the power state shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

#: Requests, and the power state that each of them leads to.
REQUESTS = {"on": "on", "off": "off", "shutdown": "off"}
#: Seconds between two looks, and before the repetition of a request if a busy controller gives no
#: time.
DELAY = 2.0


class PowerReport(NamedTuple):
    """The report of a controller. state: on, off or unknown; for unknown, problem is a sentence.
    can: the requests that it supports; None if it does not report them.
    """

    state: str
    problem: str = ""
    can: Sequence[str] | None = None


class ControllerRefused(Exception):
    """The controller refuses, or nothing was sent to it: the power was not changed."""


class UncertainRequest(Exception):
    """There is no answer, or no answer that shows if the request was executed."""


class Unreached(Exception):
    """There is no connection or no login: nothing was sent. A controller that is starting again
    answers later.
    """


class ControllerBusy(Exception):
    """The controller is busy. seconds: the pause until the next request that it wants."""

    def __init__(self, sentence: str, seconds: float = DELAY) -> None:
        super().__init__(sentence)
        self.seconds = max(seconds, 0.5)


class Controller(Protocol):
    """The way to one management controller."""

    def look(self) -> PowerReport: ...

    def send(self, request: str) -> None: ...

    def close(self) -> None: ...


#: The seconds for which a request waits for an unreachable controller: it may be starting again.
UNREACHED = 30.0


def look(controller: Controller, wanted: str, patience: float, deadline: float) -> PowerReport:
    """Read the power state, repeatedly until it is the wanted state or the limit has passed.

    :param wanted: on, off, or any for a single reading.
    :param patience: the seconds to wait for a busy controller.
    :param deadline: a time of time.time(), for all readings.
    """
    while True:
        try:
            seen: PowerReport = _patiently(controller.look, patience)
        except (ControllerRefused, Unreached, UncertainRequest) as problem:
            seen = PowerReport("unknown", str(problem))
        if wanted in ("any", seen.state) or time.time() >= deadline:
            return seen
        time.sleep(min(DELAY, max(deadline - time.time(), 0.1)))


def request(controller: Controller, wish: str, seconds: float) -> bool:
    """Send a request, again if the controller is busy, and return True unless the power already had
    the wanted state.

    It is sent in any case: a state that was read can change at the next moment.

    :raises ControllerRefused: the power was not changed.
    :raises UncertainRequest: the power may have been changed.
    """
    uncertain = ""
    changes: bool | None = None

    def attempt() -> None:
        nonlocal uncertain, changes
        if changes is None:
            changes = _would_change(controller, wish)
        try:
            controller.send(wish)
        except ControllerBusy as busy:
            # Some gateways report "busy" for a request that succeeded.
            uncertain = f"{busy}; then "
            if not _is_so(controller, wish):
                raise

    try:
        _patiently(attempt, seconds, min(seconds, UNREACHED))
    except (ControllerRefused, Unreached) as problem:
        # Some controllers refuse a request for the present state.
        if isinstance(problem, ControllerRefused) and _is_so(controller, wish):
            return bool(changes)
        raise (UncertainRequest if uncertain else ControllerRefused)(
            f"{uncertain}{problem}"
        ) from None
    return bool(changes)


def _patiently(call: Callable[[], Any], busy_seconds: float, unreached_seconds: float = 0) -> Any:
    """Call, and call again if the controller is busy or cannot be reached.

    :raises Unreached: it cannot be reached during all that time.
    :raises UncertainRequest: it is busy, and wants the next request only after the limit.
    """
    begun = time.monotonic()
    while True:
        try:
            return call()
        except ControllerBusy as busy:
            pause = busy.seconds
            if time.monotonic() + pause > begun + busy_seconds:
                raise UncertainRequest(
                    f"{busy}; it wants to be asked again in {pause:.0f} s, which is after the limit"
                ) from None
        except Unreached:
            pause = DELAY
            if time.monotonic() + pause > begun + unreached_seconds:
                raise
        time.sleep(pause)


def _would_change(controller: Controller, wish: str) -> bool:
    """Read the state once; an answer without a state proves nothing.

    :raises Unreached: it cannot be reached.
    :raises ControllerBusy: it has no time.
    """
    try:
        return controller.look().state != REQUESTS[wish]
    except (ControllerRefused, UncertainRequest):
        return True


def _is_so(controller: Controller, wish: str) -> bool:
    try:
        return not _would_change(controller, wish)
    except (Unreached, ControllerBusy):
        return False
