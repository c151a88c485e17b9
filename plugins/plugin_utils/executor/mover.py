# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves off one host: opened in the store, started, followed and closed.

The store is written before the hypervisor is asked to move anything, and again once the hypervisor
has shown where the instance is. So a run that is killed at any point leaves open migrations, and the
next run's ``settle()`` asks the hypervisor what became of them.
"""

from __future__ import annotations

import time

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import journal, moves

# How long (seconds) one call on the hypervisor waits for news, and how often one instance is mentioned.
WAIT = 2
MENTION = 10
# How often (seconds) the lease is renewed while nothing new is begun.
RENEW = 30


class Mover:
    """Moves instances off one host.

    :param store: an open Store.
    :param hypervisor: a function (start, follow, wait) -> list of results of the source host's module
        domain_migration, where start and follow are lists of orders (placement.journal.order). Starting
        what is under way, or done, is harmless and says so.
    :param show: a function that shows a line to the person who watches.
    :param limit: the most migrations at a time from this host.
    :param keep: a function (connection) that renews the lease of the host, or raises DroverError when it
        is lost: then nothing more is begun, and what has begun is left to whoever has the lease now.
    """

    def __init__(self, store, hypervisor, show, limit, keep):
        self.store, self.hypervisor, self.show, self.limit, self.keep = store, hypervisor, show, limit, keep
        self._kept = time.monotonic()
        self.finished = []
        self._running = {}
        self._mentioned = {}
        self._total = 0

    def settle(self, host):
        """Finish or undo the migrations that an earlier run left open.

        Each is started again with the room it still holds: the hypervisor finds out whether it is under
        way, done, or was never begun.

        :returns: a list of outcomes: uuid, name, source, destination, provider, status, message, elapsed_s.
        """
        with self.store.read() as connection:
            left = journal.pending(connection, host)
        if left:
            names = ", ".join(order["name"] for order in left)
            self.show(f"{host}: an earlier run left {len(left)} migration(s) open, looking after: {names}")
        self._total += len(left)
        self._follow(left)
        while self._running:
            self._follow([])
        return self.finished

    def run(self, wanted):
        """Carry out moves, as many at a time as the limit allows.

        :param wanted: moves of a plan, in its order: uuid, name, from_host, host, node, live.
        :returns: the outcomes, those of settle() included.
        """
        queue = list(wanted)
        self._total += len(queue)
        while queue or self._running:
            self._follow(self._open(queue))
        return self.finished

    def _open(self, queue):
        """Write the next moves down as far as the limits allow; take them from the queue."""
        orders = []
        for move in list(queue):
            if len(self._running) + len(orders) >= self.limit:
                break
            queue.remove(move)
            self._renew()
            kind = "live-migration" if move["live"] else "migration"
            try:
                with self.store.write(together=True) as connection:
                    opened = moves.begin(
                        connection, move["uuid"], move["host"], move.get("node"), kind, time.time(), move["from_host"]
                    )
                    order = journal.order(connection, opened["uuid"])
            except DroverError as problem:
                self._close({**move, "source": move["from_host"], "destination": move["host"]}, "failed", str(problem))
            else:
                # Not before the store has it for certain: a commit may fail too.
                orders.append(order)
        return orders

    def _follow(self, orders):
        for order in orders:
            kind = "live" if order["live"] else "cold"
            self.show(f"{order['name']}: {order['source']} -> {order['destination']}, {kind}, started")
        known = list(self._running.values())
        self._running.update({order["uuid"]: order for order in orders})
        if not self._running:
            return
        if time.monotonic() - self._kept > RENEW:
            self._renew()
        for result in self.hypervisor(orders, known, WAIT):
            order = self._running.get(result["uuid"])
            if order is None:
                continue
            if result["status"] == "running":
                self._progress(order, result)
            else:
                del self._running[order["uuid"]]
                self._record(order, result)

    def _renew(self):
        with self.store.write() as connection:
            self.keep(connection)
        self._kept = time.monotonic()

    def _record(self, order, result):
        status, message = result["status"], result.get("message") or ""
        if status == "completed":
            with self.store.write(together=True) as connection:
                moves.finish(connection, order["migration"], result.get("destination_state") or "running", time.time())
        elif status == "failed" and result.get("source_state") in (None, "absent"):
            # Its room at the source is given back only where it was seen there.
            status, message = "lost", f"{message} It was not seen at the source."
        elif status == "failed":
            with self.store.write(together=True) as connection:
                moves.undo(connection, order["migration"], message, time.time())
        self._close(order, status, message, result)

    def _close(self, order, status, message, result=None):
        result = result or {}
        outcome = {
            "uuid": order["uuid"],
            "name": order["name"],
            "source": order["source"],
            "destination": order["destination"],
            "provider": order.get("provider"),
            "status": status,
            "message": message,
            "storage": result.get("storage"),
            "elapsed_s": result.get("elapsed_s"),
        }
        self.finished.append(outcome)
        way = f"{order['name']}: {order['source']} -> {order['destination']}"
        if status == "completed":
            took = f" after {result['elapsed_s']:.1f} s" if result.get("elapsed_s") is not None else ""
            state = result.get("destination_state") or "there"
            note = f" ({message})" if message else ""
            self.show(f"{way}, {state} there{took}{note} [{len(self.finished)} of {self._total}]")
        else:
            self.show(f"{way}, {status}: {message} [{len(self.finished)} of {self._total}]")

    def _progress(self, order, result):
        now = time.monotonic()
        if now - self._mentioned.setdefault(order["uuid"], now) < MENTION:
            return
        self._mentioned[order["uuid"]] = now
        parts = [f"{order['name']}: {order['source']} -> {order['destination']}"]
        if result.get("percent") is not None:
            parts.append(f"{result['percent']:.0f} %")
        if result.get("remaining_mib") is not None and result.get("total_mib"):
            parts.append(f"{result['remaining_mib']:.0f} of {result['total_mib']:.0f} MiB left")
        if result.get("elapsed_s") is not None:
            parts.append(f"{result['elapsed_s']:.0f} s")
        self.show(", ".join(parts))
