# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signs of life of another host: its answers, and locks on its disks."""

from __future__ import annotations

import concurrent.futures
import errno
import fcntl
import os
import re
import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from . import access

#: The time limit in seconds for a look at one disk. If another host has lost its storage, this host
#: may have lost it too.
LOOK = 5

#: The errors that the other host itself sends. So a closed port is an answer too. (A router or a
#: firewall sends "unreachable".)
ANSWERS = (errno.ECONNREFUSED, errno.ECONNRESET)
FLOCK = "hhqqi"  # struct flock of Linux with 64 bits: type, whence, start, length, pid


class TcpReaction(NamedTuple):
    """The reaction of a host to a TCP connection.

    answers: True if the host answers; None if this host cannot even try. closed: True if the host
    answers that the port is closed.
    """

    answers: bool | None
    words: str
    closed: bool = False


def reach(address: str, port: int, timeout: float) -> TcpReaction:
    """Find out if a host answers on a TCP port.

    :param timeout: the time limit in seconds for all attempts together.
    """
    deadline, last = time.monotonic() + timeout, "nothing was tried"
    try:
        addresses = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        return TcpReaction(None, f"{address} is no name that is known here: {problem}")
    tried = False
    for family, kind, protocol, _dummy, where in addresses:
        seconds_left = max(0.1, deadline - time.monotonic())
        try:
            with socket.socket(family, kind, protocol) as tries:
                tries.settimeout(seconds_left)
                tries.connect(where)
            return TcpReaction(True, f"{address} answers on port {port}")
        except OSError as problem:
            if problem.errno in ANSWERS:
                return TcpReaction(True, f"{address} answers, but not on port {port}", closed=True)
            # No request was sent if there is no route of that kind.
            tried = tried or problem.errno not in (
                errno.EAFNOSUPPORT,
                errno.ENETUNREACH,
                errno.ENETDOWN,
            )
            last = f"{address}, port {port}: {problem}"
    return TcpReaction(False if tried else None, last)


def reach_each(addresses: Sequence[str], port: int, timeout: float) -> list[TcpReaction]:
    """Find out at the same time if a host answers at several addresses, see reach()."""
    if not addresses:
        return []
    with concurrent.futures.ThreadPoolExecutor(len(addresses)) as threads:
        return list(threads.map(lambda address: reach(address, port, timeout), addresses))


def in_use(path: str) -> bool | None:
    """Return True if a process on any host holds a lock on a file.

    :returns: True, False, or None if the state is unknown.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Test the lock, but do not take it. The test shows if another lock conflicts with a
        # writer's lock on the whole file.
        answer = fcntl.fcntl(
            descriptor, fcntl.F_GETLK, struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        )
        return struct.unpack(FLOCK, answer)[0] != fcntl.F_UNLCK
    except (OSError, struct.error):
        return None
    finally:
        os.close(descriptor)


def storage(paths: Sequence[str], locked_by_libvirt: bool) -> tuple[str, list[str]]:
    """Return the evidence from the locks of a host's disks.

    :param locked_by_libvirt: True if libvirt locks disks on all hosts. If not, a missing lock
        proves nothing.
    :returns: (active, silent or unknown; the paths in use).
    """
    looks = access.call_each(in_use, [(path,) for path in paths], LOOK)
    seen = {path: found if answered else None for path, (answered, found) in zip(paths, looks)}
    active = sorted(path for path, found in seen.items() if found)
    if active:
        return "active", active
    silent = locked_by_libvirt and seen and all(found is False for found in seen.values())
    return ("silent" if silent else "unknown"), []


def locked_by_libvirt(file: str = "/etc/libvirt/qemu.conf") -> bool:
    """Return True if libvirt locks the files of disks here, in the set-up of role hypervisor.
    The function returns False for sanlock, because its leases are in separate files.
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            return (
                re.search(r'^\s*lock_manager\s*=\s*"lockd"', text.read(), re.MULTILINE) is not None
            )
    except OSError:
        return False
