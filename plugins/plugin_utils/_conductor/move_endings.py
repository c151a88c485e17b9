# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ends of moves, decided by both hosts, and their record in the store.

Room is given back only with a proof of the place of the instance. Without a proof the migration
stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._common import certainty
from .._migrations import claims as migration_claims
from .._records.orders import MoveEnds, MoveOrder
from .._records.outcomes import Copies, MoveAnswer, MoveOutcome
from .._records.plans import Move
from .._records.statuses import MoveResult, MoveStatus
from .._store.engine import Store
from .ports import Clock
from .progress import Progress
from .restarting import ACTIVE, Restarts

#: The ends of a migration that leave the instance at its source.
UNDONE = ("failed", "cancelled")
#: The ends with a certain host of the instance.
CERTAIN = ("completed", *UNDONE)
#: The phases of a move before its turn; a move that failed in such a phase never began.
BEFORE = ("checking", "waiting")

#: Limits of a plausible move: an exbibyte, and 100 days.
MOST_MIB, MOST_SECONDS = 1 << 40, 100 * 86400.0


class MoveEndings:
    """The moves off one host that ended in one run."""

    def __init__(self, store: Store, power: Restarts, clock: Clock, progress: Progress) -> None:
        self._store, self._power, self._clock, self._progress = store, power, clock, progress
        self.outcomes: list[MoveOutcome] = []
        #: Uuids of the migrations that this run has opened.
        self.opened: set[str] = set()
        #: Uuids of the migrations that stay open, because the place of the instance is not certain.
        self.given_up: set[str] = set()
        #: Hosts with a libvirt that did not answer in this run.
        self.silent_hosts: set[str] = set()
        #: True if moves that never began are only counted, not shown.
        self.hide_unbegun = False
        #: The moves that were only counted, by the uuids of their instances.
        self.unbegun: set[str] = set()

    def record(self, order: MoveOrder, answer: MoveAnswer) -> None:
        """Write the end of a move to the store, as far as it is proven."""
        status, message = answer["status"], answer.get("message") or ""
        self._note_silent(order, answer)
        if status == "lost" and order["destination"] in self.silent_hosts:
            message += (
                f" If {order['destination']} will not come back, make sure that it is off and"
                " evacuate it."
            )
        if order["restart"] and status in CERTAIN:
            status, message, answer = self._restarted(order, status, message, answer)
        proof = None
        if status == "completed":
            proof = certainty.has_arrived(order, answer)
        elif status in UNDONE:
            proof = certainty.has_stayed(order, answer, order["migration"] in self.opened)
        if proof is not None:
            with self._store.write(together=True) as connection:
                if status == "completed":
                    now, uuid = self._clock.time(), order["migration"]
                    migration_claims.finish(
                        connection,
                        uuid,
                        proof,
                        answer["destination_state"],
                        now,
                        *_measured(answer),
                    )
                else:
                    migration_claims.undo(
                        connection, order["migration"], proof, message, self._clock.time(), status
                    )
        else:
            if status in CERTAIN:
                status, message = "lost", f"{message} {_whereabouts(order, answer)}".strip()
            self.given_up.add(order["migration"])
            if certainty.is_nowhere(answer):
                self.note_nowhere([order], True)
        never_began = status in UNDONE and answer.get("phase") in BEFORE and not order["restart"]
        self._end_move(order, status, message, answer, hidden=self.hide_unbegun and never_began)

    def give_up(self, order: MoveOrder, message: str) -> None:
        """End a move that its source no longer mentions; its migration stays open."""
        self.given_up.add(order["migration"])
        self._end_move(order, "lost", message)

    def refuse(
        self, move: Move, message: str, status: MoveStatus = "failed", provider: str | None = None
    ) -> None:
        """End a move that was not begun.

        :param provider: the provider of the destination; None if a plan may choose it again.
        """
        ends: MoveEnds = {
            "uuid": move["uuid"],
            "name": move["name"],
            "source": move["from_host"],
            "destination": move["host"],
            "provider": provider,
        }
        self._end_move(ends, status, message)

    def note_nowhere(self, orders: Sequence[MoveOrder], nowhere: bool) -> None:
        """Record if neither end of the moves has the instance.

        Then a discovery that finds it ends them.
        """
        if orders:
            with self._store.write() as connection:
                for order in orders:
                    migration_claims.note_nowhere(
                        connection, order["migration"], self._clock.time(), nowhere
                    )

    def _note_silent(self, order: MoveOrder, answer: MoveAnswer) -> None:
        """Note a host that did not answer, so that the run begins nothing more with it."""
        if answer["status"] not in ("failed", "lost") or not answer.get("phase"):
            return
        if answer.get("source_state") is None:
            self.silent_hosts.add(order["source"])
        elif answer.get("destination_state") is None:
            self.silent_hosts.add(order["destination"])

    def _restarted(
        self, order: MoveOrder, status: MoveStatus, message: str, answer: MoveAnswer
    ) -> tuple[MoveStatus, str, MoveAnswer]:
        """Start an instance that was shut down for its move again, at its present place.

        If the start fails, the migration stays open, and the next run tries again.

        :returns: the status, the message and the answer after the start.
        """
        has_arrived = status == "completed"
        if not has_arrived and answer.get("source_state") in (None, "absent", *ACTIVE):
            return status, message, answer
        problem = self._power.start(order, has_arrived)
        if problem is not None:
            where = order["destination"] if has_arrived else order["source"]
            return (
                "conflict",
                f"{message} It was shut down for the move and does not start on {where}: {problem}".strip(),
                answer,
            )
        running: MoveAnswer = (
            {**answer, "destination_state": "running"}
            if has_arrived
            else {**answer, "source_state": "running"}
        )
        return status, message, running

    def _end_move(
        self,
        ends: MoveEnds,
        status: MoveStatus,
        message: str,
        answer: MoveAnswer | None = None,
        hidden: bool = False,
    ) -> None:
        outcome = outcome_of(ends, status, message, answer)
        self.outcomes.append(outcome)
        if hidden:
            self.unbegun.add(outcome["uuid"])
            self._progress.leave_out([outcome["uuid"]])
            return
        self._progress.ended(outcome, answer.get("destination_state") if answer else None)


def outcome_of(
    ends: MoveEnds, status: MoveResult, message: str, answer: MoveAnswer | None = None
) -> MoveOutcome:
    """Return the outcome of a move.

    :param answer: the last answer of its source; None without an answer.
    """
    return {
        "uuid": ends["uuid"],
        "name": ends["name"],
        "source": ends["source"],
        "destination": ends["destination"],
        "provider": ends["provider"],
        "status": status,
        "message": message,
        "storage": answer.get("storage") if answer else None,
        "elapsed_s": answer.get("elapsed_s") if answer else None,
        "ignores_shutdown": bool(answer and answer.get("ignores_shutdown")),
    }


def _measured(answer: MoveAnswer) -> tuple[Copies | None, float | None]:
    """Return the copied amounts and the seconds of a completed move.

    Return None for both if not plausible.
    """
    copies: Any = answer.get("copies")
    amounts: list[Any] = (
        [copies.get(key) for key in ("memory_mib", "disk_mib")]
        if isinstance(copies, Mapping)
        else [None]
    )
    seconds: Any = answer.get("elapsed_s")
    if not all(_is_number(each, int) and 0 <= each < MOST_MIB for each in amounts):
        return None, None
    if not _is_number(seconds, int, float) or not 0 < seconds < MOST_SECONDS:
        return None, None
    return {"memory_mib": amounts[0], "disk_mib": amounts[1]}, float(seconds)


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _whereabouts(order: MoveOrder, answer: MoveAnswer) -> str:
    """Return a sentence on the uncertain place of an instance after its move."""
    state, source, destination = answer.get("source_state"), order["source"], order["destination"]
    if certainty.is_nowhere(answer):
        return (
            f"Neither {source} nor {destination} has it, so somebody moved or removed it. Run"
            " drover.compute.discover, which finds it if another host has it."
        )
    if answer["status"] == "completed":
        return (
            f"It was not seen at {destination} and gone from {source}, so nothing is given back:"
            " look at both hosts."
        )
    if state in (None, "absent"):
        return f"It was not seen at {source}."
    return (
        f"It is {state} at {source}, and may have arrived at {destination}, which did not answer:"
        f" bring {destination} back, or evacuate it."
    )
