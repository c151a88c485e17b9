# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls with a time limit.

Private to the collection. Each call runs in a helper thread. A thread without a result is left
alone. It does not prevent the end of the process if it waits for another process (an answer of
libvirt). It does if it waits for a disk; see module access of ``_files``.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

#: The helpers that wait for work.
_IDLE: list[_Helper] = []

# No thread survives a fork.
os.register_at_fork(after_in_child=_IDLE.clear)


class CallTimeout(Exception):
    """The error for a call that did not end in time."""


def within(
    seconds: float, call: Callable[[], Any], alive: Callable[[], float] | None = None
) -> Any:
    """Return the result of ``call()``, or raise its exception here.

    :param alive: a function that returns the time of the last progress (time.monotonic()); the
        seconds count from there.
    :raises CallTimeout: the call has not ended in time.
    """
    try:
        helper = _IDLE.pop()
    except IndexError:
        helper = _Helper()
    helper.begin(call)
    del call
    try:
        over = helper.wait(seconds, alive)
    except BaseException:
        # A signal ends this process. Wait for the running call first, or its result is lost.
        if helper.wait(seconds, alive):
            helper.answer()
        raise
    if not over:
        raise CallTimeout
    good, value = helper.answer()
    _IDLE.append(helper)
    if good:
        return value
    raise value


def is_limited() -> bool:
    """Return True if :func:`within` runs the present code."""
    return isinstance(threading.current_thread(), _Helper)


class _Helper(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="drover-helper", daemon=True)
        self._asked: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._over = threading.Semaphore(0)
        self._answer: tuple[bool, Any] = (False, None)
        self.start()

    def run(self) -> None:
        while True:
            call = self._asked.get()
            try:
                self._answer = True, call()
            except BaseException as exc:  # pylint: disable=broad-except
                self._answer = False, exc
            # A remaining reference to a connection here would keep it open for ever.
            del call
            self._over.release()

    def begin(self, call: Callable[[], Any]) -> None:
        self._asked.put(call)

    def wait(self, seconds: float, alive: Callable[[], float] | None) -> bool:
        """Return True if the call ended in time."""
        began = time.monotonic()
        while True:
            if self._over.acquire(timeout=max(0, began + seconds - time.monotonic())):
                return True
            if alive is None or alive() <= began:
                return False
            began = alive()

    def answer(self) -> tuple[bool, Any]:
        found, self._answer = self._answer, (False, None)
        return found
