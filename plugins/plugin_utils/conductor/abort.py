# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Abort the moves off a host, of any run."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.conductor.host_moves import refuse_unknown_whereabouts
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import orders as migration_orders
from ansible_collections.drover.compute.plugins.plugin_utils.store import instance_lookup, leases

# How long (seconds) another run, which holds the lease of the host, gets to write down what was aborted.
OTHER_RUN = 60
WAIT = 2
LOOK_AGAIN = 0.5


class Abort:
    """One run that aborts moves off a host.

    It stops the moves on the hypervisor. That begins nothing, so it needs no lease. The run that holds the lease of the host
    writes to the store how they end. If no run holds it, this one does.

    :param ports: ports.Ports.
    :param host: the name of the host that they leave.
    :param moves: host_moves.HostMoves of it.
    """

    def __init__(self, ports, host, moves):
        self._host, self._moves, self._store = host, moves, ports.store
        self._leasing, self._say, self._clock = ports.leasing, ports.say, ports.clock

    def run(self, instances=(), pretend=False):
        """Abort the moves of these instances, by name or uuid; of all when there are none.

        :param pretend: change nothing.
        :returns: outcomes, see migrate.Mover.
        :raises DroverError: the store has no such instance, or it is not known where one is.
        """
        with self._store.read() as connection:
            wanted = {each["uuid"]: each["name"] for each in instance_lookup.find(connection, list(instances))}
            orders = [order for order in migration_orders.pending(connection, self._host) if not wanted or order["uuid"] in wanted]
        idle = wanted.keys() - {order["uuid"] for order in orders}
        if idle:
            self._say(
                f"No move off {self._host} is under way of: {', '.join(sorted(wanted[uuid] for uuid in idle))}. Nothing was aborted there."
            )
        if pretend or not orders:
            return [_outcome(order, "would be aborted", "") for order in orders]
        answers = self._moves.ask([], [], orders, wait=0)
        try:
            with self._leasing.held([self._host], "aborting migrations"):
                outcomes = self._moves.mover(hypervisor=self._abort_again).abort(self._still_open(orders))
        except leases.Held as other:
            self._say(f"{other} {self._host} stops the moves, and that run writes down how they end.")
            outcomes = self._wait_for_holder(orders, answers)
        refuse_unknown_whereabouts(outcomes)
        return outcomes

    def _abort_again(self, start, follow, wait, until):
        return self._moves.ask([], [], follow, wait=wait, until=until)

    def _still_open(self, orders):
        over = self._closed(orders)
        return [order for order in orders if order["migration"] not in over]

    def _closed(self, orders):
        with self._store.read() as connection:
            return migration_orders.closed(connection, [order["migration"] for order in orders])

    def _wait_for_holder(self, orders, answers):
        """Wait until the run that holds the lease has written down what became of the migrations.

        :returns: outcomes as the Mover's.
        """
        deadline = None
        while True:
            over = self._closed(orders)
            left = [order for order in orders if order["migration"] not in over]
            if not left or (deadline is not None and self._clock.monotonic() > deadline):
                break
            # Only followed: to abort one again that has ended would have it looked into anew each time, without an end.
            answers = self._moves.ask([], left, wait=WAIT)
            if deadline is None and all(answer["status"] != "running" for answer in answers):
                deadline = self._clock.monotonic() + OTHER_RUN
            self._clock.sleep(LOOK_AGAIN)
        outcomes = [_outcome(order, *over[order["migration"]]) for order in orders if order["migration"] in over]
        outcomes += self._unwritten(left, {answer["uuid"]: answer for answer in answers})
        for each in outcomes:
            self._say(f"{each['name']}: {each['source']} -> {each['destination']}, {each['status']}: {each['message']}")
        return outcomes

    def _unwritten(self, orders, answers):
        for order in orders:
            answer = answers.get(order["uuid"], {"status": "lost", "message": f"{self._host} does not mention it."})
            yield _outcome(
                order,
                answer["status"],
                f"{answer['message']} The run that holds the lease of {self._host} has not written it down; the next run does.",
            )


def _outcome(order, status, message):
    """The outcome of an order that this run has not followed itself."""
    keys = ("uuid", "name", "source", "destination", "provider")
    return {
        **{key: order[key] for key in keys},
        "status": status,
        "message": message or "",
        "storage": None,
        "elapsed_s": None,
    }
