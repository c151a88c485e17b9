# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A child process that calls functions for this process. This process can leave a blocked child
alone.

Private to the collection. The child has only one open descriptor, a socket to this process. So no
other program waits for the child: neither SSH (for the end of a module's output), nor a lock, nor
libvirt.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .detach import let_go

_LENGTH = struct.Struct(">Q")

#: The process ids of children that will end soon.
_ENDING: list[int] = []

#: The mark of such a child: True in a child.
_SELF = {"is_child": False}


def is_child() -> bool:
    """Return True if this process is such a child."""
    return _SELF["is_child"]


class ChildProcess:
    """A child that calls ``function(*args)`` for each ``args`` of ``many``, and then carries out
    the requests of ask().

    :raises OSError: no process can be made.
    """

    def __init__(self, function: Callable[..., Any], many: Sequence[tuple[Any, ...]]) -> None:
        _bury()
        self._line, theirs = socket.socketpair()
        self._heard = b""
        self._pid = os.fork()
        if self._pid == 0:
            # The fork gives the child its first work, so the function can be of any kind.
            _answer_calls(theirs, function, many)
        theirs.close()

    def ask(self, request: bytes, seconds: float) -> None:
        """Send the child more work.

        :param request: a pickled (function, many).
        """
        self._line.settimeout(seconds)
        self._line.sendall(_LENGTH.pack(len(request)) + request)

    def answer(self, seconds: float) -> tuple[bool, Any]:
        """Return the next outcome: (True if the function returned, its result or exception).

        :raises socket.timeout: the outcome is late.
        :raises EOFError: the child has ended.
        """
        self._line.settimeout(seconds)
        data, self._heard = _receive(self._line, self._heard)
        return pickle.loads(data)

    def close(self) -> None:
        """Close the line, so that the child ends by itself."""
        self._line.close()
        _ENDING.append(self._pid)

    def kill(self) -> None:
        """Kill the child, but do not wait for its end: a process that is blocked in the kernel may
        end much later.
        """
        self.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def forget(self) -> None:
        """Forget the child in a fork of this process, because the child does not belong to the
        fork.
        """
        self._line.close()


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
    """Call a function; return (True if it returned, its result or exception)."""
    try:
        return True, function(*args)
    except Exception as exc:  # pylint: disable=broad-except
        return False, exc


def _bury() -> None:
    """Reap the children that have ended."""
    for pid in list(_ENDING):
        try:
            over = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            over = True
        if over:
            with contextlib.suppress(ValueError):
                _ENDING.remove(pid)


os.register_at_fork(after_in_child=_ENDING.clear)


def _receive(line: socket.socket, heard: bytes) -> tuple[bytes, bytes]:
    """Return (one message, the bytes received after it)."""
    length = None
    while length is None or len(heard) < length:
        if length is None and len(heard) >= _LENGTH.size:
            (length,), heard = _LENGTH.unpack_from(heard), heard[_LENGTH.size :]
            continue
        more = line.recv(65536 if length is None else max(65536, length - len(heard)))
        if not more:
            raise EOFError
        heard += more
    return heard[:length], heard[length:]


# -- the child's side -------------------------------------------------------------------------


def _answer_calls(
    line: socket.socket, function: Callable[..., Any], many: Sequence[tuple[Any, ...]]
) -> NoReturn:
    """Work until the parent process ends. Do not return."""
    _SELF["is_child"] = True
    try:
        # Free no object of the parent process: to free an object of libvirt may send a message to
        # libvirt.
        gc.disable()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        let_go(line.fileno())
        line.setblocking(True)
        heard = b""
        while True:
            for args in many:
                data = _pickle_outcome(outcome(function, args))
                line.sendall(_LENGTH.pack(len(data)) + data)
            request, heard = _receive(line, heard)
            function, many = pickle.loads(request)
    except BaseException:  # pylint: disable=broad-except
        pass
    os._exit(0)


def _pickle_outcome(found: tuple[bool, Any]) -> bytes:
    """Return an outcome as bytes; if it cannot be pickled, return an error with its text
    instead.
    """
    try:
        data = pickle.dumps(found)
        if not found[0]:
            pickle.loads(data)
        return data
    except Exception as exc:  # pylint: disable=broad-except
        what = exc if found[0] else found[1]
        return pickle.dumps((False, RuntimeError(f"{type(what).__name__}: {what}")))
