# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves off one host: opened in the store, started, followed and closed.

The store has a move before the hypervisor gets it. It is written again when the hypervisor has
shown the place of the instance. A killed run leaves open migrations, and ``settle()`` of the next
run finds out their ends from the hypervisor.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._common.errors import DroverError, counted
from .._migrations import claims as migration_claims
from .._migrations import limits as migration_limits
from .._migrations import orders as migration_orders
from .._records.orders import MigrationLimits, MoveOrder
from .._records.outcomes import MoveAnswer, MoveOutcome
from .._records.plans import Move
from .._store.engine import Connection, Store
from .._store.instances import migrations_open
from .._store.runs import leases
from .move_endings import BEFORE, MoveEndings
from .ports import Clock
from .progress import Progress
from .restarting import ACTIVE, Restarts
from .under_way import MOVES, UnderWay

# Seconds that one call on the hypervisor waits.
WAIT = 10
# Seconds that it waits at most after a move has ended or begun, so that the operator sees it within
# 4 s. A longer wait needs fewer calls, and calls take processor time from moving instances. With
# 1.3 s, moves of 1.4 s on busy processors took a quarter longer than with 4 s.
NEWS = 3
# AHEAD: moves that wait at the hypervisor for each move that may run. ENOUGH: with this number of
# open moves for each move that may run, or fewer, it gets more. A call takes as long as a small
# move and takes processor time from moves, so fewer calls are better.
AHEAD = 3
ENOUGH = 2
# The number of answers without a move after which the run gives up that move.
SILENT = 5
# Seconds between two renewals of the lease while nothing new is begun.
RENEW = 30
# Seconds to wait while other runs use all that the limits allow; between two looks; between two
# messages about it.
PATIENCE = 3600
LOOK_AGAIN = 2
SAY_AGAIN = 60

#: (start, follow, wait, until) -> the answers of the module _domain_migration at the source.
AskHypervisor = Callable[[list[MoveOrder], list[MoveOrder], int, int], list[MoveAnswer]]


class Mover:
    """The mover of instances off one host.

    :param hypervisor: the call of the hypervisor. A second start of a running or finished move is
        harmless. ``limits.per_source`` of the started moves run at a time and the others wait. It
        answers after ``wait`` seconds, or when at most ``until`` moves are under way, or NEWS
        seconds after a move has ended or begun.
    :param show: show a line to the operator.
    :param limits: the most migrations at a time, over all runs.
    :param keep: renew the lease of the host, or raise leases.LeaseLost. After that the run begins
        nothing, and leaves its open moves to the run that has the lease.
    :param power: for instances that are shut down for a cold move.
    :param patience: seconds to wait for other runs while nothing can be begun.
    :param since: an instance with a move aborted after this time (seconds since 1970) is not moved
        again; None for never.
    :param progress: the progress of the run; by default the progress of these moves alone.
    :param under_way: the record of work that continues after the end of the run.
    """

    def __init__(
        self,
        store: Store,
        hypervisor: AskHypervisor,
        show: Callable[[str], None],
        limits: MigrationLimits,
        keep: Callable[[Connection], object],
        power: Restarts,
        patience: float = PATIENCE,
        since: float | None = None,
        clock: Clock = time,
        progress: Progress | None = None,
        under_way: UnderWay | None = None,
    ) -> None:
        self.store, self.hypervisor, self.show, self.limits, self.keep = (
            store,
            hypervisor,
            show,
            limits,
            keep,
        )
        self.power, self.patience = power, patience
        self._since, self._clock, self._under_way = since, clock, under_way or UnderWay()
        self._progress = progress or Progress(show, clock)
        self._endings = MoveEndings(store, power, clock, self._progress)
        self._kept = clock.monotonic()
        # The moves under way, by the uuid of the instance, and the number of answers in a row
        # without them.
        self._running: dict[str, MoveOrder] = {}
        self._silent: dict[str, int] = {}
        # Uuids of instances; their moves wait at the hypervisor for their turn.
        self._ahead: set[str] = set()
        # The limit that keeps a move from its begin, by the uuid of the instance.
        self._blocked: dict[str, migration_limits.LimitReached] = {}
        self._waiting_since: float | None = None
        self._said_busy: float | None = None

    def settle(self, host: str, begin: bool = True) -> list[MoveOutcome]:
        """Finish or undo the migrations that an earlier run left open.

        Each is started again with its room: the hypervisor finds out if it is under way, done, or
        was never begun. It is not begun if its destination is disabled or down by now.

        :param begin: begin a migration that was never begun; without it, undo such a migration.
        """
        with self.store.read() as connection:
            pending: list[MoveOrder] = migration_orders.pending(connection, host)
        unended: list[MoveOrder] = [
            {**order, "begin": begin and order["begin"]} for order in pending
        ]
        if unended:
            self._renew()
            names = ", ".join(order["name"] for order in unended)
            # Without begin, migrations that never began are not named, because nothing happens to
            # them.
            after = f": {names}" if begin else " them"
            self.show(
                f"{host}: an earlier run left {counted(len(unended), 'migration')} open, looking"
                f" after{after}"
            )
        self._progress.expect(dict.fromkeys(order["uuid"] for order in unended))
        self._endings.hide_unbegun = not begin
        with self._announce_moves():
            self._follow_moves(unended)
            outcomes = self._follow_all()
        if self._endings.unbegun:
            self.show(
                f"{host}: {len(self._endings.unbegun)} of them had not begun and are left out;"
                " their instances stay here"
            )
        return outcomes

    def abort(self, orders: Sequence[MoveOrder]) -> list[MoveOutcome]:
        """Follow aborted migrations to their end. The hypervisor aborts every move that it follows.

        :returns: the outcomes. A move with a late abort is completed.
        """
        self._progress.expect(dict.fromkeys(order["uuid"] for order in orders))
        self._running.update({order["uuid"]: order for order in orders})
        return self._follow_all()

    def _follow_all(self) -> list[MoveOutcome]:
        while self._running:
            self._follow_moves([])
        return self._endings.outcomes

    def run(self, wanted: Iterable[Move]) -> list[MoveOutcome]:
        """Make moves in their order, as many at a time as the limits allow.

        :returns: the outcomes, with the outcomes of settle().
        """
        queue = list(wanted)
        self._progress.expect({move["uuid"]: move.get("seconds") for move in queue})
        with self._announce_moves():
            while queue or self._running:
                ahead = self._ahead_allowed()
                orders = self._record_moves(queue, ahead)
                if orders or self._running:
                    self._waiting_since = None
                    self._follow_moves(orders, self._enough(ahead) if queue else 0)
                elif queue:
                    self._wait(queue)
        return self._endings.outcomes

    def _announce_moves(self) -> contextlib.AbstractContextManager[None]:
        return self._under_way.known(
            MOVES,
            lambda: [order["name"] for order in list(self._running.values())],
            after_error=True,
        )

    def _ahead_allowed(self) -> int:
        """Return the number of moves that may wait at the hypervisor, to begin without delay.

        It is 0 with other limits: a waiting move would use up moves that other runs may begin.
        """
        most = self.limits.per_source
        if (
            most is None
            or self.limits.per_destination is not None
            or self.limits.overall is not None
        ):
            return 0
        return AHEAD * most

    def _enough(self, ahead: int) -> int | None:
        """Return the number of open moves that keep the hypervisor busy.

        It is None if no move waits there, because then each end lets another move begin.
        """
        return (
            ENOUGH * self.limits.per_source
            if ahead and self.limits.per_source is not None
            else None
        )

    def _record_moves(self, queue: list[Move], ahead: int) -> list[MoveOrder]:
        """Record the next moves as far as the limits allow; remove them from the queue."""
        orders: list[MoveOrder] = []
        self._blocked = {}
        if not queue:
            return orders
        with self.store.read() as connection:
            under_way = migrations_open.open_moves(connection)
            budgets = migrations_open.budgets(connection, [move["uuid"] for move in queue])
            states = migrations_open.domain_states(
                connection, [move["uuid"] for move in queue if not move["live"]]
            )
        given_up, silent_hosts = self._endings.given_up, self._endings.silent_hosts
        for move in list(queue):
            silent = silent_hosts.intersection((move["from_host"], move["host"]))
            if silent:
                queue.remove(move)
                # Give no provider: when the host answers, it is again a good destination.
                self._endings.refuse(
                    move,
                    f"It was not begun, as libvirt on {' and '.join(sorted(silent))} does not"
                    " answer.",
                )
                continue
            stops = states.get(move["uuid"]) in ACTIVE
            if stops:
                # The instance is shut down for its move and must not wait while it is off, so
                # no other move may go ahead.
                ahead = 0
            try:
                # This check is cheap. The check that counts is in the transaction that records the
                # move.
                migration_limits.refuse(
                    self.limits, move, under_way, budgets.get(move["uuid"]), given_up, ahead
                )
                order, under_way = self._record_move(move, stops, ahead)
            except migration_limits.LimitReached as busy:
                self._blocked[move["uuid"]] = busy
                continue
            except leases.LeaseLost:
                raise
            except migration_orders.WasAborted as problem:
                self._endings.refuse(move, str(problem), "cancelled", move.get("provider"))
            except DroverError as problem:
                self._endings.refuse(move, str(problem), provider=move.get("provider"))
            else:
                # Only after the transaction, because a commit may fail too.
                orders.append(order)
                self._endings.opened.add(order["migration"])
            queue.remove(move)
        return orders

    def _record_move(self, move: Move, stops: bool, ahead: int) -> tuple[MoveOrder, Any]:
        """Record a move and claim its destination.

        :param stops: True if the instance is shut down for the move, by the records of the store.
        :returns: its order, and all moves that are open then.
        """
        notes: dict[str, object] = {"for_hosts": move["for_hosts"]} if move.get("for_hosts") else {}
        if stops:
            with self.store.read() as connection:
                unopened = migration_orders.unopened(connection, move)
            # A person may have shut it down since. Then it must stay off.
            if self.power.runs(unopened):
                notes["restart"] = True
        kind, given_up = "live-migration" if move["live"] else "migration", self._endings.given_up
        # One transaction: two runs that count at the same moment would both find room for one more.
        with self.store.write() as connection:
            self._renew_leases(connection)
            if self._since is not None:
                migration_orders.refuse_aborted(connection, move, self._since)
            opened = migration_claims.begin_within(
                connection, self.limits, given_up, move, kind, self._clock.time(), notes, ahead
            )
            return migration_orders.order(connection, opened["uuid"]), migrations_open.open_moves(
                connection
            )

    def _wait(self, queue: list[Move]) -> None:
        """Wait while other runs use all that the limits allow.

        Give up moves that can never begin or that wait too long.
        """
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        over = now - self._waiting_since > self.patience
        for move in list(queue):
            busy = self._blocked[move["uuid"]]
            hopeless = busy.blockers <= self._endings.given_up
            if not hopeless and not over:
                continue
            queue.remove(move)
            cause = (
                "Nobody knows what became of them"
                if hopeless
                else f"That has not changed in {self.patience} s"
            )
            message = (
                f"{busy} {cause}, so it was not begun. If their runs are dead, run the drains of"
                " their sources again."
            )
            self._endings.refuse(move, message, provider=move.get("provider"))
        if not queue:
            return
        if self._said_busy is None or now - self._said_busy >= SAY_AGAIN:
            self._said_busy = now
            self.show(str(self._blocked[queue[0]["uuid"]]))
        self._renew_in_time()
        self._clock.sleep(min(LOOK_AGAIN, max(self.patience, 0)))

    def _follow_moves(self, orders: list[MoveOrder], enough: int | None = 0) -> None:
        """Start orders, and follow all open moves for a while.

        :param enough: the number of open moves that keep the hypervisor busy; None if each end lets
            another move begin.
        """
        most, moving = self.limits.per_source, len(self._running.keys() - self._ahead)
        for order in orders:
            if not order["begin"] or (most is not None and moving >= most):
                # An earlier run may or may not have begun this one.
                self._ahead.add(order["uuid"])
                continue
            moving += 1
            self._progress.started(order)
        orders = self._shut_down(orders)
        self._endings.note_nowhere([order for order in orders if order["nowhere"]], False)
        followed = list(self._running.values())
        self._running.update({order["uuid"]: order for order in orders})
        if not self._running:
            return
        self._renew_in_time()
        answers = self.hypervisor(
            self._marked(orders), self._marked(followed), WAIT, self._until(enough)
        )
        self._give_up({answer["uuid"] for answer in answers})
        # Take ended moves first, because their end let another move begin.
        for answer in sorted(answers, key=lambda answer: answer["status"] == "running"):
            found = self._running.get(answer["uuid"])
            if found is not None:
                self._take_answer(found, answer)

    def _take_answer(self, order: MoveOrder, answer: MoveAnswer) -> None:
        """Show the progress of a running move, or record the end of a move."""
        uuid = order["uuid"]
        if uuid in self._ahead and answer.get("phase") not in BEFORE:
            self._ahead.remove(uuid)
            self._progress.started(order)
        if answer["status"] != "running":
            del self._running[uuid]
            self._endings.record(order, answer)
        elif uuid not in self._ahead:
            self._progress.goes_on(order, answer, len(self._running))

    def _until(self, enough: int | None) -> int:
        """Return the number of open moves at which the hypervisor answers.

        At least one must have ended.
        """
        fewer = len(self._running) - 1
        # An instance that was shut down for its move stays off until the run starts it again.
        if enough is None or any(order["restart"] for order in self._running.values()):
            return fewer
        return min(enough, fewer)

    def _marked(self, orders: Iterable[MoveOrder]) -> list[MoveOrder]:
        return [{**order, "waiting": order["uuid"] in self._ahead} for order in orders]

    def _shut_down(self, orders: Iterable[MoveOrder]) -> list[MoveOrder]:
        """Shut down the running instances that move cold.

        :returns: the orders without the instances that did not shut down; these run on.
        """
        ready = []
        for order in orders:
            problem = (
                self.power.shut_down(order, self._renew)
                if order["restart"] and order["begin"]
                else None
            )
            if problem is None:
                ready.append(order)
            else:
                answer: MoveAnswer = {
                    "uuid": order["uuid"],
                    "status": problem.status,
                    "message": str(problem),
                    "source_state": problem.state,
                    "ignores_shutdown": problem.ignored,
                }
                self._endings.record(order, answer)
        return ready

    def _give_up(self, mentioned: set[str]) -> None:
        """End moves that the hypervisor no longer mentions, so that the run does not wait for
        ever.
        """
        for uuid, order in list(self._running.items()):
            self._silent[uuid] = 0 if uuid in mentioned else self._silent.get(uuid, 0) + 1
            if self._silent[uuid] >= SILENT:
                del self._running[uuid]
                self._endings.give_up(
                    order,
                    f"{order['source']} has said nothing of it {SILENT} times, though it answers."
                    " Its migration is still open in the store; look at both hosts, then run this"
                    " again, which looks for it anew.",
                )

    def _renew_in_time(self) -> None:
        if self._clock.monotonic() - self._kept > RENEW:
            self._renew()

    def _renew(self) -> None:
        with self.store.write() as connection:
            self._renew_leases(connection)

    def _renew_leases(self, connection: Connection) -> None:
        self.keep(connection)
        self._kept = self._clock.monotonic()
