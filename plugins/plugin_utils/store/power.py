# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was done to the power of hosts, and what came of it (rules S10, S12 and S14)."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, services, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

_SHOWN = ("uuid", "host", "action", "driver", "status", "power_state", "boot_id", "message", "created_at", "updated_at")
# The driver of a fencing that a person stands for.
OPERATOR = "operator"
# Hosts that were last seen within an hour of each other may have died together: discovery may run that seldom.
SAME_TIME = 3600


def begin(connection, host, action, driver, boot_id, now):
    """Write down that an action is about to begin.

    :param boot_id: the boot of the host before it, or None where the host does not answer.
    :returns: the event, a dict.
    :raises DroverError: the store does not know the host.
    """
    services.get(connection, host)
    event = {
        "uuid": bulk.new_uuid(),
        "host": host,
        "action": action,
        "driver": driver,
        "status": "running",
        "power_state": None,
        "boot_id": boot_id,
        "message": None,
        "created_at": now,
        "updated_at": now,
    }
    connection.execute(sa.insert(tables.power_events).values(event))
    return event


def finish(connection, uuid, status, power_state, boot_id, message, now):
    """Write down what came of an action. A host that is off is down from now on.

    :param status: completed or failed.
    :param boot_id: the boot of the host now; None keeps what begin() wrote.
    :returns: the event, a dict.
    :raises DroverError: there is no such event, or it has ended already.
    """
    table = tables.power_events
    row = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if row is None or row.status != "running":
        raise DroverError(
            f"The power action {uuid} is {'not in the store' if row is None else row.status + ' already'}; "
            "nothing was recorded. Begin another one."
        )
    values = {"status": status, "power_state": power_state, "message": message, "updated_at": now}
    if boot_id:
        values["boot_id"] = boot_id
    connection.execute(sa.update(table).where(table.c.id == row.id).values(values))
    if power_state == "off":
        services.record_unreachable(connection, row.host, f"switched off ({row.action}) by drover.compute.power", now)
    return {**_plain(row), **values}


def last(connection, host):
    """The newest event of a host, a dict, or None."""
    table = tables.power_events
    row = connection.execute(sa.select(table).where(table.c.host == host).order_by(table.c.id.desc()).limit(1)).one_or_none()
    return row and _plain(row)


def _plain(row):
    return {name: getattr(row, name) for name in _SHOWN}


def last_fencing(connection):
    """When a power driver last fenced a host, whichever (seconds since 1970); None where none did."""
    table = tables.power_events
    return connection.execute(
        sa.select(sa.func.max(table.c.updated_at)).where(
            table.c.action == "fence", table.c.status == "completed", table.c.driver != OPERATOR
        )
    ).scalar()


def off_since(connection):
    """The hosts whose last power action ended with their power off: dict host -> when (seconds since 1970)."""
    events = tables.power_events
    last_events = sa.select(sa.func.max(events.c.id)).group_by(events.c.host)
    query = sa.select(events.c.host, events.c.updated_at).where(
        events.c.id.in_(last_events), events.c.power_state == "off", events.c.status == "completed"
    )
    return {row.host: row.updated_at for row in connection.execute(query)}


def looking_dead(connection, host):
    """Who else looks dead since about the time that a host does (rule S3).

    Left out are hosts in maintenance, forced down or switched off by a power action: that is known of them and means nothing;
    and hosts that were down an hour before this one was last seen.

    :returns: (names of the hosts that count, with this one; those of them that are down, with this one).
    """
    table, events = tables.services, tables.power_events
    last_events = sa.select(sa.func.max(events.c.id)).group_by(events.c.host)
    off = set(connection.execute(sa.select(events.c.host).where(events.c.id.in_(last_events), events.c.power_state == "off")).scalars())
    rows = connection.execute(sa.select(table).where(table.c.binary == services.BINARY)).all()
    seen = max((row.last_seen_up or 0 for row in rows if row.host == host), default=0)
    counted, down = {host}, {host}
    for row in rows:
        if row.host == host or row.maintenance or row.forced_down or row.host in off:
            continue
        if row.last_error is None:
            counted.add(row.host)
        elif (row.last_seen_up or 0) >= seen - SAME_TIME:
            counted.add(row.host)
            down.add(row.host)
    return counted, down
