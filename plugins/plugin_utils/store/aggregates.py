# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host aggregates and their rules (N8, os-aggregates)."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, some
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

ZONE = "availability_zone"


def find(connection, name):
    """An aggregate as ensure() returns it, None when there is none."""
    table = tables.aggregates
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    if row is None:
        return None
    return {"name": name, "uuid": row.uuid, "metadata": dict(row.metadata), "hosts": sorted(_hosts(connection, row.id))}


def listing(connection):
    """All aggregates: a list of dicts name, metadata, hosts, by name and by host."""
    table, members = tables.aggregates, tables.aggregate_hosts
    found = {
        row.id: {"name": row.name, "metadata": dict(row.metadata or {}), "hosts": []}
        for row in connection.execute(sa.select(table).order_by(table.c.name))
    }
    # In a query of its own, as metadata would be decoded for each member.
    for aggregate, host in connection.execute(sa.select(members.c.aggregate_id, members.c.host).order_by(members.c.host)):
        found[aggregate]["hosts"].append(host)
    return list(found.values())


def ensure(connection, name, metadata=None, hosts=(), remove_hosts=()):
    """Make an aggregate or change it.

    :param metadata: {key: text}; a key whose value is None is deleted, keys not named are kept.
    :param hosts: hosts to add; :param remove_hosts: hosts to take out.
    :returns: (dict of name, uuid, metadata, hosts; True when something changed).
    :raises DroverError: a host that is not known or would be in two zones, a zone that would change
        under instances.
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
        connection.execute(sa.delete(members).where(members.c.aggregate_id == row.id, members.c.host.in_(gone)))
    bulk.insert(connection, members, [{"aggregate_id": row.id, "host": host} for host in sorted(want - have)])
    return {"name": name, "uuid": row.uuid, "metadata": after, "hosts": sorted(want)}, changed


def delete(connection, name):
    """Delete an aggregate without hosts.

    :returns: True when it existed.
    :raises DroverError: it has hosts.
    """
    table = tables.aggregates
    row = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    if row is None:
        return False
    hosts = sorted(_hosts(connection, row.id))
    if hosts:
        raise DroverError(f"Aggregate {name} has hosts: {some(hosts)}. Take them out with remove_hosts first.")
    connection.execute(sa.delete(table).where(table.c.id == row.id))
    return True


def _hosts(connection, aggregate_id):
    members = tables.aggregate_hosts
    return set(connection.execute(sa.select(members.c.host).where(members.c.aggregate_id == aggregate_id)).scalars())


def _check_known(connection, name, hosts):
    services = tables.services
    known = {row.host for row in bulk.among(connection, sa.select(services.c.host), services.c.host, hosts)}
    unknown = sorted(set(hosts) - known)
    if unknown:
        raise DroverError(f"Aggregate {name}: host {some(unknown)} is not in the store. Run drover.compute.discover, or correct the name.")


def _check_zones(connection, name, row, old, new, have, want):
    """A host is in one zone, and does not change it while it has instances."""
    if new == "" or (new is not None and (":" in new or "," in new)):
        raise DroverError(f"Aggregate {name}: {ZONE} must be the name of one zone, not {new!r}.")
    if new is not None:
        aggregates, members = tables.aggregates, tables.aggregate_hosts
        query = sa.select(members.c.host, aggregates.c.id, aggregates.c.metadata).join(
            aggregates, aggregates.c.id == members.c.aggregate_id
        )
        for found in bulk.among(connection, query, members.c.host, want):
            other = found.metadata.get(ZONE)
            if other and other != new and (row is None or found.id != row.id):
                raise DroverError(
                    f"Aggregate {name}: host {found.host} is in the zone {other} already and would be in {new} too; "
                    "a host is in one zone. Take it out of the other aggregate first."
                )
    for hosts, before, after in ((have & want, old, new), (have - want, old, None), (want - have, None, new)):
        if before != after:
            _check_empty(connection, name, before, after, hosts)


def _check_empty(connection, name, old, new, hosts):
    nodes, instances = tables.compute_nodes, tables.instances
    query = sa.select(nodes.c.host, instances.c.name, instances.c.availability_zone).join(nodes, nodes.c.id == instances.c.compute_node_id)
    busy = sorted((row.host, row.name) for row in bulk.among(connection, query, nodes.c.host, hosts) if row.availability_zone)
    if busy:
        host, instance = busy[0]
        raise DroverError(
            f"Aggregate {name}: the zone of host {host} would change ({old or 'none'} to {new or 'none'}) under the instance "
            f"{instance}, which was placed by its zone ({len(busy)} such in all). Drain the host first."
        )
