# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to several hosts at the same time, each in its own process.

Ansible's executor of tasks has one alarm for each process. A process gets a function and returns
plain types. It must not touch the store, because a connection of a database belongs to one process.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from .._common.errors import DroverError, HostTimeout
from . import waiting as waits

#: Seconds beyond its limit after which a process is killed.
SPARE = 5
#: The answer of a host.
Answer = TypeVar("Answer")


class _Asked(NamedTuple):
    host: str
    pid: int
    deadline: float
    said: bytearray


def ask_each(
    questions: Mapping[str, Callable[[], Answer]],
    most: int,
    limit: int,
    show: Callable[[str], None],
) -> dict[str, Answer | DroverError]:
    """Put its question to each host.

    :param most: the number of questions at a time.
    :param limit: seconds for each question; the question itself stops then, and a process that
        continues is killed.
    :param show: a function that shows a line now and then on the hosts that have not answered yet.
    :returns: dict host -> the result of the question, or a DroverError.
    """
    waiting = list(questions.items())
    pending: dict[int, _Asked] = {}
    answers: dict[str, Answer | DroverError] = {}
    began = said_at = time.monotonic()
    longest = math.ceil(len(questions) / max(1, most)) * limit
    try:
        while waiting or pending:
            while waiting and len(pending) < max(1, most):
                host, question = waiting.pop(0)
                descriptor, pid = _start_question(question)
                pending[descriptor] = _Asked(
                    host, pid, time.monotonic() + limit + SPARE, bytearray()
                )
            ready, _dummy, _dummy = select.select(list(pending), [], [], 1)
            for descriptor in ready:
                text = os.read(descriptor, 65536)
                pending[descriptor].said.extend(text)
                if not text:
                    ended = _end_process(pending, descriptor)
                    answers[ended.host] = _answer(ended)
            for descriptor in [
                one for one, each in pending.items() if time.monotonic() > each.deadline
            ]:
                ended = _end_process(pending, descriptor)
                answers[ended.host] = HostTimeout(ended.host, limit)
            if pending and time.monotonic() - said_at >= waits.EVERY:
                said_at = time.monotonic()
                show(
                    waits.line(
                        [each.host for each in pending.values()],
                        waits.ANSWER,
                        said_at - began,
                        longest,
                    )
                )
    finally:
        for descriptor in list(pending):
            _end_process(pending, descriptor)
    return answers


def _start_question(question: Callable[[], Any]) -> tuple[int, int]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _answer_question(question, theirs)
    os.close(theirs)
    return ours, pid


def _answer_question(question: Callable[[], Any], descriptor: int) -> NoReturn:
    """Answer the question in the new process, and end it without the cleanup of its parent."""
    try:
        # Only the process of the calling task handles its alarm.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        waits.silence()
        try:
            reply = {"answer": question()}
        except DroverError as problem:
            reply = {"problem": str(problem)}
        except Exception as problem:  # pylint: disable=broad-exception-caught
            reply = {"problem": f"{type(problem).__name__}: {' '.join(str(problem).split())}"}
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(reply).encode())
    finally:
        os._exit(0)


def _end_process(asked: dict[int, _Asked], descriptor: int) -> _Asked:
    """End the process of a question, with or without an answer."""
    question = asked.pop(descriptor)
    os.close(descriptor)
    with contextlib.suppress(ProcessLookupError):
        os.kill(question.pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(question.pid, 0)
    return question


def _answer(each: _Asked) -> Any:
    try:
        reply = json.loads(each.said)
    except ValueError:
        return DroverError(
            f"Host {each.host} was not read: the process that read it has ended without an answer.",
            host=each.host,
        )
    return DroverError(reply["problem"], host=each.host) if "problem" in reply else reply["answer"]
