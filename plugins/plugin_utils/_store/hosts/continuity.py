# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knowledge of all instances: a new store, or a store restored from a backup, may lack some
instances that run.

With such a store a run could build these a second time, start a second time an instance that runs
on an unread host, or remove files that are needed there. So none of these actions is done before
every host has been read since the store was made or restored. A backup does not restore the
following data; they show a restored store:

- SQLite: a file beside the store's, with the number of the last claim;
- PostgreSQL: the transaction that wrote the row of the table is the one named in the row (not after
  loading a dump), and the server's timeline (another one after a physical backup, or on a standby
  that took over).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence

from ..._common.errors import DroverError, some
from ..database import bulk, clock
from ..database.sql import Connection, Row, sa
from ..schema import tables
from . import power

#: The name of the rule, by which an operator may lift it.
UNREAD = "unread_hosts"
WITNESS = ".claims"
#: In place of the time at which a store was brought back: it is new, has claims, and has not read
#: every host once.
MADE_AND_UNREAD = -1.0
#: The unknown facts of hosts that were not read.
FILES = "the files that are needed there are"
RUNNING = "whether it runs there is"
THERE = "what is defined there is"
#: The advice on facts that no host reports, so that a look at all hosts does not bring them back.
_AGAIN = (
    "Look at drover.compute.hosts, and disable again what must take no instances"
    " (drover.compute.host_disable, drover.compute.drain) before you place."
)
BROUGHT_BACK = (
    "The store was brought back from a backup. Which hosts were disabled, enabled or drained since"
    f" that backup is not known: they are as it has them. {_AGAIN}"
)
MADE = (
    "The store is new, and there are instances already. If it replaces one that was lost: which"
    " hosts were disabled or drained is not known any more, and each host that answers takes"
    f" instances. {_AGAIN} A resize that was open is not known either: the instance keeps the new"
    " size."
)


def refuse_unknown(
    connection: Connection, lifted: Collection[str] = (), inventory: Collection[str] = ()
) -> None:
    """Count a claim, and refuse it unless every host has been read since the store was made or
    restored.

    :param lifted: names of rules that the operator lifts.
    :param inventory: the hosts of the inventory. Until all have been read once, hosts that are not
        in the store count too; later they are new hosts.
    :raises DroverError: a host has not been read.
    """
    row = _row(connection)
    came_back = _came_back(connection, row)
    born = clock.now(connection) if came_back else row.born_at
    unheard = _unheard_of(connection, inventory) if born or not row.claims else set()
    unseen = unheard.union(_unread(connection, born, running=False))
    unread = sorted(unheard.union(_unread(connection, born))) if unseen else []
    if unseen:
        # Lifted for this claim, or no matter for it, the rule holds on for all else, though from
        # now on the store has a claim.
        born = born or (0 if row.claims else MADE_AND_UNREAD)
    elif inventory:
        # All that ran then is known now.
        born = 0
    _write_continuity(connection, row.claims + 1, born)
    if unread and UNREAD not in lifted:
        raise UnreadHosts(
            f"{_not_read(unread)}: what runs there is not known, and nothing new is placed that may"
            f" run there already. {_way_out(unread)} To go on all the same: -e"
            f" drover_place_force={UNREAD}, which lifts just this rule.",
            born if came_back else None,
        )


def refuse_unread(
    connection: Connection,
    refused: str,
    inventory: Collection[str],
    unknown: str = FILES,
    advice: str = "",
    later: bool = False,
) -> None:
    """Refuse an action that needs the knowledge of all instances, unless every host has been read
    since the store was made or restored.

    :param refused: the refused action, the beginning of the sentence.
    :param inventory: the hosts of the inventory. Until all have been read once, hosts that are not
        in the store count too.
    :param unknown: the facts that are unknown for this reason. A host that is off runs nothing, but
        its instances need their files.
    :param advice: another way out, a sentence.
    :param later: True if an unread new host counts, also one that came to a store that knew all
        instances: it may have its own guests. The instances of other hosts are not on it.
    :raises DroverError: a host has not been read.
    """
    unread = _unread_of(connection, inventory, unknown == RUNNING, later)
    if unread:
        raise DroverError(
            f"{refused}: {_not_read(unread)}, so {unknown} not known. {_way_out(unread)}{advice}"
        )


def why_it_may_run_elsewhere(connection: Connection, inventory: Collection[str]) -> str | None:
    """Return the reason why an instance that is shut off on its host may run on another one; None
    if every host was read, as for refuse_unread().
    """
    unread = _unread_of(connection, inventory, running=True)
    return (
        f"{_not_read(unread)}, so {RUNNING} not known; run drover.compute.discover with all"
        " hosts up"
        if unread
        else None
    )


def _unread_of(
    connection: Connection, inventory: Collection[str], running: bool, later: bool = False
) -> list[str]:
    row = connection.execute(sa.select(tables.continuity)).one_or_none()
    # Without a row nothing was ever claimed: a new store, as for a claim.
    born = 0 if row is None else _since(connection, row)
    is_new = bool(born or row is None or not row.claims)
    if not (is_new or later):
        return []
    unread = _unread(connection, born, running)
    return sorted({*unread, *_unheard_of(connection, inventory)}) if is_new else unread


def _not_read(unread: Sequence[str]) -> str:
    return (
        f"{some(unread)} {'was' if len(unread) == 1 else 'were'} not read since the store was made"
        " or brought back from a backup"
    )


def _way_out(unread: Sequence[str]) -> str:
    return (
        "Run drover.compute.discover with all hosts up. Take a host that is gone for good out of"
        " the inventory, and then out of the store (ansible-playbook drover.compute.host_remove -e"
        f" drover_host={unread[0]})."
    )


class UnreadHosts(DroverError):
    """Hosts have not been read. ``born``: when this claim found a restored store, for remember();
    else None.
    """

    def __init__(self, message: str, born: float | None) -> None:
        super().__init__(message)
        self.born = born


def remember(connection: Connection, born: float) -> None:
    """Record that the store was restored, after the claim that found it was refused."""
    _write_continuity(connection, _row(connection).claims + 1, born)


def come_back(connection: Connection) -> None:
    """Record that the store was filled from a file, which lacks all later changes."""
    _write_continuity(connection, _row(connection).claims + 1, clock.now(connection))


def notice(connection: Connection, now: float) -> None:
    """Record that the store was brought back, if it was, before hosts are recorded at the same
    time. Do not call it in check mode.

    Without the record, each later look would find a store that was just brought back, and no host
    that was read since.
    """
    row = connection.execute(sa.select(tables.continuity)).one_or_none()
    if row is not None and _came_back(connection, row):
        _write_continuity(connection, row.claims + 1, now)
        # Before the commit, for the next one that records a host: with the file and without the row
        # the store counts as brought back.
        witness(connection)


def note_all_read(connection: Connection, inventory: Collection[str]) -> None:
    """Record that every host has been read since the store was made or brought back, if so: from
    then on, others are new hosts. Do not call it in check mode.

    :param inventory: the hosts of the inventory.
    """
    row = connection.execute(sa.select(tables.continuity)).one_or_none()
    born = 0 if row is None else _since(connection, row)
    if not inventory or (row is not None and row.claims and not born):
        return
    if not _unheard_of(connection, inventory) and not _unread(connection, born, running=False):
        _write_continuity(connection, _row(connection).claims + 1, 0)
        # Before the commit, as in notice().
        witness(connection)


def forgotten(connection: Connection, instances: Mapping[str, int]) -> list[str]:
    """Return warnings about changes by people in an earlier store, which this store does not have.
    Call it after notice(), and before hosts are recorded.

    :param instances: the number of instances of each host that will be recorded.
    :returns: sentences, the same for each host: once for a store that was brought back, until all
        are read; and for the first look of a new store at a host with instances.
    """
    row, table = connection.execute(sa.select(tables.continuity)).one_or_none(), tables.services
    born = 0 if row is None else row.born_at
    if row is not None and row.claims and not born:
        # This store has claims and is not restored, so it knows all instances.
        return []
    rows = bulk.among(
        connection, bulk.select(table.c.host, table.c.last_seen_up), table.c.host, instances
    )
    seen = {each.host: each.last_seen_up or 0 for each in rows}
    if born > 0:
        return [BROUGHT_BACK] if any(seen.get(host, 0) < born for host in instances) else []
    return [MADE] if any(count and not seen.get(host) for host, count in instances.items()) else []


def since(connection: Connection) -> float:
    """Return the earliest time of valid knowledge of hosts: the time when the store was brought
    back; 0 if it was not.
    """
    row = connection.execute(sa.select(tables.continuity)).one_or_none()
    return 0 if row is None else _since(connection, row)


def _since(connection: Connection, row: Row) -> float:
    return clock.now(connection) if _came_back(connection, row) else row.born_at


def knows_all(connection: Connection, after: float = 0, but: Collection[str] = ()) -> bool:
    """Return True if each host of the store was read since the store was made or brought back, and
    answered the last look or is off.

    :param after: each host was also read after this time (seconds since 1970).
    :param but: hosts that do not count.
    """
    table, off, newest = tables.services, power.off_since(connection), max(since(connection), after)
    query = sa.select(table.c.host, table.c.last_seen_up).where(table.c.last_error.is_not(None))
    silent = [row for row in connection.execute(query) if row.host not in but]
    unread = set(_unread(connection, newest)) - set(but)
    return not unread and all(
        off.get(row.host, 0) > max(row.last_seen_up or 0, newest) for row in silent
    )


def _row(connection: Connection) -> Row:
    table = tables.continuity
    row = connection.execute(sa.select(table).with_for_update()).one_or_none()
    if row is None:
        connection.execute(sa.insert(table).values(id=1, born_at=0, claims=0))
        row = connection.execute(sa.select(table)).one()
    return row


def begin(connection: Connection) -> None:
    """Begin a new store: record its server (PostgreSQL), or remove the file beside it, which is of
    another store at the same path (SQLite).
    """
    if connection.dialect.name == "postgresql":
        _row(connection)
        _write_continuity(connection, 0, 0)
    path = _witness_path(connection)
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)


def witness(connection: Connection) -> None:
    """Write the number of claims into the file beside the store, after the commit (SQLite)."""
    path = _witness_path(connection)
    if path is None:
        return
    claims = connection.execute(sa.select(tables.continuity.c.claims)).scalar() or 0
    part = f"{path}.{os.getpid()}.part"
    try:
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii"
        ) as file:
            file.write(f"{claims}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        # If the file is missing, the next claim takes the store for a restored one. If the file is
        # old, a restore is not noticed.
        with contextlib.suppress(OSError):
            os.unlink(path)


def _came_back(connection: Connection, row: Row) -> bool:
    if connection.dialect.name == "postgresql":
        query = sa.text("SELECT xmin::text::bigint AS xmin, written_by, timeline FROM continuity")
        state = connection.execute(query).one()
        if state.written_by is None:
            return False
        return bool(
            state.xmin != state.written_by % 2**32 or state.timeline != _timeline(connection)
        )
    path = _witness_path(connection)
    if path is None:
        return False
    try:
        with open(path, encoding="ascii") as file:
            return bool(int(file.read()) > row.claims)
    except (OSError, ValueError):
        return bool(row.claims > 0)


def _write_continuity(connection: Connection, claims: int, born: float) -> None:
    values: dict[str, float | None] = {"claims": claims, "born_at": born}
    if connection.dialect.name == "postgresql":
        values["written_by"] = connection.execute(sa.text("SELECT txid_current()")).scalar()
        values["timeline"] = _timeline(connection)
    connection.execute(sa.update(tables.continuity).values(values))


#: The checkpoint has the new timeline only minutes after a promotion. Until then the end of the
#: recovery has it, which is read first: that checkpoint removes it.
_TIMELINE = (
    "SELECT greatest((SELECT min_recovery_end_timeline FROM pg_control_recovery()),"
    " (SELECT timeline_id FROM pg_control_checkpoint()))"
)
_MAY_READ_TIMELINE = (
    "SELECT has_function_privilege('pg_control_recovery()', 'execute')"
    " AND has_function_privilege('pg_control_checkpoint()', 'execute')"
)


def _timeline(connection: Connection) -> int | None:
    """Read the server's timeline; None if this role may not read it."""
    allowed = connection.execute(sa.text(_MAY_READ_TIMELINE)).scalar()
    return connection.execute(sa.text(_TIMELINE)).scalar() if allowed else None


def _witness_path(connection: Connection) -> str | None:
    """Return the path of the file beside a SQLite store; None for another database, or one in
    memory.
    """
    database = connection.engine.url.database
    return f"{database}{WITNESS}" if connection.dialect.name == "sqlite" and database else None


def _unheard_of(connection: Connection, inventory: Collection[str]) -> set[str]:
    """Return the hosts that are not in the store."""
    table = tables.services
    recorded = {
        row.host
        for row in bulk.among(connection, bulk.select(table.c.host), table.c.host, inventory)
    }
    return set(inventory) - recorded


def _unread(connection: Connection, born: float, running: bool = True) -> list[str]:
    """Return the hosts that were not read since. running: True for only the hosts that may have a
    running instance.
    """
    table, off = tables.services, power.off_since(connection) if running else {}
    query = (
        sa.select(table.c.host, table.c.last_seen_up)
        .where(sa.or_(table.c.last_seen_up.is_(None), table.c.last_seen_up < born))
        .order_by(table.c.host)
    )
    # Nothing runs on a host that was switched off since. A host that was off in a backup may be on
    # by now.
    return [
        row.host
        for row in connection.execute(query)
        if row.host not in off or max(row.last_seen_up or 0, born) > off[row.host]
    ]
