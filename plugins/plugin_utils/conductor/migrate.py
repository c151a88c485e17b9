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

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.conductor import restarting
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.progress import Progress
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import limits as migration_limits
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import orders as migration_orders
from ansible_collections.drover.compute.plugins.plugin_utils.store import leases, migrations_open

# How long (seconds) one call on the hypervisor waits.
WAIT = 10
# How long (seconds) it waits at most when a move has ended or begun: so soon that is said.
NEWS = 1
# How many moves wait at the hypervisor for each that may move, and how few have to be under way for each before it is given
# more. A call takes as long as a small move, and processors from those that move: the fewer calls, the better.
AHEAD = 3
ENOUGH = 2
# After how many answers that do not mention a move it is given up.
SILENT = 5
# How a migration ends that leaves the instance at its source.
UNDONE = ("failed", "cancelled")
# How often (seconds) the lease is renewed while nothing new is begun.
RENEW = 30
# How long (seconds) to wait while other runs have all that the limits allow, how often to look, and how often that is said.
PATIENCE = 3600
LOOK_AGAIN = 2
SAY_AGAIN = 60
# The phases of a move that has not got its turn yet.
BEFORE = ("checking", "waiting")


class Mover:
    """Moves instances off one host.

    :param store: an open Store.
    :param hypervisor: a function (start, follow, wait, until) -> list of results of the source host's module
        domain_migration, where start and follow are lists of orders (migrations.orders.order), with ``waiting`` for those
        that have not begun as far as is known. Starting
        what is under way, or done, is harmless and says so. Of those started it lets ``limits.per_source``
        move at a time and the others wait. It answers after ``wait`` seconds, or once no more than ``until`` are
        under way, or NEWS seconds after one has ended or begun.
    :param show: a function that shows a line to the person who watches.
    :param limits: records.orders.MigrationLimits: the most migrations at a time, over all runs.
    :param keep: a function (connection) that renews the lease of the host, or raises leases.Lost:
        then nothing more is begun, and what has begun is left to whoever has the lease now.
    :param power: conductor.restarting.Restarts, for those that are shut down for a cold move; None where no
        instance that runs moves cold.
    :param patience: seconds to wait for other runs while nothing can be begun.
    :param since: the time (seconds since 1970) from which on an instance whose move was aborted is not moved again; None for never.
    :param clock: ports.Clock.
    :param progress: progress.Progress of the run; by default one of these moves alone.
    """

    def __init__(self, store, hypervisor, show, limits, keep, power=None, patience=PATIENCE, since=None, clock=time, progress=None):
        self.store, self.hypervisor, self.show, self.limits, self.keep = store, hypervisor, show, limits, keep
        self.power, self.patience = power, patience
        self._since, self._clock = since, clock
        self._progress = progress or Progress(show, clock)
        self._kept = clock.monotonic()
        self.finished = []
        self._silent = {}
        self._running = {}
        self._said_busy = None
        # Migrations of which this run could not find out what became of them.
        self._given_up = set()
        # The migrations that this run has opened.
        self._opened = set()
        # Hosts whose libvirt did not answer in this run.
        self._silent_hosts = set()
        self._blocked = {}
        self._waiting_since = None
        # Those that wait at the hypervisor for their turn.
        self._ahead = set()

    def settle(self, host, begin=True):
        """Finish or undo the migrations that an earlier run left open.

        Each is started again with the room it still holds: the hypervisor finds out whether it is under
        way, done, or was never begun. One whose destination is disabled or down by now is not begun any more.

        :param begin: whether one that was never begun is begun now; otherwise it is undone.
        :returns: a list of outcomes: uuid, name, source, destination, provider, status, message, elapsed_s.
        """
        with self.store.read() as connection:
            left = [{**order, "begin": begin and order["begin"]} for order in migration_orders.pending(connection, host)]
        if left:
            self._renew()
            names = ", ".join(order["name"] for order in left)
            self.show(f"{host}: an earlier run left {len(left)} migration(s) open, looking after: {names}")
        self._progress.expect(left)
        self._follow(left)
        while self._running:
            self._follow([])
        return self.finished

    def abort(self, orders):
        """Follow migrations to their end whose hypervisor was made to abort whatever it is asked to follow.

        :returns: the outcomes. One that was too late is completed.
        """
        self._progress.expect(orders)
        self._running.update({order["uuid"]: order for order in orders})
        while self._running:
            self._follow([])
        return self.finished

    def run(self, wanted):
        """Carry out moves, as many at a time as the limits allow.

        :param wanted: moves of a plan, in its order: uuid, name, from_host, host, node, live.
        :returns: the outcomes, those of settle() included.
        """
        queue = list(wanted)
        self._progress.expect(queue)
        while queue or self._running:
            ahead = self._ahead_allowed()
            orders = self._open(queue, ahead)
            if orders or self._running:
                self._waiting_since = None
                self._follow(orders, self._enough(ahead) if queue else 0)
            elif queue:
                self._wait(queue)
        return self.finished

    def _ahead_allowed(self):
        """How many may be open beside those that move, to begin without delay once one of them is over.

        None where other limits hold too: what only waits would take from what other runs may begin.
        """
        most = self.limits.per_source
        if most is None or self.limits.per_destination is not None or self.limits.overall is not None:
            return 0
        return AHEAD * most

    def _enough(self, ahead):
        """How many under way keep the hypervisor busy; None where nothing waits there, so that each end makes way."""
        return ENOUGH * self.limits.per_source if ahead else None

    def _open(self, queue, ahead):
        """Write the next moves down as far as the limits allow; take them from the queue."""
        orders, self._blocked = [], {}
        if not queue:
            return orders
        uuids = [move["uuid"] for move in queue]
        with self.store.read() as connection:
            under_way = migrations_open.open_moves(connection)
            budgets = migrations_open.budgets(connection, uuids)
            states = migrations_open.domain_states(connection, [move["uuid"] for move in queue if not move["live"]])
        for move in list(queue):
            silent = self._silent_hosts.intersection((move["from_host"], move["host"]))
            if silent:
                queue.remove(move)
                # Without its provider: once the host answers, it is as good as any other.
                order = {**move, "source": move["from_host"], "destination": move["host"], "provider": None}
                self._close(order, "failed", f"It was not begun, as libvirt on {' and '.join(sorted(silent))} does not answer.")
                continue
            if not move["live"] and states.get(move["uuid"]) in restarting.ACTIVE:
                # It is shut down for its move and is not to wait while it is off; nor is it to be overtaken for ever.
                ahead = 0
            try:
                # A look that costs little; what counts is the one with which it is written down.
                migration_limits.refuse(self.limits, move, under_way, budgets.get(move["uuid"]), self._given_up, ahead)
            except migration_limits.Busy as busy:
                self._blocked[move["uuid"]] = busy
                continue
            try:
                notes = self._notes(move, states.get(move["uuid"]))
                kind = "live-migration" if move["live"] else "migration"
                # Alone: two runs that count at the same moment would both find room for one more.
                with self.store.write() as connection:
                    self._keep(connection)
                    if self._since is not None:
                        migration_orders.refuse_aborted(connection, move, self._since)
                    opened = migration_claims.begin_within(
                        connection, self.limits, self._given_up, move, kind, self._clock.time(), notes, ahead
                    )
                    order = migration_orders.order(connection, opened["uuid"])
                    counted = migrations_open.open_moves(connection)
            except migration_limits.Busy as busy:
                self._blocked[move["uuid"]] = busy
                continue
            except leases.Lost:
                raise
            except migration_orders.WasAborted as problem:
                self._close({**move, "source": move["from_host"], "destination": move["host"]}, "cancelled", str(problem))
            except DroverError as problem:
                self._close({**move, "source": move["from_host"], "destination": move["host"]}, "failed", str(problem))
            else:
                # Not before the store has it for certain: a commit may fail too.
                orders.append(order)
                self._opened.add(order["migration"])
                under_way = counted
            queue.remove(move)
        return orders

    def _notes(self, move, state):
        """What the store shall know of a move beside its ends."""
        notes = {"for_host": move["for_host"]} if move.get("for_host") else {}
        if not move["live"] and state in restarting.ACTIVE and self.power is not None:
            with self.store.read() as connection:
                order = migration_orders.unopened(connection, move)
            # Somebody may have shut it down since: then it is to stay off.
            if self.power.runs(order):
                notes["restart"] = True
        return notes

    def _wait(self, queue):
        """Nothing can be begun: other runs have all that the limits allow."""
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        over = now - self._waiting_since > self.patience
        for move in list(queue):
            busy = self._blocked[move["uuid"]]
            hopeless = busy.blockers <= self._given_up
            if not hopeless and not over:
                continue
            queue.remove(move)
            why = "Nobody knows what became of them" if hopeless else f"That has not changed in {self.patience} s"
            self._close(
                {**move, "source": move["from_host"], "destination": move["host"]},
                "failed",
                f"{busy} {why}, so it was not begun. If their runs are dead, run the drains of their sources again.",
            )
        if not queue:
            return
        said = str(self._blocked[queue[0]["uuid"]])
        if self._said_busy is None or now - self._said_busy >= SAY_AGAIN:
            self._said_busy = now
            self.show(said)
        if now - self._kept > RENEW:
            self._renew()
        self._clock.sleep(min(LOOK_AGAIN, max(self.patience, 0)))

    def _follow(self, orders, enough=0):
        """Start orders, and look after all that are under way for a while.

        :param enough: so many under way keep the hypervisor busy; None where each that ends makes way for another.
        """
        most, moving = self.limits.per_source, len(self._running.keys() - self._ahead)
        for order in orders:
            if most is not None and moving >= most:
                self._ahead.add(order["uuid"])
                continue
            moving += 1
            self._progress.started(order)
        orders = self._shut_down(orders)
        self._note_nowhere([order for order in orders if order.get("nowhere")], False)
        known = list(self._running.values())
        self._running.update({order["uuid"]: order for order in orders})
        if not self._running:
            return
        if self._clock.monotonic() - self._kept > RENEW:
            self._renew()
        results = self.hypervisor(self._marked(orders), self._marked(known), WAIT, self._until(enough))
        self._give_up({result["uuid"] for result in results})
        # What has ended first: it is what made way for another.
        for result in sorted(results, key=lambda result: result["status"] == "running"):
            order = self._running.get(result["uuid"])
            if order is None:
                continue
            if order["uuid"] in self._ahead and result.get("phase") not in BEFORE:
                self._ahead.remove(order["uuid"])
                self._progress.started(order)
            if result["status"] == "running":
                if order["uuid"] not in self._ahead:
                    self._progress.goes_on(order, result, len(self._running))
            else:
                del self._running[order["uuid"]]
                self._record(order, result)

    def _until(self, enough):
        """How few shall be under way when the hypervisor answers; at least one is to have ended."""
        fewer = len(self._running) - 1
        # What was shut down for its move is off until it is started again.
        if enough is None or any(order.get("restart") for order in self._running.values()):
            return fewer
        return min(enough, fewer)

    def _marked(self, orders):
        return [{**order, "waiting": order["uuid"] in self._ahead} for order in orders]

    def _shut_down(self, orders):
        """Bring down those that are to move cold and still run.

        :returns: the orders without those that did not come down; they go on as they are.
        """
        ready = []
        for order in orders:
            problem = self.power.shut_down(order, self._renew) if order.get("restart") else None
            if problem is None:
                ready.append(order)
            else:
                self._record(order, {"status": problem.status, "message": str(problem), "source_state": problem.state})
        return ready

    def _give_up(self, mentioned):
        """End what the hypervisor does not mention any more, or the run would wait for it for ever."""
        for uuid, order in list(self._running.items()):
            self._silent[uuid] = 0 if uuid in mentioned else self._silent.get(uuid, 0) + 1
            if self._silent[uuid] >= SILENT:
                del self._running[uuid]
                self._given_up.add(order["migration"])
                self._close(
                    order,
                    "lost",
                    f"{order['source']} has said nothing of it {SILENT} times, though it answers. Its migration is still open in the "
                    "store; look at both hosts, then run this again: it is asked for anew.",
                )

    def _renew(self):
        with self.store.write() as connection:
            self._keep(connection)

    def _keep(self, connection):
        self.keep(connection)
        self._kept = self._clock.monotonic()

    def _record(self, order, result):
        status, message = result["status"], result.get("message") or ""
        self._listen(order, result)
        if status == "lost" and order["destination"] in self._silent_hosts:
            message += f" If {order['destination']} will not come back, make sure that it is off and evacuate it."
        if order.get("restart") and status in ("completed", *UNDONE):
            status, message, result = self._restarted(order, status, message, result)
        proof = None
        if status == "completed":
            proof = certainty.has_arrived(order, result)
        elif status in UNDONE:
            proof = certainty.has_stayed(order, result, order["migration"] in self._opened)
        if proof is None and status in ("completed", *UNDONE):
            status, message = "lost", f"{message} {_whereabouts(order, result)}".strip()
        elif proof is not None:
            with self.store.write(together=True) as connection:
                if status == "completed":
                    migration_claims.finish(connection, order["migration"], proof, result["destination_state"], self._clock.time())
                else:
                    migration_claims.undo(connection, order["migration"], proof, message, self._clock.time(), status)
        if status not in ("completed", *UNDONE):
            self._given_up.add(order["migration"])
            if certainty.is_nowhere(result):
                self._note_nowhere([order], True)
        self._close(order, status, message, result)

    def _note_nowhere(self, orders, nowhere):
        """Write down whether neither end of moves has the instance: then a discovery that finds it elsewhere ends them."""
        if orders:
            with self.store.write() as connection:
                for order in orders:
                    migration_claims.note_nowhere(connection, order["migration"], self._clock.time(), nowhere)

    def _listen(self, order, result):
        """Note which host did not answer, so that nothing more is begun with it."""
        if result["status"] not in ("failed", "lost") or not result.get("phase"):
            return
        if result.get("source_state") is None:
            self._silent_hosts.add(order["source"])
        elif result.get("destination_state") is None:
            self._silent_hosts.add(order["destination"])

    def _restarted(self, order, status, message, result):
        """Start an instance again that was shut down for its move, where it is by now.

        Where that fails the migration stays open: the next run tries again.
        """
        there = status == "completed"
        if not there and result.get("source_state") in (None, "absent", *restarting.ACTIVE):
            return status, message, result
        problem = self.power.start(order, there)
        if problem is None:
            return status, message, {**result, "destination_state" if there else "source_state": "running"}
        where = order["destination"] if there else order["source"]
        return (
            "conflict",
            f"{message} It was shut down for the move and does not start on {where}: {problem}".strip(),
            result,
        )

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
        self._progress.ended(order, status, message, result)


def _whereabouts(order, result):
    """What is not known of an instance whose move has ended."""
    here, source, destination = result.get("source_state"), order["source"], order["destination"]
    if certainty.is_nowhere(result):
        return (
            f"Neither {source} nor {destination} has it, so somebody moved or removed it. Run drover.compute.discover, which finds it if "
            "another host has it."
        )
    if result["status"] == "completed":
        return f"It was not seen at {destination} and gone from {source}, so nothing is given back: look at both hosts."
    if here in (None, "absent"):
        return f"It was not seen at {source}."
    return f"It is {here} at {source}, and may have arrived at {destination}, which did not tell: bring {destination} back, or evacuate it."
