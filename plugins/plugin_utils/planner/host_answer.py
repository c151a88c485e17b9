# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host answers, from what came of a task on it and of a TCP connection to it. Data in, data out.

Any answer is an answer: a login that is refused, a closed port, a connection that is dropped. Only words that are
known to mean silence count as silence; of all others nobody knows what they mean.
"""

from __future__ import annotations

import dataclasses
import re
import typing

#: It lets us in; it answers and does not; it is silent; nobody knows.
LOGIN, REFUSED, SILENT, UNCLEAR = "login", "refused", "silent", "unclear"
#: It gave no word in the time that the task had. What that means only TCP can tell.
LATE = "late"

_SILENCE = "(?:Connection timed out|Operation timed out|No route to host|Network is unreachable|Host is (?:down|unreachable))"
_REFUSAL = "(?:Connection refused|Connection reset)"
#: The way to the host leads over another one, or over a program: words about a connection are about that.
_PROXY = r"UNKNOWN port 65535|stdio forwarding failed|channel \d+: open failed|proxy dialer did not pass back a connection"
#: (pattern, what it means), the first that is found counts. Of OpenSSH, and of what people use as its ProxyCommand.
_WORDS = [
    # What the last proxy says of the host itself.
    (rf"channel \d+: open failed: connect failed: {_SILENCE}", SILENT),
    (rf"channel \d+: open failed: connect failed: {_REFUSAL}", REFUSED),
    (rf"(?im)^(?:.*: )?(?:nc|ncat|netcat|socat)\b.*(?:{_SILENCE}|TIMEOUT)", SILENT),
    (rf"(?im)^(?:.*: )?(?:nc|ncat|netcat|socat)\b.*{_REFUSAL}", REFUSED),
    (rf"(?s){_REFUSAL}.*proxy dialer did not pass back a connection", REFUSED),
    (r"proxy dialer did not pass back a connection", SILENT),
    (r"Received disconnect from UNKNOWN port 65535", REFUSED),
    # Else the proxy has ended, or waits for the host: what stands beside it may be about the proxy.
    (r"UNKNOWN port 65535|stdio forwarding failed", UNCLEAR),
    (r"Connection closed by (?!remote host)\S+ port \d+", REFUSED),
    (r"kex_exchange_identification: Connection closed by remote host", UNCLEAR),
    # The host itself. It took the connection and then said nothing: that is an answer of TCP.
    (r"timed out during banner exchange", REFUSED),
    (r"kex_exchange_identification: (?:read|write):|banner line contains invalid characters|Bad remote protocol", REFUSED),
    (r"Permission denied|Too many authentication failures|Received disconnect|no matching .* found", REFUSED),
    (r"Host key verification failed|host key is known for|IDENTIFICATION HAS CHANGED", REFUSED),
    (rf"ssh: connect to host \S+ port \d+: {_REFUSAL}", REFUSED),
    (rf"{_REFUSAL} by \S+ port \d+", REFUSED),
    (rf"ssh: connect to host \S+ port \d+: {_SILENCE}", SILENT),
    (r"Timeout, server \S+ not responding", SILENT),
    # What Ansible and paramiko make of it.
    (r"Failed to create temporary directory|No space left on device|waiting for privilege escalation prompt", REFUSED),
    (r"Invalid/incorrect (?:username/)?password|Authentication failed", REFUSED),
    (r"\[Errno 113\]|\[Errno 110\]", SILENT),
]


@dataclasses.dataclass(frozen=True)
class Said:
    """What came of a task on the host: what it means (LATE too), whether that is about the host over a proxy, the words."""

    means: str
    proxied: bool
    words: str

    @property
    def settled(self):
        """Whether TCP cannot change it: behind a proxy the address may be another machine's, as seen from here."""
        return self.proxied or self.means in (LOGIN, REFUSED)


class Answer(typing.NamedTuple):
    """How a host answers: LOGIN, REFUSED, SILENT or UNCLEAR; what SSH and TCP said; whether TCP answered, None where it was not tried."""

    means: str
    words: str = ""
    reached: bool | None = None


def read(result):
    """What a task says of its host.

    :param result: what ``register`` has of a module that only reads something.
    """
    words = _plain(str(result.get("msg") or ""))
    if not result.get("failed") and not result.get("unreachable"):
        return Said(LOGIN, False, "")
    if not result.get("unreachable"):
        if result.get("timedout") or re.search("imed out after|expected time frame", words):
            return Said(LATE, False, words)
        # Only what the module itself, or the host's shell, has left proves that the host did anything.
        if any(result.get(key) is not None for key in ("content", "invocation", "module_stdout", "rc")):
            return Said(LOGIN, False, words)
        return Said(UNCLEAR, False, words)
    means = next((meaning for pattern, meaning in _WORDS if re.search(pattern, words)), UNCLEAR)
    return Said(means, re.search(_PROXY, words) is not None, words)


def judge(said, tcp):
    """Whether the host answers.

    :param tcp: whether it answers over TCP: True, False, or None where that could not be tried.
    :returns: LOGIN, REFUSED, SILENT or UNCLEAR.
    """
    if said.settled:
        return said.means
    if tcp:
        return REFUSED
    if said.means == LATE:
        return SILENT if tcp is False else UNCLEAR
    return said.means


def _plain(words):
    """Without what ssh says of its own doings at -vvv, where nothing is about the host in the end."""
    lines = [line.strip() for line in words.splitlines()]
    return "\n".join(line for line in lines if line and not re.match(r"debug\d: |OpenSSH_", line))
