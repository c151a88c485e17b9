# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe of a host with a libvirt that does not answer. It is the probe of an evacuation: SSH
first, then TCP.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any, NamedTuple

from .._ansible_border import answering
from .._evacuation import host_answer

#: The limit in seconds for the SSH connection, and for the end of the SSH command.
CONNECT, PATIENCE = 5, 12
SSH_FAILED = 255


class Way(NamedTuple):
    """The way to a host, from its libvirt URI. address: None for a driver of this machine. ssh: the
    command, if the way uses SSH.
    """

    address: str | None
    port: int
    ssh: list[str]

    @classmethod
    def of_uri(cls, uri: str) -> Way:
        """Read the way from a libvirt URI, with its options command and keyfile."""
        parts = urllib.parse.urlsplit(uri)
        transport = parts.scheme.partition("+")[2]
        if not parts.hostname or transport == "unix":
            return cls(None, 0, [])
        by_ssh = transport in ("ssh", "libssh", "libssh2")
        port = (parts.port if by_ssh else None) or 22
        if not by_ssh:
            return cls(parts.hostname, port, [])
        options = dict(urllib.parse.parse_qsl(parts.query))
        words = [
            options.get("command", "ssh"),
            "-o",
            "BatchMode=yes",
            "-o",
            f"ConnectTimeout={CONNECT}",
            "-o",
            "ControlPath=none",
        ]
        if "keyfile" in options:
            words += ["-i", options["keyfile"]]
        if parts.port:
            words += ["-p", str(parts.port)]
        if parts.username:
            words += ["-l", urllib.parse.unquote(parts.username)]
        return cls(parts.hostname, port, [*words, "--", parts.hostname, "true"])


async def ask(way: Way) -> host_answer.HostAnswer:
    """Probe a host once."""
    if way.address is None:
        return host_answer.HostAnswer(host_answer.LOGIN)
    tried: dict[str, Any] = (
        await _by_ssh(way.ssh) if way.ssh else {"failed": True, "timedout": True}
    )
    variables = {"ansible_host": way.address, "ansible_port": way.port}
    answer = await asyncio.get_running_loop().run_in_executor(
        None, answering.answer, way.address, tried, variables
    )
    if not way.ssh and answer.reached:
        # A login was not tried, so its refusal is unknown.
        return answer._replace(means=host_answer.LOGIN)
    return answer


async def _by_ssh(words: list[str]) -> dict[str, object]:
    """Log in and do nothing; return the result in the form of Ansible."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as problem:
        return {"failed": True, "msg": f"{words[0]} cannot be run here: {problem}"}
    try:
        _out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
        return {"failed": True, "timedout": True}
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode == SSH_FAILED:
        return {"failed": True, "unreachable": True, "msg": errors.decode(errors="replace")}
    return {}
