# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this controller knows of itself and of the server of its store."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils import _host_addresses, _machine
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.own_machines import VARIABLES, Known, OwnMachines
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Store


def machines(store: Store, variables: Mapping[str, Any], templar: Any) -> OwnMachines:
    """Return the machines that a run needs itself, which are looked for when somebody asks.

    :param variables: of the task.
    """
    given = {what: str(templar.template(variables[name]) or "").strip() for what, name in VARIABLES.items() if name in variables}
    said = {what: name for what, name in given.items() if name}
    return OwnMachines(store, lambda: Known(_machine.here(), addresses(store.server), said))


def addresses(server: str | None) -> frozenset[str] | None:
    """Return the addresses of the server of the store; None if it is on this controller.

    :param server: its name or address; None for a file, or a socket of this machine.
    """
    if not server:
        return None
    try:
        found = {str(each[4][0]).partition("%")[0] for each in socket.getaddrinfo(server, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        # What cannot be reached is said by the store itself.
        return frozenset()
    own = set(_host_addresses.read())
    if all(each in own or ipaddress.ip_address(each).is_loopback for each in found):
        return None
    return frozenset(found)
