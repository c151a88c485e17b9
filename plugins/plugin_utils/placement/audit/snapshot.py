# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store as the audit looks at it, in a fixed number of queries however large the fleet is."""

from __future__ import annotations

import dataclasses

from ansible_collections.drover.compute.plugins.plugin_utils.errors import node_label
from ansible_collections.drover.compute.plugins.plugin_utils.store import tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.provider_arrays import SHARES
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

# Every provider of a compute node has it, and keeps it when the node goes.
NODE_TRAIT = "COMPUTE_NODE"


@dataclasses.dataclass
class Snapshot:
    """Rows by what they are looked up with. Data only: the checks need no database.

    ``held`` is dict consumer uuid -> provider id -> class -> amount, ``domains`` dict uuid -> node id ->
    row, ``migrations`` those that are open or a consumer by uuid, ``traits`` dict provider id -> set of
    NODE_TRAIT and SHARES, ``aggregates`` dict provider id -> set of aggregate ids, ``services``
    dict id -> host. ``inventories`` is a list of rows with the name of the class.
    """

    instances: dict
    nodes: dict
    services: dict
    providers: dict
    inventories: list
    consumers: dict
    held: dict
    migrations: dict
    domains: dict
    traits: dict
    aggregates: dict

    def __post_init__(self):
        by_uuid = {node.uuid: key for key, node in self.nodes.items()}
        self.node_providers = {by_uuid[row.uuid]: key for key, row in self.providers.items() if row.uuid in by_uuid}
        roots = {key: row.root_id or key for key, row in self.providers.items()}
        # The node that a provider is part of; none for a sharing provider and for a node that is gone.
        self.node_of = {key: by_uuid.get(self.providers[root].uuid) for key, root in roots.items()}
        self.former = {key for key, root in roots.items() if self.node_of[key] is None and NODE_TRAIT in self.traits.get(root, ())}
        self.open = {}
        for row in self.migrations.values():
            if row.status in tables.HOLDING_MIGRATION:
                self.open.setdefault(row.instance_uuid, []).append(row)
        self.stocked = {(row.provider_id, row.name) for row in self.inventories}

    def host(self, node_id):
        """The name of a compute node's host for people; None for no node."""
        node = self.nodes.get(node_id)
        if node is None:
            return None
        return node_label(node.host, node.hypervisor_hostname)

    def hosts(self, node_ids):
        """Names of several, in one text."""
        return ", ".join(sorted(filter(None, map(self.host, node_ids)))) or None

    def place(self, provider_id):
        """Where an allocation is, for people: the host, or the provider's own name."""
        return self.host(self.node_of[provider_id]) or self.providers[provider_id].name

    def sharing(self, provider_id, resource):
        """The ids of the sharing providers of a class that a provider reaches, sorted."""
        near = self.aggregates.get(provider_id, set())
        return sorted(
            key
            for key, names in self.traits.items()
            if SHARES in names and (key, resource) in self.stocked and near & self.aggregates.get(key, set())
        )


def read(connection):
    """The Snapshot of what a transaction sees."""
    return Snapshot(
        instances=_by(
            connection,
            _columns(tables.instances, "uuid id name compute_node_id state order_uuid vcpus memory_mb disk_gb project user"),
            "uuid",
        ),
        nodes=_by(connection, _columns(tables.compute_nodes, "id uuid host hypervisor_hostname service_id"), "id"),
        services={row.id: row.host for row in connection.execute(_columns(tables.services, "id host"))},
        providers=_by(connection, _columns(tables.resource_providers, "id uuid name root_id"), "id"),
        inventories=_inventories(connection),
        consumers=_by(connection, _columns(tables.consumers, "id uuid type project user expires_at"), "uuid"),
        held=_held(connection),
        migrations=_migrations(connection),
        domains=_domains(connection),
        traits=_traits(connection),
        aggregates=_grouped(connection, _columns(tables.provider_aggregates, "provider_id aggregate_id")),
    )


def _columns(table, names):
    return sa.select(*(table.c[name] for name in names.split()))


def _by(connection, query, name):
    return {getattr(row, name): row for row in connection.execute(query)}


def _grouped(connection, query):
    found = {}
    for key, value in connection.execute(query):
        found.setdefault(key, set()).add(value)
    return found


def _inventories(connection):
    table, classes = tables.inventories, tables.resource_classes
    query = sa.select(table, classes.c.name).join(classes, classes.c.id == table.c.class_id)
    return connection.execute(query).all()


def _held(connection):
    """As placement.allocations.read(), of all consumers; one without allocations is not in it."""
    table = tables.allocations
    names = {row.id: row.name for row in connection.execute(sa.select(tables.resource_classes))}
    uuids = {row.id: row.uuid for row in connection.execute(_columns(tables.consumers, "id uuid"))}
    held = {}
    for provider, class_id, consumer, used in connection.execute(
        sa.select(table.c.provider_id, table.c.class_id, table.c.consumer_id, table.c.used)
    ):
        held.setdefault(uuids[consumer], {}).setdefault(provider, {})[names[class_id]] = used
    return held


def _migrations(connection):
    table = tables.migrations
    query = _columns(
        table,
        "uuid instance_uuid instance_name source_node_id destination_node_id source destination status updated_at",
    ).where(sa.or_(table.c.status.in_(tables.HOLDING_MIGRATION), table.c.uuid.in_(sa.select(tables.consumers.c.uuid))))
    return _by(connection, query, "uuid")


def _domains(connection):
    found = {}
    for row in connection.execute(_columns(tables.domains, "uuid compute_node_id name state")):
        found.setdefault(row.uuid, {})[row.compute_node_id] = row
    return found


def _traits(connection):
    table, names = tables.provider_traits, tables.traits
    query = (
        sa.select(table.c.provider_id, names.c.name)
        .join(names, names.c.id == table.c.trait_id)
        .where(names.c.name.in_((NODE_TRAIT, SHARES)))
    )
    return _grouped(connection, query)
