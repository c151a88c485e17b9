# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restart the instances of a dead, fenced host elsewhere.

Nothing of the host runs any more; that is for the caller to see to. Each restart is claimed in the store
before anything is defined, and closed once the destination has shown the instance. So a run that is killed
leaves open evacuations, and the next run finds out from the destinations what became of them.
"""

from __future__ import annotations

import contextlib
import time

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.scheduling import told, wanted_to_move
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, some
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils.placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils.planner.evacuation import (
    RAN,
    blind_nodes,
    files_of,
    images_of,
    plan_evacuation,
    why_lost,
)
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, clock, evacuations, orders
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import read_columns

# What is done about an instance of the dead host.
RESTART, RESUME, FOUND, LEAVE, LOST = "restart", "resume", "found", "leave", "lost"
#: The rule that may be lifted by this name: an instance may be on any host that was not read.
UNREAD = "unread_hosts"


def sort_out(instance, shown, migration, node, read, unread=()):
    """What to do about one instance of the dead host (rules S8 and S9). Data in, data out.

    :param instance: as store.evacuations.instances() returns it.
    :param shown: the other hosts that show it, as store.evacuations.shown() returns them.
    :param migration: its open migration off the dead host, or None.
    :param node: the storage of the node that it was on.
    :param read: the hosts that were read in this run.
    :param unread: the hosts that may have it and were not.
    :returns: (RESTART, RESUME, FOUND, LEAVE or LOST; where, or None; why, in words, or None).
    """
    ours = migration is not None and migration["type"] == migration_claims.EVACUATION
    if len(shown) > 1:
        hosts = " and ".join(place["host"] for place in shown)
        return LEAVE, None, f"it is on {hosts} at once: destroy and undefine all but one of them, and run this again"
    if shown:
        return _shown(instance, shown[0], migration, ours, read)
    if migration is not None:
        known = migration["destination"] in read
        # Accepted: nobody has asked the destination for anything yet.
        begun = not ours or migration["status"] != "accepted"
        if not known and begun:
            where = migration["destination"]
            why = f"it was on its way to {where}, which does not answer, and may run there: bring {where} back, or evacuate it"
            return LEAVE, None, why
        if ours and known:
            return RESUME, migration, None
    if instance["task_state"] == orders.DELETING:
        return LEAVE, None, "it is being removed: run drover.compute.instance_delete again when its host is back"
    reason = why_lost(instance, node)
    if reason:
        return LOST, None, reason
    if unread:
        hosts = some(sorted(unread))
        why = (
            f"it may run on {hosts}, not read now, where somebody may have moved it: bring {hosts} back, or evacuate it first. To go on all the "
            f"same: -e drover_evacuate_force={UNREAD}, which lifts just this rule"
        )
        return LEAVE, None, why
    return RESTART, None, None


def _shown(instance, place, migration, ours, read):
    host = place["host"]
    if host not in read:
        return (
            LEAVE,
            None,
            f"{host} had it when it was last read, and does not answer now: bring {host} back, or evacuate it first",
        )
    ran = instance["state"] in RAN
    if place["state"] in ("running", "blocked"):
        return FOUND, place, None
    if place["state"] == "shutoff":
        if not ran:
            return FOUND, place, None
        if ours and migration["provider"] == place["provider"]:
            return RESUME, migration, None
        why = "is defined there, shut off, and not by an evacuation: start it there or undefine it there"
    else:
        why = f"is {place['state']} there: resume it there, or destroy and undefine it there"
    return LEAVE, None, f"on {host} it {why}, and run this again"


class Evacuation:
    """The evacuation of one dead host.

    :param store: an open Store.
    :param read: names of the hosts that were read in this run.
    :param keep: a function (connection) that renews the lease of the host, or raises DroverError when
        it is lost: it is called in the transaction of each step.
    :param lifted: names of rules that the operator lifts.
    """

    def __init__(self, store, host, read, keep, lifted=()):
        self.store, self.host, self.read, self.keep, self.lifted = store, host, set(read), keep, set(lifted)

    def picture(self, connection):
        """What to do about each instance, the most important first.

        :returns: a list of (instance, its open migration off the host or None, verdict, where, why).
        """
        instances = evacuations.instances(connection, self.host)
        shown = evacuations.shown(connection, [each["uuid"] for each in instances], self.host)
        migrations = {
            each["instance_uuid"]: each for each in evacuations.open_migrations(connection, self.host) if each["source"] == self.host
        }
        storage = evacuations.storage(connection)
        nodes = {each["node"]: each for each in storage.values() if each["host"] == self.host}
        unread = {} if UNREAD in self.lifted else evacuations.unread_nodes(connection, self.host, self.read)
        instances.sort(key=lambda each: (-each["priority"], each["name"], each["uuid"]))
        return [
            (
                each,
                migrations.get(each["uuid"]),
                *sort_out(
                    each,
                    shown.get(each["uuid"], []),
                    migrations.get(each["uuid"]),
                    nodes[each["node"]],
                    self.read,
                    _may_have(each, nodes[each["node"]], storage, unread),
                ),
            )
            for each in instances
        ]

    def withdraw(self, destination, look):
        """Find out at a destination what became of the starts that it was told of, and close those.

        :param look: a function (uri, dict instance uuid -> list of orders) -> dict uuid -> entry of the module domain_order.
        :returns: sentences about what was closed, and about what cannot be told.
        """
        with self.store.read() as connection:
            begun = evacuations.begun_at(connection, self.host, destination)
        found = _looked(begun, look)
        return [self._withdrawn(destination, each, found[each["uuid"]]) for each in begun]

    def _withdrawn(self, destination, each, entry):
        name, proof = each["name"], certainty.is_absent(destination, entry)
        seen = entry["domain"] if entry is not None and not entry["busy"] else None
        if proof is not None:
            with self._step() as connection:
                migration_claims.undo(connection, each["migration"], proof, f"it was not started on {destination}", time.time())
            return f"{name}: it was not started on {destination}."
        if seen is not None and seen["state"] in ("running", "blocked"):
            proof = certainty.is_shown(destination, seen["state"])
            with self._step() as connection:
                migration_claims.finish(connection, each["migration"], proof, seen["state"], time.time())
            return f"{name}: it runs on {destination}."
        state = f"is {seen['state']} there" if seen is not None else "cannot be told"
        return f"{name}: its start on {destination} was begun, and what became of it {state}: left as it is."

    def settle(self):
        """Close what can be closed by what the living hosts show.

        :returns: a list of sentences about what was closed, and about what cannot be told.
        """
        said = self._settle_arrivals()
        with self.store.read() as connection:
            found = self.picture(connection)
        for instance, migration, verdict, where, _dummy in found:
            if verdict == FOUND:
                said.append(self._record_found(instance, where, migration))
            elif verdict in (RESTART, LOST) and migration is not None:
                proof = self._is_over(migration)
                if proof is None:
                    continue
                with self._step() as connection:
                    migration_claims.undo(connection, migration["uuid"], proof, f"{self.host} died before it had moved", time.time())
                said.append(f"{instance['name']}: its {migration['type']} to {migration['destination']} came to nothing; it is closed.")
            if instance["state"] == claims.BUILDING:
                said.append(self._release(instance))
        return said

    def _release(self, instance):
        """One that was only being built is not restarted: nothing of it runs, and it has no disks that somebody has written to."""
        proof = certainty.is_off(self.host)
        with self._step() as connection:
            row = orders.read(connection, instance["uuid"])
            orders.end(connection, instance["uuid"], row.order_uuid)
            claims.release(connection, [instance["uuid"]], proof, time.time())
        return f"{instance['name']}: it was only being built; its claim is given back, so that it can be placed again."

    def _is_over(self, migration):
        """The Proof that a migration off the dead host is not carried on, or None."""
        if migration["type"] != migration_claims.EVACUATION:
            return certainty.is_off(self.host)
        if migration["status"] == "accepted":
            return certainty.never_begun(f"{migration['destination']} was not told of it.")
        return None

    def settle_returned(self):
        """The host answers: close what an evacuation that was cut short has left open.

        :returns: (sentences about what was closed, [{uuid, name, reason}] of what cannot be told).
        """
        said, left = [], []
        with self.store.read() as connection:
            found = [
                each
                for each in evacuations.open_migrations(connection, self.host)
                if each["source"] == self.host and each["type"] == migration_claims.EVACUATION
            ]
            shown = evacuations.shown(connection, [each["instance_uuid"] for each in found], self.host)
        for each in found:
            name, where, places = each["name"], each["destination"], shown.get(each["instance_uuid"], [])
            reason = None
            if where not in self.read:
                reason = f"it may run on {where}, which was not read"
            elif not places and self._is_over(each) is None:
                reason = f"it may be about to start on {where}: run this again"
            elif not places:
                with self._step() as connection:
                    migration_claims.undo(connection, each["uuid"], self._is_over(each), f"{self.host} is back", time.time())
                said.append(f"{name}: it was not started on {where}, and is on {self.host} as before.")
            elif [place["provider"] for place in places] == [each["provider"]] and places[0]["state"] in (
                "running",
                "blocked",
            ):
                proof = certainty.is_shown(where, places[0]["state"])
                with self._step() as connection:
                    migration_claims.finish(connection, each["uuid"], proof, places[0]["state"], time.time())
                said.append(f"{name}: it runs on {where}.")
            else:
                seen = " and ".join(f"{place['state']} on {place['host']}" for place in places)
                reason = f"it is {seen}: undefine it there, or start it there, and run this again"
            if reason:
                left.append({"uuid": each["instance_uuid"], "name": name, "reason": reason})
        return said, left

    def _settle_arrivals(self):
        """Migrations to the dead host, by what their living source shows."""
        said = []
        with self.store.read() as connection:
            coming = [each for each in evacuations.open_migrations(connection, self.host) if each["source"] != self.host]
            shown = evacuations.shown(connection, [each["instance_uuid"] for each in coming], self.host)
        for each in coming:
            name, source = each["name"], each["source"]
            there = any(place["host"] == source for place in shown.get(each["instance_uuid"], ()))
            if each["type"] != migration_claims.EVACUATION and source not in self.read:
                said.append(f"{name}: it was on its way from {source}, which does not answer: left as it is.")
                continue
            with self._step() as connection:
                if there or each["type"] == migration_claims.EVACUATION:
                    migration_claims.undo(connection, each["uuid"], certainty.is_off(self.host), f"{self.host} died", time.time())
                    said.append(f"{name}: it was on its way from {source} and is still there.")
                else:
                    migration_claims.finish(connection, each["uuid"], certainty.is_not_shown(source), None, time.time())
                    said.append(f"{name}: it had arrived from {source}, which no longer has it.")
        return said

    def _record_found(self, instance, where, migration):
        """An instance that another host has already is recorded there, as one that was evacuated."""
        uuid, now = instance["uuid"], time.time()
        opened = migration
        if migration is not None and not (migration["type"] == migration_claims.EVACUATION and migration["provider"] == where["provider"]):
            opened = None
            if self._is_over(migration) is None:
                return (
                    f"{instance['name']}: it is {where['state']} on {where['host']}, and its start on {migration['destination']} was begun "
                    "too: left as it is until that host answers."
                )
        try:
            with self._step() as connection:
                if migration is not None and opened is None:
                    message = f"{self.host} died; found on {where['host']}"
                    migration_claims.undo(connection, migration["uuid"], self._is_over(migration), message, now)
                if opened is None:
                    opened = migration_claims.begin(
                        connection, uuid, where["host"], where["node"], migration_claims.EVACUATION, now, self.host
                    )
                migration_claims.finish(connection, opened["uuid"], certainty.is_shown(where["host"], where["state"]), where["state"], now)
        except DroverError as problem:
            return f"{instance['name']}: it is {where['state']} on {where['host']} already, but cannot be recorded there: {problem}"
        return f"{instance['name']}: it is {where['state']} on {where['host']} already."

    def plan(self, policy, service_down_time, failed, claim):
        """Find destinations and, with ``claim``, claim them.

        :param failed: dict instance uuid -> list of providers where its start has failed.
        :returns: a dict: restarts [{migration (None without claim), uuid, name, host, node, provider}], the
            most important first; found, left, lost [{uuid, name, host or reason}].
        """
        with self.store.read() as connection:
            found = self.picture(connection)
            nodes = evacuations.storage(connection)
        result = {"restarts": [], "found": [], "left": [], "lost": []}
        waiting = {}
        for instance, _dummy, verdict, where, why in found:
            entry = {"uuid": instance["uuid"], "name": instance["name"]}
            if verdict == RESTART:
                waiting.setdefault(instance["priority"], []).append(instance)
            elif verdict == RESUME:
                result["restarts"].append(
                    {**entry, "migration": where["uuid"], "host": where["destination"], "provider": where["provider"]}
                )
            elif verdict == FOUND:
                result["found"].append({**entry, "host": where["host"], "state": where["state"]})
            else:
                result["left" if verdict == LEAVE else "lost"].append({**entry, "reason": why})
        # The important ones get their places before the others are looked at.
        for _dummy, instances in sorted(waiting.items(), reverse=True):
            with self.store.read() as connection:
                columns = read_columns(connection, clock.now(connection), service_down_time, wanted_to_move(instances, policy))
            instances = told(instances, columns)
            wanted, stuck = plan_evacuation(columns, instances, self.host, policy, nodes, failed)
            result["left"] += stuck
            for move in wanted:
                self._claim(move, claim, result)
        return result

    def _claim(self, move, claim, result):
        entry = {key: move[key] for key in ("uuid", "name", "host", "node", "provider")}
        if not claim:
            result["restarts"].append({**entry, "migration": None})
            return
        try:
            with self._step() as connection:
                opened = migration_claims.begin(
                    connection, move["uuid"], move["host"], move["node"], migration_claims.EVACUATION, time.time(), self.host
                )
        except DroverError as problem:
            result["left"].append({"uuid": move["uuid"], "name": move["name"], "reason": str(problem)})
            return
        result["restarts"].append({**entry, "migration": opened["uuid"]})

    def restart(self, destination, migrations, reach, look, start):
        """Start claimed instances at one destination and record what became of them.

        :param migrations: uuids of evacuations to it, in the order to start them.
        :param reach: a function () that raises DroverError where the destination does not answer.
        :param look: as withdraw() takes it.
        :param start: a function (uri, instances) -> list of dicts uuid, status, state, message, as the
            module domain_restart has them; it raises DroverError when the destination was lost on the way.
        :returns: a dict: restarted, failed and uncertain, each [{uuid, name, host, provider, message}].
        """
        result = {"restarted": [], "failed": [], "uncertain": []}
        with self.store.read() as connection:
            wanted = evacuations.orders(connection, migrations, destination)
        if not wanted:
            return result
        try:
            reach()
        except DroverError as problem:
            for order in wanted:
                begun = order["status"] != "accepted"
                self._record(destination, order, {"status": "uncertain" if begun else "failed", "message": str(problem)}, result)
            return result
        wanted = self._first(destination, wanted, look, result)
        for order in wanted:
            order["order"] = bulk.new_uuid()
        with self._step() as connection:
            for order in wanted:
                migration_claims.running(connection, order["migration"], order["order"], time.time())
        for uri in sorted({order["uri"] for order in wanted}):
            of_uri = {order["uuid"]: order for order in wanted if order["uri"] == uri}
            try:
                answers = start(uri, [_instance(order) for order in of_uri.values()])
            except DroverError as problem:
                answers = [{"uuid": uuid, "status": "uncertain", "message": str(problem)} for uuid in of_uri]
            for answer in answers:
                self._record(destination, of_uri[answer["uuid"]], answer, result)
        return result

    def _first(self, destination, wanted, look, result):
        """Those that no earlier call can begin there any more; the others are left to the next run."""
        found = _looked([order for order in wanted if order["orders"]], look)
        first = []
        for order in wanted:
            entry = found.get(order["uuid"]) if order["orders"] else {"busy": False}
            if entry is not None and not entry["busy"]:
                first.append(order)
            else:
                message = "what an earlier run ordered there may still begin"
                self._record(destination, order, {"status": "uncertain", "message": message}, result)
        return first

    def _record(self, destination, order, answer, result):
        entry = {
            "uuid": order["uuid"],
            "name": order["name"],
            "host": destination,
            "provider": order["provider"],
            "state": answer.get("state"),
            "message": answer.get("message") or "",
        }
        if answer["status"] in ("restarted", "there"):
            proof = certainty.is_shown(destination, answer["state"])
            with self._step() as connection:
                migration_claims.finish(connection, order["migration"], proof, answer["state"], time.time())
            result["restarted"].append(entry)
        elif answer["status"] == "failed":
            proof = certainty.never_begun(f"{destination} says that nothing of it is there, or was not reached.")
            with self._step() as connection:
                migration_claims.undo(connection, order["migration"], proof, answer["message"], time.time())
            result["failed"].append(entry)
        else:
            result["uncertain"].append(entry)

    @contextlib.contextmanager
    def _step(self):
        """A write transaction that begins by renewing the lease: who has lost it writes nothing."""
        with self.store.write() as connection:
            self.keep(connection)
            yield connection


def _looked(begun, look):
    """What a destination shows of instances, once what was ordered of them before is withdrawn: dict uuid -> entry or None.

    :param begun: dicts uuid, uri and orders.
    :param look: see Evacuation.withdraw().
    """
    found = {}
    for uri in sorted({each["uri"] for each in begun}):
        found.update(look(uri, {each["uuid"]: each["orders"] for each in begun if each["uri"] == uri}))
    return found


def _instance(order):
    return {
        "uuid": order["uuid"],
        "name": order["name"],
        "xml": order["xml"],
        "running": order["state"] in RAN,
        "autostart": bool(order["autostart"]),
        "files": files_of(order["disks"]),
        "order": order["order"],
        "images": images_of(order["disks"], order["node"], order["there"]),
    }


def _may_have(instance, node, storage, unread):
    """The hosts that were not read and see the storage of an instance."""
    if not unread:
        return []
    blind = set(blind_nodes(instance, node, {provider: storage[provider] for provider in unread if provider in storage}))
    return sorted({host for provider, host in unread.items() if provider not in blind})
