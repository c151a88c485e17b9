# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move instances off a host by live or cold migration, settle what an earlier run left open, and abort."""

from __future__ import annotations

import contextlib
import os
import time

from ansible_collections.drover.compute.plugins.module_utils import _migration_options
from ansible_collections.drover.compute.plugins.plugin_utils import certainty, used_files
from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.actor import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.executor.mover import PATIENCE, UNDONE, Mover
from ansible_collections.drover.compute.plugins.plugin_utils.executor.restarting import ACTIVE, Restarts
from ansible_collections.drover.compute.plugins.plugin_utils.migration_options import Options
from ansible_collections.drover.compute.plugins.plugin_utils.on_host import Hand
from ansible_collections.drover.compute.plugins.plugin_utils.placement import caps, journal
from ansible_collections.drover.compute.plugins.plugin_utils.store import leases, moving


# How long (seconds) another run, which holds the lease of the host, gets to write down what was aborted.
OTHER_RUN = 60
WAIT = 2


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["done", "settled", "aborted"], "default": "done"},
        "moves": {"type": "list", "elements": "dict", "default": []},
        "instances": {"type": "list", "elements": "str", "default": []},
        "max_migrations": {"type": "int", "default": 2},
        "max_migrations_per_destination": {"type": "int"},
        "max_migrations_overall": {"type": "int"},
        "max_wait": {"type": "int", "default": PATIENCE},
        "shutdown_timeout": {"type": "int", "default": 300},
        "options": {"type": "dict", "options": _migration_options.SPEC},
        **STORE_SPEC,
    }
    VARIABLES = (
        "max_migrations",
        "max_migrations_per_destination",
        "max_migrations_overall",
        "max_wait",
        "shutdown_timeout",
    )

    def act(self, args, task_vars):
        limits = caps.of_options(args)
        host = self.target(task_vars)
        store = self.store(args, task_vars)
        options = Options(args["options"] or {}, args["moves"])

        Actor.of_this_task()
        playbook = os.getppid()

        def hypervisor(start, follow, wait, until=None, abort=()):
            # Killing ansible-playbook leaves its workers alive: this one must not go on moving behind
            # the back of the run that comes to settle what is open.
            if os.getppid() != playbook:
                raise DroverError(f"The playbook that moves instances off {host} is gone. Run it again.")
            given = {"wait": wait, "until": until, "max_migrations": limits.per_source}
            return self._hypervisor(host, self._with_files(store, start), follow, abort, given, options, task_vars)

        def switch(order, there, on, timeout):
            if os.getppid() != playbook:
                raise DroverError(f"The playbook that moves instances off {host} is gone. Run it again.")
            return self._switch(order, there, on, timeout, task_vars)

        power = Restarts(lambda order: self._look(host, order, task_vars), switch, args["shutdown_timeout"])
        if args["state"] == "aborted":
            if args["moves"]:
                raise DroverError(
                    "state aborted takes no moves: name the instances, or none for all that are being moved off the host."
                )
            return self._abort(store, host, args["instances"], hypervisor, power)
        if args["instances"]:
            raise DroverError(
                "instances says whose moves to abort, with state aborted; what is to be moved is said with moves."
            )
        if args["state"] == "settled" and args["moves"]:
            raise DroverError("state settled takes no moves: it ends what an earlier run left open, and begins nothing.")
        if self._task.check_mode:
            return self._check(store, host, args, options, task_vars)
        wanted = self._of_this_host(args["moves"], host)
        with self._leased(store, host) as keep:
            with store.read() as connection:
                since = leases.begun(connection, host)
            mover = Mover(store, hypervisor, self.show, limits, keep, power, args["max_wait"], since)
            mover.settle(host, begin=args["state"] == "done")
            outcomes = mover.run(wanted)
        return self._result(outcomes)

    def _result(self, outcomes):
        failed = [outcome for outcome in outcomes if outcome["status"] != "completed"]
        result = {"changed": bool(outcomes), "migrations": outcomes, "failed_moves": failed}
        stuck = [outcome for outcome in failed if outcome["status"] not in UNDONE]
        if stuck:
            raise DroverError(
                "; ".join(
                    f"{outcome['name']} is {outcome['status']}: {outcome['message'].rstrip('.')}" for outcome in stuck
                )
                + ". Nothing was done about it, as both hosts may be needed to tell. Look at both hosts with "
                "virsh list --all, correct what is wrong there, and run the drain again.",
                migrations=outcomes,
                failed_moves=failed,
            )
        return result

    # Aborting

    def _abort(self, store, host, instances, hypervisor, power):
        """Abort what is being moved off the host, whoever is moving it.

        The hypervisor is told, whoever holds the lease: that needs no lease, as nothing is begun by it. The
        store is written by the run that holds the lease, by this one where nobody does.
        """
        with store.read() as connection:
            orders = [
                order
                for order in journal.pending(connection, host)
                if not instances or order["name"] in instances or order["uuid"] in instances
            ]
        if self._task.check_mode or not orders:
            outcomes = [_told(order, "would be aborted", "") for order in orders]
            return {"changed": bool(orders), "migrations": outcomes, "failed_moves": []}
        first = hypervisor([], [], 0, abort=orders)
        try:
            with self._leased(store, host, "aborting migrations") as keep:
                mover = Mover(
                    store,
                    lambda start, follow, wait, until: hypervisor([], [], wait, until, follow),
                    self.show,
                    caps.Caps(),
                    keep,
                    power,
                )
                return self._result(mover.abort(self._still_open(store, orders)))
        except leases.Held as other:
            self.show(f"{other} It is told by {host}, and writes down itself how it ends.")
            return self._result(self._abort_for(store, host, orders, hypervisor, first))

    def _still_open(self, store, orders):
        with store.read() as connection:
            over = journal.closed(connection, [order["migration"] for order in orders])
        return [order for order in orders if order["migration"] not in over]

    def _abort_for(self, store, host, orders, hypervisor, found):
        """Wait until the run that holds the lease has written down what became of the migrations.

        :returns: outcomes as the Mover's.
        """
        deadline = None
        while True:
            with store.read() as connection:
                over = journal.closed(connection, [order["migration"] for order in orders])
            left = [order for order in orders if order["migration"] not in over]
            if not left or (deadline is not None and time.monotonic() > deadline):
                break
            # Only followed: to abort one again that has ended would have it looked into anew each time, without an end.
            found = hypervisor([], left, WAIT)
            if deadline is None and all(answer["status"] != "running" for answer in found):
                deadline = time.monotonic() + OTHER_RUN
            time.sleep(0.5)
        answers = {answer["uuid"]: answer for answer in found}
        outcomes = [_told(order, *over[order["migration"]]) for order in orders if order["migration"] in over]
        for order in left:
            answer = answers.get(order["uuid"], {"status": "lost", "message": f"{host} does not mention it."})
            message = f"{answer['message']} The run that holds the lease of {host} has not written it down; the next run does."
            outcomes.append(_told(order, answer["status"], message))
        for outcome in outcomes:
            self.show(
                f"{outcome['name']}: {outcome['source']} -> {outcome['destination']}, {outcome['status']}: {outcome['message']}"
            )
        return outcomes

    @contextlib.contextmanager
    def _leased(self, store, host, purpose="moving instances"):
        """Hold the lease of the host; one that the playbook holds already stays with it.

        :returns: a function (connection) that renews it.
        """
        actor = Actor.of_this_task()
        with store.write() as connection:
            taken = leases.take(connection, host, actor, purpose)
        if taken["taken_over"]:
            self.show(taken["taken_over"])
        try:
            yield lambda connection: _renew(connection, host, actor)
        finally:
            if taken["changed"]:
                with store.write() as connection:
                    if leases.held(connection, host, actor):
                        leases.release(connection, host, actor)

    def _of_this_host(self, moves, host):
        for move in moves:
            if move.get("from_host") != host:
                raise DroverError(
                    f"The move of {move.get('name')} starts at {move.get('from_host')}, but this task runs on {host}. "
                    "Delegate the task to the host the moves start at."
                )
        return moves

    def _check(self, store, host, args, options, task_vars):
        """What the hypervisors say of the moves, without moving anything."""
        with store.read() as connection:
            orders = [journal.unopened(connection, move) for move in self._of_this_host(args["moves"], host)]
            states = moving.domain_states(connection, [order["uuid"] for order in orders])
        orders = self._with_files(store, orders)
        stopped = {order["uuid"] for order in orders if not order["live"] and states.get(order["uuid"]) in ACTIVE}
        results = []
        for uri, (start, dummy, none) in _by_uri(orders, [], []).items():
            asked = [{**_move(order, options), "will_stop": order["uuid"] in stopped} for order in start]
            results += self._module(host, {"uri": uri, "check": True, "start": asked}, task_vars)
        providers = {order["uuid"]: order["provider"] for order in orders}
        results = [{**found, "provider": providers[found["uuid"]]} for found in results]
        return {
            "changed": bool(orders),
            "migrations": results,
            "failed_moves": [found for found in results if not found["ok"]],
        }

    @staticmethod
    def _with_files(store, orders):
        """The orders with what their host has to know of other hosts' storage and files."""
        if not orders:
            return orders
        with store.read() as connection:
            found = used_files.of_moves(connection, orders)
        return [{**order, "files": found[order["uuid"]]} for order in orders]

    def _hypervisor(self, host, start, follow, abort, general, options, task_vars):
        results = []
        for uri, (started, followed, aborted) in _by_uri(start, follow, abort).items():
            given = {
                "uri": uri,
                "start": [_move(order, options) for order in started],
                "follow": [{"uuid": order["uuid"], "migration": order["migration"]} for order in followed],
                "abort": [_move(order) for order in aborted],
                **general,
            }
            results += self._module(host, given, task_vars)
        return results

    def _look(self, host, order, task_vars):
        """The states of an order's domain at its source and destination, as executor.restarting takes them."""
        given = {"uri": order["source_uri"], "check": True, "start": [_move(order)]}
        (found,) = self._module(host, given, task_vars)
        return found["source_state"], found["destination_state"]

    def _switch(self, order, there, on, timeout, task_vars):
        """Bring a domain up or down, at the destination too from the source: libvirt there answers it anyway."""
        given = {
            "uri": order["destination_uri"] if there else order["source_uri"],
            "uuid": order["uuid"],
            "state": "running" if on else "shutoff",
            "timeout": timeout,
        }
        answer = Hand(self, order["source"], task_vars).act("domain", given)
        return None if answer.outcome == certainty.DONE else answer.message

    def _module(self, host, given, task_vars):
        advice = "Migrations that had begun go on by themselves; run the drain again and it looks after them first."
        # A move has a record of its own on its host, which the next call reads: what fails here ends nothing.
        answer = Hand(self, host, task_vars).act("domain_migration", given)
        if answer.outcome != certainty.DONE:
            named = answer.message if answer.message.startswith(f"Host {host}") else f"Host {host}: {answer.message}"
            raise DroverError(f"{named.rstrip('.')}. {advice}")
        return answer.result["moves"]


def _renew(connection, host, actor):
    leases.renew(connection, host, actor)
    leases.renew_all(connection, actor)


def _by_uri(start, follow, abort):
    """Orders by the libvirt URI of their source, as the module on the hypervisor takes them.

    :returns: a dict uri -> (orders to start, to follow, to abort).
    """
    found = {}
    for index, orders in enumerate((start, follow, abort)):
        for order in orders:
            found.setdefault(order["source_uri"], ([], [], []))[index].append(order)
    return dict(sorted(found.items()))


def _move(order, options=None):
    move = {key: order.get(key) for key in ("uuid", "name", "migration", "destination", "destination_uri", "live", "begin")}
    if order["migration_address"]:
        move["migrate_uri"] = f"tcp://{order['migration_address']}"
    move = {key: value for key, value in move.items() if value is not None}
    move.update(order.get("files") or {})
    return {**move, **options.of(order)} if options else move


def _told(order, status, message):
    """The outcome of an order that this run has not followed itself."""
    keys = ("uuid", "name", "source", "destination", "provider")
    return {
        **{key: order[key] for key in keys},
        "status": status,
        "message": message or "",
        "storage": None,
        "elapsed_s": None,
    }
