# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that this host reaches the libvirt of others as a migration does: by a connection, or
by a look at its own files.

Private to the collection. The look makes no connection, so that discovery stays fast. It reports
only things that are certain to be missing: other hosts may refuse a key that exists here.
"""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
from collections.abc import Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule

from .._files import programs
from .._files.limits import CallTimeout, within
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem
from . import trust
from .trust import SshDestination, TrustProblem

#: Connections at a time; sshd turns some away when ten are not logged in yet (MaxStartups).
AT_ONCE = 4
#: Seconds that a program without a connection may take.
LOOK_TIMEOUT = 5

HOST_KEY = "host key unknown or changed"
UNKNOWN_HOST_KEY = "host key unknown"
NO_KEY = "no SSH key"
KEY_REFUSED = "its SSH refuses the key of {user}"
NO_SSH = "there is no program ssh here"
KEYTAB = "/etc/krb5.keytab"


#: The time limit in seconds of the look at SSH's files. A home folder may be on storage that hangs.
LOOK_TIMEOUT = 10


def connect_all(peers: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Connect to the libvirt of other hosts, with the same calls and limits as a migration.

    :param peers: each with host and uri.
    :returns: why it cannot be reached, by host; hosts that are reached are left out.
    """
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(connect, [each["uri"] for each in peers]))
    return {each["host"]: answer for each, answer in zip(peers, answers) if answer}


def connect(uri: str) -> str:
    """Connect to a libvirt; return why it cannot be reached, or ""."""
    try:
        binding.close(binding.opened_again(uri, lambda: binding.open_connection(uri)))
    except LibvirtProblem as problem:
        return reason(str(problem))
    return ""


def reason(message: str) -> str:
    """Put the failure of a connection into few words, so that the same reason of several hosts is
    said once.
    """
    if "Host key verification failed" in message:
        return HOST_KEY
    if "Permission denied (" in message or "Too many authentication failures" in message:
        return KEY_REFUSED.format(user=trust.account()[0])
    return message.rstrip(".")


def look_at_all(peers: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Look for things that SSH here lacks to reach other hosts; no connection is made.

    :param peers: each with host and uri. Other transports than SSH are left out.
    :returns: the missing things, by host.
    """
    lacking = {}
    for peer in peers:
        try:
            where = trust.destination(peer["uri"])
            missing = _missing_host_key(where) if where else ""
        except TrustProblem:
            # The trust with this peer is not set up by these files.
            continue
        if missing:
            lacking[peer["host"]] = missing
    return lacking


def _missing_host_key(where: SshDestination) -> str:
    try:
        settings = _settings(where)
    except FileNotFoundError:
        return NO_SSH
    if not settings:
        return ""
    if not _has_key(settings):
        return NO_KEY
    return "" if _knows(settings) else UNKNOWN_HOST_KEY


def _settings(where: SshDestination) -> dict[str, list[str]]:
    """Return SSH's own settings for a destination, each a list of values; {} where ssh does not
    say.
    """
    words = ["ssh", "-G", "-o", "BatchMode=yes"]
    words += ["-l", where.user] if where.user else []
    words += ["-p", str(where.port)] if where.port else []
    said = _run_ssh([*words, "--", where.name])
    settings: dict[str, list[str]] = {}
    for line in (said.stdout if said.returncode == 0 else "").splitlines():
        key, dummy, value = line.partition(" ")
        settings.setdefault(key, []).append(value)
    return settings


def _has_key(settings: Mapping[str, list[str]]) -> bool:
    """Return False only where nothing can log in: no key file, and no other way."""
    other = (
        _has_value(settings, "hostbasedauthentication", "yes", "true")
        or (_has_value(settings, "gssapiauthentication", "yes", "true") and os.path.exists(KEYTAB))
        or not _has_value(settings, "pkcs11provider", "none", "")
        or not _has_value(settings, "identityagent", "none", "SSH_AUTH_SOCK", "")
    )
    # ssh expands ~ by the home of the account, as for the rest.
    home = trust.account()[1]
    paths = [
        home + path[1:] if path.startswith("~/") else path
        for path in settings.get("identityfile", [])
    ]
    return other or any("%" in path or "$" in path or os.path.lexists(path) for path in paths)


def _knows(settings: Mapping[str, list[str]]) -> bool:
    """Return False only where SSH would refuse the host key: no file has one of this host."""
    if _has_value(
        settings, "stricthostkeychecking", "no", "false", "off", "accept-new"
    ) or not _has_value(settings, "verifyhostkeydns", "no", "false", ""):
        return True
    if not _has_value(settings, "knownhostscommand", "none", ""):
        return True
    name = (settings.get("hostkeyalias") or settings.get("hostname") or [""])[0]
    port = (settings.get("port") or ["22"])[0]
    if port != "22" and not settings.get("hostkeyalias"):
        name = f"[{name}]:{port}"
    files = [
        path
        for key in ("userknownhostsfile", "globalknownhostsfile")
        for value in settings.get(key, [])
        for path in value.split()
    ]
    home = trust.account()[1]
    for path in files:
        path = home + path[1:] if path.startswith("~/") else path
        if path == "none":
            continue
        if (
            not path.startswith("/")
            or "%" in path
            or (os.path.exists(path) and not os.access(path, os.R_OK))
        ):
            return True
        # The patterns and hashes of its lines are ssh-keygen's business.
        if (
            os.path.exists(path)
            and _run_ssh(["ssh-keygen", "-F", name, "-f", path]).returncode != 1
        ):
            return True
    return False


def _has_value(settings: Mapping[str, list[str]], key: str, *values: str) -> bool:
    """Return True if a setting has one of these values; a setting that ssh does not print counts as
    "".
    """
    return (settings.get(key) or [""])[0] in values


def _run_ssh(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        # Not run_command: it has no limit of time.
        # pylint: disable-next=ansible-bad-function
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOOK_TIMEOUT,
            env=programs.environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(words), 255, "", "")


def warn_of_unreached(module: AnsibleModule, host: str, peers: list[dict[str, str]]) -> None:
    """Warn of hosts that SSH of this host cannot reach."""
    reached_by = [each for each in peers if each["uri"]]
    try:
        missing = within(LOOK_TIMEOUT, lambda: look_at_all(reached_by))
    except (CallTimeout, OSError) as problem:
        why = str(problem) or f"it took longer than {LOOK_TIMEOUT} s"
        module.warn(
            f"{host}: it cannot be told whether its SSH reaches other hosts for migrations, as the"
            f" files of SSH were not read: {why}."
        )
        return
    for sentence in trust.sentences(host, missing):
        module.warn(
            f"{sentence} Migrations from {host} to there will be refused; run the playbook"
            " drover.compute.migration_trust."
        )
