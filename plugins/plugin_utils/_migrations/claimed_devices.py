# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of its host that an instance has, at either end of a move."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.module_utils._migration import passthrough
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Devices

from .._common.errors import DroverError
from .._numa.device_requests import PciRequest
from .._numa.request import HostRequest
from .._store.database.sql import Connection, Row
from .._store.hosts import devices


def read(
    connection: Connection, ends: Mapping[str, tuple[int | None, int | None]]
) -> dict[str, Devices]:
    """Return the pairs of a device at the source and the device at the destination that replaces
    it.

    :param ends: {uuid of an instance: ids of the nodes that it leaves and goes to}.
    :returns: {uuid: the fact ``devices`` of its move}, without instances that have none.
    """
    pci, mdevs = (
        devices.of_consumers(connection, ends),
        devices.mdevs_of_consumers(connection, ends),
    )
    facts = {}
    for uuid, (source, destination) in ends.items():
        if source is None or destination is None:
            continue
        here, there = (source, uuid), (destination, uuid)
        fact = passthrough.pairs(
            pci.get(here, ()), pci.get(there, ()), mdevs.get(here, ()), mdevs.get(there, ())
        )
        if passthrough.names(fact):
            facts[uuid] = fact
    return facts


def requests_of(
    connection: Connection, node: int, instance: Row
) -> tuple[tuple[PciRequest, ...], int]:
    """Return the PCI devices that an instance needs on another host to have the devices of its node
    there, and the number of its mediated devices.

    :raises DroverError: it has devices that no claim gave it.
    """
    key, uuids = (node, instance.uuid), [instance.uuid]
    pci = devices.of_consumers(connection, uuids).get(key, [])
    mdevs = devices.mdevs_of_consumers(connection, uuids).get(key, [])
    stored: tuple[PciRequest, ...] = ()
    if pci and instance.host_request:
        stored = HostRequest.from_data(instance.host_request, f"Instance {instance.name}").pci
    odd = [
        each["address"] for each in pci if each["request"] is None or each["request"] >= len(stored)
    ]
    if odd:
        raise DroverError(
            f"Instance {instance.name} uses devices that no claim gave it ({', '.join(odd)}), so"
            " nobody knows what it needs elsewhere. Detach them first, or leave it there.",
            cause="unmovable",
        )
    return stored, len(mdevs)


def is_port(request: PciRequest) -> bool:
    """Return True if a request is for the device of a network port; no flavor requests such a
    device.
    """
    return all("physical_network" in dict(spec) for spec in request.specs)
