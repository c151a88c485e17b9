# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The abort of the moves off a host, whichever run began them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from .._migrations import orders as migration_orders
from .._records.orders import MoveOrder
from .._records.outcomes import MoveAnswer, MoveOutcome
from .._records.statuses import MigrationStatus
from .._store.instances import instance_lookup
from .._store.runs import leases
from .host_moves import HostMoves, refuse_unknown_whereabouts
from .move_endings import outcome_of
from .ports import Ports

# Another run that holds the lease of the host has this time (seconds) to record the aborted moves.
OTHER_RUN = 60
WAIT = 2
LOOK_AGAIN = 0.5


class Abort:
    """A run that aborts moves off a host.

    It stops the moves on the hypervisor. An abort begins nothing, so it needs no lease. The run
    that holds the lease of the host writes to the store how the moves end. If no run holds the
    lease, this run takes it and writes them.

    :param host: the host that the instances leave.
    :param moves: the moves of that host.
    """

    def __init__(self, ports: Ports, host: str, moves: HostMoves) -> None:
        self._host, self._moves, self._store = host, moves, ports.store
        self._leasing, self._say, self._clock = ports.leasing, ports.say, ports.clock

    def run(self, instances: Collection[str] = (), pretend: bool = False) -> list[MoveOutcome]:
        """Abort the moves of these instances, by name or uuid; without instances, abort all moves.

        :param pretend: change nothing.
        :raises DroverError: the store has no such instance, or the place of an instance is not
            certain.
        """
        with self._store.read() as connection:
            names = {
                each["uuid"]: each["name"]
                for each in instance_lookup.find(connection, list(instances))
            }
            pending: list[MoveOrder] = migration_orders.pending(connection, self._host)
        orders = [order for order in pending if not names or order["uuid"] in names]
        unmoved = names.keys() - {order["uuid"] for order in orders}
        if unmoved:
            self._say(
                f"No move off {self._host} is under way of:"
                f" {', '.join(sorted(names[uuid] for uuid in unmoved))}. Nothing was aborted there."
            )
        if not orders and not names:
            self._say(f"No move off {self._host} is under way, so nothing was aborted there.")
        if pretend or not orders:
            return [outcome_of(order, "would be aborted", "") for order in orders]
        answers = self._moves.ask(abort=orders, wait=0)
        try:
            with self._leasing.held([self._host], "aborting migrations"):
                over = self._closed(orders)
                outcomes = self._moves.aborter().abort(
                    [order for order in orders if order["migration"] not in over]
                )
        except leases.LeaseHeld as other:
            self._say(
                f"{other.holder} {self._host} stops the moves, and that run writes down how they"
                " end."
            )
            outcomes = self._wait_for_holder(orders, answers)
        refuse_unknown_whereabouts(outcomes)
        return outcomes

    def _closed(self, orders: Iterable[MoveOrder]) -> dict[str, tuple[MigrationStatus, str | None]]:
        """Return the ends of the migrations that are closed: dict uuid -> (status, message)."""
        with self._store.read() as connection:
            return migration_orders.closed(connection, [order["migration"] for order in orders])

    def _wait_for_holder(
        self, orders: Sequence[MoveOrder], answers: Iterable[MoveAnswer]
    ) -> list[MoveOutcome]:
        """Wait until the run that holds the lease has recorded how the migrations ended."""
        deadline: float | None = None
        while True:
            over = self._closed(orders)
            unended = [order for order in orders if order["migration"] not in over]
            if not unended or (deadline is not None and self._clock.monotonic() > deadline):
                break
            # Only follow the moves. The host looks again at each aborted move that has ended, so
            # with abort it would never answer that all moves are over.
            answers = self._moves.ask(follow=unended, wait=WAIT)
            if deadline is None and all(answer["status"] != "running" for answer in answers):
                deadline = self._clock.monotonic() + OTHER_RUN
            self._clock.sleep(LOOK_AGAIN)
        outcomes = []
        for order in orders:
            if order["migration"] in over:
                status, message = over[order["migration"]]
                outcomes.append(outcome_of(order, status, message or ""))
        outcomes += self._unwritten(unended, {answer["uuid"]: answer for answer in answers})
        for each in outcomes:
            self._say(
                f"{each['name']}: {each['source']} -> {each['destination']}, {each['status']}:"
                f" {each['message']}"
            )
        return outcomes

    def _unwritten(
        self, orders: Iterable[MoveOrder], answers: dict[str, MoveAnswer]
    ) -> Iterator[MoveOutcome]:
        for order in orders:
            answer = answers.get(order["uuid"])
            status, message = (
                (answer["status"], answer["message"])
                if answer
                else ("lost", f"{self._host} does not mention it.")
            )
            yield outcome_of(
                order,
                status,
                f"{message} The run that holds the lease of {self._host} has not written it down;"
                " the next run does.",
            )
