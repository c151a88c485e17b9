# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host answers, from the result of a task on it and of a TCP connection to it.

Any reaction is an answer: a refused login, a closed port, a dropped connection. Only messages that are known to mean silence count
as silence; the meaning of all others is unclear.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

#: The host accepts the login; it answers but refuses it; it is silent; its state is unclear.
LOGIN, REFUSED, SILENT, UNCLEAR = "login", "refused", "silent", "unclear"
#: It did not answer before the time limit of the task. Only TCP can show what that means.
LATE = "late"

_SILENCE = "(?:Connection timed out|Operation timed out|No route to host|Network is unreachable|Host is (?:down|unreachable))"
_REFUSAL = "(?:Connection refused|Connection reset)"
#: The connection leads through another host or a program, and messages about a connection are about that one.
_PROXY = r"UNKNOWN port 65535|stdio forwarding failed|channel \d+: open failed|proxy dialer did not pass back a connection"
#: (pattern, meaning) of messages of OpenSSH and of the usual programs for its ProxyCommand; the first match counts.
_WORDS = [
    # Messages of the last proxy about the host itself.
    (rf"channel \d+: open failed: connect failed: {_SILENCE}", SILENT),
    (rf"channel \d+: open failed: connect failed: {_REFUSAL}", REFUSED),
    (rf"(?im)^(?:.*: )?(?:nc|ncat|netcat|socat)\b.*(?:{_SILENCE}|TIMEOUT)", SILENT),
    (rf"(?im)^(?:.*: )?(?:nc|ncat|netcat|socat)\b.*{_REFUSAL}", REFUSED),
    (rf"(?s){_REFUSAL}.*proxy dialer did not pass back a connection", REFUSED),
    (r"proxy dialer did not pass back a connection", SILENT),
    (r"Received disconnect from UNKNOWN port 65535", REFUSED),
    # Otherwise the proxy has ended, or waits for the host, and other messages may be about the proxy.
    (r"UNKNOWN port 65535|stdio forwarding failed", UNCLEAR),
    (r"Connection closed by (?!remote host)\S+ port \d+", REFUSED),
    (r"kex_exchange_identification: Connection closed by remote host", UNCLEAR),
    # The host itself. It accepted the connection and then was silent: TCP has answered.
    (r"timed out during banner exchange", REFUSED),
    (r"kex_exchange_identification: (?:read|write):|banner line contains invalid characters|Bad remote protocol", REFUSED),
    (r"Permission denied|Too many authentication failures|Received disconnect|no matching .* found", REFUSED),
    (r"Host key verification failed|host key is known for|IDENTIFICATION HAS CHANGED", REFUSED),
    (rf"ssh: connect to host \S+ port \d+: {_REFUSAL}", REFUSED),
    (rf"{_REFUSAL} by \S+ port \d+", REFUSED),
    (rf"ssh: connect to host \S+ port \d+: {_SILENCE}", SILENT),
    (r"Timeout, server \S+ not responding", SILENT),
    # Messages of Ansible and paramiko.
    (r"Failed to create temporary directory|No space left on device|waiting for privilege escalation prompt", REFUSED),
    (r"Invalid/incorrect (?:username/)?password|Authentication failed", REFUSED),
    (r"\[Errno 113\]|\[Errno 110\]", SILENT),
]


@dataclasses.dataclass(frozen=True)
class Said:
    """The result of a task on the host. means: LOGIN, REFUSED, SILENT, UNCLEAR or LATE. words: the message."""

    means: str
    proxied: bool
    words: str

    @property
    def settled(self) -> bool:
        """Whether TCP cannot change the meaning; seen from here, an address behind a proxy may belong to another machine."""
        return self.proxied or self.means in (LOGIN, REFUSED)


class Answer(NamedTuple):
    """How a host answers. means: as of judge(). words: the messages. reached: whether TCP answered; None where it was not tried."""

    means: str
    words: str = ""
    reached: bool | None = None


def read(result: Mapping[str, Any]) -> Said:
    """Interpret the result of a task.

    :param result: of a module that only reads something, as ``register`` has it.
    """
    words = _plain(str(result.get("msg") or ""))
    if not result.get("failed") and not result.get("unreachable"):
        return Said(LOGIN, False, "")
    if not result.get("unreachable"):
        if result.get("timedout") or re.search("imed out after|expected time frame", words):
            return Said(LATE, False, words)
        # Only these keys, of the module itself or the host's shell, prove that the host did anything.
        if any(result.get(key) is not None for key in ("content", "invocation", "module_stdout", "rc")):
            return Said(LOGIN, False, words)
        return Said(UNCLEAR, False, words)
    means = next((meaning for pattern, meaning in _WORDS if re.search(pattern, words)), UNCLEAR)
    return Said(means, re.search(_PROXY, words) is not None, words)


def judge(said: Said, tcp: bool | None) -> str:
    """Decide whether the host answers: LOGIN, REFUSED, SILENT or UNCLEAR.

    :param tcp: whether it answers over TCP; None where that could not be tried.
    """
    if said.settled:
        return said.means
    if tcp:
        return REFUSED
    if said.means == LATE:
        return SILENT if tcp is False else UNCLEAR
    return said.means


def _plain(words: str) -> str:
    """Remove ssh's debug messages (-vvv)."""
    lines = [line.strip() for line in words.splitlines()]
    return "\n".join(line for line in lines if line and not re.match(r"debug\d: |OpenSSH_", line))
