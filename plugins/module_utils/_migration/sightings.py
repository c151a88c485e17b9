# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domains that a host shows before an instance moves to it, and the networks and bridges that it
lacks.
"""

from __future__ import annotations

import time
from typing import TypedDict

from .._domain import power
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from . import checks

#: The seconds between two tries to reach a libvirt that restarts.
AGAIN = 0.5


class Question(TypedDict):
    """The options of the module."""

    uris: list[str]
    uuids: list[str]
    names: list[str]
    networks: list[str]
    bridges: list[str]
    patience: float


def _read_once(uri: str, given: Question) -> tuple[list[dict[str, str]], dict[str, str]]:
    conn = binding.open_connection(uri)
    try:
        by_uuid = {}
        looks = [{"uuid": uuid} for uuid in given["uuids"]]
        for look in looks + [{"name": name} for name in given["names"]]:
            domain = power.find(conn, **look)
            if domain is not None:
                by_uuid[domain.UUIDString()] = domain
        domains = [
            {"uuid": uuid, "name": each.name(), "state": power.state_of(each)}
            for uuid, each in by_uuid.items()
        ]
        return domains, checks.lacking_plugs(conn, given["networks"], given["bridges"], "that host")
    finally:
        binding.close(conn)


def _read_domains(uri: str, given: Question) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Read the domains. Read them again if libvirt restarts during the read."""
    deadline = time.monotonic() + given["patience"]
    while True:
        try:
            return _read_once(uri, given)
        except (LibvirtProblem, libvirt.libvirtError):
            if time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN)


def read_all(given: Question) -> dict[str, object]:
    """Return the domains of all libvirts of the host, and the networks and bridges that all
    lack.
    """
    readings = [_read_domains(uri, given) for uri in given["uris"]]
    # A network or bridge counts as present if one of the host's libvirts has it.
    lacking = (
        {
            name: why
            for name, why in readings[0][1].items()
            if all(name in each for _domains, each in readings)
        }
        if readings
        else {}
    )
    return {
        "domains": [each for domains, _lacking in readings for each in domains],
        "lacking": lacking,
    }
