# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The view of the store, which is only read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .._common.errors import DroverError
from .._conductor import capacity
from .._placement import audit
from .._scheduler import policy_file
from .._store import Store
from .._store.hosts import compute_nodes
from .._store.reports import watched
from .observations import View

#: The size that is counted if the store has no flavor.
ONE_MORE = {"name": "1 vCPU, 1 GiB", "vcpus": 1, "memory_mb": 1024, "disk_gb": 0}


class FleetFindings(NamedTuple):
    """The capacity for the smallest flavor, the findings of the audit, and the reasons why hosts
    need a reboot.
    """

    capacity: Mapping[str, Any]
    audit: list[Any]
    reboots: Mapping[str, str]


class FleetView:
    """The store of a URL."""

    def __init__(self, url: str) -> None:
        self._store = Store.open(url)

    def addresses(self) -> dict[str, str]:
        """Read the addresses of all hosts."""
        with self._store.read() as connection:
            return watched.addresses(connection)

    def machines(self) -> dict[str, list[str]]:
        """Read the host_uuids of the hosts with constant ones: a machine without a uuid in its
        firmware gets another one at each start of libvirt.
        """
        with self._store.read() as connection:
            identities = compute_nodes.identities(connection, watched.addresses(connection))
        return {
            host: each["host_uuids"]
            for host, each in identities.items()
            if set(each["host_uuids"]) & set(each["system_uuids"])
        }

    def view(self, uuids: Iterable[str]) -> View:
        """Read the present state in the store, with these instances."""
        with self._store.read() as connection:
            hosts, instances = watched.busy(connection)
            return View(
                watched.quiet(connection), hosts, instances, watched.recorded(connection, uuids)
            )

    def findings(self) -> FleetFindings:
        """Count the capacity and check the store."""
        policy = policy_file.combined({}, None, None)
        with self._store.read() as connection:
            try:
                flavors: list[Any] = capacity.all_flavors(connection)[:1]
            except DroverError:
                flavors = [ONE_MORE]
            (counted,) = capacity.count(connection, flavors, policy, loss=True)
            findings = list(audit.audit(connection, time.time())["left"])
            return FleetFindings(counted, findings, watched.reboot_signs(connection))
