# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knowledge of this controller about itself and about the server of its store."""

from __future__ import annotations

import contextlib
import glob
import ipaddress
import os
import socket
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._libvirt import host_addresses, machine

from .._conductor.own_machines import VARIABLES, KnownMachines, OwnMachines
from .._store.engine import Store
from .options import Variables


def machines(store: Store, variables: Variables, templar: Any) -> OwnMachines:
    """Return the machines that a run itself needs. They are looked up at their first use.

    :param variables: the variables of the task.
    """
    names = {
        what: str(templar.template(variables[name]) or "").strip()
        for what, name in VARIABLES.items()
        if name in variables
    }
    said = {what: name for what, name in names.items() if name}
    return OwnMachines(
        store, lambda: KnownMachines(machine.here(), macs(), addresses(store.server), said)
    )


def macs(folder: str = "/sys/class/net") -> frozenset[str]:
    """Return the MAC addresses of the hardware network cards of this controller.

    Interfaces of software, such as for containers, do not count.
    """
    cards = set()
    for path in glob.glob(f"{glob.escape(folder)}/*/device"):
        with (
            contextlib.suppress(OSError),
            open(
                os.path.join(os.path.dirname(path), "address"), encoding="ascii", errors="replace"
            ) as file,
        ):
            cards.add(file.read().strip().lower())
    return frozenset(cards - {"", "00:00:00:00:00:00"})


def addresses(server: str | None) -> frozenset[str] | None:
    """Return the addresses of the server of the store; None if it is on this controller.

    :param server: its name or address, or several with commas between them; None for a file, or a
        socket of this machine.
    """
    if not server:
        return None
    resolved = set()
    for name in server.split(","):
        # The store itself reports a server that cannot be reached.
        with contextlib.suppress(OSError, UnicodeError):
            resolved |= {
                str(each[4][0]).partition("%")[0]
                for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            }
    own = set(host_addresses.read())
    if resolved and all(each in own or ipaddress.ip_address(each).is_loopback for each in resolved):
        return None
    return frozenset(resolved)
