# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: one actor per host at a time, moves and power alike (rule S4).

A lease has a holder, an age and an end, by the database's clock. It is renewed while its holder works. It is
taken over, and that is said, when its holder's process is proven to have ended; or when its time is over, unless
that process is proven to live.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import clock, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

# Longer than any call on a hypervisor that renews nothing in between, as a module over slow SSH.
SECONDS = 300


class Held(DroverError):
    """Somebody else has the lease."""


class Lost(DroverError):
    """The lease was this run's and is not any more."""


def take(connection, name, actor, purpose, seconds=SECONDS):
    """Take the lease of a name, or renew it.

    :param name: what is worked on, such as the name of a host.
    :param actor: an object with holder (text for people), process (text) and lives(process) -> True, False, or
        None where nobody knows: whether the process of a holder lives.
    :param purpose: what is done, such as drain.
    :returns: a dict: changed (False when it was renewed), taken_over (None, or a sentence that tells
        whose it was and why it was taken over).
    :raises Held: somebody else holds it.
    :raises DroverError: the clock of this controller is off.
    """
    clock.refuse_other_time(connection)
    table, now = tables.leases, clock.now(connection)
    row = _row(connection, name)
    if row is not None and row.process == actor.process:
        renew(connection, name, actor, seconds)
        return {"changed": False, "taken_over": None}
    values = {
        "holder": actor.holder,
        "process": actor.process,
        "purpose": purpose,
        "acquired_at": now,
        "renewed_at": now,
        "expires_at": now + seconds,
    }
    if row is None:
        connection.execute(sa.insert(table).values(name=name, **values))
        return {"changed": True, "taken_over": None}
    over = _over(row, actor, now)
    if over is None:
        raise Held(f"{_holder_sentence(row, now)} Nothing was done. {_way_out(row, now)}")
    connection.execute(sa.update(table).where(table.c.name == name).values(values))
    return {"changed": True, "taken_over": f"{_holder_sentence(row, now)} {over}, so the lease was taken over."}


def remove_over(connection, actor):
    """Remove the leases that anybody may take over: those of runs that were killed.

    :param actor: as of take().
    """
    table, now = tables.leases, clock.now(connection)
    for row in connection.execute(sa.select(table)).all():
        if _over(row, actor, now) is not None:
            # Not one that was renewed or taken meanwhile.
            connection.execute(
                sa.delete(table).where(table.c.name == row.name, table.c.process == row.process, table.c.expires_at == row.expires_at)
            )


def _over(row, actor, now):
    """Why somebody else may have a lease; None while it is its holder's."""
    lives = actor.lives(row.process)
    if lives is False:
        return "Its process is gone"
    if row.expires_at <= now and lives is None:
        return "Its time is over"
    return None


def _way_out(row, now):
    by_hand = "with the module drover.compute.lease, state absent, force true"
    if row.expires_at <= now:
        return f"Its time is over, but its process lives on this machine: end that, or take its lease away {by_hand}."
    left = int(row.expires_at - now) + 1
    return f"Wait for its end; if that run is dead, its lease ends in {left} s, or at once {by_hand}."


def renew(connection, name, actor, seconds=SECONDS):
    """Renew a lease before the next act; its end is never brought forward.

    :raises Lost: it is somebody else's by now; this run must stop.
    """
    table, now = tables.leases, clock.now(connection)
    end = now + seconds
    done = connection.execute(
        sa.update(table)
        .where(table.c.name == name, table.c.process == actor.process)
        .values(renewed_at=now, expires_at=sa.case((table.c.expires_at > end, table.c.expires_at), else_=end))
    )
    if done.rowcount == 0:
        row = _row(connection, name)
        whose = _holder_sentence(row, now) if row is not None else f"The lease of {name} was taken away."
        raise Lost(f"{whose} This run had the lease and lost it, so it stops. What has begun goes on by itself.")


def renew_all(connection, actor):
    """Renew whatever the actor holds: a run that works on several hosts works on one after the other."""
    table, now = tables.leases, clock.now(connection)
    end = now + SECONDS
    connection.execute(
        sa.update(table).where(table.c.process == actor.process, table.c.expires_at < end).values(renewed_at=now, expires_at=end)
    )


def held(connection, name, actor):
    """Whether the actor holds the lease of a name."""
    row = _row(connection, name)
    return row is not None and row.process == actor.process


def begun(connection, name):
    """Since when the lease of a name is held (seconds since 1970), None when nobody has it."""
    row = _row(connection, name)
    return None if row is None else row.acquired_at


def release(connection, name, actor, force=False):
    """Give a lease back; somebody else's only with force.

    :returns: True when there was one and it is gone.
    :raises DroverError: it is somebody else's.
    """
    table = tables.leases
    row = _row(connection, name)
    if row is None:
        return False
    if row.process != actor.process and not force:
        raise DroverError(
            f"The lease of {name} is held by {row.holder} ({row.purpose}). It is not taken away without force: "
            "make sure that that run is dead first."
        )
    connection.execute(sa.delete(table).where(table.c.name == name))
    return True


def read(connection):
    """All leases as a list of dicts sorted by name: name, holder, purpose, acquired_at, renewed_at, expires_at."""
    table = tables.leases
    columns = [column for column in table.c if column.name != "process"]
    return [dict(row._mapping) for row in connection.execute(sa.select(*columns).order_by(table.c.name))]


def _row(connection, name):
    table = tables.leases
    return connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()


def _holder_sentence(row, now):
    return (
        f"{row.name} is being worked on by {row.holder} ({row.purpose}), since {int(now - row.acquired_at)} s, "
        f"last heard of {int(now - row.renewed_at)} s ago."
    )
