# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The holder of leases: the ansible-playbook process of a task."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import re
import socket

from .._common.errors import DroverError


class LeaseHolder:
    """The holder of a lease.

    :param pid: the process id of ansible-playbook.
    """

    def __init__(self, pid: int) -> None:
        self.holder = f"{_user()}@{socket.gethostname()}, process {pid}"
        self.process = _process(pid)

    @classmethod
    def of_this_task(cls) -> LeaseHolder:
        """Return the actor of this task, which runs in a child of ansible-playbook.

        :raises DroverError: ansible-playbook has ended. A lease in the name of the process that
            adopted its child would never end.
        """
        parent, pid = multiprocessing.parent_process(), os.getppid()
        if parent is not None and parent.pid != pid:
            raise DroverError(
                "The playbook of this task was killed. This task has begun nothing. Run the"
                " playbook again."
            )
        return cls(pid)

    def lives(self, process: str) -> bool | None:
        """Return True if the process of a holder is alive, False if not; None without a proof.

        There is no proof for another machine, boot or container, or if /proc hides the start time
        of other users' processes (hidepid).
        """
        machine, dummy, rest = process.rpartition("/")
        pid, dummy, started = rest.partition(":")
        if machine != _machine() or not pid.isdigit():
            return None
        if not _exists(int(pid)):
            return False
        now = _started(pid)
        # Without its start time, the process may be another one with the same number.
        return now == started if now and started else None


def has_ended(holder: str) -> bool:
    """Return True if the run of a holder was on this machine and has ended.

    Return False also if it is not known.

    :param holder: the holder as the store shows it.
    """
    found = re.fullmatch(r".*@(.+), process (\d+)", holder)
    return found is not None and found[1] == socket.gethostname() and not _exists(int(found[2]))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _process(pid: int) -> str:
    return f"{_machine()}/{pid}:{_started(pid)}"


def _machine() -> str:
    """Return an id of this boot of this machine and of this container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # The process belongs to another user.
        return True
    return True


def _started(pid: int | str) -> str:
    """Return the start time of a process in ticks of the kernel; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The command in brackets may contain blanks.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
