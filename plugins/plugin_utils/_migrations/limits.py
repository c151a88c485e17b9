# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of migrations at the same time, over all runs: from a host, to a host, in all, of a
server group (rules S7, S11).

The migrations that are open in the store count; the hypervisor lets only some of them leave a host
at a time (module_utils._migration.turn). A migration that a killed run left open counts until it is
settled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._common.errors import DroverError, counted, some
from .._records.orders import MigrationLimits, OpenMove
from .._records.plans import Move
from .._store.instances.migrations_open import EVACUATION

#: The most migrations that a sentence names.
NAMED = 5


class LimitReached(DroverError):
    """A limit is reached: not a failure, but a reason to wait.

    ``blockers``: uuids of the migrations that it waits for.
    """

    def __init__(self, message: str, blockers: set[str]) -> None:
        super().__init__(message, cause="busy")
        self.blockers = blockers


def of_options(options: Mapping[str, Any]) -> MigrationLimits:
    """Read the limits of options: max_migrations, max_migrations_per_destination,
    max_migrations_overall.

    :raises DroverError: a limit is below 1.
    """
    names = ("max_migrations", "max_migrations_per_destination", "max_migrations_overall")
    for name in names:
        if options.get(name) is not None and options[name] < 1:
            raise DroverError(f"{name} must be at least 1, or nothing would ever move.")
    return MigrationLimits(*[options.get(name) for name in names])


def refuse(
    limits: MigrationLimits,
    move: Move,
    open_moves: Sequence[OpenMove],
    budget: tuple[str, int] | None = None,
    given_up: Collection[str] = (),
    waiting: int = 0,
) -> None:
    """Raise Busy if a move may not begin now.

    :param budget: the name and max_moving of the instance's server group.
    :param given_up: uuids of migrations that this run no longer waits for. They count for the
        budget only: an instance that may be on no host does not serve.
    :param waiting: the number of further migrations that may be open from its host, because the
        hypervisor lets them wait for their turn.
    """
    others = [row for row in open_moves if row.instance_uuid != move["uuid"]]
    if len(others) < len(open_moves):
        # The move is open already, so nothing new begins.
        return
    counted = [row for row in others if row.type != EVACUATION and row.uuid not in given_up]
    of_source = [row for row in counted if row.source == move["from_host"]]
    _refuse_move(
        move,
        of_source,
        None if limits.per_source is None else limits.per_source + waiting,
        "from " + move["from_host"],
    )
    _refuse_move(
        move,
        [row for row in counted if row.destination == move["host"]],
        limits.per_destination,
        "to " + move["host"],
    )
    _refuse_move(move, counted, limits.overall, "in all")
    if budget:
        name, most = budget
        _refuse_move(
            move, [row for row in others if row.group_name == name], most, f"of server group {name}"
        )


def _refuse_move(move: Move, rows: Sequence[OpenMove], most: int | None, what: str) -> None:
    if most is None or len(rows) < most:
        return
    named = some(
        [f"{row.instance_name} from {row.source} to {row.destination}" for row in rows], NAMED
    )
    raise LimitReached(
        f"{move['name']} waits: {counted(len(rows), 'migration')} {what}"
        f" {'is' if len(rows) == 1 else 'are'} open, {most} at a time are allowed: {named}.",
        {row.uuid for row in rows},
    )
