# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to files with a time limit. A file system with a dead server blocks every process that
touches it, for ever.

Private to the collection. A thread that is blocked in this way cannot be ended, nor can its
process. So a child process looks at the file. After the time limit this process kills the child,
and continues even if the child does not end. One child serves many looks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import socket
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, BinaryIO

from .child import ChildProcess, is_child, outcome
from .mounts import all_mounts, mount_of
from .problem import Problem

#: The time limit of one look in seconds.
LIMIT = 15

#: Seconds for each step of the search for the file system that does not answer.
FIND = 3

#: The seconds without a look at a silent place. After that it is tried again: a worker lives for
#: hours, and servers come back.
AGAIN = 300

#: The number of children to keep. Threads with looks at the same time have one child each.
KEPT = 8

#: The greatest number of links in a path, the same as in the kernel.
LINKS = 40

#: The children that wait for work; the silent places, each with the time of the next look.
_IDLE: list[ChildProcess] = []
_SILENT: dict[str, float] = {}


class Unresponsive(Problem):
    """The error for a file system that did not answer in time. The text has the path of the look.

    ``place`` is the silent mount point, or a single silent file. ``path`` is the path after all
    links that could be read.
    """

    def __init__(self, message: str, place: str | None = None, path: str | None = None) -> None:
        super().__init__(message, place, path)
        self.place, self.path = place, path

    def __str__(self) -> str:
        return self.args[0]


def call(function: Callable[..., Any], *args: Any, limit: float | None = None) -> Any:
    """Return the result of ``function(*args)``, or raise its exception here.

    The function runs in a child process. It can change files, but nothing in this process.

    :param limit: the time limit in seconds; None for LIMIT.
    :raises Unresponsive: the function takes longer, or a file system on its path was silent a short
        time ago.
    """
    ((good, value),) = call_each(function, [args], limit)
    if good:
        return value
    raise value


def call_each(
    function: Callable[..., Any], many: Sequence[tuple[Any, ...]], limit: float | None = None
) -> list[tuple[bool, Any]]:
    """Call a function for many looks, at little more cost than for one look.

    :param many: the arguments of each call, tuples.
    :param limit: the time limit of each call in seconds; None for LIMIT.
    :returns: for each call (True if the function returned, its result or exception).
    """
    if is_child():
        return [outcome(function, args) for args in many]
    answers: list[tuple[bool, Any]] = []
    while len(answers) < len(many):
        answers += _answers(function, many[len(answers) :], LIMIT if limit is None else limit)
    return answers


def real_path(path: str) -> str:
    """Return ``os.path.realpath(path)``. Treat links on silent file systems as folders."""
    try:
        return call(os.path.realpath, path)
    except Unresponsive as exc:
        return exc.path or path


def open_regular(path: str) -> BinaryIO:
    """Open a file to read bytes.

    :raises OSError: the path is a pipe or a device, which could block.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is no regular file", path)
    return os.fdopen(descriptor, "rb")


def _answers(
    function: Callable[..., Any], many: Sequence[tuple[Any, ...]], limit: float, fresh: bool = False
) -> list[tuple[bool, Any]]:
    """Return the answers of :func:`call_each`, up to the first late one.

    :param fresh: True to use only a new child.
    """
    silent = _silent_places()
    work: tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]
    if silent:
        work = _carefully, [(silent, function, *args) for args in many]
    else:
        work = function, many
    try:
        request = pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A function without a name, such as a lambda, cannot be pickled: only a new child has it.
        request = None
    answers: list[tuple[bool, Any]] = []
    try:
        child, kept = _child(None if fresh else request, work)
    except OSError as exc:
        return [
            (
                False,
                Unresponsive(
                    f"No process can be made on {socket.gethostname()} to look at files:"
                    f" {exc.strerror}."
                ),
            )
        ]
    try:
        if kept and request is not None:
            child.ask(request, limit)
        while len(answers) < len(many):
            answers.append(child.answer(limit))
    except socket.timeout:
        child.kill()
        return [*answers, (False, _unresponsive(many[len(answers)], f"within {limit} s"))]
    except (EOFError, ConnectionError):
        # The child ended: the system may have been out of memory. A kept child may also not know
        # the function.
        child.kill()
        if kept:
            return [*answers, *_answers(function, many[len(answers) :], limit, fresh=True)]
        return [*answers, (False, _unresponsive(many[len(answers)], "at all"))]
    except BaseException:
        child.kill()
        raise
    if len(_IDLE) < KEPT:
        _IDLE.append(child)
    else:
        child.close()
    return answers


def _child(
    request: bytes | None, work: tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]
) -> tuple[ChildProcess, bool]:
    """Return (a child, True if it existed before and so needs the request)."""
    if request is not None:
        with contextlib.suppress(IndexError):
            return _IDLE.pop(), True
    return ChildProcess(*work), False


def _forget() -> None:
    """Forget the children of the parent process in a fork of it."""
    for child in _IDLE:
        child.forget()
    _IDLE.clear()


os.register_at_fork(after_in_child=_forget)


# -- places that do not answer -----------------------------------------------------------------


def _path_of(args: Sequence[Any]) -> str | None:
    return next((each for each in args if isinstance(each, str) and each.startswith("/")), None)


def _silent_places() -> list[str]:
    now = time.monotonic()
    for place in [place for place, until in list(_SILENT.items()) if until <= now]:
        _SILENT.pop(place, None)
    return sorted(_SILENT.copy())


def _unresponsive(args: Sequence[Any], when: str) -> Unresponsive:
    """Find the silent place, remember it, and return the error about it."""
    path = _path_of(args)
    if path is None:
        return Unresponsive(f"A look at a file of {socket.gethostname()} did not end {when}.")
    place, real = _find_silent_place(path)
    _SILENT[place] = time.monotonic() + AGAIN
    return Unresponsive(_sentence(path, place, when), place, real)


def _sentence(path: str, place: str, when: str) -> str:
    what = f"{path} on {socket.gethostname()} did not answer {when}"
    if place == path:
        return f"{what}, though its file system does: look at the device that it is on."
    return f"{what}: look at the server of what is mounted at {place}, or unmount it."


def _find_silent_place(path: str) -> tuple[str, str]:
    """Return (the silent place, the target of the path)."""
    place = real = path
    child = None
    try:
        child = ChildProcess(os.getpid, [()])
        child.answer(FIND)

        def ask(function: Callable[..., Any], argument: str) -> Any:
            child.ask(pickle.dumps((function, [(argument,)])), FIND)
            return child.answer(FIND)[1]

        # If a step does not answer, `place` and `real` are the last ones that did.
        for place, real in _steps(path, lambda here: ask(_link, here)):  # noqa: B007
            pass
        # The kernel may answer for links and folders from its cache. For statvfs it always calls
        # the server.
        ask(os.statvfs, real)
        # All places answer, so only the file does not.
        return path, real
    except (socket.timeout, EOFError, OSError):
        return place, real
    finally:
        if child is not None:
            child.kill()


def _carefully(silent: Collection[str], function: Callable[..., Any], *args: Any) -> Any:
    """Call ``function(*args)``.

    :raises Unresponsive: the path leads through a silent place.
    """
    path = _path_of(args)
    if path is not None and path in silent:
        raise Unresponsive(_sentence(path, path, "before"), path, path)
    # The steps come one after the other, because a silent place must not be touched.
    for place, real in _steps(path, _link) if path is not None else ():
        if path is not None and place in silent:
            raise Unresponsive(_sentence(path, place, "before"), place, real)
    return function(*args)


def _steps(path: str, link: Callable[[str], str | None]) -> Iterator[tuple[str, str]]:
    """Yield (mount point, path after the links so far) of each place on a path, before the place is
    touched.

    :param link: a function that touches a place and returns the target of a link.
    """
    mounts = all_mounts()
    current_path, rest, links = "/", _names_in_path(path), 0
    while rest:
        name = rest.pop()
        if name == "..":
            current_path = os.path.dirname(current_path)
            continue
        current_path = os.path.join(current_path, name)
        mount = mount_of(current_path, mounts)
        yield (mount[0] if mount else "/"), os.path.join(current_path, *reversed(rest))
        target = link(current_path)
        if target is not None:
            links += 1
            if links > LINKS:
                return
            current_path = "/" if target.startswith("/") else os.path.dirname(current_path)
            rest += _names_in_path(target)


def _names_in_path(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _link(path: str) -> str | None:
    """Return the target of a link; None if the path is not a link."""
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None
    except OSError:
        return None
