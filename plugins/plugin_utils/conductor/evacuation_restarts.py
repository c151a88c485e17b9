# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find destinations for the instances of a dead host, claim the room, and start them there.

Each restart is claimed in the store before anything is defined, and closed once the destination has shown the instance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.dead_host import FOUND, LEAVE, RESTART, RESUME, DeadHost
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.evacuation_settling import looked_at
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.scheduling import columns_for_moves
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils.planner.evacuation import RAN, files_of, images_of, plan_evacuation
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, clock, evacuations
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import read_columns


class EvacuationPlan(TypedDict):
    """What becomes of each instance, the most important first.

    - restarts: dicts migration (None where nothing is claimed), uuid, name, host and provider (of the destination).
    - found: what another host has already: dicts uuid, name, host, state.
    - left: what is left alone or has no destination: dicts uuid, name, reason. lost: what the dead host alone has: the same.
    """

    restarts: list[dict[str, Any]]
    found: list[dict[str, Any]]
    left: list[dict[str, Any]]
    lost: list[dict[str, Any]]


class Restarted(TypedDict):
    """What became of one start: provider, of the destination; state, of the domain there or None; message, why it is not there."""

    uuid: str
    name: str
    host: str
    provider: str
    state: str | None
    message: str


class EvacuationRestarts:
    """Plans and carries out the restarts of one dead host's instances.

    :param dead: dead_host.DeadHost.
    """

    def __init__(self, dead: DeadHost) -> None:
        self._dead, self._host, self._store = dead, dead.host, dead.store

    def plan(self, policy: Policy, service_down_time: int, failed: dict[str, dict[str, str]], claim: bool) -> EvacuationPlan:
        """Find destinations and, with ``claim``, claim them.

        :param failed: dict instance uuid -> {provider where its start has failed: why, in words}.
        """
        with self._store.read() as connection:
            found = self._dead.verdicts(connection)
            nodes = evacuations.storage(connection)
        result: EvacuationPlan = {"restarts": [], "found": [], "left": [], "lost": []}
        waiting: dict[int, list[dict[str, Any]]] = {}
        for instance, _dummy, act, where, why in found:
            entry = {"uuid": instance["uuid"], "name": instance["name"]}
            if act == RESTART:
                waiting.setdefault(instance["priority"], []).append(instance)
            elif act == RESUME:
                result["restarts"].append(
                    {**entry, "migration": where["uuid"], "host": where["destination"], "provider": where["provider"]}
                )
            elif act == FOUND:
                result["found"].append({**entry, "host": where["host"], "state": where["state"]})
            else:
                result["left" if act == LEAVE else "lost"].append({**entry, "reason": why})
        # The important ones get their places before the others are looked at.
        for _dummy, instances in sorted(waiting.items(), reverse=True):
            with self._store.read() as connection:
                columns = read_columns(connection, clock.now(connection), service_down_time, columns_for_moves(instances, policy))
            wanted, stuck = plan_evacuation(columns, instances, self._host, policy, nodes, failed)
            result["left"] += stuck
            for move in wanted:
                self._claim(move, claim, result)
        return result

    def _claim(self, move: dict[str, Any], claim: bool, result: EvacuationPlan) -> None:
        entry = {key: move[key] for key in ("uuid", "name", "host", "node", "provider")}
        if not claim:
            result["restarts"].append({**entry, "migration": None})
            return
        try:
            with self._dead.step() as (connection, now):
                kind, chosen = migration_claims.EVACUATION, move.get("allocations")
                opened = migration_claims.begin(
                    connection, move["uuid"], move["host"], move["node"], kind, now, self._host, allocations=chosen
                )
        except DroverError as problem:
            result["left"].append({"uuid": move["uuid"], "name": move["name"], "reason": str(problem)})
            return
        result["restarts"].append({**entry, "migration": opened["uuid"]})

    def start(self, destination: str, migrations: list[str], hand: Any, at_once: int, timeout: int) -> dict[str, list[Restarted]]:
        """Start claimed instances at one destination and record what became of them.

        :param migrations: uuids of evacuations to it, in the order to start them.
        :param hand: the way to run modules there.
        :param at_once: how many start at the same time.
        :param timeout: seconds that the start of one may take.
        :returns: a dict: restarted, failed and uncertain.
        """
        result: dict[str, list[Restarted]] = {"restarted": [], "failed": [], "uncertain": []}
        with self._store.read() as connection:
            wanted = evacuations.orders(connection, migrations, destination)
        try:
            hand.reach()
        except DroverError as problem:
            for order in wanted:
                begun = order["status"] != "accepted"
                self._record(destination, order, {"status": "uncertain" if begun else "failed", "message": str(problem)}, result)
            return result
        wanted = self._first(destination, wanted, looked_at([each for each in wanted if each["orders"]], hand, timeout), result)
        for order in wanted:
            order["order"] = bulk.new_uuid()
        with self._dead.step() as (connection, now):
            for order in wanted:
                migration_claims.running(connection, order["migration"], order["order"], now)
        for uri in sorted({order["uri"] for order in wanted}):
            of_uri = {order["uuid"]: order for order in wanted if order["uri"] == uri}
            given = {"uri": uri, "instances": [_instance(order) for order in of_uri.values()], "at_once": at_once, "timeout": timeout}
            for found in _each(hand.act("domain_restart", given), of_uri):
                self._record(destination, of_uri[found["uuid"]], found, result)
        return result

    def _first(
        self, destination: str, wanted: list[dict[str, Any]], found: dict[str, Any], result: dict[str, list[Restarted]]
    ) -> list[dict[str, Any]]:
        """Those that no earlier call can begin there any more; the others are left to the next run."""
        first = []
        for order in wanted:
            entry = found.get(order["uuid"]) if order["orders"] else {"busy": False}
            if entry is not None and not entry["busy"]:
                first.append(order)
            else:
                message = "what an earlier run ordered there may still begin"
                self._record(destination, order, {"status": "uncertain", "message": message}, result)
        return first

    def _record(self, destination: str, order: dict[str, Any], answer: dict[str, Any], result: dict[str, list[Restarted]]) -> None:
        entry: Restarted = {
            "uuid": order["uuid"],
            "name": order["name"],
            "host": destination,
            "provider": order["provider"],
            "state": answer.get("state"),
            "message": answer.get("message") or "",
        }
        if answer["status"] in ("restarted", "there"):
            proof = certainty.is_shown(destination, answer["state"])
            with self._dead.step() as (connection, now):
                migration_claims.finish(connection, order["migration"], proof, answer["state"], now)
            result["restarted"].append(entry)
        elif answer["status"] == "failed":
            proof = certainty.never_begun(f"{destination} says that nothing of it is there, or was not reached.")
            with self._dead.step() as (connection, now):
                migration_claims.undo(connection, order["migration"], proof, answer["message"], now)
            result["failed"].append(entry)
        else:
            result["uncertain"].append(entry)


def _each(answer: certainty.Answer, uuids: Iterable[str]) -> list[dict[str, Any]]:
    """What the module domain_restart says of each instance: dicts uuid, status, state, message."""
    if answer.outcome == certainty.DONE:
        return answer.result["instances"]
    status = "failed" if answer.outcome == certainty.NOTHING else "uncertain"
    return [{"uuid": uuid, "status": status, "message": answer.message} for uuid in uuids]


def _instance(order: dict[str, Any]) -> dict[str, Any]:
    """An instance as the module domain_restart takes it."""
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
