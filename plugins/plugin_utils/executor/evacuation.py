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

from ansible_collections.drover.compute.plugins.plugin_utils.deciding import told, wanted_to_move
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import moves
from ansible_collections.drover.compute.plugins.plugin_utils.planner.evacuation import (
    RAN,
    files_of,
    plan_evacuation,
    why_lost,
)
from ansible_collections.drover.compute.plugins.plugin_utils.store import evacuations
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import read_columns

# What is done about an instance of the dead host.
RESTART, RESUME, FOUND, LEAVE, LOST = "restart", "resume", "found", "leave", "lost"


def sort_out(instance, shown, migration, node, read):
    """What to do about one instance of the dead host (rules S8 and S9). Data in, data out.

    :param instance: as store.evacuations.instances() returns it.
    :param shown: the other hosts that show it, as store.evacuations.shown() returns them.
    :param migration: its open migration off the dead host, or None.
    :param node: the storage of the node that it was on.
    :param read: the hosts that were read in this run.
    :returns: (RESTART, RESUME, FOUND, LEAVE or LOST; where, or None; why, in words, or None).
    """
    ours = migration is not None and migration["type"] == moves.EVACUATION
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
    reason = why_lost(instance, node)
    return (LOST, None, reason) if reason else (RESTART, None, None)


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
    """

    def __init__(self, store, host, read, keep):
        self.store, self.host, self.read, self.keep = store, host, set(read), keep

    def picture(self, connection):
        """What to do about each instance, the most important first.

        :returns: a list of (instance, its open migration off the host or None, verdict, where, why).
        """
        instances = evacuations.instances(connection, self.host)
        shown = evacuations.shown(connection, [each["uuid"] for each in instances], self.host)
        migrations = {
            each["instance_uuid"]: each
            for each in evacuations.open_migrations(connection, self.host)
            if each["source"] == self.host
        }
        nodes = {each["node"]: each for each in evacuations.storage(connection).values() if each["host"] == self.host}
        instances.sort(key=lambda each: (-each["priority"], each["name"], each["uuid"]))
        return [
            (
                each,
                migrations.get(each["uuid"]),
                *sort_out(
                    each, shown.get(each["uuid"], []), migrations.get(each["uuid"]), nodes[each["node"]], self.read
                ),
            )
            for each in instances
        ]

    def settle(self):
        """Close what can be closed by what the living hosts show.

        :returns: a list of sentences about what was closed, and about what cannot be told.
        """
        said = self._settle_arrivals()
        with self.store.read() as connection:
            found = self.picture(connection)
        for instance, migration, verdict, where, dummy in found:
            if verdict == FOUND:
                said.append(self._record_found(instance, where, migration))
            elif verdict in (RESTART, LOST) and migration is not None:
                with self._step() as connection:
                    moves.undo(connection, migration["uuid"], f"{self.host} died before it had moved", time.time())
                said.append(
                    f"{instance['name']}: its {migration['type']} to {migration['destination']} came to nothing; it is closed."
                )
        return said

    def settle_returned(self):
        """The host answers: close what an evacuation that was cut short has left open.

        :returns: (sentences about what was closed, [{uuid, name, reason}] of what cannot be told).
        """
        said, left = [], []
        with self.store.read() as connection:
            found = [
                each
                for each in evacuations.open_migrations(connection, self.host)
                if each["source"] == self.host and each["type"] == moves.EVACUATION
            ]
            shown = evacuations.shown(connection, [each["instance_uuid"] for each in found], self.host)
        for each in found:
            name, where, places = each["name"], each["destination"], shown.get(each["instance_uuid"], [])
            reason = None
            if where not in self.read:
                reason = f"it may run on {where}, which was not read"
            elif not places:
                with self._step() as connection:
                    moves.undo(connection, each["uuid"], f"{self.host} is back", time.time())
                said.append(f"{name}: it was not started on {where}, and is on {self.host} as before.")
            elif [place["provider"] for place in places] == [each["provider"]] and places[0]["state"] in (
                "running",
                "blocked",
            ):
                with self._step() as connection:
                    moves.finish(connection, each["uuid"], places[0]["state"], time.time())
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
            coming = [
                each for each in evacuations.open_migrations(connection, self.host) if each["source"] != self.host
            ]
            shown = evacuations.shown(connection, [each["instance_uuid"] for each in coming], self.host)
        for each in coming:
            name, source = each["name"], each["source"]
            there = any(place["host"] == source for place in shown.get(each["instance_uuid"], ()))
            if each["type"] != moves.EVACUATION and source not in self.read:
                said.append(f"{name}: it was on its way from {source}, which does not answer: left as it is.")
                continue
            with self._step() as connection:
                if there or each["type"] == moves.EVACUATION:
                    moves.undo(connection, each["uuid"], f"{self.host} died", time.time())
                    said.append(f"{name}: it was on its way from {source} and is still there.")
                else:
                    moves.finish(connection, each["uuid"], None, time.time())
                    said.append(f"{name}: it had arrived from {source}, which no longer has it.")
        return said

    def _record_found(self, instance, where, migration):
        """An instance that another host has already is recorded there, as one that was evacuated."""
        uuid, now = instance["uuid"], time.time()
        try:
            with self._step() as connection:
                opened = migration
                if migration is not None and not (
                    migration["type"] == moves.EVACUATION and migration["provider"] == where["provider"]
                ):
                    message = f"{self.host} died; found on {where['host']}"
                    moves.undo(connection, migration["uuid"], message, now)
                    opened = None
                if opened is None:
                    opened = moves.begin(
                        connection, uuid, where["host"], where["node"], moves.EVACUATION, now, self.host
                    )
                moves.finish(connection, opened["uuid"], where["state"], now)
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
        for instance, dummy, verdict, where, why in found:
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
        for dummy, instances in sorted(waiting.items(), reverse=True):
            with self.store.read() as connection:
                columns = read_columns(connection, time.time(), service_down_time, wanted_to_move(instances, policy))
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
                opened = moves.begin(
                    connection, move["uuid"], move["host"], move["node"], moves.EVACUATION, time.time(), self.host
                )
        except DroverError as problem:
            result["left"].append({"uuid": move["uuid"], "name": move["name"], "reason": str(problem)})
            return
        result["restarts"].append({**entry, "migration": opened["uuid"]})

    def restart(self, destination, migrations, reach, start):
        """Start claimed instances at one destination and record what became of them.

        :param migrations: uuids of evacuations to it, in the order to start them.
        :param reach: a function () that raises DroverError where the destination does not answer.
        :param start: a function (uri, instances) -> list of dicts uuid, status, state, message, as the
            module domain_restart has them; it raises DroverError when the destination was lost on the way.
        :returns: a dict: restarted, failed and uncertain, each [{uuid, name, host, provider, message}].
        """
        result = {"restarted": [], "failed": [], "uncertain": []}
        with self.store.read() as connection:
            orders = evacuations.orders(connection, migrations, destination)
        if not orders:
            return result
        try:
            reach()
        except DroverError as problem:
            for order in orders:
                begun = order["status"] != "accepted"
                self._record(
                    destination, order, {"status": "uncertain" if begun else "failed", "message": str(problem)}, result
                )
            return result
        with self._step() as connection:
            for order in orders:
                moves.running(connection, order["migration"], time.time())
        for uri in sorted({order["uri"] for order in orders}):
            of_uri = {order["uuid"]: order for order in orders if order["uri"] == uri}
            try:
                answers = start(uri, [_instance(order) for order in of_uri.values()])
            except DroverError as problem:
                answers = [{"uuid": uuid, "status": "uncertain", "message": str(problem)} for uuid in of_uri]
            for answer in answers:
                self._record(destination, of_uri[answer["uuid"]], answer, result)
        return result

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
            with self._step() as connection:
                moves.finish(connection, order["migration"], answer["state"], time.time())
            result["restarted"].append(entry)
        elif answer["status"] == "failed":
            with self._step() as connection:
                moves.undo(connection, order["migration"], answer["message"], time.time())
            result["failed"].append(entry)
        else:
            result["uncertain"].append(entry)

    @contextlib.contextmanager
    def _step(self):
        """A write transaction that begins by renewing the lease: who has lost it writes nothing."""
        with self.store.write() as connection:
            self.keep(connection)
            yield connection


def _instance(order):
    return {
        "uuid": order["uuid"],
        "name": order["name"],
        "xml": order["xml"],
        "running": order["state"] in RAN,
        "autostart": bool(order["autostart"]),
        "files": files_of(order["disks"]),
    }
