# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes and the domains they show, written in bulk."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..._common.errors import natural
from ..._records.node_fields import NODE_FIELDS
from ..database import bulk
from ..database.sql import Connection, Row, Select, sa
from ..schema import tables

#: The libvirt URI of a node without one in the store.
DEFAULT_URI = "qemu:///system"
#: (host, hypervisor_hostname).
Key = tuple[str, str]
#: {host: (architecture, types of domain that it offers for that) of each of its nodes}.
Kinds = dict[str, list[tuple[str | None, set[str]]]]


def by_host(connection: Connection, hosts: Iterable[str]) -> dict[Key, Row]:
    """Read the compute nodes of hosts."""
    table = tables.compute_nodes
    rows = bulk.among(connection, bulk.select(table), table.c.host, hosts)
    return {(row.host, row.hypervisor_hostname): row for row in rows}


def migration_uris(connection: Connection, hosts: Iterable[str]) -> dict[str, str | None]:
    """Read the URIs at which other hypervisors reach hosts: {host: the URI of its first node, None
    for a node without one}.
    """
    table = tables.compute_nodes
    rows = bulk.among(
        connection,
        bulk.select(table.c.host, table.c.hypervisor_hostname, table.c.migration_uri),
        table.c.host,
        hosts,
    )
    return {
        row.host: row.migration_uri
        for row in sorted(rows, key=lambda row: row.hypervisor_hostname, reverse=True)
    }


def write(
    connection: Connection,
    wanted: Mapping[Key, Mapping[str, object]],
    services: Mapping[str, int],
    now: float,
) -> tuple[dict[Key, Row], set[Key]]:
    """Add or update compute nodes.

    :param wanted: {key: columns}.
    :param services: {host: id of its service}.
    :returns: all nodes of the hosts, and the keys of new nodes and of nodes that differ in columns
        that are not volatile.
    """
    table = tables.compute_nodes
    existing = by_host(connection, {host for host, node in wanted})
    new = [key for key in wanted if key not in existing]
    changed = set(new)
    updates = []
    for key, columns in wanted.items():
        if key in existing:
            kept = {name: getattr(existing[key], name) for name in _OPTIONAL}
            updates.append(
                {
                    "id": existing[key].id,
                    "updated_at": now,
                    "host_uuid": _host_uuid(columns),
                    **kept,
                    **columns,
                }
            )
            if _differs(existing[key], columns):
                changed.add(key)
    bulk.insert(
        connection,
        table,
        [
            {
                "uuid": bulk.new_uuid(),
                "service_id": services[key[0]],
                "host": key[0],
                "hypervisor_hostname": key[1],
                "created_at": now,
                "updated_at": now,
                "host_uuid": _host_uuid(wanted[key]),
                **_OPTIONAL,
                **wanted[key],
            }
            for key in new
        ],
    )
    bulk.update(connection, table, updates)
    return by_host(connection, {host for host, node in wanted}), changed


def _host_uuid(columns: Mapping[str, Any]) -> str | None:
    """Return libvirt's uuid of the host; it has its own column with an index."""
    found: str | None = (columns.get("facts") or {}).get("host_uuid")
    return found


# Columns that a report may lack, with their values in a new node.
_OPTIONAL = {each.name: each.default for each in NODE_FIELDS if each.given and not each.fact}

_VOLATILE = {each.name for each in NODE_FIELDS if each.volatile}


def _differs(row: Row, columns: Mapping[str, object]) -> bool:
    return any(
        getattr(row, name) != value for name, value in columns.items() if name not in _VOLATILE
    )


def remove(connection: Connection, node_ids: Iterable[int]) -> None:
    """Remove compute nodes and their domains."""
    bulk.delete(connection, tables.compute_nodes, tables.compute_nodes.c.id, node_ids)


def mark_unreported(connection: Connection, node_ids: Iterable[int]) -> None:
    """Mark nodes that their host no longer reports and that are kept for their allocations."""
    bulk.update(
        connection, tables.compute_nodes, [{"id": key, "reported": False} for key in node_ids]
    )


def unreported(connection: Connection) -> set[str]:
    """Return the uuids of the nodes that their hosts no longer report."""
    table = tables.compute_nodes
    return set(connection.scalars(sa.select(table.c.uuid).where(~table.c.reported)))


def write_domains(
    connection: Connection,
    reported: Mapping[int, Mapping[str, Mapping[str, Any]]],
    now: float,
    leaving: Collection[str] = (),
) -> None:
    """Replace the domains of nodes.

    :param reported: {node id: {uuid: domain}}, as tracker.domain.describe() returns domains.
    :param leaving: uuids with an open migration. Their domains are kept, with their age, until the
        migration is closed, because they may be the last copy of the XML.
    """
    table = tables.domains
    kept = [
        dict(row._mapping)
        for row in bulk.among(connection, bulk.select(table), table.c.uuid, leaving)
        if row.compute_node_id in reported and row.uuid not in reported[row.compute_node_id]
    ]
    bulk.delete(connection, table, table.c.compute_node_id, reported)
    bulk.insert(
        connection,
        table,
        [
            {"compute_node_id": node, "seen_at": now, **domain["columns"]}
            for node, domains in reported.items()
            for domain in domains.values()
        ],
    )
    bulk.insert(connection, table, kept)


def write_domain(
    connection: Connection, node_id: int, domain: Mapping[str, Any], now: float
) -> None:
    """Replace one domain of a node."""
    table = tables.domains
    uuid = domain["columns"]["uuid"]
    connection.execute(
        sa.delete(table).where(table.c.compute_node_id == node_id, table.c.uuid == uuid)
    )
    connection.execute(
        sa.insert(table).values(compute_node_id=node_id, seen_at=now, **domain["columns"])
    )


def sightings(connection: Connection, uuids: Iterable[str]) -> dict[str, set[int]]:
    """Find the ids of the nodes that showed domains in their last report."""
    table = tables.domains
    node_ids: dict[str, set[int]] = {}
    query = bulk.select(table.c.uuid, table.c.compute_node_id)
    for row in bulk.among(connection, query, table.c.uuid, uuids):
        node_ids.setdefault(row.uuid, set()).add(row.compute_node_id)
    return node_ids


#: Seconds within which the reports of several hosts are of one look: a discovery reads each in 200
#: s.
ONE_LOOK = 300


def read_at(connection: Connection, node_ids: Iterable[int]) -> dict[int, float]:
    """Read when nodes reported last: {node id: seconds since 1970}."""
    table = tables.compute_nodes
    return {
        row.id: row.updated_at
        for row in bulk.among(
            connection, bulk.select(table.c.id, table.c.updated_at), table.c.id, node_ids
        )
    }


def domain_states(connection: Connection, uuids: Iterable[str]) -> dict[tuple[str, int], str]:
    """Read the states of domains in the last reports of nodes: {(uuid, node id): state}."""
    table = tables.domains
    query = bulk.select(table.c.uuid, table.c.compute_node_id, table.c.state)
    return {
        (row.uuid, row.compute_node_id): row.state
        for row in bulk.among(connection, query, table.c.uuid, uuids)
    }


def machines(
    connection: Connection, node_ids: Iterable[int]
) -> dict[int, tuple[str, str, str | None]]:
    """Read the names of compute nodes and the uuids of their machines.

    :returns: {id: (host, hypervisor_hostname, host_uuid or None)}.
    """
    table = tables.compute_nodes
    query = bulk.select(table.c.id, table.c.host, table.c.hypervisor_hostname, table.c.facts)
    rows = bulk.among(connection, query, table.c.id, node_ids)
    return {
        row.id: (row.host, row.hypervisor_hostname, (row.facts or {}).get("host_uuid"))
        for row in rows
    }


def unseen_arrivals(connection: Connection, now: float) -> list[str]:
    """Return the hosts that show an instance, if the host of that instance in the store does not
    show it now.

    The instance was moved by hand, and in this look its new host was read before its old one. The
    next look at the new host records it there.

    :param now: in seconds since 1970. A host of an earlier look may be down, and is not waited for
        in each discovery.
    """
    instances, domains, nodes, migrations = (
        tables.instances,
        tables.domains,
        tables.compute_nodes,
        tables.migrations,
    )
    own = domains.alias("own")
    query = (
        sa.select(nodes.c.host)
        .distinct()
        .join(domains, domains.c.compute_node_id == nodes.c.id)
        .join(
            instances,
            sa.and_(instances.c.uuid == domains.c.uuid, instances.c.compute_node_id != nodes.c.id),
        )
        .outerjoin(
            own,
            sa.and_(
                own.c.uuid == instances.c.uuid, own.c.compute_node_id == instances.c.compute_node_id
            ),
        )
        .where(
            own.c.uuid.is_(None),
            nodes.c.reported,
            nodes.c.updated_at >= now - ONE_LOOK,
            instances.c.state != "building",
            ~sa.exists().where(
                migrations.c.instance_uuid == instances.c.uuid,
                migrations.c.status.in_(tables.HOLDING_MIGRATION),
            ),
        )
    )
    return sorted(connection.scalars(query), key=natural)


#: The facts of a node that identify its machine.
IDENTITY = ("host_uuid", "system_uuid", "firmware_uuid", "machine_id")


def identities(connection: Connection, hosts: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Read the identities of the machines of hosts, as their last discoveries found them.

    :returns: {host: host_uuids, system_uuids, firmware_uuids, machine_ids}; only hosts with a node
        that is reported.
    """
    rows = bulk.among(connection, _identities(), tables.compute_nodes.c.host, hosts)
    return identities_in((row.host, row._asdict()) for row in rows)


@functools.cache
def _identities() -> Select:
    table = tables.compute_nodes
    columns = [table.c.facts[key].as_string().label(key) for key in IDENTITY]
    return sa.select(table.c.host, *columns).where(table.c.reported)


def identities_in(
    nodes: Iterable[tuple[str, Mapping[str, Any]]],
) -> dict[str, dict[str, list[str]]]:
    """Collect the identities of the machines of hosts, see identities().

    :param nodes: (host, facts).
    """
    own_by_host: dict[str, dict[str, set[str]]] = {}
    for host, facts in nodes:
        own = own_by_host.setdefault(host, {f"{key}s": set() for key in IDENTITY})
        for key in IDENTITY:
            own[f"{key}s"].update([facts[key]] if facts.get(key) else [])
    return {
        host: {key: sorted(values) for key, values in own.items()}
        for host, own in own_by_host.items()
    }


def uuid_columns(table: Any) -> list[Any]:
    """Return the columns of a query of nodes that own_uuids() takes."""
    return [table.c.facts[key].as_string().label(key) for key in IDENTITY[:2]]


def own_uuids(facts: Mapping[str, object] | None) -> list[str]:
    """Return the uuids that the libvirt of a node may have, by its facts.

    Without a uuid of the system there are none: libvirt makes another one up at each start, and no
    host is known by it.
    """
    values = facts or {}
    return (
        sorted({str(values[key]) for key in IDENTITY[:2] if values.get(key)})
        if values.get("system_uuid")
        else []
    )


def of_machines(
    connection: Connection, host_uuids: Iterable[str]
) -> dict[str, dict[str, list[str]]]:
    """Read the identities of all hosts with one of these uuids of libvirt, as identities() does."""
    table = tables.compute_nodes
    query = sa.select(table.c.host).where(table.c.reported)
    hosts = {row.host for row in bulk.among(connection, query, table.c.host_uuid, host_uuids)}
    return identities(connection, hosts)


def same_machine(
    one: Mapping[str, Sequence[str]] | None, other: Mapping[str, Sequence[str]] | None
) -> bool:
    """Return True if two identities are of one machine. Clones have one host_uuid and two machine
    ids; one that is reached by a URI has none.
    """
    if one is None or other is None or not set(one["host_uuids"]) & set(other["host_uuids"]):
        return False
    ids = set(one["machine_ids"]), set(other["machine_ids"])
    return ids[0] == ids[1] or not all(ids)


def telling_identities(
    connection: Connection, hosts: Iterable[str]
) -> dict[str, dict[str, list[str]]]:
    """Read the identities of the machines of hosts, without uuids that another machine has too.

    Boards of one series, and clones, may have one uuid. Their machine ids are different.
    """
    own_by_host = identities(connection, hosts)
    twins = of_machines(
        connection, {uuid for own in own_by_host.values() for uuid in own["host_uuids"]}
    )
    having: dict[str, list[str]] = {}
    for host, own in twins.items():
        for uuid in own["host_uuids"]:
            having.setdefault(uuid, []).append(host)
    for host, own in own_by_host.items():
        shared = {
            uuid
            for uuid in own["host_uuids"]
            if any(
                other != host and not same_machine(own, twins[other])
                for other in having.get(uuid, ())
            )
        }
        for key in IDENTITY[:3]:
            own[f"{key}s"] = [uuid for uuid in own[f"{key}s"] if uuid not in shared]
    return own_by_host


def hosts_of_machines(connection: Connection, uuids: Iterable[str]) -> set[str]:
    """Return the hosts that the store has with one of these uuids, of libvirt, of the system or of
    the firmware.
    """
    table = tables.compute_nodes
    query, wanted = sa.select(table.c.host).where(table.c.reported), list(uuids)
    same = sa.or_(*(table.c.facts[key].as_string().in_(wanted) for key in IDENTITY[:3]))
    return set(connection.execute(query.where(same)).scalars())


def cells(connection: Connection, node_ids: Iterable[int], lock: bool = False) -> dict[int, Row]:
    """Read the uuids and NUMA cells of nodes: {id: row with uuid, numa_cells}.

    :param lock: lock the rows, in the order of their ids, until the end of the transaction.
    """
    table = tables.compute_nodes
    query = bulk.select(table.c.id, table.c.uuid, table.c.numa_cells)
    if lock:
        # Instances refer to these rows, and each claim of one shares a lock of the key.
        query = query.order_by(table.c.id).with_for_update(key_share=True)
    return {row.id: row for row in bulk.among(connection, query, table.c.id, node_ids)}


def facts(connection: Connection, node_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Read the facts of nodes: {id: facts}."""
    table = tables.compute_nodes
    return {
        row.id: row.facts or {}
        for row in bulk.among(
            connection, bulk.select(table.c.id, table.c.facts), table.c.id, node_ids
        )
    }


def guest_kinds(connection: Connection) -> Kinds:
    """Read which guests the hosts can run."""
    table = tables.compute_nodes
    kinds: Kinds = {}
    for row in connection.execute(
        sa.select(table.c.host, table.c.cpu_info, table.c.supported_instances).where(
            table.c.reported
        )
    ):
        arch = (row.cpu_info or {}).get("arch")
        kinds.setdefault(row.host, []).append(
            (arch, {kind for of, kind, dummy in row.supported_instances or () if of == arch})
        )
    return kinds


def set_zones(connection: Connection, wanted: Mapping[str, str]) -> set[str]:
    """Move hosts into the aggregates of their availability zones; create the aggregates that are
    new.

    :param wanted: {host: zone}.
    :returns: the hosts that have another zone now.
    """
    aggregates, hosts = tables.aggregates, tables.aggregate_hosts
    zones = {
        row.id: row.metadata.get("availability_zone")
        for row in connection.execute(sa.select(aggregates))
    }
    current: dict[str, dict[str, int]] = {}
    for row in bulk.among(connection, bulk.select(hosts), hosts.c.host, wanted):
        if zones[row.aggregate_id]:
            current.setdefault(row.host, {})[zones[row.aggregate_id]] = row.aggregate_id
    changed = {host for host, zone in wanted.items() if set(current.get(host, {})) != {zone}}
    missing = sorted({wanted[host] for host in changed} - {zone for zone in zones.values() if zone})
    bulk.insert(
        connection,
        aggregates,
        [
            {"uuid": bulk.new_uuid(), "name": zone, "metadata": {"availability_zone": zone}}
            for zone in missing
        ],
    )
    by_zone: dict[str, int] = {}
    for row in connection.execute(sa.select(aggregates).order_by(aggregates.c.id.desc())):
        by_zone[row.metadata.get("availability_zone")] = row.id
    for host in sorted(changed):
        stale = [
            aggregate for zone, aggregate in current.get(host, {}).items() if zone != wanted[host]
        ]
        if stale:
            connection.execute(
                sa.delete(hosts).where(hosts.c.host == host, hosts.c.aggregate_id.in_(stale))
            )
    bulk.insert(
        connection,
        hosts,
        [
            {"aggregate_id": by_zone[wanted[host]], "host": host}
            for host in sorted(changed)
            if wanted[host] not in current.get(host, {})
        ],
    )
    return changed


def clear_failed_builds(connection: Connection, row: Row) -> None:
    """Set the failed builds of a node to 0, after a build that succeeded."""
    if row.failed_builds:
        bulk.update(connection, tables.compute_nodes, [{"id": row.id, "failed_builds": 0}])
