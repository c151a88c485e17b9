# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of management controllers, and how a request is carried through.

A controller that is busy has to be asked again. A lost answer means that the request may have happened: only the power state tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

#: Requests, and the power state that each of them leads to.
REQUESTS = {"on": "on", "off": "off", "shutdown": "off"}
#: Seconds between two looks, and before a request is repeated if a busy controller does not say when.
DELAY = 2.0


class Look(NamedTuple):
    """What a controller reports. state: on, off or unknown; then problem is a sentence. can: the requests that it can do; None if it does not say."""

    state: str
    problem: str = ""
    can: Sequence[str] | None = None


class Refused(Exception):
    """The controller refuses, or nothing was sent to it: nothing was done."""


class Uncertain(Exception):
    """No answer, or none that says whether it was done."""


class Unreached(Exception):
    """No connection or no login: nothing was sent. A controller that is starting again answers later."""


class Busy(Exception):
    """The controller has no time. seconds: when it wants to be asked again."""

    def __init__(self, sentence: str, seconds: float = DELAY) -> None:
        super().__init__(sentence)
        self.seconds = max(seconds, 0.5)


class Controller(Protocol):
    """The way to one management controller."""

    def look(self) -> Look: ...

    def send(self, request: str) -> None: ...

    def close(self) -> None: ...


#: Seconds in which a request waits for a controller that cannot be reached: it may be starting again.
UNREACHED = 30.0


def look(controller: Controller, wanted: str, patience: float, deadline: float) -> Look:
    """Look at the power, again and again until it has the wanted state or the limit has passed.

    :param wanted: on, off, or any to look once.
    :param patience: how long to wait for a controller that is busy, in seconds.
    :param deadline: of time.time(), for all looks.
    """
    while True:
        try:
            found: Look = _patiently(controller.look, patience)
        except (Refused, Unreached, Uncertain) as problem:
            found = Look("unknown", str(problem))
        if wanted in ("any", found.state) or time.time() >= deadline:
            return found
        time.sleep(min(DELAY, max(deadline - time.time(), 0.1)))


def request(controller: Controller, wish: str, seconds: float) -> bool:
    """Send a request, again if the controller is busy, and return True unless the power had that state before.

    It is sent in any case: a state that was read is no proof of the next moment.

    :raises Refused: nothing was done.
    :raises Uncertain: it may have been done.
    """
    uncertain = ""
    changes: bool | None = None

    def attempt() -> None:
        nonlocal uncertain, changes
        if changes is None:
            changes = _would_change(controller, wish)
        try:
            controller.send(wish)
        except Busy as busy:
            # Some gateways say so of a request that went through.
            uncertain = f"{busy}; then "
            if not _is_so(controller, wish):
                raise

    try:
        _patiently(attempt, seconds, min(seconds, UNREACHED))
    except (Refused, Unreached) as problem:
        # Some controllers refuse what is so already.
        if isinstance(problem, Refused) and _is_so(controller, wish):
            return bool(changes)
        raise (Uncertain if uncertain else Refused)(f"{uncertain}{problem}") from None
    return bool(changes)


def _patiently(call: Callable[[], Any], busy_seconds: float, unreached_seconds: float = 0) -> Any:
    """Call, and call again if the controller is busy or cannot be reached.

    :raises Unreached: it cannot be reached all that time.
    :raises Uncertain: it is busy, and wants to be asked again only when the time is up.
    """
    begun = time.monotonic()
    while True:
        try:
            return call()
        except Busy as busy:
            pause = busy.seconds
            if time.monotonic() + pause > begun + busy_seconds:
                raise Uncertain(f"{busy}; it wants to be asked again in {pause:.0f} s, which is after the limit") from None
        except Unreached:
            pause = DELAY
            if time.monotonic() + pause > begun + unreached_seconds:
                raise
        time.sleep(pause)


def _would_change(controller: Controller, wish: str) -> bool:
    """Look once; an answer that tells no state proves nothing.

    :raises Unreached: it cannot be reached.
    :raises Busy: it has no time.
    """
    try:
        return controller.look().state != REQUESTS[wish]
    except (Refused, Uncertain):
        return True


def _is_so(controller: Controller, wish: str) -> bool:
    try:
        return not _would_change(controller, wish)
    except (Unreached, Busy):
        return False
