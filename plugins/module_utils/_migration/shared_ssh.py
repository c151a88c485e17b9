# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One SSH connection of this host to each destination, over which all moves there look at its
libvirt.

Private to the collection. A login takes far more processor time of both hosts than the data that a
move reads. Each move keeps a separate connection to libvirt: a call that hangs keeps no other move
from its answers. SSH itself shares the login (ControlMaster), ends it after a while without use,
and makes another login if the server refuses more sessions over one login (MaxSessions).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import urllib.parse
from typing import Any

from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem

#: Seconds that such a connection may take to be made before the move logs in by itself.
TIMEOUT = 10

#: The program that libvirt runs in place of ssh: its URI takes a program, but no options. %C is for
#: account and destination. A move with a shared login notices after 15 seconds that the other end
#: is gone.
PROGRAM = """#!/bin/sh
exec ssh -o ControlMaster=auto -o ControlPath={folder}/ssh-%C -o ControlPersist=15 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 "$@"
"""

#: Paths that a shell and ssh take unchanged.
PLAIN_PATH = re.compile(r"/[\w./-]+")


def open_connection(uri: str, folder: str) -> Any:
    """Connect to the libvirt of a destination, by the shared login if that works, else by a
    separate login.

    :param folder: the folder of the records of moves, which only their owner can enter.
    :raises LibvirtProblem: it cannot be reached.
    """
    with contextlib.suppress(LibvirtProblem, OSError):
        shared = _shared(uri, folder)
        if shared is not None:
            return binding.open_connection(shared, keepalive=True, seconds=TIMEOUT)
    return binding.open_connection(uri, keepalive=True)


def _shared(uri: str, folder: str) -> str | None:
    """Return the URI that shares a login, or None if SSH makes none or the user has a program for
    it.

    :raises OSError: the program cannot be written.
    """
    parts = urllib.parse.urlsplit(uri)
    if (
        not parts.scheme.endswith("+ssh")
        or "command" in urllib.parse.parse_qs(parts.query)
        or not PLAIN_PATH.fullmatch(folder)
    ):
        return None
    query = f"{parts.query}&" if parts.query else ""
    return urllib.parse.urlunsplit(parts._replace(query=f"{query}command={_program(folder)}"))


def _program(folder: str) -> str:
    """Return the path of the program, which is written where it is missing or another one.

    :raises OSError: the program cannot be written, or another account could write it.
    """
    path, text = os.path.join(folder, "ssh"), PROGRAM.format(folder=folder)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "others can write there", folder)
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        if file.read() == text:
            return path
    # Another move may run it at this moment.
    part = f"{path}.{os.getpid()}.part"
    with open(
        part, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o700)
    ) as file:
        file.write(text)
    os.replace(part, path)
    return path
