# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision if a host answers, from the result of a task on it and from a TCP connection to it.

Any reaction is an answer: a refused login, a closed port, a dropped connection. Only messages that
are known to mean silence count as silence; the meaning of all others is unclear.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

#: The host accepts the login; it answers but refuses the login; it is silent; its state is unclear.
LOGIN, REFUSED, SILENT, UNCLEAR = "login", "refused", "silent", "unclear"
#: The host did not answer before the time limit of the task. Only TCP can clear up this state.
LATE = "late"
#: Reasons why a host answers but lets no user in: it refuses the login; its key is unknown here;
#: its SSH port is closed; its SSH server accepts the connection and does nothing more; it accepts
#: the login but cannot run anything. See fencing.REFUSALS.
BY_LOGIN, BY_KEY, BY_PORT, BY_SERVER, BY_SYSTEM = "login", "host_key", "port", "server", "system"

_SILENCE = (
    "(?:Connection timed out|Operation timed out|No route to host|Network is unreachable|Host is"
    " (?:down|unreachable))"
)
_REFUSAL = "(?:Connection refused|Connection reset)"
#: The connection leads through another host or a program, and messages about a connection are about
#: that one.
_PROXY = (
    r"UNKNOWN port 65535|stdio forwarding failed|channel \d+: open failed|proxy dialer did not pass"
    r" back a connection"
)
#: (pattern, meaning, reason of a refusal) of messages of OpenSSH and of the usual programs for its
#: ProxyCommand; the first match counts.
_WORDS: list[tuple[str, str, str]] = [
    # Messages of the last proxy about the host itself.
    (rf"channel \d+: open failed: connect failed: {_SILENCE}", SILENT, ""),
    (rf"channel \d+: open failed: connect failed: {_REFUSAL}", REFUSED, BY_PORT),
    (rf"(?im)^(?:.*: )?(?:nc|ncat|netcat|socat)\b.*(?:{_SILENCE}|TIMEOUT)", SILENT, ""),
    (rf"(?im)^(?:.*: )?(?:nc|ncat|netcat|socat)\b.*{_REFUSAL}", REFUSED, BY_PORT),
    (rf"(?s){_REFUSAL}.*proxy dialer did not pass back a connection", REFUSED, BY_PORT),
    (r"proxy dialer did not pass back a connection", SILENT, ""),
    (r"Received disconnect from UNKNOWN port 65535", REFUSED, BY_LOGIN),
    # Otherwise the proxy has ended, or waits for the host, and other messages may be about the
    # proxy.
    (r"UNKNOWN port 65535|stdio forwarding failed", UNCLEAR, ""),
    (r"Connection closed by (?!remote host)\S+ port \d+", REFUSED, BY_SERVER),
    (r"kex_exchange_identification: Connection closed by remote host", UNCLEAR, ""),
    # Messages about the host itself. It accepted the connection and then was silent: TCP has
    # answered.
    (r"timed out during banner exchange", REFUSED, BY_SERVER),
    (
        (
            r"kex_exchange_identification: (?:read|write):|banner line contains invalid"
            r" characters|Bad remote protocol"
        ),
        REFUSED,
        BY_SERVER,
    ),
    (
        r"Host key verification failed|host key is known for|IDENTIFICATION HAS CHANGED",
        REFUSED,
        BY_KEY,
    ),
    (r"no matching .* found", REFUSED, BY_SERVER),
    (r"Permission denied|Too many authentication failures|Received disconnect", REFUSED, BY_LOGIN),
    (rf"ssh: connect to host \S+ port \d+: {_REFUSAL}", REFUSED, BY_PORT),
    (rf"{_REFUSAL} by \S+ port \d+", REFUSED, BY_SERVER),
    (rf"ssh: connect to host \S+ port \d+: {_SILENCE}", SILENT, ""),
    (r"Timeout, server \S+ not responding", SILENT, ""),
    # Messages of Ansible and paramiko.
    (
        (
            r"Failed to create temporary directory|No space left on device|waiting for privilege"
            r" escalation prompt"
        ),
        REFUSED,
        BY_SYSTEM,
    ),
    (r"Invalid/incorrect (?:username/)?password|Authentication failed", REFUSED, BY_LOGIN),
    (r"\[Errno 113\]|\[Errno 110\]", SILENT, ""),
]


@dataclasses.dataclass(frozen=True)
class HostTaskResult:
    """The result of a task on the host. means: LOGIN, REFUSED, SILENT, UNCLEAR or LATE. words: the
    message. refusal: why REFUSED.
    """

    means: str
    proxied: bool
    words: str
    refusal: str = ""

    @property
    def settled(self) -> bool:
        """True if TCP cannot change the meaning. Behind a proxy, the address can belong to another
        machine when it is seen from here.
        """
        return self.proxied or self.means in (LOGIN, REFUSED)


class HostAnswer(NamedTuple):
    """The answer of a host. means: a result of judge(). words: the messages. reached: True if TCP
    answered; None if it was not tried.

    refusal: the reason why a host that answers lets no user in: BY_LOGIN, BY_KEY, BY_PORT,
    BY_SERVER or BY_SYSTEM.
    """

    means: str
    words: str = ""
    reached: bool | None = None
    refusal: str = ""


def read(result: Mapping[str, Any]) -> HostTaskResult:
    """Interpret the result of a task.

    :param result: the registered result of a module that only reads.
    """
    words = _remove_debug_messages(str(result.get("msg") or ""))
    if not result.get("failed") and not result.get("unreachable"):
        return HostTaskResult(LOGIN, False, "")
    if result.get("not_this_host"):
        # Behind a proxy, the address can show another machine.
        return HostTaskResult(UNCLEAR, True, words)
    if not result.get("unreachable"):
        if result.get("timedout") or re.search("imed out after|expected time frame", words):
            return HostTaskResult(LATE, False, words)
        # Only these keys, of the module itself or the host's shell, prove that the host did
        # anything.
        if any(
            result.get(key) is not None for key in ("content", "invocation", "module_stdout", "rc")
        ):
            return HostTaskResult(LOGIN, False, words)
        return HostTaskResult(UNCLEAR, False, words)
    means, refusal = next(
        ((meaning, why) for pattern, meaning, why in _WORDS if re.search(pattern, words)),
        (UNCLEAR, ""),
    )
    return HostTaskResult(means, re.search(_PROXY, words) is not None, words, refusal)


def judge(said: HostTaskResult, tcp: bool | None) -> str:
    """Decide whether the host answers: LOGIN, REFUSED, SILENT or UNCLEAR.

    :param tcp: whether it answers over TCP; None if that could not be tried.
    """
    if said.settled:
        return said.means
    if tcp:
        return REFUSED
    if said.means == LATE:
        return SILENT if tcp is False else UNCLEAR
    return said.means


def refusal(said: HostTaskResult, closed: bool) -> str:
    """Return the reason why a host with the answer REFUSED lets no user in.

    :param closed: whether TCP shows that its port is closed.
    """
    return said.refusal or (BY_PORT if closed else BY_SERVER)


def _remove_debug_messages(words: str) -> str:
    """Remove ssh's debug messages (-vvv)."""
    lines = [line.strip() for line in words.splitlines()]
    return "\n".join(line for line in lines if line and not re.match(r"debug\d: |OpenSSH_", line))
