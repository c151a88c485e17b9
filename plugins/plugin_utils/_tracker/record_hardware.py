# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells and devices of hosts, and what domains have of them, written into the store in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._errors import node_label
from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations, provider_trees, providers
from ansible_collections.drover.compute.plugins.plugin_utils._records.claims import Resources
from ansible_collections.drover.compute.plugins.plugin_utils._store import bulk, devices, numa, tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import host_cells, host_devices, nested_providers
from ansible_collections.drover.compute.plugins.plugin_utils._tracker.domain import DomainReport
from ansible_collections.drover.compute.plugins.plugin_utils._tracker.node import NodeKey, NodeRows, Nodes

#: Domains by the id of the node that shows them, and by uuid.
Shown = Mapping[int, Mapping[str, DomainReport]]


def write_devices(connection: Connection, wanted: Nodes, rows: NodeRows) -> bool:
    """Write the devices of nodes that may be given away.

    :returns: whether anything changed; what can still be made of a type changes by itself.
    """
    ids = {key: rows[key].id for key in wanted}
    changed = devices.write_pci(connection, {ids[key]: node["pci_devices"] for key, node in wanted.items()})
    changed |= devices.write_mdev_types(connection, {ids[key]: node["mdev_types"] for key, node in wanted.items()})
    devices.write_mdevs(connection, {ids[key]: node["mdevs"] for key, node in wanted.items()})
    return changed


def write_nested(connection: Connection, wanted: Nodes, rows: NodeRows, roots: Mapping[NodeKey, int], before: NodeRows) -> bool:
    """Write the providers below those of nodes; one that is no longer reported is removed, unless something is allocated on it.

    :param roots: {key of a node: id of its provider}.
    :returns: whether anything changed.
    """
    uuids = {
        (key, each["key"]): nested_providers.uuid_of(rows[key].uuid, each["key"]) for key, node in wanted.items() for each in node["nested"]
    }
    names = {uuids[key, each["key"]]: f"{node_label(*key)}_{each['name']}" for key, node in wanted.items() for each in node["nested"]}
    there = providers.ids(connection, names)
    ids = providers.ensure(connection, names)
    new = [{"id": ids[uuid], "parent_id": roots[key], "root_id": roots[key]} for (key, dummy), uuid in uuids.items() if uuid not in there]
    bulk.update(connection, tables.resource_providers, new)
    inventories: dict[int, dict[str, Any]] = {}
    traits: dict[int, set[str]] = {}
    reported: dict[int, Collection[str]] = {}
    for key, node in wanted.items():
        known = ((before[key].facts or {}).get("nested_providers") or {}) if key in before else {}
        for each in node["nested"]:
            provider = ids[uuids[key, each["key"]]]
            inventories[provider] = {each["resource_class"]: _inventory(each["total"])}
            traits[provider] = each["traits"]
            reported[provider] = known.get(each["key"], ())
    # What can still be made of a type counts down when one is made: no change by the operator.
    providers.set_inventories(connection, inventories)
    changed = bool(providers.set_traits(connection, traits, owned=lambda provider, trait: trait in reported[provider]))
    stale = _ours(connection, {roots[key]: (rows[key].uuid, node_label(*key)) for key in wanted}) - set(ids.values())
    used = allocations.used_providers(connection, stale)
    provider_trees.remove(connection, stale - used)
    # Nobody else gets anything there.
    table = tables.inventories
    bulk.update(connection, table, [{"id": row.id, "reserved": row.total} for row in providers.inventories(connection, used)])
    return bool(new or stale - used) or changed


def _ours(connection: Connection, roots: Mapping[int, tuple[str, str]]) -> set[int]:
    """Find the providers of devices that discovery made: their uuids are made of their names.

    :param roots: {id: (uuid, name)}.
    """
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.uuid, table.c.name, table.c.parent_id)
    found = set()
    for row in bulk.among(connection, query, table.c.parent_id, roots):
        root, name = roots[row.parent_id]
        key = row.name.removeprefix(f"{name}_")
        if row.uuid in (nested_providers.uuid_of(root, key), nested_providers.uuid_of(root, key.lower())):
            found.add(row.id)
    return found


def _inventory(total: int) -> dict[str, Any]:
    return {"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": 1.0}


class Hardware:
    """The cells and devices of nodes, as the store has them by now, for what domains have of them.

    :param shown: {node id: domains that it shows}.
    """

    def __init__(self, connection: Connection, shown: Mapping[int, Iterable[DomainReport]]) -> None:
        self._connection = connection
        pci = devices.read_pci(connection, list(shown))
        mdevs, kinds = devices.read_mdevs(connection, list(shown)), devices.read_mdev_types(connection, list(shown))
        table = tables.compute_nodes
        query = sa.select(table.c.id, table.c.uuid, table.c.numa_cells)
        rows = {row.id: row for row in bulk.among(connection, query, table.c.id, shown)}
        self._cells = {key: row.numa_cells or [] for key, row in rows.items()}
        # The facts of a host are large, and only a vDPA device is found by them.
        asking = {node for node, domains in shown.items() if any(_has_vdpa(each) for each in domains)}
        query = sa.select(table.c.id, table.c.facts)
        self._facts = {row.id: (row.facts or {}).get("pci_devices") or [] for row in bulk.among(connection, query, table.c.id, asking)}
        # {node: {device: (uuid of the provider, resource class)}}.
        self._amounts: dict[int, dict[str, tuple[str, str]]] = {}
        # {node: uuids of providers that it may have}.
        self._nested: dict[int, set[str]] = {}
        for key, row in rows.items():
            found = {
                each["address"]: (nested_providers.uuid_of(row.uuid, nested_providers.key_of(each)), nested_providers.class_of(each))
                for each in pci.get(key, ())
            }
            classes = {(kind["parent"], kind["type"]): kind["resource_class"] for kind in kinds.get(key, ())}
            for mdev in mdevs.get(key, ()):
                if (mdev["parent"], mdev["type"]) in classes:
                    provider = nested_providers.uuid_of(row.uuid, mdev["parent"])
                    found[mdev["uuid"]] = (provider, classes[mdev["parent"], mdev["type"]])
            keys = {nested_providers.key_of(each) for each in pci.get(key, ())} | {kind["parent"] for kind in kinds.get(key, ())}
            self._amounts[key] = found
            self._nested[key] = {nested_providers.uuid_of(row.uuid, each) for each in keys}
        self._ids = providers.ids(connection, set().union(*self._nested.values()))

    def resources(self, node: int, domain: DomainReport, resources: Resources) -> Resources:
        """Return what a domain takes, with PCPU in place of VCPU for the CPUs that are its own.

        Where a host keeps no CPUs for pinned vCPUs, or tells no cells, that is not known.
        """
        dummy, pinned, others = self._use(node, domain)
        if not any(set(cell["pcpus"]) - set(cell["cpus"]) for cell in self._cells.get(node, ())):
            return resources
        return {**resources, "VCPU": resources.get("VCPU", 0) - pinned, "PCPU": pinned + others}

    def nested(self, node: int, domain: DomainReport) -> tuple[set[int], dict[int, Resources]]:
        """Return the ids of a node's providers of devices, and what a domain takes of them."""
        own = {self._ids[uuid] for uuid in self._nested.get(node, ()) if uuid in self._ids}
        taken: dict[int, Resources] = {}
        for device in self._devices(node, domain):
            uuid, name = self._amounts.get(node, {}).get(device, (None, ""))
            if uuid in self._ids:
                amounts = taken.setdefault(self._ids[uuid], {})
                amounts[name] = amounts.get(name, 0) + 1
        return own, taken

    def write_use(self, shown: Shown, keep: Collection[tuple[int, str]]) -> bool:
        """Record what domains have of the cells and devices of their nodes; their consumers must be there.

        :param shown: all domains of these nodes.
        :param keep: (node id, uuid) of consumers that keep what they have: claimed, and not shown yet.
        """
        keep = set(keep) - {(node, uuid) for node, domains in shown.items() for uuid in domains}
        cells = {node: {uuid: self._use(node, each)[0] for uuid, each in domains.items()} for node, domains in shown.items()}
        owners: dict[int, dict[str, list[str]]] = {}
        for node, domains in shown.items():
            of_node = owners.setdefault(node, {})
            for uuid, each in sorted(domains.items()):
                for device in self._devices(node, each):
                    of_node.setdefault(device, []).append(uuid)
        changed = numa.write(self._connection, cells, keep)
        return devices.set_owners(self._connection, owners, keep) or changed

    def write_one(self, node: int, uuid: str, domain: DomainReport) -> None:
        """Record what one domain has of its node, and leave that of all others as it is."""
        others = {(node, each["uuid"]) for each in numa.read(self._connection, [node]).get(node, ())}
        owners = [each["owner"] for each in devices.read_pci(self._connection, [node]).get(node, ())]
        owners += [each["owner"] for each in devices.read_mdevs(self._connection, [node]).get(node, ())]
        others |= {(node, each) for each in owners if each}
        self.write_use({node: {uuid: domain}}, others - {(node, uuid)})

    def _use(self, node: int, domain: DomainReport) -> tuple[list[dict[str, Any]], int, int]:
        numa_facts = domain["columns"]["facts"].get("numa")
        if not numa_facts:
            return [], 0, 0
        amounts = domain["resources"]
        facts = {"numa": numa_facts, "vcpus": amounts.get("VCPU"), "memory_mb": amounts.get("MEMORY_MB")}
        return host_cells.cells_of_domain(facts, self._cells.get(node, ()))

    def _devices(self, node: int, domain: DomainReport) -> list[str]:
        """The PCI addresses and uuids of mediated devices that a domain has."""
        facts = domain["columns"]["facts"]
        if not facts.get("hostdevs"):
            return []
        each = {"uuid": domain["columns"]["uuid"], "hostdevs": facts["hostdevs"]}
        return sorted(host_devices.owners([each], self._facts.get(node, ())))


def _has_vdpa(domain: DomainReport) -> bool:
    return any(each.get("type") == "vdpa" for each in domain["columns"]["facts"].get("hostdevs") or ())
