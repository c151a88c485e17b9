# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the store knows what runs: one that is new, or brought back from a backup, knows less than the hosts do.

What it does not know it would build a second time. So nothing new is built before every host has been read since
the store came to be, or came back. That it came back is seen by what a backup does not bring back:

- SQLite: a file beside the store's, which has the number of the last claim;
- PostgreSQL: the transaction that wrote our row is not the one that the row says (a dump that was loaded), or the
  server is on another timeline (a physical backup, or a standby that took over).
"""

from __future__ import annotations

import contextlib
import os

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, some
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, clock, power, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

#: The rule that may be lifted by this name.
UNREAD = "unread_hosts"
WITNESS = ".claims"


def refuse_unknown(connection, lifted=(), inventory=()):
    """See that every host has been read since the store came to be, and note that a claim is made.

    :param lifted: names of rules that the operator lifts.
    :param inventory: the hosts of the inventory. Until they have all been read once, those that the store has never had
        count too; later they are new hosts.
    :raises DroverError: a host has not.
    """
    row = _row(connection)
    came_back = _came_back(connection, row)
    born = clock.now(connection) if came_back else row.born_at
    unread = _unread(connection, born)
    if born or not row.claims:
        unread = sorted({*unread, *_unheard_of(connection, inventory)})
    # From here on all that ran then is known.
    _write(connection, row.claims + 1, 0 if inventory and not unread else born)
    if unread and UNREAD not in lifted:
        why = "was brought back from a backup" if born else "was made"
        raise Unread(
            f"{some(unread)} {'was' if len(unread) == 1 else 'were'} not read since the store {why}: what runs there is not known, and nothing "
            "new is placed that may run there already. Run drover.compute.discover with all hosts up. Take a host that is gone for good out "
            f'of the inventory and the store: ansible localhost -m drover.compute.compute_node -a \'{{"host": "{unread[0]}", "nodes": []}}\'. To go on '
            f"all the same: -e drover_place_force={UNREAD}, which lifts just this rule.",
            born if came_back else None,
        )


class Unread(DroverError):
    """Hosts have not been read. ``born``: when the store was found to have come back, to be written down; None where nothing is new."""

    def __init__(self, message, born):
        super().__init__(message)
        self.born = born


def remember(connection, born):
    """Write down that the store came back, though what was to be done was refused."""
    _write(connection, _row(connection).claims + 1, born)


def come_back(connection):
    """The store was filled from a file: what has happened since that was written it does not know."""
    _write(connection, _row(connection).claims + 1, clock.now(connection))


def _row(connection):
    table = tables.continuity
    row = connection.execute(sa.select(table).with_for_update()).one_or_none()
    if row is None:
        connection.execute(sa.insert(table).values(id=1, born_at=0, claims=0))
        row = connection.execute(sa.select(table)).one()
    return row


def begin(connection):
    """The store was just made: what a file beside it says is of another one, which was there before (SQLite)."""
    path = _witness_path(connection)
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)


def witness(connection):
    """After the commit: let a file beside the store say how many claims there were (SQLite)."""
    path = _witness_path(connection)
    if path is None:
        return
    claims = connection.execute(sa.select(tables.continuity.c.claims)).scalar() or 0
    part = f"{path}.{os.getpid()}.part"
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(f"{claims}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        # With none the next claim takes the store for one that came back, which is the safe side of an old one.
        with contextlib.suppress(OSError):
            os.unlink(path)


def _came_back(connection, row):
    if connection.dialect.name == "postgresql":
        query = sa.text("SELECT xmin::text::bigint AS xmin, written_by, timeline FROM continuity")
        found = connection.execute(query).one()
        if found.written_by is None:
            return False
        return found.xmin != found.written_by % 2**32 or found.timeline != _timeline(connection)
    path = _witness_path(connection)
    if path is None:
        return False
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read()) > row.claims
    except (OSError, ValueError):
        return row.claims > 0


def _write(connection, claims, born):
    values = {"claims": claims, "born_at": born}
    if connection.dialect.name == "postgresql":
        values["written_by"] = connection.execute(sa.text("SELECT txid_current()")).scalar()
        values["timeline"] = _timeline(connection)
    connection.execute(sa.update(tables.continuity).values(values))


def _timeline(connection):
    """The server's timeline; None where this role may not see it."""
    allowed = connection.execute(sa.text("SELECT has_function_privilege('pg_control_checkpoint()', 'execute')")).scalar()
    return connection.execute(sa.text("SELECT timeline_id FROM pg_control_checkpoint()")).scalar() if allowed else None


def _witness_path(connection):
    """Where the witness of a SQLite file is; None for another database, or one in memory."""
    database = connection.engine.url.database
    return f"{database}{WITNESS}" if connection.dialect.name == "sqlite" and database else None


def _unheard_of(connection, inventory):
    """Those of the hosts that the store has never had."""
    table = tables.services
    known = {row.host for row in bulk.among(connection, sa.select(table.c.host), table.c.host, inventory)}
    return set(inventory) - known


def _unread(connection, born):
    table, off = tables.services, power.off_since(connection)
    query = (
        sa.select(table.c.host, table.c.last_seen_up)
        .where(sa.or_(table.c.last_seen_up.is_(None), table.c.last_seen_up < born))
        .order_by(table.c.host)
    )
    # On one that was switched off since nothing runs.
    return [row.host for row in connection.execute(query) if row.host not in off or (row.last_seen_up or 0) > off[row.host]]
