# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves off one host: checked, carried out, settled and aborted through the module domain_migration there."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.conductor import used_files
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.migrate import NEWS, UNDONE, Mover
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.restarting import ACTIVE, Restarts
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import orders as migration_orders
from ansible_collections.drover.compute.plugins.plugin_utils.store import migrations_open

ADVICE = "Migrations that had begun go on by themselves; run the drain again and it looks after them first."


class HostMoves:
    """What a run does about the moves off one host.

    :param ports: ports.Ports.
    :param host: the name of the host.
    :param settings: settings.MoveSettings.
    :param hand: the way to run modules on the host, where it is not that of ports.hosts.
    :param progress: progress.Progress of a run that moves instances off other hosts too.
    """

    def __init__(self, ports, host, settings, hand=None, progress=None):
        self._store, self._leasing, self._say, self._clock = ports.store, ports.leasing, ports.say, ports.clock
        self._host, self._settings, self._progress = host, settings, progress
        self._hand = hand or ports.hosts.hand(host)

    def carry_out(self, moves=(), begin=True):
        """Settle what an earlier run left open, then carry moves out, under the lease of the host.

        :param moves: moves of a plan that start at this host.
        :param begin: whether an open migration that was never begun is begun now; otherwise it is undone.
        :returns: outcomes, see migrate.Mover.
        :raises DroverError: it is not known where an instance is, with ``migrations`` and ``failed_moves`` in its details.
        """
        for move in moves:
            self._refuse_other_host(move)
        with self._leasing.held([self._host], "moving instances"):
            mover = self.mover(moves)
            mover.settle(self._host, begin)
            outcomes = mover.run(moves)
        refuse_unknown_whereabouts(outcomes)
        return outcomes

    def mover(self, moves=(), hypervisor=None):
        """The Mover of this host's moves."""
        settings, host = self._settings, self._host
        options = settings.options(moves)

        def ask(start, follow, wait, until=None):
            return self.ask(self._with_files(start), follow, wait=wait, until=until, news_within=NEWS, options=options)

        power = Restarts(self._look, self._switch, settings.shutdown_timeout, self._clock)
        return Mover(
            self._store,
            hypervisor or ask,
            self._say,
            settings.limits,
            lambda connection: self._leasing.renew(connection, host),
            power,
            settings.max_wait,
            self._leasing.begun(host),
            self._clock,
            self._progress,
        )

    def check(self, moves):
        """What the hypervisors say of moves, without moving anything.

        :returns: a list of dicts: uuid, name, ok, message, provider (of the destination), …
        """
        options = self._settings.options(moves)
        with self._store.read() as connection:
            orders = [migration_orders.unopened(connection, move) for move in map(self._refuse_other_host, moves)]
            states = migrations_open.domain_states(connection, [order["uuid"] for order in orders])
        orders = self._with_files(orders)
        stopped = {order["uuid"] for order in orders if not order["live"] and states.get(order["uuid"]) in ACTIVE}
        results = []
        for uri, (start, _dummy, _none) in _by_uri(orders).items():
            asked = [{**_move(order, options), "will_stop": order["uuid"] in stopped} for order in start]
            results += self._module({"uri": uri, "check": True, "start": asked})
        providers = {order["uuid"]: order["provider"] for order in orders}
        return [{**found, "provider": providers[found["uuid"]], "source": self._host} for found in results]

    def ask(self, start, follow, abort=(), options=None, **given):
        """Call the module domain_migration; its results.

        :param start, follow, abort: lists of orders (migrations.orders.order).
        :param options: migrations.options.Options of those to start.
        :param given: more arguments of the module.
        """
        results = []
        for uri, (started, followed, aborted) in _by_uri(start, follow, abort).items():
            results += self._module(
                {
                    "uri": uri,
                    "start": [_move(order, options) for order in started],
                    "follow": [{"uuid": order["uuid"], "migration": order["migration"]} for order in followed],
                    "abort": [_move(order) for order in aborted],
                    "max_migrations": self._settings.limits.per_source,
                    "waiting": [order["uuid"] for order in [*started, *followed] if order.get("waiting")],
                    **given,
                }
            )
        return results

    def _refuse_other_host(self, move):
        if move.get("from_host") != self._host:
            raise DroverError(
                f"The move of {move.get('name')} starts at {move.get('from_host')}, but this task runs on {self._host}. "
                "Delegate the task to the host the moves start at."
            )
        return move

    def _with_files(self, orders):
        """The orders with what their host has to know of other hosts' storage and files."""
        if not orders:
            return orders
        with self._store.read() as connection:
            found = used_files.of_moves(connection, orders)
        return [{**order, "files": found[order["uuid"]]} for order in orders]

    def _look(self, order):
        """The states of an order's domain at its source and destination, as conductor.restarting takes them."""
        (found,) = self._module({"uri": order["source_uri"], "check": True, "start": [_move(order)]})
        return found["source_state"], found["destination_state"]

    def _switch(self, order, there, on, timeout):
        """Bring a domain up or down, at the destination too from the source: libvirt there answers it anyway."""
        given = {
            "uri": order["destination_uri"] if there else order["source_uri"],
            "uuid": order["uuid"],
            "state": "running" if on else "shutoff",
            "timeout": timeout,
        }
        answer = self._hand.act("domain", given)
        return None if answer.outcome == certainty.DONE else answer.message

    def _module(self, given):
        # A move has a record of its own on its host, which the next call reads: what fails here ends nothing.
        answer = self._hand.act("domain_migration", given)
        if answer.outcome != certainty.DONE:
            named = answer.message if answer.message.startswith(f"Host {self._host}") else f"Host {self._host}: {answer.message}"
            raise DroverError(f"{named.rstrip('.')}. {ADVICE}")
        return answer.result["moves"]


def refuse_unknown_whereabouts(outcomes):
    """Stop where it is not known on which host an instance is.

    :raises DroverError: with the outcomes in its details.
    """
    failed = [outcome for outcome in outcomes if outcome["status"] != "completed"]
    stuck = [outcome for outcome in failed if outcome["status"] not in UNDONE]
    if stuck:
        raise DroverError(
            "; ".join(f"{outcome['name']} is {outcome['status']}: {outcome['message'].rstrip('.')}" for outcome in stuck)
            + ". Nothing was done about it, as both hosts may be needed to tell. Look at both hosts with "
            "virsh list --all, correct what is wrong there, and run the drain again.",
            migrations=outcomes,
            failed_moves=failed,
        )


def _by_uri(start=(), follow=(), abort=()):
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
