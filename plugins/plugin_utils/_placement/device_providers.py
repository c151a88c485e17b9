# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of the PCI devices of a claim; a device and its allocation have the same provider
(N12.7).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from .._numa.device_requests import PciRequest
from .._numa.request import HostRequest
from .._records.claims import Allocations, Mappings, Resources
from .._records.numa import Placed
from .._store.database.sql import Connection, Row, sa
from .._store.schema import tables
from . import provider_uuids, providers
from .inventory import ProviderInventory


class ChosenDevices(NamedTuple):
    """The allocations of some devices: an amount of a class on a provider."""

    resource_class: str
    amount: int
    provider: str


class DeviceProviders:
    """The providers of the PCI devices of compute nodes.

    :param nodes: rows of compute nodes.
    :param devices: {node id: PCI devices}, as the store has them.
    :param held: {provider id: {class: inventory}}, locked.
    """

    def __init__(
        self,
        connection: Connection,
        nodes: Iterable[Row],
        devices: Mapping[int, Sequence[Mapping[str, object]]],
        held: Mapping[int, Mapping[str, ProviderInventory]],
    ) -> None:
        self._connection, self._held = connection, held
        self._keys = {
            node.id: provider_uuids.keys_of(node.uuid, devices.get(node.id, ()))
            for node in nodes
            if node.nested
        }
        self.ids = (
            providers.ids(connection, {uuid for keys in self._keys.values() for uuid in keys})
            if any(self._keys.values())
            else {}
        )

    def request_on(
        self, node: int, request: HostRequest, given: Allocations, mappings: Mappings | None
    ) -> HostRequest:
        """Return a request with the providers that may give its devices on a node.

        :param given: the allocations that the scheduler chose there; empty if any provider of the
            node may be taken.
        :param mappings: the providers of the allocations by device; None if they are not known.
        """
        keys = self._keys.get(node, {})
        if mappings:
            return request.on_providers(mappings, keys)
        pci = []
        for pci_request in request.pci:
            if pci_request.resource_class is not None:
                most = {key: self._most(uuid, pci_request, given) for uuid, key in keys.items()}
                pci_request = replace(
                    pci_request,
                    providers=tuple(
                        sorted((key, amount) for key, amount in most.items() if amount > 0)
                    ),
                )
            pci.append(pci_request)
        return replace(request, pci=tuple(pci))

    def _most(self, uuid: str, request: PciRequest, given: Allocations) -> int:
        """Return the number of devices that a provider may give to a request."""
        name = str(request.resource_class)
        if given:
            return given.get(uuid, {}).get(name, 0)
        inventory = self._held.get(self.ids.get(uuid, 0), {}).get(name)
        if inventory is None or not self._has_traits(self.ids[uuid], request.traits):
            return 0
        return math.floor(inventory.capacity - inventory.used)

    def _has_traits(self, provider: int, wanted: Sequence[str]) -> bool:
        if not wanted:
            return True
        links, names = tables.provider_traits, tables.traits
        query = (
            sa.select(names.c.name)
            .join(links, links.c.trait_id == names.c.id)
            .where(links.c.provider_id == provider)
        )
        return set(wanted) <= set(self._connection.execute(query).scalars())

    def allocations(
        self, node: int, request: HostRequest, placed: Placed, resources: Resources
    ) -> list[ChosenDevices]:
        """Return the allocations of the devices that were chosen, by provider.

        A request that does not ask Placement takes of the provider of its device as many as the
        resources name of its class.

        :param placed: see NumaHosts.place().
        """
        uuids = {key: uuid for uuid, key in self._keys.get(node, {}).items()}
        counts: Counter[tuple[str, str]] = Counter()
        remaining = Counter(resources)
        for pci_request, given in zip(request.pci, placed["pci"]):
            for device in given["devices"]:
                uuid = uuids.get(device["pool"])
                if uuid is None or uuid not in self.ids:
                    continue
                name = pci_request.resource_class or next(
                    iter(self._held.get(self.ids[uuid], ())), ""
                )
                if pci_request.resource_class is not None or remaining[name] > 0:
                    counts[uuid, name] += 1
                    remaining[name] -= 1
        return [
            ChosenDevices(name, amount, uuid) for (uuid, name), amount in sorted(counts.items())
        ]
