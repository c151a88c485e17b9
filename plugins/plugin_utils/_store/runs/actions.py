# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions of runs, with their actors and times: one row for each action; only the newest rows
are kept.

Each row is written in the transaction of the action. So a run that was killed has rows for its
finished actions, and an undone action has no row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ..._records.overview import ActionRow
from ..._records.runs import UNKNOWN, Run
from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables

#: The subjects of rows.
KINDS = ("run", "decision", "claim", "release", "order", "instance", "move", "power", "host")
#: The number of kept rows, counted by their ids; there may be PRUNED_EVERY more.
KEPT = 100_000
PRUNED_EVERY = 1000
#: The option of connections that has the run.
RUN = "drover_run"
#: The most characters of a text.
LONGEST = 1000
# The user and password of an address, and passwords among its options.
_LOGIN = re.compile(r"(?<=://)[^/\s@]*(?:@[^/\s@]*)*@")
_PASSWORD = re.compile(
    r"((?:pass(?:word|wd|phrase)?|pwd|token|secret|(?:api|access|secret)[_-]?key)=)[^&\s]+",
    re.IGNORECASE,
)


def note(
    connection: Connection,
    kind: str,
    message: str,
    instance: tuple[str | None, str] | None = None,
    host: str | None = None,
    destination: str | None = None,
) -> None:
    """Write down an action of a run.

    :param kind: one of KINDS.
    :param message: for people, without the names of instance and host.
    :param instance: (uuid or None, name).
    :param destination: the destination of a move.
    """
    note_all(
        connection,
        [
            {
                "kind": kind,
                "message": message,
                "instance": instance,
                "host": host,
                "destination": destination,
            }
        ],
    )


def note_all(connection: Connection, things: Sequence[Mapping[str, Any]]) -> None:
    """Write down several things, see note(); now and then delete the oldest rows."""
    if not things:
        return
    table = tables.actions
    run: Run = connection.get_execution_options().get(RUN) or UNKNOWN
    who = {
        "created_at": time.time(),
        "user": run.user,
        "controller": run.controller,
        "command": _text(run.command),
        "reason": _text(run.reason),
        "job": dict(run.job) or None,
    }
    rows = []
    for thing in things:
        uuid, name = thing.get("instance") or (None, None)
        row = {key: thing.get(key) for key in ("kind", "host", "destination")}
        rows.append(
            {
                **who,
                **row,
                "message": _text(thing["message"]),
                "instance_uuid": uuid,
                "instance_name": name and _text(name)[:255],
            }
        )
    ids = connection.execute(sa.insert(table).returning(table.c.id), rows).scalars().all()
    if max(ids) // PRUNED_EVERY != (min(ids) - 1) // PRUNED_EVERY:
        # Do not wait for another transaction that deletes the same rows.
        old = (
            sa.select(table.c.id)
            .where(table.c.id <= max(ids) - KEPT)
            .with_for_update(skip_locked=True)
        )
        connection.execute(sa.delete(table).where(table.c.id.in_(old)))


def read(
    connection: Connection,
    limit: int,
    instances: Iterable[str] = (),
    host: str | None = None,
    days: tuple[float, float] | None = None,
) -> list[ActionRow]:
    """Read the newest rows, newest first: all columns but id.

    :param instances: names or uuids; of all without one.
    :param host: the host of the action, or the destination of an instance.
    :param days: from this time on, and before that one (seconds since 1970).
    """
    table = tables.actions
    query = (
        sa.select(*[column for column in table.c if column.name != "id"])
        .order_by(table.c.id.desc())
        .limit(limit)
    )
    names = set(instances)
    if names:
        query = query.where(
            sa.or_(
                *(
                    bulk.is_among(connection, column, names)
                    for column in (table.c.instance_name, table.c.instance_uuid)
                )
            )
        )
    if host is not None:
        query = query.where(sa.or_(table.c.host == host, table.c.destination == host))
    if days is not None:
        query = query.where(table.c.created_at >= days[0], table.c.created_at < days[1])
    return cast("list[ActionRow]", [dict(row._mapping) for row in connection.execute(query)])


def _text(text: str) -> str:
    """Mask logins of addresses, drop the characters that a database refuses, and cut a text that is
    too long.
    """
    masked = (
        _PASSWORD.sub(r"\1***", _LOGIN.sub("***@", text.replace("\0", "")))
        .encode("utf-8", "replace")
        .decode("utf-8")
    )
    return masked if len(masked) <= LONGEST else f"{masked[: LONGEST - 3]}..."
