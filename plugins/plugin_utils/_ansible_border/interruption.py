# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line on operations that continue after an interruption of a playbook.

Ansible ends the process of a task then, and shows nothing more of it. So the line goes to the
standard error of ansible-playbook itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

#: The signals that end the process of a task: Ctrl-C, and Ansible's end of its processes.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def saying(words: Callable[[], str]) -> Iterator[None]:
    """Show words if a signal ends the process while the block runs.

    :param words: a function that returns them; an empty text shows nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    parent, before = os.getppid(), {each: signal.getsignal(each) for each in SIGNALS}

    def say(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        text = words()
        if text:
            _write_error(parent, f"{text}\n")
        _go_on(before[signal.Signals(number)], number, frame)

    for signal_number in SIGNALS:
        signal.signal(signal_number, say)
    try:
        yield
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)


def _go_on(handler: Any, number: int, frame: FrameType | None) -> None:
    """Call the earlier handler of the signal."""
    if callable(handler):
        handler(number, frame)
    elif handler != signal.SIG_IGN:
        os.kill(os.getpid(), number)


def _write_error(parent: int, text: str) -> None:
    with contextlib.suppress(OSError):
        error = os.open(
            f"/proc/{parent}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK
        )
        try:
            os.write(error, text.encode())
        finally:
            os.close(error)
