# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The blocklist of a Ceph cluster: shut clients out, verify this, and let clients in again.

Private to the collection. Sources: Ceph's "ceph -- ceph administration tool" (osd blocklist),
"Health checks", "rbd status". Each OSD refuses a client on the blocklist as soon as the OSD has the
new map. A new client that opens an image afterwards brings this map to each OSD of the image. So
the blocked client cannot write to an object after the new client has read the object.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any

from .._files import programs
from .._libvirt.binding import host_name

#: Seconds for which an address is shut out: so long that only a command lets it in again. Ceph's
#: default is an hour.
EXPIRY = 10 * 365 * 86400

#: The shortest remaining time of an entry, in seconds. An entry that ends earlier does not count.
LEAST = 30 * 86400

#: Seconds that a command may take.
PATIENCE = 60

#: The text from shared_storage.disk_id(): servers, pool with namespace, image.
_DISK = re.compile(r"^rbd:(?P<servers>.+):/(?P<image>[^/]+/(?:[^/]+/)?[^/]+)$")


class CephProblem(Exception):
    """The error for a failed command or check; its text is a sentence."""


class Cluster:
    """A Ceph cluster, with access through the commands ``ceph`` and ``rbd`` of this machine.

    :param arguments: arguments of both commands, such as ``["--conf", "/etc/ceph/ceph.conf",
        "--name", "client.fence"]``.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)

    def cut(self, addresses: Iterable[str], foresee: bool = False) -> list[str]:
        """Shut addresses out; return the addresses that were not shut out before.

        :param foresee: change nothing.
        :raises CephProblem: a command failed.
        """
        there = self._blocked()
        new = sorted(set(addresses) - there)
        for each in () if foresee else new:
            self._ceph("osd", "blocklist", "add", _client(each), str(EXPIRY))
        return new

    def lift(self, addresses: Iterable[str], foresee: bool = False) -> list[str]:
        """Let addresses in again; return the addresses that were shut out.

        :param foresee: change nothing.
        :raises CephProblem: a command failed.
        """
        blocked = sorted(set(addresses) & self._blocked(least=0))
        for each in () if foresee else blocked:
            self._ceph("osd", "blocklist", "rm", _client(each))
        return blocked

    def verify(self, addresses: Iterable[str], disks: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the disks that clients of these addresses certainly cannot write to.

        :param disks: texts from shared_storage.disk_id().
        :returns: (the disks, sentences about the other disks).
        :raises CephProblem: a command failed, or an address is not shut out.
        """
        blocked = self._blocked()
        open_ = sorted(set(addresses) - blocked)
        if open_:
            raise CephProblem(
                f"{', '.join(open_)} is not on the blocklist of Ceph, or not for long"
            )
        monitors, cut, problems = self._monitors(), [], []
        for disk in disks:
            problem = self._why_not(disk, monitors, blocked)
            if problem is None:
                cut.append(disk)
            else:
                problems.append(f"{disk}: {problem}")
        return cut, problems

    def _why_not(self, disk: str, monitors: set[str], blocked: set[str]) -> str | None:
        match = _DISK.match(disk)
        if match is None:
            return "it is no image of Ceph"
        servers = [_resolved(each) for each in match["servers"].split(",")]
        if not all(each and each <= monitors for each in servers):
            return (
                f"its monitors ({match['servers']}) are not those of this cluster"
                f" ({', '.join(sorted(monitors))})"
            )
        try:
            watchers = self._json("rbd", "status", match["image"], "--format", "json")["watchers"]
            clients = sorted(
                {
                    _address(each["address"])
                    for each in (watchers.values() if isinstance(watchers, dict) else watchers)
                }
            )
        except (CephProblem, KeyError, TypeError, ValueError, AttributeError) as exc:
            return f"it is not known who has it open ({exc})"
        others = [each for each in clients if each not in blocked]
        if others:
            return (
                f"{', '.join(others)} has it open and is not shut out: if that is an address of the"
                " same host, name it in drover_storage_addresses; if it is another host, the"
                " instance may run there: run drover.compute.discover"
            )
        return None

    def _blocked(self, least: int = LEAST) -> set[str]:
        """Return the addresses with all clients shut out for at least ``least`` more seconds."""
        entries = self._json("ceph", "osd", "dump", "--format", "json").get("blocklist") or {}
        return {
            _address(each)
            for each, until in entries.items()
            if each.endswith(":0/0") and (not least or _until(until) - time.time() >= least)
        }

    def _monitors(self) -> set[str]:
        addresses = set()
        for each in self._json("ceph", "mon", "dump", "--format", "json")["mons"]:
            for address in each["public_addrs"]["addrvec"]:
                addresses.add(_address(address["addr"]))
        return addresses

    def _ceph(self, *words: str) -> str:
        return self._run_program("ceph", "--connect-timeout", "20", *words)

    def _json(self, program: str, *words: str) -> Any:
        text = self._ceph(*words) if program == "ceph" else self._run_program(program, *words)
        try:
            return json.loads(text)
        except ValueError as exc:
            raise CephProblem(
                f"{program} {' '.join(words)} did not answer in JSON on {host_name()}"
            ) from exc

    def _run_program(self, program: str, *words: str) -> str:
        command = [program, *self._arguments, *words]
        shown = f"{program} {' '.join(words)}"
        try:
            # Not run_command: it has no limit of time.
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env=programs.environment(),
                check=False,
            )
        except FileNotFoundError as exc:
            raise CephProblem(
                f"the command {program} is not on {host_name()}: install ceph-common there, or set"
                " drover_ceph_admin"
            ) from exc
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as exc:
            raise CephProblem(
                f"{shown} did not end on {host_name()} ({exc.__class__.__name__})"
            ) from exc
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise CephProblem(f"{shown} failed on {host_name()} ({lines[-1]})")
        return done.stdout


def _client(address: str) -> str:
    """Return Ceph's text for all clients of an address."""
    found = ipaddress.ip_address(address)
    return f"[{found}]:0/0" if found.version == 6 else f"{found}:0/0"


def _address(text: str) -> str:
    """Return the IP address of ``ADDRESS:PORT/NONCE`` or ``[ADDRESS]:PORT``.

    :raises ValueError: the text has no IP address.
    """
    return str(ipaddress.ip_address(re.sub(r"^v\d:", "", text).rpartition(":")[0].strip("[]")))


def _resolved(server: str) -> set[str]:
    """Return the IP addresses of a server with or without a port; an empty set for an unknown
    server.
    """
    name = re.sub(
        r"(?<=[^:]):\d+$" if server.count(":") == 1 or "]" in server else r"$^", "", server
    ).strip("[]")
    try:
        return {str(ipaddress.ip_address(each[4][0])) for each in socket.getaddrinfo(name, None)}
    except (OSError, ValueError, UnicodeError):
        return set()


def _until(text: str) -> float:
    """Return the end of an entry of the blocklist, in seconds since 1970; 0 for an unknown
    format.
    """
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    except ValueError:
        return 0
