# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host aggregates and their rules (N8, os-aggregates)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..._common.errors import DroverError, some
from ..._records.hosts import HostAggregate
from ..database import bulk, column_reader
from ..database.sql import Connection, Row, sa
from ..schema import tables

ZONE = "availability_zone"


class KeptAggregate(HostAggregate):
    """An aggregate as administrators change it."""

    uuid: str


def find(connection: Connection, name: str) -> KeptAggregate | None:
    """Read an aggregate."""
    table = tables.aggregates
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    if row is None:
        return None
    return {
        "name": name,
        "uuid": row.uuid,
        "metadata": dict(row.metadata),
        "hosts": sorted(_hosts(connection, row.id)),
    }


def leave(connection: Connection, host: str) -> list[str]:
    """Take a host out of its aggregates; return their names, sorted."""
    table, members = tables.aggregates, tables.aggregate_hosts
    query = (
        sa.select(table.c.name)
        .join(members, members.c.aggregate_id == table.c.id)
        .where(members.c.host == host)
    )
    names = sorted(connection.execute(query).scalars())
    connection.execute(sa.delete(members).where(members.c.host == host))
    return names


def listing(connection: Connection) -> list[HostAggregate]:
    """Read all aggregates and their hosts, both sorted by name."""
    table, members = tables.aggregates, tables.aggregate_hosts
    by_id: dict[int, HostAggregate] = {
        row.id: {"name": row.name, "metadata": dict(row.metadata or {}), "hosts": []}
        for row in connection.execute(sa.select(table).order_by(table.c.name))
    }
    if by_id:
        # There is one text per aggregate rather than a row per member.
        joined = sa.func.aggregate_strings(members.c.host, column_reader.SEPARATOR)
        query = sa.select(members.c.aggregate_id, joined).group_by(members.c.aggregate_id)
        for aggregate, names in column_reader.rows(connection, query):
            by_id[aggregate]["hosts"] = sorted(column_reader.words(names))
    return list(by_id.values())


def ensure(
    connection: Connection,
    name: str,
    metadata: Mapping[str, object] | None = None,
    hosts: Collection[str] = (),
    remove_hosts: Collection[str] = (),
) -> tuple[KeptAggregate, bool]:
    """Make an aggregate or change it.

    :param metadata: a value of None deletes its key; keys that are not named are kept.
    :param hosts: the hosts to add.
    :returns: the aggregate, and whether it changed.
    :raises DroverError: a host is unknown or would be in two zones, or the zone of instances would
        change.
    """
    table, members = tables.aggregates, tables.aggregate_hosts
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    before = dict(row.metadata) if row is not None else {}
    after = {**before, **(metadata or {})}
    after = {str(key): str(value) for key, value in after.items() if value is not None}
    have = set() if row is None else _hosts(connection, row.id)
    want = (have | set(hosts)) - set(remove_hosts)
    _check_known(connection, name, set(hosts) - have)
    _check_zones(connection, name, row, before.get(ZONE), after.get(ZONE), have, want)
    if row is None:
        connection.execute(sa.insert(table).values(uuid=bulk.new_uuid(), name=name, metadata=after))
        row = connection.execute(sa.select(table).where(table.c.name == name)).one()
        changed = True
    else:
        changed = after != before or want != have
        if after != before:
            connection.execute(sa.update(table).where(table.c.id == row.id).values(metadata=after))
    gone = sorted(have - want)
    if gone:
        connection.execute(
            sa.delete(members).where(members.c.aggregate_id == row.id, members.c.host.in_(gone))
        )
    bulk.insert(
        connection,
        members,
        [{"aggregate_id": row.id, "host": host} for host in sorted(want - have)],
    )
    return {"name": name, "uuid": row.uuid, "metadata": after, "hosts": sorted(want)}, changed


def delete(connection: Connection, name: str) -> bool:
    """Delete an aggregate without hosts.

    :returns: True if it existed.
    :raises DroverError: it has hosts.
    """
    table = tables.aggregates
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    if row is None:
        return False
    hosts = sorted(_hosts(connection, row.id))
    if hosts:
        raise DroverError(
            f"Aggregate {name} has hosts: {some(hosts)}. Take them out with remove_hosts first."
        )
    connection.execute(sa.delete(table).where(table.c.id == row.id))
    return True


def _hosts(connection: Connection, aggregate_id: int) -> set[str]:
    members = tables.aggregate_hosts
    return set(
        connection.execute(
            sa.select(members.c.host).where(members.c.aggregate_id == aggregate_id)
        ).scalars()
    )


def _check_known(connection: Connection, name: str, hosts: Collection[str]) -> None:
    services = tables.services
    recorded = {
        row.host
        for row in bulk.among(connection, bulk.select(services.c.host), services.c.host, hosts)
    }
    unknown = sorted(set(hosts) - recorded)
    if unknown:
        raise DroverError(
            f"Aggregate {name}: host {some(unknown)} is not in the store. Run"
            " drover.compute.discover, or correct the name."
        )


def _check_zones(
    connection: Connection,
    name: str,
    row: Row | None,
    old: str | None,
    new: str | None,
    have: set[str],
    want: set[str],
) -> None:
    """Refuse a host in two zones, and another zone for a host with instances."""
    if new == "" or (new is not None and (":" in new or "," in new)):
        raise DroverError(f"Aggregate {name}: {ZONE} must be the name of one zone, not {new!r}.")
    if new is not None:
        aggregates, members = tables.aggregates, tables.aggregate_hosts
        query = sa.select(members.c.host, aggregates.c.id, aggregates.c.metadata).join(
            aggregates, aggregates.c.id == members.c.aggregate_id
        )
        for member in bulk.among(connection, query, members.c.host, want):
            other = member.metadata.get(ZONE)
            if other and other != new and (row is None or member.id != row.id):
                raise DroverError(
                    f"Aggregate {name}: host {member.host} is in the zone {other} already and would"
                    f" be in {new} too; a host is in one zone. Take it out of the other aggregate"
                    " first."
                )
    for hosts, before, after in (
        (have & want, old, new),
        (have - want, old, None),
        (want - have, None, new),
    ):
        if before != after:
            _check_empty(connection, name, before, after, hosts)


def _check_empty(
    connection: Connection, name: str, old: str | None, new: str | None, hosts: Collection[str]
) -> None:
    nodes, instances = tables.compute_nodes, tables.instances
    query = sa.select(nodes.c.host, instances.c.name, instances.c.availability_zone).join(
        nodes, nodes.c.id == instances.c.compute_node_id
    )
    busy = sorted(
        (row.host, row.name)
        for row in bulk.among(connection, query, nodes.c.host, hosts)
        if row.availability_zone
    )
    if busy:
        host, instance = busy[0]
        raise DroverError(
            f"Aggregate {name}: the zone of host {host} would change ({old or 'none'} to"
            f" {new or 'none'}) under the instance {instance}, which was placed by its zone"
            f" ({len(busy)} such in all). Drain the host first."
        )
