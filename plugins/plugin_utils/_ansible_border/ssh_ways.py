# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to a hypervisor over SSH, without a wait for a dead host.

A master (ControlMaster of SSH) outlives its host. A connection through it waits until TCP gives up,
which takes minutes. So a probe uses no master, and a run has its own masters, which notice within
ALIVE_SECONDS that the host is silent.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from typing import Any

from ansible.utils.path import makedirs_safe, unfrackpath

#: SSH uses the first value of an option, so these go before the arguments of the operator.
PAST_MASTERS = "-o ControlMaster=no -o ControlPath=none"
#: Seconds that a probe may take to connect, as in the event source.
CONNECT = 5
#: These options go behind the arguments of the operator, so that the operator may set others.
#: ALIVE_SECONDS is the product of both.
ALIVE = "-o ServerAliveInterval=5 -o ServerAliveCountMax=3"
ALIVE_SECONDS = 15
#: Seconds that a master of a run stays after its last use.
PERSIST = 30
#: The longest path of a socket, less the part that SSH appends while it makes one.
LONGEST = 107 - 17
#: The options of Ansible's connection plugin with arguments of ssh.
_ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args")
_PREPARED = "_drover_way"


def prepare(connection: Any, probe: bool = False) -> None:
    """Set the arguments of a connection before its first use.

    Only connections of Ansible's SSH change.

    :param probe: True for a call that only finds out if the host answers.
    """
    if getattr(connection, "transport", None) != "ssh" or getattr(connection, _PREPARED, False):
        return
    given = str(connection.get_option("ssh_args") or "")
    connection.set_option(
        "ssh_args",
        past_masters(given) if probe else _join_arguments(_own_master(connection), given, ALIVE),
    )
    setattr(connection, _PREPARED, True)


def past_masters(given: str) -> str:
    """Return the arguments of ssh for a probe.

    :param given: the arguments of the operator.
    """
    return _join_arguments(f"{PAST_MASTERS} -o ConnectTimeout={CONNECT}", given, ALIVE)


def _join_arguments(*arguments: str) -> str:
    return " ".join(each for each in arguments if each)


def _own_master(connection: Any) -> str:
    """Return the arguments for a master of this run; empty if the operator wants no master."""
    arguments = (
        "".join(str(connection.get_option(name) or "") for name in _ARGUMENTS)
        .replace(" ", "")
        .lower()
    )
    if "controlpath=none" in arguments:
        return ""
    folder = unfrackpath(connection.get_option("control_path_dir"))
    place = [
        _name_of_run(),
        *(str(connection.get_option(name)) for name in ("host", "port", "remote_user")),
    ]
    # The name is as short as Ansible's own, because the path of a socket has a limit.
    digest = hashlib.sha256("-".join(place).encode()).hexdigest()[:10]
    path = f"{folder}/drover-{digest}"
    if len(os.fsencode(path)) > LONGEST:
        return PAST_MASTERS
    makedirs_safe(folder, 0o700)
    return f"-o 'ControlPath=\"{path}\"' -o ControlPersist={PERSIST}"


@functools.lru_cache(maxsize=1)
def _name_of_run() -> str:
    """Return a name of this run of ansible-playbook, the parent of its workers.

    Processes that a worker begins have the same name.
    """
    return f"{os.getppid()}-{_since(os.getppid())}"


def _since(pid: int) -> str:
    """Return the start time of a process, because the system uses pids again."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return str(int(time.time()))
