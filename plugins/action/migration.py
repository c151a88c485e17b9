# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move instances off a host by live or cold migration, and settle what an earlier run left open."""

from __future__ import annotations

import contextlib
import os
import time

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.actor import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.executor.mover import PATIENCE, Mover
from ansible_collections.drover.compute.plugins.plugin_utils.executor.restarting import ACTIVE, Restarts
from ansible_collections.drover.compute.plugins.plugin_utils.placement import caps, journal
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.store import leases, moving


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "moves": {"type": "list", "elements": "dict", "default": []},
        "max_migrations": {"type": "int", "default": 2},
        "max_migrations_per_destination": {"type": "int"},
        "max_migrations_overall": {"type": "int"},
        "max_wait": {"type": "int", "default": PATIENCE},
        "shutdown_timeout": {"type": "int", "default": 300},
        "bandwidth_mib": {"type": "int"},
        "options": {"type": "dict", "default": {}},
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

        playbook = os.getppid()

        def hypervisor(start, follow, wait):
            # Killing ansible-playbook leaves its workers alive: this one must not go on moving behind
            # the back of the run that comes to settle what is open.
            if os.getppid() != playbook:
                raise DroverError(f"The playbook that moves instances off {host} is gone. Run it again.")
            return self._hypervisor(host, start, follow, wait, args, task_vars)

        def switch(order, there, on, timeout):
            if os.getppid() != playbook:
                raise DroverError(f"The playbook that moves instances off {host} is gone. Run it again.")
            return self._switch(order, there, on, timeout, task_vars)

        if self._task.check_mode:
            return self._check(store, host, args, task_vars)
        wanted = self._of_this_host(args["moves"], host)
        with self._leased(store, host) as keep:
            power = Restarts(lambda order: self._look(host, order, args, task_vars), switch, args["shutdown_timeout"])
            mover = Mover(store, hypervisor, self.show, limits, keep, power, args["max_wait"])
            mover.settle(host)
            outcomes = mover.run(wanted)
        failed = [outcome for outcome in outcomes if outcome["status"] != "completed"]
        result = {"changed": bool(outcomes), "migrations": outcomes, "failed_moves": failed}
        stuck = [outcome for outcome in failed if outcome["status"] != "failed"]
        if stuck:
            raise DroverError(
                "; ".join(f"{outcome['name']} is {outcome['status']}: {outcome['message']}" for outcome in stuck)
                + ". Nothing was done about it, as both hosts may be needed to tell. Look at both hosts with "
                "virsh list --all, correct what is wrong there, and run the drain again.",
                migrations=outcomes,
                failed_moves=failed,
            )
        return result

    @contextlib.contextmanager
    def _leased(self, store, host):
        """Hold the lease of the host; one that the playbook holds already stays with it.

        :returns: a function (connection) that renews it.
        """
        actor = Actor.of_this_task()
        with store.write() as connection:
            taken = leases.take(connection, host, actor, "moving instances", time.time())
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

    def _check(self, store, host, args, task_vars):
        """What the hypervisors say of the moves, without moving anything."""
        with store.read() as connection:
            orders = [journal.unopened(connection, move) for move in self._of_this_host(args["moves"], host)]
            states = moving.domain_states(connection, [order["uuid"] for order in orders])
        stopped = {order["uuid"] for order in orders if not order["live"] and states.get(order["uuid"]) in ACTIVE}
        results = []
        for uri, start, dummy in _by_uri(orders, []):
            start = [{**move, "will_stop": move["uuid"] in stopped} for move in start]
            results += self._module(host, {"uri": uri, "check": True, "start": start}, args, task_vars)
        providers = {order["uuid"]: order["provider"] for order in orders}
        results = [{**found, "provider": providers[found["uuid"]]} for found in results]
        return {
            "changed": bool(orders),
            "migrations": results,
            "failed_moves": [found for found in results if not found["ok"]],
        }

    def _hypervisor(self, host, start, follow, wait, args, task_vars):
        results = []
        for uri, started, followed in _by_uri(start, follow):
            given = {"uri": uri, "start": started, "follow": followed, "wait": wait}
            own = {order["uuid"]: order["migration_options"] for order in start}
            given["start"] = [{**move, **args["options"], **own[move["uuid"]]} for move in started]
            if args["bandwidth_mib"] is not None:
                given["start"] = [{**move, "bandwidth_mib": args["bandwidth_mib"]} for move in started]
            results += self._module(host, given, args, task_vars)
        return results

    def _look(self, host, order, args, task_vars):
        """The states of an order's domain at its source and destination, as executor.restarting takes them."""
        ((uri, start, dummy),) = _by_uri([order], [])
        (found,) = self._module(host, {"uri": uri, "check": True, "start": start}, args, task_vars)
        return found["source_state"], found["destination_state"]

    def _switch(self, order, there, on, timeout, task_vars):
        """Bring a domain up or down, at the destination too from the source: libvirt there answers it anyway."""
        try:
            result = self._execute_module(
                module_name="drover.compute.domain",
                module_args={
                    "uri": order["destination_uri"] if there else order["source_uri"] or "qemu:///system",
                    "uuid": order["uuid"],
                    "state": "running" if on else "shutoff",
                    "timeout": timeout,
                },
                task_vars=task_vars,
            )
        except AnsibleConnectionFailure as problem:
            return f"the host cannot be reached: {' '.join(str(problem).split())}."
        return (result.get("msg") or "the module domain failed without a message.") if result.get("failed") else None

    def _module(self, host, given, args, task_vars):
        advice = "Migrations that had begun go on by themselves; run the drain again and it looks after them first."
        try:
            result = self._execute_module(
                module_name="drover.compute.domain_migration", module_args=given, task_vars=task_vars
            )
        except AnsibleConnectionFailure as problem:
            reason = " ".join(str(problem).split())
            raise DroverError(f"Host {host} cannot be reached: {reason}. {advice}") from None
        if result.get("failed"):
            raise DroverError(f"Host {host}: {result.get('msg')} {advice}")
        return to_plain(result["moves"])


def _renew(connection, host, actor):
    now = time.time()
    leases.renew(connection, host, actor, now)
    leases.renew_all(connection, actor, now)


def _by_uri(start, follow):
    """Orders by the libvirt URI of their source, as the module on the hypervisor takes them.

    :returns: a list of (uri, moves to start, uuids to follow).
    """
    uris = sorted({order["source_uri"] or "qemu:///system" for order in start + follow})
    return [
        (
            uri,
            [_move(order) for order in start if (order["source_uri"] or "qemu:///system") == uri],
            [order["uuid"] for order in follow if (order["source_uri"] or "qemu:///system") == uri],
        )
        for uri in uris
    ]


def _move(order):
    move = {key: order[key] for key in ("uuid", "name", "destination", "destination_uri", "live")}
    if order["migration_address"]:
        move["migrate_uri"] = f"tcp://{order['migration_address']}"
    return {key: value for key, value in move.items() if value is not None}
