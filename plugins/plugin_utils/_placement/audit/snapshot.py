# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store as the audit reads it, in a fixed number of queries however large the fleet is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..._common.errors import node_labels
from ..._records.hosts import NumaAllocation
from ..._records.instances import HostDevice
from ..._store.database import column_reader
from ..._store.database.sql import Connection, Row, Select, sa
from ..._store.hosts import numa
from ..._store.instances import went_down
from ..._store.providers.provider_arrays import SHARES
from ..._store.runs import decisions
from ..._store.schema import tables
from ..allocations import Held
from ..providers import grouped

#: Each provider of a compute node has it, and keeps it when the node is removed.
NODE_TRAIT = "COMPUTE_NODE"
#: The purpose of the decisions that are claims of builds.
PLACE = "place"


class AuditedDomain(NamedTuple):
    """A domain of a node, with the facts that the checks read."""

    uuid: str
    compute_node_id: int
    name: str
    state: str
    hostdevs: list[HostDevice] | None
    numa: dict[str, Any] | None
    next_start_cpus: list[int] | None


@dataclasses.dataclass
class AuditSnapshot:
    """Rows by uuid (instances, consumers, migrations, domains) or id. Data only: the checks need no
    database.

    services: hosts by id. inventories: with the name of the class. held: allocations by consumer.
    migrations: the open ones and the ones that are consumers. domains: {uuid: {node id: row}}.
    traits: NODE_TRAIT and SHARES, by provider. aggregates: ids by provider. numa: the NUMA cells of
    nodes that consumers have, by node id. unbuilt: the claims that are not built, each with the run
    that made it. went_down: as store.went_down.read() returns it. ended: returns True if a run is
    known to have ended.
    """

    instances: dict[str, Row]
    nodes: dict[int, Row]
    services: dict[int, str]
    providers: dict[int, Row]
    inventories: list[Row]
    consumers: dict[str, Row]
    held: dict[str, Held]
    migrations: dict[str, Row]
    domains: dict[str, dict[int, AuditedDomain]]
    traits: dict[int, set[str]]
    aggregates: dict[int, set[int]]
    numa: dict[int, list[NumaAllocation]]
    unbuilt: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    went_down: dict[str, list[dict[str, str]]] = dataclasses.field(default_factory=dict)
    ended: Callable[[str], bool] = lambda holder: False

    def __post_init__(self) -> None:
        by_uuid = {node.uuid: key for key, node in self.nodes.items()}
        self.node_providers: dict[int, int] = {
            by_uuid[row.uuid]: key for key, row in self.providers.items() if row.uuid in by_uuid
        }
        roots: dict[int, int] = {key: row.root_id or key for key, row in self.providers.items()}
        # The node that a provider belongs to; none for a sharing provider and for a node that is
        # gone.
        self.node_of: dict[int, int | None] = {
            key: by_uuid.get(self.providers[root].uuid) for key, root in roots.items()
        }
        self.former = {
            key
            for key, root in roots.items()
            if self.node_of[key] is None and NODE_TRAIT in self.traits.get(root, ())
        }
        self.open: dict[str, list[Row]] = {}
        for row in self.migrations.values():
            if row.status in tables.HOLDING_MIGRATION:
                self.open.setdefault(row.instance_uuid, []).append(row)
        self.stocked = {(row.provider_id, row.name) for row in self.inventories}
        label = node_labels((node.host, node.hypervisor_hostname) for node in self.nodes.values())
        self._labels = {
            key: label(node.host, node.hypervisor_hostname) for key, node in self.nodes.items()
        }

    def name(self, uuid: str) -> str:
        """Return the name of an instance, of the instance of a migration, or of a domain; else the
        uuid.
        """
        instance, migration = self.instances.get(uuid), self.migrations.get(uuid)
        domain = next(iter(self.domains.get(uuid, {}).values()), None)
        return str(
            instance.name
            if instance
            else migration.instance_name
            if migration
            else domain.name
            if domain
            else uuid
        )

    def host(self, node_id: int | None) -> str | None:
        """Return the name of a compute node's host for people; None for no node."""
        return None if node_id is None else self._labels.get(node_id)

    def hosts(self, node_ids: Iterable[int]) -> str | None:
        """Return the names of the hosts of several nodes in one text."""
        return ", ".join(sorted(filter(None, map(self.host, node_ids)))) or None

    def place(self, provider_id: int) -> str:
        """Return the place of an allocation for people: the host, or the provider's own name."""
        return self.host(self.node_of[provider_id]) or self.providers[provider_id].name

    def sharing(self, provider_id: int, resource: str) -> list[int]:
        """Return the ids of the sharing providers of a class that a provider reaches, sorted."""
        near = self.aggregates.get(provider_id, set())
        return sorted(
            key
            for key, names in self.traits.items()
            if SHARES in names
            and (key, resource) in self.stocked
            and near & self.aggregates.get(key, set())
        )


def read(connection: Connection) -> AuditSnapshot:
    """Read a snapshot of the store."""
    consumers = _by(connection, _columns(tables.consumers, "uuid id type project user expires_at"))
    return AuditSnapshot(
        instances=_by(
            connection,
            _columns(
                tables.instances,
                "uuid id name compute_node_id state order_uuid task_state vcpus memory_mb disk_gb"
                " project user",
            ),
        ),
        nodes=_by(
            connection,
            _columns(
                tables.compute_nodes,
                "id uuid host hypervisor_hostname service_id numa_cells updated_at",
            ),
        ),
        services={
            row.id: row.host for row in connection.execute(_columns(tables.services, "id host"))
        },
        providers=_by(connection, _columns(tables.resource_providers, "id uuid name root_id")),
        inventories=_inventories(connection),
        consumers=consumers,
        held=_read_allocations(connection, consumers.values()),
        migrations=_migrations(connection),
        domains=_domains(connection),
        traits=_traits(connection),
        aggregates=grouped(
            connection.execute(_columns(tables.provider_aggregates, "provider_id aggregate_id"))
        ),
        numa=numa.read(connection),
        went_down=went_down.read(connection),
        unbuilt=decisions.unbuilt(connection, PLACE),
    )


def _columns(table: sa.Table, names: str) -> Select:
    return sa.select(*(table.c[name] for name in names.split()))


def _by(connection: Connection, query: Select) -> dict[Any, Row]:
    """Return rows by their first column."""
    return {row[0]: row for row in connection.execute(query).all()}


def _inventories(connection: Connection) -> list[Row]:
    table, classes = tables.inventories, tables.resource_classes
    query = sa.select(table, classes.c.name).join(classes, classes.c.id == table.c.class_id)
    return list(connection.execute(query).all())


def _read_allocations(connection: Connection, consumers: Iterable[Row]) -> dict[str, Held]:
    """Do as placement.allocations.read(), for all consumers."""
    table = tables.allocations
    names = {row.id: row.name for row in connection.execute(sa.select(tables.resource_classes))}
    uuids = {row.id: row.uuid for row in consumers}
    by_consumer: dict[str, Held] = {}
    query = sa.select(table.c.provider_id, table.c.class_id, table.c.consumer_id, table.c.used)
    for provider, class_id, consumer, used in column_reader.rows(connection, query):
        by_consumer.setdefault(uuids[consumer], {}).setdefault(provider, {})[names[class_id]] = used
    return by_consumer


def _migrations(connection: Connection) -> dict[str, Row]:
    table = tables.migrations
    query = _columns(
        table,
        "uuid instance_uuid instance_name source_node_id destination_node_id source destination"
        " status updated_at",
    ).where(
        sa.or_(
            table.c.status.in_(tables.HOLDING_MIGRATION),
            table.c.uuid.in_(sa.select(tables.consumers.c.uuid)),
        )
    )
    return _by(connection, query)


def _domains(connection: Connection) -> dict[str, dict[int, AuditedDomain]]:
    by_uuid: dict[str, dict[int, AuditedDomain]] = {}
    facts = tables.domains.c.facts
    query = _columns(tables.domains, "uuid compute_node_id name state")
    # The facts are read as text: the decoding of a null for each domain takes longer than all the
    # rest.
    known = [facts[name].as_string().label(name) for name in AuditedDomain._fields[4:]]
    for uuid, node, name, state, *texts in column_reader.rows(
        connection, query.add_columns(*known)
    ):
        by_uuid.setdefault(uuid, {})[node] = AuditedDomain(
            uuid, node, name, state, *[None if text is None else json.loads(text) for text in texts]
        )
    return by_uuid


def _traits(connection: Connection) -> dict[int, set[str]]:
    table, names = tables.provider_traits, tables.traits
    query = (
        sa.select(table.c.provider_id, names.c.name)
        .join(names, names.c.id == table.c.trait_id)
        .where(names.c.name.in_((NODE_TRAIT, SHARES)))
    )
    return grouped(connection.execute(query))
