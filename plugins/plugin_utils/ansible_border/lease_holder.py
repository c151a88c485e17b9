# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who acts: the ansible-playbook process that a task belongs to, as leases know it."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import socket

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError


class Actor:
    """The holder of a lease.

    :param pid: the process that stands for the whole run: ansible-playbook.
    """

    def __init__(self, pid):
        self.holder = f"{_user()}@{socket.gethostname()}, process {pid}"
        self.process = _process(pid)

    @classmethod
    def of_this_task(cls):
        """The actor of a task: Ansible works on tasks in children of ansible-playbook.

        :raises DroverError: ansible-playbook is gone. A lease in the name of whatever process has taken its child over would never end.
        """
        parent, pid = multiprocessing.parent_process(), os.getppid()
        if parent is not None and parent.pid != pid:
            raise DroverError("The playbook that this task belongs to was killed. Nothing was begun by this task: run the playbook again.")
        return cls(pid)

    def lives(self, process):
        """Whether the process of a holder lives: True or False where that is proven, else None.

        Nothing can be proven of another machine, another boot or another container. Nor where /proc shows nothing of
        other users' processes (hidepid), but that there is one of that number.
        """
        machine, dummy, rest = process.rpartition("/")
        pid, dummy, started = rest.partition(":")
        if machine != _machine() or not pid.isdigit():
            return None
        if not _exists(int(pid)):
            return False
        now = _started(pid)
        # The number may be another process's by now, where nobody can see when it started.
        return now == started if now and started else None


def _user():
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _process(pid):
    return f"{_machine()}/{pid}:{_started(pid)}"


def _machine():
    """This boot of this machine, in this container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It is another user's.
        return True
    return True


def _started(pid):
    """When a process started, in the kernel's ticks; empty where that cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The command's name is in brackets and may hold blanks.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
