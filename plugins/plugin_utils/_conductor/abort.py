# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Abort the moves off a host, of any run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves, refuse_unknown_whereabouts
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.move_endings import outcome_of
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import orders as migration_orders
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MoveOrder
from ansible_collections.drover.compute.plugins.plugin_utils._records.outcomes import MoveAnswer, MoveOutcome
from ansible_collections.drover.compute.plugins.plugin_utils._store import instance_lookup, leases

# How long (seconds) another run, which holds the lease of the host, gets to write down what was aborted.
OTHER_RUN = 60
WAIT = 2
LOOK_AGAIN = 0.5


class Abort:
    """One run that aborts moves off a host.

    It stops the moves on the hypervisor. That begins nothing, so it needs no lease. The run that holds the lease of the host
    writes to the store how they end. If no run holds it, this one does.

    :param host: the host that they leave.
    :param moves: of that host.
    """

    def __init__(self, ports: Ports, host: str, moves: HostMoves) -> None:
        self._host, self._moves, self._store = host, moves, ports.store
        self._leasing, self._say, self._clock = ports.leasing, ports.say, ports.clock

    def run(self, instances: Collection[str] = (), pretend: bool = False) -> list[MoveOutcome]:
        """Abort the moves of these instances, by name or uuid; of all when there are none.

        :param pretend: change nothing.
        :raises DroverError: the store has no such instance, or it is not certain where one is.
        """
        with self._store.read() as connection:
            wanted = {each["uuid"]: each["name"] for each in instance_lookup.find(connection, list(instances))}
            pending: list[MoveOrder] = migration_orders.pending(connection, self._host)
        orders = [order for order in pending if not wanted or order["uuid"] in wanted]
        unmoved = wanted.keys() - {order["uuid"] for order in orders}
        if unmoved:
            self._say(
                f"No move off {self._host} is under way of: {', '.join(sorted(wanted[uuid] for uuid in unmoved))}. Nothing was aborted there."
            )
        if not orders and not wanted:
            self._say(f"No move off {self._host} is under way, so nothing was aborted there.")
        if pretend or not orders:
            return [outcome_of(order, "would be aborted", "") for order in orders]
        answers = self._moves.ask(abort=orders, wait=0)
        try:
            with self._leasing.held([self._host], "aborting migrations"):
                over = self._closed(orders)
                outcomes = self._moves.aborter().abort([order for order in orders if order["migration"] not in over])
        except leases.Held as other:
            self._say(f"{other.holder} {self._host} stops the moves, and that run writes down how they end.")
            outcomes = self._wait_for_holder(orders, answers)
        refuse_unknown_whereabouts(outcomes)
        return outcomes

    def _closed(self, orders: Iterable[MoveOrder]) -> dict[str, tuple[str, str | None]]:
        """Return how migrations ended that are no longer open: dict uuid -> (status, message)."""
        with self._store.read() as connection:
            return migration_orders.closed(connection, [order["migration"] for order in orders])

    def _wait_for_holder(self, orders: Sequence[MoveOrder], answers: Iterable[MoveAnswer]) -> list[MoveOutcome]:
        """Wait until the run that holds the lease has written down what became of the migrations."""
        deadline: float | None = None
        while True:
            over = self._closed(orders)
            left = [order for order in orders if order["migration"] not in over]
            if not left or (deadline is not None and self._clock.monotonic() > deadline):
                break
            # Only followed: the host looks again at each aborted move that has ended, so it would never answer that all are over.
            answers = self._moves.ask(follow=left, wait=WAIT)
            if deadline is None and all(answer["status"] != "running" for answer in answers):
                deadline = self._clock.monotonic() + OTHER_RUN
            self._clock.sleep(LOOK_AGAIN)
        outcomes = []
        for order in orders:
            if order["migration"] in over:
                status, message = over[order["migration"]]
                outcomes.append(outcome_of(order, status, message or ""))
        outcomes += self._unwritten(left, {answer["uuid"]: answer for answer in answers})
        for each in outcomes:
            self._say(f"{each['name']}: {each['source']} -> {each['destination']}, {each['status']}: {each['message']}")
        return outcomes

    def _unwritten(self, orders: Iterable[MoveOrder], answers: dict[str, MoveAnswer]) -> Iterator[MoveOutcome]:
        for order in orders:
            answer = answers.get(order["uuid"])
            status, message = (answer["status"], answer["message"]) if answer else ("lost", f"{self._host} does not mention it.")
            yield outcome_of(
                order, status, f"{message} The run that holds the lease of {self._host} has not written it down; the next run does."
            )
