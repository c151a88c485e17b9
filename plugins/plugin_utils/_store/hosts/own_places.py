# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts and instances of the store that are a given machine, or have a given address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..._records.domains import InterfaceFacts
from ..database.sql import Connection, sa
from ..schema import tables
from . import addresses, compute_nodes


def hosts_like(
    connection: Connection, uuids: Collection[str], machine_id: str | None
) -> dict[str, dict[str, list[str]]]:
    """Find the hosts that share something with a machine: {host: all of its identity, see
    compute_nodes.identities()}.
    """
    table = tables.compute_nodes
    identities = {
        "host_uuid": uuids,
        "system_uuid": uuids,
        "machine_id": [machine_id] if machine_id else [],
    }
    same = [table.c.facts[key].as_string().in_(list(values)) for key, values in identities.items()]
    found = set(connection.scalars(sa.select(table.c.host).where(sa.or_(*same), table.c.reported)))
    return compute_nodes.identities(connection, sorted(found))


def hosts_of_addresses(connection: Connection, wanted: Collection[str]) -> list[str]:
    """Find the hosts that have one of these addresses. An address that all hosts have, such as the
    address of libvirt's own network, identifies no host.
    """
    has = addresses.of_hosts(connection)
    of_all = set.intersection(*map(set, has.values())) if len(has) > 1 else set()
    telling = set(wanted) - of_all
    return sorted(host for host, found in has.items() if found.intersection(telling))


def instances_of_addresses(connection: Connection, wanted: Collection[str]) -> list[str]:
    """Find the uuids of instances that have one of these addresses, as their hosts know them."""
    return _instances(connection, wanted, lambda interface: interface.get("addresses") or ())


def instances_of_macs(connection: Connection, wanted: Collection[str]) -> list[str]:
    """Find the uuids of instances that have a network card with one of these MAC addresses."""
    return _instances(connection, wanted, lambda interface: [interface.get("mac")])


def _instances(
    connection: Connection,
    wanted: Collection[str],
    of: Callable[[InterfaceFacts], Collection[str | None]],
) -> list[str]:
    table = tables.domains
    # The database finds a part of the text; its meaning is read here.
    mentions = [
        sa.cast(table.c.facts, sa.Text).contains(f'"{each}"', autoescape=True) for each in wanted
    ]
    uuids = set()
    for row in connection.execute(
        sa.select(table.c.uuid, table.c.facts).where(sa.or_(sa.false(), *mentions))
    ):
        interfaces: Sequence[InterfaceFacts] = row.facts.get("interfaces") or ()
        if any(each in wanted for interface in interfaces for each in of(interface)):
            uuids.add(row.uuid)
    return sorted(uuids)


def named(connection: Connection, name: str) -> tuple[list[str], list[str]]:
    """Find hosts and uuids of instances by a name, or the uuid of an instance."""
    services, instances = tables.services, tables.instances
    hosts = connection.scalars(sa.select(services.c.host).where(services.c.host == name)).all()
    uuids = connection.scalars(
        sa.select(instances.c.uuid).where(
            sa.or_(instances.c.name == name, instances.c.uuid == name)
        )
    ).all()
    return list(hosts), list(uuids)


def places(connection: Connection, uuids: Collection[str]) -> dict[str, tuple[str, str | None]]:
    """Read the names of instances, and the hosts that they are on: {uuid: (name, host or None)}."""
    nodes, instances = tables.compute_nodes, tables.instances
    query = (
        sa.select(instances.c.uuid, instances.c.name, nodes.c.host)
        .select_from(instances.outerjoin(nodes, nodes.c.id == instances.c.compute_node_id))
        .where(instances.c.uuid.in_(uuids))
    )
    return {row.uuid: (row.name, row.host) for row in connection.execute(query)}
