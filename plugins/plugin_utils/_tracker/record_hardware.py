# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells and devices of hosts and their users in the store, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._numa import device_providers
from .._placement import discovered_children, one_time_use, provider_uuids, providers
from .._records.claims import Resources
from .._records.numa import HostCell, PlacedCell
from .._store.engine import Connection
from .._store.hosts import devices, numa
from . import host_cells, host_devices, nested_providers, record_pools
from .domain import DomainReport
from .node import NodeReport

#: Domains by the id of the node that shows them, and by uuid.
Shown = Mapping[int, Mapping[str, DomainReport]]


def children(
    node: NodeReport, uuid: str, name: str, before: Mapping[str, Any] | None
) -> dict[str, discovered_children.ChildProvider]:
    """Return the providers of devices and pools below the provider of a node, by their uuids.

    :param uuid: the uuid of the node; ``name`` is the name of its provider.
    :param before: the facts of its last discovery; None for a new node.
    """
    traits_before = (before or {}).get("nested_providers") or {}
    return {
        provider_uuids.uuid_of(uuid, each["key"]): discovered_children.ChildProvider(
            f"{name}_{each['name']}",
            provider_uuids.uuid_of(uuid, each["parent"]) if each["parent"] else None,
            each["resource_class"],
            each["total"],
            each["traits"],
            frozenset(traits_before.get(each["key"], ())),
            None if nested_providers.ONE_TIME_USE in each["traits"] else 0,
        )
        for each in node["nested"]
    } | record_pools.children(node, uuid, f"{name}_", traits_before)


class Hardware:
    """The cells and devices of nodes in the store now, for the parts that domains have.

    :param nodes: {node id: its row}.
    :param known: the devices of these nodes.
    :param shown: {node id: domains that it shows, by uuid}.
    :param resized: (node id, uuid) of consumers that keep their claim whatever they show: in a
        resize they may show the other size.
    """

    def __init__(
        self,
        connection: Connection,
        nodes: Mapping[int, Any],
        known: devices.NodeDevices,
        shown: Shown,
        resized: Collection[tuple[int, str]] = (),
    ) -> None:
        self._connection = connection
        self._cells = {key: row.numa_cells or [] for key, row in nodes.items()}
        #: {node: {address: uuid of the provider}}, for devices for one use only.
        self.for_one_use: dict[int, dict[str, str]] = {}
        for key, row in nodes.items():
            for device in known.pci.get(key, ()):
                if one_time_use.is_marked(device):
                    uuid = provider_uuids.provider_of(row.uuid, device)
                    self.for_one_use.setdefault(key, {})[device["address"]] = uuid
        # {node: {device: (uuid of the provider, resource class)}}.
        self._amounts: dict[int, dict[str, tuple[str, str]]] = {}
        # {node: uuids of providers that it may have}.
        self._nested: dict[int, set[str]] = {}
        for key, row in nodes.items():
            pci, kinds = known.pci.get(key, ()), known.mdev_types.get(key, ())
            by_device = {
                each["address"]: (
                    provider_uuids.provider_of(row.uuid, each),
                    device_providers.class_of(each),
                )
                for each in pci
                if device_providers.is_reported(each)
            }
            classes = {(kind["parent"], kind["type"]): kind["resource_class"] for kind in kinds}
            for mdev in known.mdevs.get(key, ()):
                if (mdev["parent"], mdev["type"]) in classes:
                    provider = provider_uuids.uuid_of(row.uuid, mdev["parent"])
                    by_device[mdev["uuid"]] = (provider, classes[mdev["parent"], mdev["type"]])
            keys = {device_providers.key_of(each) for each in pci}
            keys |= {kind["parent"] for kind in kinds}
            self._amounts[key] = by_device
            self._nested[key] = {provider_uuids.uuid_of(row.uuid, each) for each in keys}
        self._ids = providers.ids(connection, set().union(*self._nested.values()))
        #: (node, uuid) of all domains.
        self.shown = {(key, uuid) for key, domains in shown.items() for uuid in domains}
        #: {node: {uuid: cells of the domain}}, and {node: {device: uuids of its owners}}.
        self.cells: dict[int, dict[str, list[PlacedCell]]] = {}
        self.owners: dict[int, dict[str, list[str]]] = {}
        # {(node, uuid): dedicated CPUs, and other dedicated CPUs} of domains with pins.
        self._pinned: dict[tuple[int, str], tuple[int, int]] = {}
        # {(node, uuid): devices} of domains with devices.
        self._owned: dict[tuple[int, str], list[str]] = {}
        for key, domains in shown.items():
            self._add_domains(key, domains, nodes.get(key), known.pci.get(key, ()), resized)

    @classmethod
    def of_node(cls, connection: Connection, node: Any, domain: DomainReport) -> Hardware:
        """Read the devices of one node, for one domain that it shows.

        :param node: the row of the node.
        """
        shown = {node.id: {domain["columns"]["uuid"]: domain}}
        return cls(connection, {node.id: node}, devices.read_all(connection, [node.id]), shown)

    def _add_domains(
        self,
        node: int,
        domains: Mapping[str, DomainReport],
        row: Any | None,
        pci: Sequence[Mapping[str, object]],
        resized: Collection[tuple[int, str]],
    ) -> None:
        """Find the cells and devices that the domains of a node have."""
        cells, owners = self.cells.setdefault(node, {}), self.owners.setdefault(node, {})
        # The store has the interfaces of virtual functions; only the facts have vDPA devices.
        devices_of_host = list(pci)
        if row is not None and any(_has_vdpa(each) for each in domains.values()):
            devices_of_host = [*((row.facts or {}).get("pci_devices") or ()), *pci]
        for uuid, domain in sorted(domains.items()):
            facts = domain["columns"]["facts"]
            shown: list[PlacedCell] = []
            if facts.get("numa") or facts.get("next_start_cpus"):
                shown, pinned, others = _use(domain, self._cells.get(node, []))
                self._pinned[node, uuid] = (pinned, others)
            if (node, uuid) not in resized:
                cells[uuid] = shown
            if facts.get("hostdevs") or any(
                nic.get("type") == "direct" for nic in facts.get("interfaces") or ()
            ):
                parts = {key: facts.get(key) for key in ("hostdevs", "interfaces")}
                owned = sorted(host_devices.owners([{"uuid": uuid, **parts}], devices_of_host))
                self._owned[node, uuid] = owned
                for device in owned:
                    owners.setdefault(device, []).append(uuid)

    def part(
        self, node: int, domain: DomainReport, resources: Resources
    ) -> tuple[Resources, set[int], dict[int, Resources]]:
        """Return the amounts of a domain on its node and on the providers of devices there.

        :param resources: the amounts that its host shows.
        :returns: the amounts, with PCPU in place of VCPU for its dedicated CPUs; the ids of the
            providers of devices of the node; and the amounts of the domain there.
        """
        key = (node, domain["columns"]["uuid"])
        # Dedicated CPUs are not known on a host that keeps no CPUs for pinned vCPUs or reports no
        # cells.
        if any(set(cell["pcpus"]) - set(cell["cpus"]) for cell in self._cells.get(node, ())):
            pinned, others = self._pinned.get(key, (0, 0))
            vcpus = resources.get("VCPU", 0) - pinned
            resources = {**resources, "VCPU": vcpus, "PCPU": pinned + others}
        own = {self._ids[uuid] for uuid in self._nested.get(node, ()) if uuid in self._ids}
        taken: dict[int, Resources] = {}
        for device in self._owned.get(key, ()):
            uuid, name = self._amounts.get(node, {}).get(device, (None, ""))
            if uuid in self._ids:
                amounts = taken.setdefault(self._ids[uuid], {})
                amounts[name] = amounts.get(name, 0) + 1
        return resources, own, taken

    def reserve_used(self) -> bool:
        """Reserve the devices for one use only that have an owner; return True if one is new."""
        owned = {
            key: {each["address"] for each in rows if each["owner"]}
            for key, rows in devices.read_pci(self._connection, list(self.for_one_use)).items()
        }
        used = {
            uuid
            for key, found in self.for_one_use.items()
            for address, uuid in found.items()
            if address in owned.get(key, ())
        }
        return one_time_use.reserve(self._connection, used)

    def write_one(self) -> None:
        """Record the cells and devices of the shown domains, and change nothing of the others."""
        nodes = list(self.cells)
        read_devices = devices.read_all(self._connection, nodes)
        others = {
            (node, each["uuid"])
            for node, rows in numa.read(self._connection, nodes).items()
            for each in rows
        }
        others |= {
            (node, str(each["owner"]))
            for owned in (read_devices.pci, read_devices.mdevs)
            for node, rows in owned.items()
            for each in rows
            if each["owner"]
        }
        keep = others - self.shown
        numa.write(self._connection, self.cells, keep)
        devices.set_owners(self._connection, self.owners, keep)
        if self.for_one_use:
            self.reserve_used()


def _use(domain: DomainReport, cells: Sequence[HostCell]) -> tuple[list[PlacedCell], int, int]:
    """Return the cells of a domain, see host_cells.cells_of_domain()."""
    domain_facts, amounts = domain["columns"]["facts"], domain["resources"]
    facts = {
        "numa": domain_facts.get("numa"),
        "next_start_cpus": domain_facts.get("next_start_cpus"),
        "vcpus": amounts.get("VCPU"),
        "memory_mb": amounts.get("MEMORY_MB"),
    }
    return host_cells.cells_of_domain(facts, cells)


def _has_vdpa(domain: DomainReport) -> bool:
    hostdevs = domain["columns"]["facts"].get("hostdevs") or ()
    return any(each.get("type") == "vdpa" for each in hostdevs)
