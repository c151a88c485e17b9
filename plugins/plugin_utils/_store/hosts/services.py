# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services: the state up or down, and the switch enabled or disabled (N7)."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping

from ..._common import validation
from ..._common.errors import DroverError
from ..._records.hosts import ServiceState
from ..database import bulk
from ..database.sql import Connection, Row, Select, sa
from ..runs import actions
from ..schema import tables

BINARY = "libvirtd"
#: The reason of a node, or of a host with all its nodes.
UNREPORTED = "no longer reported by its host"
#: The columns that people set, and their names in the record of actions.
_SWITCHES = {
    "disabled": "disabled",
    "disabled_reason": "reason",
    "forced_down": "forced down",
    "maintenance": "maintenance",
}
_WORDS: Mapping[object, str] = {True: "yes", False: "no", None: "none"}


def down_reason(service: ServiceState, now: float, service_down_time: float) -> str | None:
    """Return the reason why a service counts as down; None if it is up.

    There is no agent with a heartbeat every few seconds: the heartbeat is a discovery that reached
    the host. So a service is down after a discovery that could not reach it.

    :param service_down_time: the age (seconds) from which a heartbeat counts as too old; 0 for no
        limit.
    """
    if service.forced_down:
        return "forced down"
    if service.last_error:
        return service.last_error
    if service.last_seen_up is None:
        return "never seen up"
    # Absolute, as in Nova: a time in the future is not a heartbeat either.
    age = abs(now - service.last_seen_up)
    if service_down_time and age > service_down_time:
        if now < service.last_seen_up:
            return (
                f"last seen {int(age)} s in the future, more than service_down_time"
                f" ({int(service_down_time)} s): set the clock right, and run"
                " drover.compute.discover"
            )
        return (
            f"last seen {int(age)} s ago, more than service_down_time ({int(service_down_time)} s)"
        )
    return None


def read_as_json(connection: Connection) -> dict[int, str]:
    """Read all services as JSON text of the keys that queries may name (N1.1), by id."""
    table = tables.services
    names = ("host", "binary", "disabled", "disabled_reason", "forced_down", "last_seen_up")
    query = sa.select(table.c.id, *[table.c[name] for name in names])
    return {key: json.dumps(dict(zip(names, values))) for key, *values in connection.execute(query)}


def heartbeat(
    connection: Connection, hosts: Iterable[str], now: float
) -> tuple[dict[str, int], set[str]]:
    """Record that a discovery reached hosts, and add services that are new.

    :returns: {host: service id}, and the hosts with a service that is new or was down.
    """
    table, query = tables.services, _services()
    existing = {row.host: row for row in bulk.among(connection, query, table.c.host, hosts)}
    new = sorted(set(hosts) - set(existing))
    bulk.insert(
        connection,
        table,
        [
            {
                "uuid": bulk.new_uuid(),
                "host": host,
                "binary": BINARY,
                "created_at": now,
                "last_seen_up": now,
            }
            for host in new
        ],
    )
    bulk.update(
        connection,
        table,
        [{"id": row.id, "last_seen_up": now, "last_error": None} for row in existing.values()],
    )
    returned = {
        host for host, row in existing.items() if row.last_error or row.last_seen_up is None
    }
    ids = {row.host: row.id for row in bulk.among(connection, query, table.c.host, hosts)}
    return ids, returned | set(new)


@functools.cache
def _services() -> Select:
    return sa.select(tables.services).where(tables.services.c.binary == BINARY)


def set_labels(connection: Connection, wanted: Mapping[str, Mapping[str, str]]) -> bool:
    """Set the labels of hosts.

    :param wanted: {host: its labels}.
    :returns: True if one changed.
    """
    table = tables.services
    query = sa.select(table.c.id, table.c.host, table.c.labels).where(table.c.binary == BINARY)
    rows = bulk.among(connection, query, table.c.host, wanted)
    changed = [
        {"id": row.id, "labels": wanted[row.host] or None}
        for row in rows
        if (row.labels or {}) != wanted[row.host]
    ]
    bulk.update(connection, table, changed)
    return bool(changed)


def remove_without_nodes(connection: Connection, hosts: Iterable[str]) -> bool:
    """Remove the hosts that have no compute node.

    :returns: True if there was one.
    """
    table, nodes = tables.services, tables.compute_nodes
    query = sa.select(table.c.id, table.c.host).where(
        ~sa.exists().where(nodes.c.service_id == table.c.id)
    )
    rows = bulk.among(connection, query, table.c.host, hosts)
    # Another machine that gets the name later has no part in the open maintenance.
    bulk.delete(
        connection, tables.rolling_hosts, tables.rolling_hosts.c.host, [row.host for row in rows]
    )
    bulk.delete(connection, table, table.c.id, [row.id for row in rows])
    return bool(rows)


def disabled_hosts(connection: Connection, hosts: Iterable[str]) -> set[str]:
    """Return the hosts with a disabled service."""
    table = tables.services
    query = sa.select(table.c.host).where(table.c.disabled.is_(True))
    return {row.host for row in bulk.among(connection, query, table.c.host, hosts)}


def closed_hosts(connection: Connection) -> set[str]:
    """Return the hosts that take nothing: disabled, as in maintenance, or forced down."""
    table = tables.services
    query = sa.select(table.c.host).where(
        table.c.binary == BINARY, sa.or_(table.c.disabled.is_(True), table.c.forced_down.is_(True))
    )
    return set(connection.scalars(query))


def up_hosts(connection: Connection, hosts: Iterable[str], now: float) -> set[str]:
    """Return the hosts that were up in their last discovery."""
    table = tables.services
    query = sa.select(table).where(table.c.binary == BINARY)
    return {
        row.host
        for row in bulk.among(connection, query, table.c.host, hosts)
        if down_reason(row, now, 0) is None
    }


def is_unreported() -> sa.ColumnElement[bool]:
    """Write the test that a host reports none of the nodes that the store has of it."""
    nodes = tables.compute_nodes
    own = sa.exists().where(nodes.c.service_id == tables.services.c.id)
    return sa.and_(own, ~own.where(nodes.c.reported))


def order(connection: Connection, hosts: Iterable[str]) -> dict[str, int]:
    """Return a number for each host; a host that was added later has a larger number."""
    table = tables.services
    return {
        row.host: row.id
        for row in bulk.among(
            connection, bulk.select(table.c.host, table.c.id), table.c.host, hosts
        )
    }


def is_drained(memory: Mapping[str, object] | None) -> bool:
    """Return True if a drain began and no undrain followed.

    :param memory: the column status_before_drain, see drained.py.
    """
    return "disabled" in (memory or {})


def drained_hosts(connection: Connection) -> list[str]:
    """Return the hosts that a drain has disabled and no undrain has enabled, sorted."""
    table = tables.services
    rows = connection.execute(
        sa.select(table.c.host, table.c.status_before_drain).order_by(table.c.host)
    )
    return [row.host for row in rows if is_drained(row.status_before_drain)]


def record_unreachable(
    connection: Connection, host: str, error: str, now: float, add: bool = True
) -> bool:
    """Record that a discovery could not reach a host.

    :param add: True to add a host that is not in the store.
    :returns: True if the host was up, or unknown, before.
    """
    table = tables.services
    row = connection.execute(
        sa.select(table).where(table.c.host == host, table.c.binary == BINARY)
    ).one_or_none()
    if row is None:
        if add:
            connection.execute(
                sa.insert(table).values(
                    uuid=bulk.new_uuid(), host=host, binary=BINARY, created_at=now, last_error=error
                )
            )
        return True
    connection.execute(sa.update(table).where(table.c.id == row.id).values(last_error=error))
    return bool(row.last_error is None)


def get(connection: Connection, host: str) -> Row:
    """Read the service of a host.

    :raises DroverError: the host is not in the store.
    """
    table = tables.services
    row = connection.execute(
        sa.select(table).where(table.c.host == host, table.c.binary == BINARY)
    ).one_or_none()
    if row is None:
        raise unknown_host(connection, host)
    return row


def of_host(host: str) -> Select:
    """Return the query for the service of a host."""
    return sa.select(tables.services).where(
        tables.services.c.host == host, tables.services.c.binary == BINARY
    )


def any_host(connection: Connection) -> bool:
    """Return True if the store has a host."""
    return connection.execute(sa.select(tables.services.c.id).limit(1)).first() is not None


def unknown_host(connection: Connection, host: str) -> Exception:
    """Make the error for a host that is not in the store; it names some that are."""
    return validation.unknown_host(
        host, connection.execute(sa.select(tables.services.c.host)).scalars(), DroverError
    )


def change(connection: Connection, row: Row, values: Mapping[str, object]) -> None:
    """Change columns of a service."""
    if values:
        connection.execute(
            sa.update(tables.services).where(tables.services.c.id == row.id).values(values)
        )
        notes = [
            f"{word}: {_WORDS.get(values[key], values[key])}"
            for key, word in _SWITCHES.items()
            if key in values
        ]
        if notes:
            actions.note(connection, "host", ", ".join(notes), host=row.host)
