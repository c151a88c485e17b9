# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: one actor per host at a time, for moves and power alike (rule S4).

A lease has a holder, an age and an end, by the database's clock. Its holder renews it during the
work. Another actor takes it over, with a message, after proof that the holder's process has ended;
or after its end, unless there is proof that this process lives.
"""

from __future__ import annotations

from typing import Any, Protocol, TypedDict

from ..._common.errors import DroverError, RunOver
from ..database import clock
from ..database.sql import Connection, Row, sa
from ..schema import tables
from . import actions

# Longer than any call of a hypervisor, because nothing renews a lease during one.
SECONDS = 300


class Actor(Protocol):
    """A process that takes leases."""

    #: The name that people see.
    @property
    def holder(self) -> str: ...
    @property
    def process(self) -> str: ...

    def lives(self, process: str) -> bool | None:
        """Return True if the process of a holder lives, False if it has ended; None if that is
        unknown.
        """


class LeaseOutcome(TypedDict):
    """The outcome of take()."""

    #: False if the lease was renewed.
    changed: bool
    #: A sentence about the former holder of the lease and the reason why it was taken over; None if
    #: it was not taken over.
    taken_over: str | None


class LeaseHeld(DroverError):
    """Another actor has the lease. ``holder``: a sentence about the holder."""

    def __init__(self, holder: str, way_out: str) -> None:
        super().__init__(f"{holder} Nothing was done. {way_out}")
        self.holder = holder


class LeaseLost(RunOver):
    """This run has lost the lease."""


def take(
    connection: Connection, name: str, actor: Actor, purpose: str, seconds: float = SECONDS
) -> LeaseOutcome:
    """Take the lease of a name, or renew it.

    :param name: the name of the host, or of another object of the work.
    :param purpose: such as drain.
    :raises LeaseHeld: another actor has the lease.
    :raises DroverError: the clock of this controller is wrong.
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
        actions.note(connection, "run", purpose, host=name)
        return {"changed": True, "taken_over": None}
    over = _over(row, actor, now)
    if over is None:
        raise LeaseHeld(_holder_sentence(row, now), _way_out(row, now))
    connection.execute(sa.update(table).where(table.c.name == name).values(values))
    actions.note(
        connection, "run", f"{purpose} (the lease of {row.holder} was taken over)", host=name
    )
    return {
        "changed": True,
        "taken_over": f"{_holder_sentence(row, now)} {over}, so the lease was taken over.",
    }


def remove_over(connection: Connection, actor: Actor) -> None:
    """Remove the leases that any actor may take over: the leases of killed runs."""
    table, now = tables.leases, clock.now(connection)
    for row in connection.execute(sa.select(table)).all():
        if _over(row, actor, now) is not None:
            # The conditions keep a lease that was renewed or taken since.
            connection.execute(
                sa.delete(table).where(
                    table.c.name == row.name,
                    table.c.process == row.process,
                    table.c.expires_at == row.expires_at,
                )
            )


def _over(row: Row, actor: Actor, now: float) -> str | None:
    """Return the reason why another actor may take over a lease; None if it may not."""
    lives = actor.lives(row.process)
    if lives is False:
        return "Its process is gone"
    if row.expires_at <= now and lives is None:
        return "Its time is over"
    return None


def _way_out(row: Row, now: float) -> str:
    by_hand = "with the module drover.compute.lease, state absent, force true"
    if row.expires_at <= now:
        return (
            "Its time is over, but its process lives on this machine: end that, or take its lease"
            f" away {by_hand}."
        )
    left = int(row.expires_at - now) + 1
    return (
        f"Wait for its end; if that run is dead, its lease ends in {left} s, or at once {by_hand}."
    )


def renew(connection: Connection, name: str, actor: Actor, seconds: float = SECONDS) -> None:
    """Renew a lease before the next step, never to an earlier end.

    :raises LeaseLost: another actor has it; this run must stop.
    """
    table, now = tables.leases, clock.now(connection)
    end = now + seconds
    done = connection.execute(
        sa.update(table)
        .where(table.c.name == name, table.c.process == actor.process)
        .values(
            renewed_at=now,
            expires_at=sa.case((table.c.expires_at > end, table.c.expires_at), else_=end),
        )
    )
    if done.rowcount == 0:
        row = _row(connection, name)
        holder = (
            _holder_sentence(row, now)
            if row is not None
            else f"The lease of {name} was taken away."
        )
        raise LeaseLost(
            f"{holder} This run had the lease and lost it, so it stops. What has begun goes on by"
            " itself."
        )


def renew_all(connection: Connection, actor: Actor) -> None:
    """Renew all leases of the actor, which may work on several hosts, one after the other."""
    table, now = tables.leases, clock.now(connection)
    end = now + SECONDS
    connection.execute(
        sa.update(table)
        .where(table.c.process == actor.process, table.c.expires_at < end)
        .values(renewed_at=now, expires_at=end)
    )


def held(connection: Connection, name: str, actor: Actor) -> bool:
    """Return True if the actor holds the lease of a name."""
    row = _row(connection, name)
    return row is not None and row.process == actor.process


def begun(connection: Connection, name: str) -> float | None:
    """Return the time at which the lease of a name was taken (seconds since 1970); None if it is
    free.
    """
    row = _row(connection, name)
    return None if row is None else row.acquired_at


def release(connection: Connection, name: str, actor: Actor, force: bool = False) -> bool:
    """Release a lease; one of another actor only with force.

    :returns: True if there was one.
    :raises DroverError: another actor has the lease.
    """
    table = tables.leases
    row = _row(connection, name)
    if row is None:
        return False
    if row.process != actor.process and not force:
        raise DroverError(
            f"The lease of {name} is held by {row.holder} ({row.purpose}). It is not taken away"
            " without force: make sure that that run is dead first."
        )
    connection.execute(sa.delete(table).where(table.c.name == name))
    return True


def read(connection: Connection) -> list[dict[str, Any]]:
    """Read all leases, sorted by name: the columns of the table but process."""
    table = tables.leases
    columns = [column for column in table.c if column.name != "process"]
    return [
        dict(row._mapping) for row in connection.execute(sa.select(*columns).order_by(table.c.name))
    ]


def _row(connection: Connection, name: str) -> Row | None:
    table = tables.leases
    return connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()


def _holder_sentence(row: Row, now: float) -> str:
    return (
        f"{row.name} is being worked on by {row.holder} ({row.purpose}), since"
        f" {max(0, int(now - row.acquired_at))} s, last heard of"
        f" {max(0, int(now - row.renewed_at))} s ago."
    )
