# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power actions on hosts and their outcomes (rules S10, S12 and S14)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._common.errors import DroverError
from ..database import bulk
from ..database.sql import Connection, Row, sa
from ..runs import actions
from ..schema import tables
from . import services

_SHOWN = (
    "uuid",
    "host",
    "action",
    "driver",
    "status",
    "power_state",
    "boot_id",
    "message",
    "created_at",
    "updated_at",
)
# The driver of a fencing that an operator confirms.
OPERATOR = "operator"
# Hosts that were last seen within an hour of each other may have died together, because discovery
# may run hourly.
SAME_TIME = 3600


def begin(
    connection: Connection, host: str, action: str, driver: str, boot_id: str | None, now: float
) -> dict[str, Any]:
    """Record an action before it begins.

    :param boot_id: the boot_id of the host now; None if the host does not answer.
    :returns: the event, see _SHOWN.
    :raises DroverError: the host is not in the store.
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
    actions.note(connection, "power", f"{action} by {driver}: begun", host=host)
    return event


def finish(
    connection: Connection,
    uuid: str,
    status: str,
    power_state: str | None,
    boot_id: str | None,
    message: str | None,
    now: float,
) -> dict[str, Any]:
    """Record the outcome of an action. A host that is off is down from now on.

    :param status: completed or failed.
    :param boot_id: the boot_id of the host now; None keeps the boot_id of begin().
    :returns: the event, see _SHOWN.
    :raises DroverError: there is no such event, or it has ended already.
    """
    table = tables.power_events
    row = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if row is None or row.status != "running":
        raise DroverError(
            f"The power action {uuid} is"
            f" {'not in the store' if row is None else row.status + ' already'}; nothing was"
            " recorded. Begin another one."
        )
    values = {"status": status, "power_state": power_state, "message": message, "updated_at": now}
    if boot_id:
        values["boot_id"] = boot_id
    connection.execute(sa.update(table).where(table.c.id == row.id).values(values))
    reason = f" ({message})" if message else ""
    actions.note(
        connection,
        "power",
        f"{row.action} by {row.driver}: {status}, power {power_state or 'unknown'}{reason}",
        host=row.host,
    )
    if power_state == "off":
        services.record_unreachable(
            connection, row.host, f"switched off ({row.action}) by drover.compute.power", now
        )
    return {**_shown_columns(row), **values}


def last(connection: Connection, host: str) -> dict[str, Any] | None:
    """Read the newest event of a host."""
    table = tables.power_events
    row = connection.execute(
        sa.select(table).where(table.c.host == host).order_by(table.c.id.desc()).limit(1)
    ).one_or_none()
    return None if row is None else _shown_columns(row)


def _shown_columns(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _SHOWN}


def last_fencing(connection: Connection) -> float | None:
    """Return the time at which a power driver last fenced a host (seconds since 1970); None if
    there was no such fencing.
    """
    table = tables.power_events
    return connection.execute(
        sa.select(sa.func.max(table.c.updated_at)).where(
            table.c.action == "fence", table.c.status == "completed", table.c.driver != OPERATOR
        )
    ).scalar()


def note_answer(connection: Connection, host: str) -> None:
    """Record that a host answers although its last power action switched it off: it is on again."""
    table = tables.power_events
    event = last(connection, host)
    if event is not None and event["power_state"] == "off":
        connection.execute(
            sa.update(table)
            .where(table.c.uuid == event["uuid"])
            .values(power_state="unknown", message="it answered after that")
        )


def off_since(connection: Connection) -> dict[str, float]:
    """Find the hosts that their last power action switched off.

    :returns: {host: time of that (seconds since 1970)}.
    """
    events = tables.power_events
    last_events = sa.select(sa.func.max(events.c.id)).group_by(events.c.host)
    query = sa.select(events.c.host, events.c.updated_at).where(
        events.c.id.in_(last_events), events.c.power_state == "off", events.c.status == "completed"
    )
    return {row.host: row.updated_at for row in connection.execute(query)}


def looking_dead(
    connection: Connection, host: str, inventory: Collection[str] = ()
) -> tuple[set[str], set[str]]:
    """Find the hosts that look dead since about the same time as a host (rule S3).

    Hosts in maintenance, forced down or switched off do not count, because they are down on
    purpose, nor do hosts that were down an hour before this one was last seen. A host that has left
    is not part of the fleet: it no longer reports, or is not in the inventory.

    :param inventory: the hosts of the inventory, if they are known.
    :returns: the hosts that count, and the down ones among them; both with this one.
    """
    table, events = tables.services, tables.power_events
    last_events = sa.select(sa.func.max(events.c.id)).group_by(events.c.host)
    off = set(
        connection.execute(
            sa.select(events.c.host).where(
                events.c.id.in_(last_events), events.c.power_state == "off"
            )
        ).scalars()
    )
    rows = connection.execute(
        sa.select(table).where(table.c.binary == services.BINARY, ~services.is_unreported())
    ).all()
    seen = max((row.last_seen_up or 0 for row in rows if row.host == host), default=0)
    counted, down = {host}, {host}
    for row in rows:
        if (
            row.host == host
            or row.maintenance
            or row.forced_down
            or row.host in off
            or (inventory and row.host not in inventory)
        ):
            continue
        if row.last_error is None:
            counted.add(row.host)
        elif (row.last_seen_up or 0) >= seen - SAME_TIME:
            counted.add(row.host)
            down.add(row.host)
    return counted, down
