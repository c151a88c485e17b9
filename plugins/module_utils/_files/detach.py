# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A process that survives the end of the connection to the host.

Private to the collection. Call spawn() before any call to libvirt: a libvirt connection or its
event loop must not cross a fork.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any


def spawn(work: Callable[[Callable[[str], None]], object]) -> int:
    """Run ``work(say)`` in a process with a session of its own, without terminal, and return at
    once.

    The first call of ``say(word)`` sends one word back. All modules that ``work`` needs must
    already be imported, because the files of the module are removed at its end.

    :returns: a descriptor for :func:`hear`.
    """
    # Each process needs a descriptor. A call may need more than the usual limit of 1024 open
    # descriptors.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            _become_nobodys_child(mouth)
            work(_once(mouth))
        except BaseException:  # pylint: disable=broad-except
            os._exit(1)
        os._exit(0)
    os.close(mouth)
    os.waitpid(child, 0)
    return ear


def _become_nobodys_child(mouth: int) -> None:
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(0)
    os.chdir("/")
    os.umask(0o077)
    let_go(mouth)


def let_go(kept: int) -> None:
    """Close every descriptor but ``kept``; all other open ones belong to the module (SSH's pipes,
    libvirt's connections).
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    last = (
        max((int(name) for name in os.listdir("/proc/self/fd")), default=256)
        if os.path.isdir("/proc/self/fd")
        else 4096
    )
    os.closerange(3, kept)
    os.closerange(kept + 1, last + 1)


def _once(mouth: int) -> Callable[[str], None]:
    words: list[str] = []

    def say(word: str) -> None:
        if words:
            return
        words.append(word)
        try:
            os.write(mouth, word.encode())
        except OSError:
            pass
        os.close(mouth)

    return say


def hear(ears: Mapping[Any, int], seconds: float) -> dict[Any, str | None]:
    """Return the word that each of ``ears`` (``{key: descriptor}``) hears, within ``seconds``; None
    if none came.
    """
    words = dict.fromkeys(ears)
    open_ears = {descriptor: key for key, descriptor in ears.items()}
    # Do not use select(): it does not support descriptors above 1023.
    heard = select.poll()
    for descriptor in open_ears:
        heard.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + seconds
    while open_ears:
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0:
            break
        for descriptor, _dummy in heard.poll(seconds_left * 1000):
            heard.unregister(descriptor)
            text = os.read(descriptor, 64).decode()
            words[open_ears.pop(descriptor)] = text or None
            os.close(descriptor)
    for descriptor in open_ears:
        os.close(descriptor)
    return words
