# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA cells, CPUs, pages and PCI devices of compute nodes: their distribution in a claim, and
their later changes (N11.7).

Two consumers never have one CPU or one device: the rows of the nodes are locked after the rows of
inventories, and are read after that. The row with the cells of a consumer is deleted with its
consumer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import NumaBinding

from .._common.errors import DroverError, node_label
from .._numa import pinning, stored_hosts
from .._numa.hosts import NumaHosts
from .._numa.request import HostRequest
from .._records.claims import HardwareClaim
from .._records.numa import Placed
from .._store.database.sql import Connection, Row
from .._store.hosts import compute_nodes, devices, numa
from . import one_time_use, provider_uuids, providers


class HostRoom:
    """The cells and devices of nodes, locked until the end of the transaction, and the ones that
    were chosen.

    :param nodes: rows as claim_nodes reads them. Their inventories are locked.
    """

    def __init__(self, connection: Connection, nodes: Iterable[Row]) -> None:
        self._connection = connection
        rows = {node.id: node for node in nodes}
        keys = sorted(rows)
        cells = compute_nodes.cells(connection, keys, lock=True)
        cells_held, pci = numa.read(connection, keys), devices.read_pci(connection, keys)
        #: The PCI devices by the id of the node.
        self.devices = pci
        self._uuids = {key: row.uuid for key, row in rows.items()}
        ratios: dict[int, dict[str, float]] = {}
        for (provider, name), ratio in providers.ratios(
            connection, {node.provider_id for node in rows.values()}
        ).items():
            ratios.setdefault(provider, {})[name] = ratio
        self._number = {key: number for number, key in enumerate(keys)}
        self._hosts = NumaHosts(
            [
                stored_hosts.host_of(
                    node_label(rows[key].host, rows[key].hypervisor_hostname),
                    cells[key].numa_cells,
                    cells_held.get(key, ()),
                    pci.get(key, ()),
                    ratios.get(rows[key].provider_id, {}),
                )
                for key in keys
            ]
        )
        self._chosen: dict[tuple[int, str], Placed] = {}

    def find(self, node: int, request: HostRequest) -> Placed:
        """Return the cells and devices that a request gets on a node, as NumaHosts.place(); nothing
        is taken yet.

        :raises DoesNotFit: the node does not have it.
        """
        return self._hosts.place(request, self._number[node])

    def take(self, node: int, uuid: str, placed: Placed) -> None:
        """Take the result of find() for a consumer; write() writes it."""
        self._hosts.consume(self._number[node], placed)
        self._chosen[node, uuid] = placed

    def write(self) -> None:
        """Write the choices; the consumers must exist."""
        numa.insert(
            self._connection,
            {key: placed["cells"] for key, placed in self._chosen.items() if placed["cells"]},
        )
        for (node, uuid), placed in self._chosen.items():
            numbers = {
                device["address"]: number
                for number, each in enumerate(placed["pci"])
                for device in each["devices"]
            }
            if numbers:
                devices.take(self._connection, node, uuid, numbers)
                for_one_use = [
                    each
                    for each in self.devices[node]
                    if each["address"] in numbers and one_time_use.is_marked(each)
                ]
                one_time_use.reserve(
                    self._connection,
                    {provider_uuids.provider_of(self._uuids[node], each) for each in for_one_use},
                )


def request_of(connection: Connection, node: int, uuid: str, vcpus: int, name: str) -> HostRequest:
    """Return the cells that an instance needs on another host to have there the same as on its
    node.

    :raises DroverError: the needs are not known, because the instance was bound to its host in
        another way than by a claim.
    """
    cells = next(
        (
            each["cells"]
            for each in numa.read(connection, [node]).get(node, ())
            if each["uuid"] == uuid
        ),
        [],
    )
    topology = pinning.topology_of(cells, vcpus) if cells else None
    if cells and topology is None:
        raise DroverError(f"Instance {name} {pinning.UNKNOWN}", cause="unmovable")
    return HostRequest(topology=topology)


def leave(connection: Connection, node: int, uuid: str) -> None:
    """Free the cells and devices of a node that a consumer has."""
    numa.remove(connection, node, uuid)
    devices.free(connection, node, uuid)


def hand_over(connection: Connection, node: int, giver: str, taker: str) -> None:
    """Give the cells and devices that a consumer has of a node to another consumer; both must
    exist.
    """
    numa.hand_over(connection, node, giver, taker)
    devices.hand_over(connection, node, giver, taker)


def read(
    connection: Connection, places: Mapping[str, Row], some: Collection[str] | None = None
) -> dict[str, HardwareClaim]:
    """Read the cells and devices of instances on their nodes, for their domains.

    :param places: {uuid: row of its node, with id and shared_cpus}.
    :param some: the only ones that can have cells or devices; None for all of them.
    :returns: {uuid: claim}, without instances that need nothing in their domains.
    """
    uuids = places.keys() if some is None else places.keys() & set(some)
    owned = devices.of_consumers(connection, uuids) if uuids else {}
    made = devices.mdevs_of_consumers(connection, uuids) if uuids else {}
    claims: dict[str, HardwareClaim] = {
        uuid: {"numa": facts} for uuid, facts in numa_facts(connection, places, uuids).items()
    }
    for uuid, place in places.items():
        if (place.id, uuid) in owned:
            claims.setdefault(uuid, {})["pci_devices"] = owned[place.id, uuid]
        if (place.id, uuid) in made:
            claims.setdefault(uuid, {})["mdevs"] = made[place.id, uuid]
    return claims


def numa_facts(
    connection: Connection, places: Mapping[str, Row], some: Collection[str] | None = None
) -> dict[str, NumaBinding]:
    """Read the CPUs and cells that the domains of instances must define: the fact ``numa`` by uuid,
    without empty facts.

    :param places, some: see read().
    """
    uuids = places.keys() if some is None else places.keys() & set(some)
    cells_held = numa.of_consumers(connection, uuids) if uuids else {}
    cells = (
        compute_nodes.cells(
            connection, {node for node, uuid in cells_held if places[uuid].id == node}
        )
        if cells_held
        else {}
    )
    facts_of: dict[str, NumaBinding] = {}
    for uuid, place in places.items():
        mine = cells_held.get((place.id, uuid))
        facts = (
            pinning.facts_of_cells(mine, cells[place.id].numa_cells or [])
            if mine
            else pinning.facts_of_floating(place.shared_cpus)
        )
        if facts:
            facts_of[uuid] = facts
    return facts_of
