# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services: who is up, who is enabled (N7)."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

BINARY = "libvirtd"


def down_reason(service, now, service_down_time):
    """Why a service counts as down, or None when it is up.

    There is no agent that reports every few seconds: a heartbeat is a discovery that reached the
    host. So a service is down once a discovery could not reach it, and its age is looked at only
    when service_down_time (seconds) is not 0.
    """
    if service.forced_down:
        return "forced down"
    if service.last_error:
        return service.last_error
    if service.last_seen_up is None:
        return "never seen up"
    # Absolute, as Nova has it: a clock that runs ahead is no sign of life either.
    age = abs(now - service.last_seen_up)
    if service_down_time and age > service_down_time:
        return f"last seen {int(age)} s ago, more than service_down_time ({int(service_down_time)} s)"
    return None


def heartbeat(connection, hosts, now):
    """Record that ``hosts`` were reached just now, adding services that are new.

    :returns: (dict host -> service id, set of hosts whose service is new or was not up before).
    """
    table = tables.services
    query = sa.select(table).where(table.c.binary == BINARY)
    known = {row.host: row for row in bulk.among(connection, query, table.c.host, hosts)}
    new = sorted(set(hosts) - set(known))
    bulk.insert(
        connection,
        table,
        [{"uuid": bulk.new_uuid(), "host": host, "binary": BINARY, "created_at": now, "last_seen_up": now} for host in new],
    )
    bulk.update(connection, table, [{"id": row.id, "last_seen_up": now, "last_error": None} for row in known.values()])
    returned = {host for host, row in known.items() if row.last_error or row.last_seen_up is None}
    ids = {row.host: row.id for row in bulk.among(connection, query, table.c.host, hosts)}
    return ids, returned | set(new)


def remove_without_nodes(connection, hosts):
    """Forget those of the hosts that have no compute node; returns whether there was one."""
    table, nodes = tables.services, tables.compute_nodes
    query = sa.select(table.c.id, table.c.host).where(~sa.exists().where(nodes.c.service_id == table.c.id))
    rows = bulk.among(connection, query, table.c.host, hosts)
    bulk.delete(connection, table, table.c.id, [row.id for row in rows])
    return bool(rows)


def disabled_hosts(connection, hosts):
    """Those of the hosts whose service is disabled, as a set."""
    table = tables.services
    query = sa.select(table.c.host).where(table.c.disabled.is_(True))
    return {row.host for row in bulk.among(connection, query, table.c.host, hosts)}


def up_hosts(connection, hosts: Iterable[str], now: float) -> set[str]:
    """Those of the hosts whose service was up when it was last read."""
    table = tables.services
    query = sa.select(table).where(table.c.binary == BINARY)
    return {row.host for row in bulk.among(connection, query, table.c.host, hosts) if down_reason(row, now, 0) is None}


def is_drained(memory):
    """Whether a drain began and no undrain followed.

    :param memory: the column status_before_drain, see drained.py.
    """
    return "disabled" in (memory or {})


def drained_hosts(connection):
    """Hosts that a drain has disabled and that are not back yet, sorted."""
    table = tables.services
    rows = connection.execute(sa.select(table.c.host, table.c.status_before_drain).order_by(table.c.host))
    return [row.host for row in rows if is_drained(row.status_before_drain)]


def record_unreachable(connection, host, error, now, add=True):
    """Record that discovery could not reach ``host``.

    :param add: whether a host that the store does not have is added.
    :returns: True when the host was up, or not known, before.
    """
    table = tables.services
    row = connection.execute(sa.select(table).where(table.c.host == host, table.c.binary == BINARY)).one_or_none()
    if row is None:
        if add:
            connection.execute(sa.insert(table).values(uuid=bulk.new_uuid(), host=host, binary=BINARY, created_at=now, last_error=error))
        return True
    connection.execute(sa.update(table).where(table.c.id == row.id).values(last_error=error))
    return row.last_error is None


def get(connection, host):
    """The service row of a host.

    :raises DroverError: the store does not know the host; the message lists some that it knows.
    """
    table = tables.services
    row = connection.execute(sa.select(table).where(table.c.host == host, table.c.binary == BINARY)).one_or_none()
    if row is None:
        raise unknown_host(connection, host)
    return row


def unknown_host(connection, host):
    """The DroverError that says so, with the hosts that are known."""
    known = list(connection.execute(sa.select(tables.services.c.host).order_by(tables.services.c.host).limit(11)).scalars())
    if not known:
        return DroverError(f"Host {host} is not in the store, which is empty. Run the playbook drover.compute.discover first.")
    names = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
    return DroverError(f"Host {host} is not in the store. Known hosts: {names}. Run drover.compute.discover if it is new.")


def change(connection, row, values):
    """Write new values of a service row; nothing is written when there are none."""
    if values:
        connection.execute(sa.update(tables.services).where(tables.services.c.id == row.id).values(values))
