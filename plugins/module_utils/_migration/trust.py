# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SSH keys and host keys by which one hypervisor reaches the libvirt of another.

Private to the collection. Each line that is written ends with a mark that names its host, so that
it is recognised and removed again. Public keys and host keys come from other hypervisors, which may
be in wrong hands: nothing but a key gets into a line.
"""

from __future__ import annotations

import glob
import os
import pwd
import re
import subprocess
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._files import programs

MARK = "drover.compute:migration_trust:"
#: The names of key files, the preferred one first.
KEY_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")
HOST_KEYS = "/etc/ssh/ssh_host_*_key.pub"
#: Seconds that ssh-keygen may take.
KEYGEN_TIMEOUT = 30

_KEY = re.compile(
    r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]{32,16384}={0,3}"
)
_NAME = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]*")
_SOURCE = re.compile(r"[0-9A-Fa-f.:]+(?:/[0-9]{1,3})?")
#: Parameters of a URI that make ssh use other files, or that replace ssh by another program.
_OWN_FILES = frozenset(("command", "keyfile", "known_hosts", "sshauth"))


class TrustProblem(Exception):
    """A reason why nothing was set up, as a sentence."""


class SshDestination(NamedTuple):
    """The destination of an SSH connection. user: empty for the name of the account that connects.
    port: None for the port of SSH's configuration.
    """

    user: str
    name: str
    port: int | None

    @property
    def known_name(self) -> str:
        """The name as it is in the file known_hosts."""
        return self.name if self.port in (None, 22) else f"[{self.name}]:{self.port}"


def destination(uri: str) -> SshDestination | None:
    """Read the destination that a libvirt URI reaches by the program ssh.

    :returns: None for another transport.
    :raises TrustProblem: the URI names key files, known hosts or a program, or names no host.
    """
    try:
        parts = urllib.parse.urlsplit(uri)
        name, port, user = (
            parts.hostname or "",
            parts.port,
            urllib.parse.unquote(parts.username or ""),
        )
    except ValueError as problem:
        raise TrustProblem(f"the URI {uri!r} cannot be read: {problem}") from None
    transport = parts.scheme.partition("+")[2]
    if transport not in ("ssh", "libssh", "libssh2"):
        return None
    own = sorted(
        {key for key, dummy in urllib.parse.parse_qsl(parts.query, keep_blank_values=True)}
        & _OWN_FILES
    )
    if transport != "ssh" or own:
        raise TrustProblem(
            f"the URI {uri!r} uses {own[0] if own else transport}, so SSH's own files do not count"
            " for it"
        )
    if not _NAME.fullmatch(name) or (
        user and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?", user)
    ):
        raise TrustProblem(f"the URI {uri!r} names no host and user that SSH can reach")
    return SshDestination(user, name.lower(), port)


def sentences(host: str, reasons: Mapping[str, str]) -> list[str]:
    """Say which hosts a host cannot reach, one sentence for each reason.

    :param reasons: why, by the name of the other host.
    """
    grouped: dict[str, list[str]] = {}
    for other, reason in reasons.items():
        grouped.setdefault(reason, []).append(other)
    return [
        f"{host} cannot reach {', '.join(others)}: {reason}." for reason, others in grouped.items()
    ]


# -- the lines ----------------------------------------------------------------------------------


def mark(host: str) -> str:
    """Return the last word of the lines of a host."""
    return MARK + urllib.parse.quote(host, safe="")


def marked_host(line: str) -> str | None:
    """Return the host of a marked line, or None for a line of other people."""
    words = line.split()
    if not words or words[0].startswith("#") or not words[-1].startswith(MARK):
        return None
    return urllib.parse.unquote(words[-1][len(MARK) :])


def marked_hosts(text: str) -> set[str]:
    """Return the hosts that have lines in a file."""
    return {host for host in map(marked_host, text.split("\n")) if host is not None}


def updated(text: str, wanted: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a file with other lines for some hosts.

    Lines of other hosts and of other people stay as they are. New lines come last: sshd takes the
    first line of a key, and one of an administrator goes before ours.

    :param wanted: the lines of each host, without their mark; none to remove them.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    full = {host: [f"{line} {mark(host)}" for line in mine] for host, mine in wanted.items()}
    have: dict[str, list[str]] = {host: [] for host in full}
    for line in lines:
        host = marked_host(line)
        if host in have:
            have[host].append(line)
    other = {host for host, mine in full.items() if have[host] != mine}
    lines = [line for line in lines if marked_host(line) not in other]
    lines += [line for host, mine in full.items() if host in other for line in mine]
    return "".join(f"{line}\n" for line in lines)


def checked_key(text: str) -> str:
    """Return the type and the key of a public key, without its comment.

    :raises TrustProblem: it is none.
    """
    key = " ".join(text.split(" ")[:2]).rstrip("\n")
    if not _KEY.fullmatch(key) or "\n" in text.rstrip("\n"):
        raise TrustProblem(f"{text[:80]!r} is no public SSH key")
    return key


def authorized_lines(keys: Iterable[str], sources: Sequence[str]) -> list[str]:
    """Return the lines of a host for authorized_keys.

    Nothing but commands may be run with these keys: no terminal, no forwarding.

    :param sources: the only addresses and networks that may use the keys; none for no limit.
    """
    for source in sources:
        if not _SOURCE.fullmatch(source):
            raise TrustProblem(f"{source!r} is no address or network")
    options = "restrict" + (f',from="{",".join(sources)}"' if sources else "")
    return [f"{options} {key}" for key in dict.fromkeys(map(checked_key, keys))]


def known_lines(name: str, host_keys: Iterable[str]) -> list[str]:
    """Return the lines of a host for known_hosts."""
    return [f"{name} {key}" for key in dict.fromkeys(map(checked_key, host_keys))]


# -- the keys and the account of a host ------------------------------------------------------------


def account() -> tuple[str, str]:
    """Return the name and the home of the account that this runs as; OpenSSH goes by these, and not
    by HOME.
    """
    entry = pwd.getpwuid(os.geteuid())
    return entry.pw_name, entry.pw_dir


def read_host_keys(pattern: str = HOST_KEYS) -> list[str]:
    """Read the public host keys of this host.

    :raises TrustProblem: it has none.
    """
    host_keys = []
    for path in sorted(glob.glob(pattern)):
        text = read(path).strip()
        try:
            host_keys.append(checked_key(text))
        except TrustProblem:
            # Keys of another kind, such as DSA, are not used.
            continue
    if not host_keys:
        raise TrustProblem(
            f"there is no host key {pattern}. Is sshd installed? ssh-keygen -A makes host keys"
        )
    return host_keys


def read(path: str) -> str:
    """Return the text of a file, "" where there is none. :func:`encoded` gives back the bytes that
    are not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def encoded(text: str) -> bytes:
    """Return the bytes of a file from the text that :func:`read` made of them."""
    return text.encode("utf-8", "surrogateescape")


def own_key(folder: str) -> tuple[str, str]:
    """Return the public key of this account, and the file of the key to make where it has none: one
    of both is "".

    :raises TrustProblem: libvirt cannot use its key.
    """
    problem = ""
    for name in KEY_FILES:
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            continue
        printed = keygen("-y", "-P", "", "-f", path)
        if printed.returncode == 0:
            return checked_key(printed.stdout.strip()), ""
        problem = (
            problem
            or f"the SSH key {path} cannot be used without a question: {_last_line(printed)}"
        )
    path = os.path.join(folder, KEY_FILES[0])
    if os.path.lexists(path):
        raise TrustProblem(
            f"{problem}. A migration cannot type a passphrase. Make a key without one in"
            f" {folder}/{KEY_FILES[1]}: ssh-keygen -t ecdsa"
        )
    return "", path


def make_key(path: str, host: str) -> str:
    """Make a key without a passphrase; return its public half.

    :raises TrustProblem: ssh-keygen refuses.
    """
    said = keygen("-q", "-t", "ed25519", "-N", "", "-C", mark(host), "-f", path)
    if said.returncode:
        raise TrustProblem(f"ssh-keygen did not make {path}: {_last_line(said)}")
    return own_key(os.path.dirname(path))[0]


def keygen(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ssh-keygen.

    :raises TrustProblem: it is missing, or does not end.
    """
    try:
        # Not run_command: it has no limit of time.
        # pylint: disable-next=ansible-bad-function
        return subprocess.run(
            ["ssh-keygen", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=KEYGEN_TIMEOUT,
            check=False,
            env={**programs.environment(), "SSH_ASKPASS_REQUIRE": "never"},
        )
    except FileNotFoundError:
        raise TrustProblem(
            "there is no program ssh-keygen: install the package openssh-client, or openssh-clients"
        ) from None
    except subprocess.TimeoutExpired:
        raise TrustProblem(f"ssh-keygen did not end within {KEYGEN_TIMEOUT} s") from None


def _last_line(said: Any) -> str:
    lines = (said.stderr or said.stdout or "").strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"ssh-keygen ended with status {said.returncode}"
