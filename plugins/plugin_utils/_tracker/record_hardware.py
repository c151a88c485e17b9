# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells and devices of hosts and their users in the store, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._common.errors import node_label
from .._numa import device_providers
from .._placement import discovered_children, one_time_use, provider_uuids, providers
from .._records.claims import Resources
from .._store.engine import Connection
from .._store.hosts import compute_nodes, devices, numa
from . import host_cells, host_devices, nested_providers, record_pools
from .domain import DomainReport
from .node import NodeKey, NodeRows, Nodes

#: Domains by the id of the node that shows them, and by uuid.
Shown = Mapping[int, Mapping[str, DomainReport]]


def write_devices(connection: Connection, wanted: Nodes, rows: NodeRows) -> bool:
    """Write the devices of nodes that domains may get.

    :returns: True if anything changed. The number of mediated devices that can still be made does
        not count, because it changes by itself.
    """
    ids = {key: rows[key].id for key in wanted}
    changed = devices.write_pci(
        connection, {ids[key]: node["pci_devices"] for key, node in wanted.items()}
    )
    changed |= devices.write_mdev_types(
        connection, {ids[key]: node["mdev_types"] for key, node in wanted.items()}
    )
    devices.write_mdevs(connection, {ids[key]: node["mdevs"] for key, node in wanted.items()})
    return changed


def write_nested(
    connection: Connection,
    wanted: Nodes,
    rows: NodeRows,
    roots: Mapping[NodeKey, int],
    before: NodeRows,
) -> bool:
    """Write the providers of devices below the providers of nodes.

    :param roots: {key of a node: id of its provider}.
    :returns: True if anything changed. The number of mediated devices that can still be made does
        not count, because it changes by itself.
    """
    children: dict[int, dict[str, discovered_children.Child]] = {}
    names = {roots[key]: (rows[key].uuid, f"{node_label(*key)}_") for key in wanted}
    for key, node in wanted.items():
        known = ((before[key].facts or {}).get("nested_providers") or {}) if key in before else {}
        uuid, name = names[roots[key]]
        children[roots[key]] = {
            provider_uuids.uuid_of(uuid, each["key"]): discovered_children.Child(
                f"{name}{each['name']}",
                provider_uuids.uuid_of(uuid, each["parent"]) if each["parent"] else None,
                each["resource_class"],
                each["total"],
                each["traits"],
                frozenset(known.get(each["key"], ())),
                None if nested_providers.ONE_TIME_USE in each["traits"] else 0,
            )
            for each in node["nested"]
        } | record_pools.children(node, uuid, name, known)

    def is_ours(root: int, uuid: str, name: str) -> bool:
        # Such a uuid is made from the name.
        key = name.removeprefix(names[root][1])
        return uuid in (provider_uuids.uuid_of(names[root][0], each) for each in (key, key.lower()))

    return discovered_children.write(connection, children, is_ours)


class Hardware:
    """The cells and devices of nodes in the store now, for the parts that domains have.

    :param shown: {node id: domains that it shows}.
    """

    def __init__(self, connection: Connection, shown: Mapping[int, Iterable[DomainReport]]) -> None:
        self._connection = connection
        pci = devices.read_pci(connection, list(shown))
        mdevs, kinds = (
            devices.read_mdevs(connection, list(shown)),
            devices.read_mdev_types(connection, list(shown)),
        )
        rows = compute_nodes.cells(connection, shown)
        self._cells = {key: row.numa_cells or [] for key, row in rows.items()}
        # The facts of a host are large, and are needed only to find a vDPA device.
        asking = [
            node for node, domains in shown.items() if any(_has_vdpa(each) for each in domains)
        ]
        facts_of = {
            key: facts.get("pci_devices") or []
            for key, facts in compute_nodes.facts(connection, asking).items()
        }
        # The store has the interfaces of virtual functions.
        self._known = {key: [*facts_of.get(key, ()), *pci.get(key, ())] for key in shown}
        # {node: {address: uuid of the provider}}, for devices for one use only.
        self._for_one_use = {
            key: {
                each["address"]: provider_uuids.provider_of(row.uuid, each)
                for each in pci.get(key, ())
                if one_time_use.is_marked(each)
            }
            for key, row in rows.items()
        }
        # {node: {device: (uuid of the provider, resource class)}}.
        self._amounts: dict[int, dict[str, tuple[str, str]]] = {}
        # {node: uuids of providers that it may have}.
        self._nested: dict[int, set[str]] = {}
        for key, row in rows.items():
            found = {
                each["address"]: (
                    provider_uuids.provider_of(row.uuid, each),
                    device_providers.class_of(each),
                )
                for each in pci.get(key, ())
                if device_providers.is_reported(each)
            }
            classes = {
                (kind["parent"], kind["type"]): kind["resource_class"]
                for kind in kinds.get(key, ())
            }
            for mdev in mdevs.get(key, ()):
                if (mdev["parent"], mdev["type"]) in classes:
                    provider = provider_uuids.uuid_of(row.uuid, mdev["parent"])
                    found[mdev["uuid"]] = (provider, classes[mdev["parent"], mdev["type"]])
            keys = {device_providers.key_of(each) for each in pci.get(key, ())} | {
                kind["parent"] for kind in kinds.get(key, ())
            }
            self._amounts[key] = found
            self._nested[key] = {provider_uuids.uuid_of(row.uuid, each) for each in keys}
        self._ids = providers.ids(connection, set().union(*self._nested.values()))

    def resources(self, node: int, domain: DomainReport, resources: Resources) -> Resources:
        """Return the amounts of a domain, with PCPU in place of VCPU for its dedicated CPUs.

        They are not known on a host that keeps no CPUs for pinned vCPUs or reports no cells.
        """
        dummy, pinned, others = self._use(node, domain)
        if not any(set(cell["pcpus"]) - set(cell["cpus"]) for cell in self._cells.get(node, ())):
            return resources
        return {**resources, "VCPU": resources.get("VCPU", 0) - pinned, "PCPU": pinned + others}

    def nested(self, node: int, domain: DomainReport) -> tuple[set[int], dict[int, Resources]]:
        """Return the ids of a node's providers of devices, and the amounts of a domain there."""
        own = {self._ids[uuid] for uuid in self._nested.get(node, ()) if uuid in self._ids}
        taken: dict[int, Resources] = {}
        for device in self._devices(node, domain):
            uuid, name = self._amounts.get(node, {}).get(device, (None, ""))
            if uuid in self._ids:
                amounts = taken.setdefault(self._ids[uuid], {})
                amounts[name] = amounts.get(name, 0) + 1
        return own, taken

    def write_use(
        self,
        shown: Shown,
        keep: Collection[tuple[int, str]],
        resized: Collection[tuple[int, str]] = (),
    ) -> bool:
        """Record the cells and devices of their nodes that domains have.

        Their consumers must exist.

        :param shown: all domains of these nodes.
        :param keep: (node id, uuid) of consumers that keep their cells and devices: claimed, and
            not shown yet.
        :param resized: consumers that keep their claim whatever they show: in a resize they may
            show the other size.
        """
        keep = (
            set(keep) - {(node, uuid) for node, domains in shown.items() for uuid in domains}
        ).union(resized)
        cells = {
            node: {
                uuid: self._use(node, each)[0]
                for uuid, each in domains.items()
                if (node, uuid) not in resized
            }
            for node, domains in shown.items()
        }
        owners: dict[int, dict[str, list[str]]] = {}
        for node, domains in shown.items():
            of_node = owners.setdefault(node, {})
            for uuid, each in sorted(domains.items()):
                for device in self._devices(node, each):
                    of_node.setdefault(device, []).append(uuid)
        changed = numa.write(self._connection, cells, keep)
        changed |= devices.set_owners(self._connection, owners, keep)
        return self._reserve_used(shown) or changed

    def _reserve_used(self, nodes: Collection[int]) -> bool:
        """Reserve the devices for one use only that have an owner. Return True if one is new."""
        for_one_use = {
            key: found for key, found in self._for_one_use.items() if found and key in nodes
        }
        if not for_one_use:
            return False
        owned = {
            key: {each["address"] for each in rows if each["owner"]}
            for key, rows in devices.read_pci(self._connection, list(for_one_use)).items()
        }
        used = {
            uuid
            for key, found in for_one_use.items()
            for address, uuid in found.items()
            if address in owned.get(key, ())
        }
        return one_time_use.reserve(self._connection, used)

    def write_one(self, node: int, uuid: str, domain: DomainReport) -> None:
        """Record the cells and devices of one domain, and change nothing of the other domains."""
        others = {
            (node, each["uuid"]) for each in numa.read(self._connection, [node]).get(node, ())
        }
        owners = [
            each["owner"] for each in devices.read_pci(self._connection, [node]).get(node, ())
        ]
        owners += [
            each["owner"] for each in devices.read_mdevs(self._connection, [node]).get(node, ())
        ]
        others |= {(node, each) for each in owners if each}
        self.write_use({node: {uuid: domain}}, others - {(node, uuid)})

    def _use(self, node: int, domain: DomainReport) -> tuple[list[dict[str, Any]], int, int]:
        known = domain["columns"]["facts"]
        if not known.get("numa") and not known.get("next_start_cpus"):
            return [], 0, 0
        amounts = domain["resources"]
        facts = {
            "numa": known.get("numa"),
            "next_start_cpus": known.get("next_start_cpus"),
            "vcpus": amounts.get("VCPU"),
            "memory_mb": amounts.get("MEMORY_MB"),
        }
        return host_cells.cells_of_domain(facts, self._cells.get(node, ()))

    def _devices(self, node: int, domain: DomainReport) -> list[str]:
        """Return the PCI addresses and the uuids of mediated devices of a domain."""
        facts = domain["columns"]["facts"]
        each = {
            "uuid": domain["columns"]["uuid"],
            **{key: facts.get(key) for key in ("hostdevs", "interfaces")},
        }
        if not each["hostdevs"] and not any(
            nic.get("type") == "direct" for nic in each["interfaces"] or ()
        ):
            return []
        return sorted(host_devices.owners([each], self._known.get(node, ())))


def _has_vdpa(domain: DomainReport) -> bool:
    return any(
        each.get("type") == "vdpa" for each in domain["columns"]["facts"].get("hostdevs") or ()
    )
