# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The restarts of the instances of a dead host: destinations, claims and starts.

Each restart is claimed in the store before a domain is defined. It is closed after the destination
has shown the instance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import NumaBinding
from ansible_collections.drover.compute.plugins.module_utils._migration import passthrough
from ansible_collections.drover.compute.plugins.module_utils._migration.rebinding import rebound
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Devices

from .._common import certainty
from .._common.errors import DroverError, some
from .._migrations import claimed_cells, claimed_devices
from .._migrations import claims as migration_claims
from .._planner.evacuation import RAN, files_of, images_of, plan_evacuation
from .._records.hosts import Sighting, StorageOfNode
from .._records.instances import EvacuatedInstance
from .._records.orders import RestartOrder
from .._records.outcomes import DomainLook, RestartAnswer, RestartOutcome
from .._records.plans import DrainMove, EvacuationPlan, FoundInstance, Restart
from .._records.statuses import RestartStatus
from .._scheduler.policy import Policy
from .._store.database import bulk, clock
from .._store.instances import evacuations, orders
from . import starting
from .dead_host import ARRIVED, LEAVE, LOST, RESTART, RESUME, DeadHost, has_data
from .evacuation_settling import looked_at
from .ports import Hand
from .scheduling import columns_for_moves, read_all_columns
from .starting import Starting


class Starts(TypedDict):
    """The results of starts: the instances that run, that do not run, and that are uncertain."""

    restarted: list[RestartOutcome]
    failed: list[RestartOutcome]
    uncertain: list[RestartOutcome]


class EvacuationRestarts:
    """The planner and executor of the restarts of one dead host's instances.

    :ivar elsewhere: hosts that showed an instance right before its start; their recorded reports
        are old.
    """

    def __init__(self, dead: DeadHost) -> None:
        self._dead, self._host, self._store = dead, dead.host, dead.store
        self.elsewhere: set[str] = set()

    def plan(
        self, policy: Policy, service_down_time: int, failed: dict[str, dict[str, str]]
    ) -> EvacuationPlan:
        """Find destinations and claim them.

        :param failed: dict instance uuid -> {provider of a failed start: the reason}.
        """
        with self._store.read() as connection:
            verdicts = self._dead.verdicts(connection)
            nodes = evacuations.storage(connection)
        result: EvacuationPlan = {"restarts": [], "found": [], "left": [], "lost": []}
        kept = {LEAVE: result["left"], LOST: result["lost"]}
        waiting: dict[int, list[EvacuatedInstance]] = {}
        for instance, migration, act, place, reason in verdicts:
            uuid, name = instance["uuid"], instance["name"]
            if act == RESTART:
                waiting.setdefault(instance["priority"], []).append(instance)
            elif act == RESUME and migration is not None:
                host, provider = migration["destination"], migration["provider"]
                result["restarts"].append(
                    {
                        "uuid": uuid,
                        "name": name,
                        "migration": migration["uuid"],
                        "host": host,
                        "provider": provider,
                    }
                )
            elif place is not None and (act == ARRIVED or uuid in self._dead.refused):
                moved = (
                    f"its move had taken it to {place['host']}, where it is off: run this again,"
                    " which starts it there"
                )
                result["left"].append(
                    {"uuid": uuid, "name": name, "reason": self._dead.refused.get(uuid, moved)}
                )
            elif place is not None:
                result["found"].append(_found(instance, place))
            else:
                kept[act].append({"uuid": uuid, "name": name, "reason": reason})
        # Place the instances of high priority before the others are considered.
        for _priority, instances in sorted(waiting.items(), reverse=True):
            self._find_destinations(instances, policy, service_down_time, nodes, failed, result)
        return result

    def open_orders(self) -> list[str]:
        """Return sentences on open orders of the instances, and on disks that their restart loses.

        Such a disk was only in the running guest and is not in the definition.
        """
        with self._store.read() as connection:
            instances = evacuations.instances(connection, self._host)
        sentences = [
            f"{each['name']}: it {orders.was_doing(each['task_state'])} when {self._host} died; its"
            " restart ends that."
            for each in instances
            if each["task_state"] in orders.ENDED_BY_EVACUATION
        ]
        for instance in instances:
            targets = {disk.get("target") for disk in instance["disks"]}
            lost = [
                f"{disk['target']} ({disk['source']})"
                for disk in instance["running_disks"]
                if instance["state"] in RAN and has_data(disk) and disk.get("target") not in targets
            ]
            if lost:
                sentences.append(
                    f"{instance['name']}: its disk {some(lost)}, which only the running guest had,"
                    " is not in its definition, from which it restarts: attach it with"
                    " drover.compute.instance_disk afterwards."
                )
        return sentences

    def found(self) -> list[FoundInstance]:
        """Return the instances that other hosts already show."""
        with self._store.read() as connection:
            return [
                _found(each.instance, each.place)
                for each in self._dead.verdicts(connection)
                if each.place is not None
            ]

    def _find_destinations(
        self,
        instances: list[EvacuatedInstance],
        policy: Policy,
        service_down_time: int,
        nodes: Mapping[str, StorageOfNode],
        failed: Mapping[str, Mapping[str, str]],
        result: EvacuationPlan,
    ) -> None:
        """Find and claim destinations for instances of one priority; add them to the result."""
        with self._store.read() as connection:
            columns = read_all_columns(
                connection,
                clock.now(connection),
                service_down_time,
                columns_for_moves(instances, policy),
            )
        wanted, stuck = plan_evacuation(columns, instances, self._host, policy, nodes, failed)
        result["left"] += stuck
        for move in wanted:
            self._claim(move, result)

    def _claim(self, move: DrainMove, result: EvacuationPlan) -> None:
        try:
            with self._dead.step() as (connection, now):
                kind, chosen = migration_claims.EVACUATION, move.get("allocations")
                opened = migration_claims.begin(
                    connection,
                    move["uuid"],
                    move["host"],
                    move["node"],
                    kind,
                    now,
                    self._host,
                    allocations=chosen,
                )
        except DroverError as problem:
            result["left"].append(
                {"uuid": move["uuid"], "name": move["name"], "reason": str(problem)}
            )
            return
        restart: Restart = {
            "uuid": move["uuid"],
            "name": move["name"],
            "host": move["host"],
            "node": move["node"],
            "provider": move["provider"],
            "migration": opened["uuid"],
        }
        result["restarts"].append(restart)

    def start(
        self,
        destination: str,
        migrations: Sequence[str],
        hand: Hand,
        at_once: int,
        timeout: int,
        looked: Starting,
    ) -> Starts:
        """Start claimed instances at one destination and record the results.

        :param migrations: uuids of evacuations to it, in the order of their starts.
        :param at_once: the number of instances that start at the same time.
        :param timeout: seconds that one start may take.
        :param looked: makes the proofs. The plan has already judged the hosts that do not answer.
        """
        result: Starts = {"restarted": [], "failed": [], "uncertain": []}
        with self._store.read() as connection:
            restarts = evacuations.orders(connection, migrations, destination)
            numa = claimed_cells.read(
                connection, {order["uuid"]: order["node_id"] for order in restarts}
            )
            devices = claimed_devices.read(
                connection,
                {order["uuid"]: (order["source_id"], order["node_id"]) for order in restarts},
            )
        try:
            hand.reach()
        except DroverError as problem:
            for order in restarts:
                begun = order["status"] != "accepted"
                answer: RestartAnswer = {
                    "uuid": order["uuid"],
                    "status": "uncertain" if begun else "failed",
                    "message": str(problem),
                }
                self._record(destination, order, answer, result)
            return result
        restarts = self._orders_without_call(
            destination,
            restarts,
            looked_at([each for each in restarts if each["orders"]], hand, timeout),
            result,
        )
        restarts, proofs = self._proven(destination, restarts, looked, result)
        for order in restarts:
            order["order"] = bulk.new_uuid()
        with self._dead.step() as (connection, now):
            for order in restarts:
                migration_claims.running(connection, order["migration"], order["order"], now)
        for uri in sorted({order["uri"] for order in restarts}):
            of_uri = {order["uuid"]: order for order in restarts if order["uri"] == uri}
            options = {
                "uri": uri,
                "instances": [
                    _instance(
                        order, numa.get(order["uuid"]), devices.get(order["uuid"], passthrough.NONE)
                    )
                    for order in of_uri.values()
                ],
                "at_once": at_once,
                "timeout": timeout,
            }
            for restarted in _each(
                starting.order(hand, destination, "_domain_restart", options, proofs), of_uri
            ):
                self._record(destination, of_uri[restarted["uuid"]], restarted, result)
        return result

    def _proven(
        self, destination: str, wanted: Sequence[RestartOrder], looked: Starting, result: Starts
    ) -> tuple[list[RestartOrder], list[certainty.StartProof]]:
        """Return the orders of instances that no other host shows now, with the proofs.

        End the others.
        """
        instances = {order["uuid"]: order["name"] for order in wanted}
        proofs, stay = looked.prove_each(
            destination, instances, lambda name: "it is not started", silent=False
        )
        for order in wanted:
            if order["uuid"] in stay:
                places = looked.places(order["uuid"])
                self.elsewhere |= places - {destination}
                # A domain that an earlier run defined there keeps its room there.
                answer: RestartAnswer = {
                    "uuid": order["uuid"],
                    "status": "uncertain" if destination in places else "failed",
                    "message": stay[order["uuid"]],
                }
                self._record(destination, order, answer, result)
        return [order for order in wanted if order["uuid"] not in stay], proofs

    def _orders_without_call(
        self,
        destination: str,
        wanted: Iterable[RestartOrder],
        found: Mapping[str, DomainLook | None],
        result: Starts,
    ) -> list[RestartOrder]:
        """Return the orders without an earlier call that could still begin.

        Leave the others to the next run.
        """
        first = []
        for order in wanted:
            seen = found.get(order["uuid"])
            if not order["orders"] or (seen is not None and not seen["busy"]):
                first.append(order)
            else:
                message = "what an earlier run ordered there may still begin"
                self._record(
                    destination,
                    order,
                    {"uuid": order["uuid"], "status": "uncertain", "message": message},
                    result,
                )
        return first

    def _record(
        self, destination: str, order: RestartOrder, answer: RestartAnswer, result: Starts
    ) -> None:
        outcome: RestartOutcome = {
            "uuid": order["uuid"],
            "name": order["name"],
            "host": destination,
            "provider": order["provider"],
            "state": answer.get("state"),
            "message": answer.get("message") or "",
        }
        state = outcome["state"]
        if answer["status"] in ("restarted", "there") and state is not None:
            proof = certainty.is_shown(destination, state)
            with self._dead.step() as (connection, now):
                migration_claims.finish(connection, order["migration"], proof, state, now)
            result["restarted"].append(outcome)
        elif answer["status"] == "failed":
            proof = certainty.never_begun(
                f"{destination} says that nothing of it is there, or was not reached."
            )
            with self._dead.step() as (connection, now):
                migration_claims.undo(
                    connection, order["migration"], proof, outcome["message"], now
                )
            result["failed"].append(outcome)
        else:
            result["uncertain"].append(outcome)


def _found(instance: EvacuatedInstance, place: Sighting) -> FoundInstance:
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "host": place["host"],
        "state": place["state"],
    }


def _each(answer: certainty.Answer, uuids: Collection[str]) -> list[RestartAnswer]:
    """Return the answers of the module _domain_restart, one for each instance."""
    if answer.outcome == certainty.DONE:
        return answer.result["instances"]
    status: RestartStatus = "failed" if answer.outcome == certainty.NOTHING else "uncertain"
    return [{"uuid": uuid, "status": status, "message": answer.message} for uuid in uuids]


def _instance(order: RestartOrder, numa: NumaBinding | None, devices: Devices) -> dict[str, object]:
    """Return an instance as the module _domain_restart takes it.

    :param numa: the CPUs and cells of its claim there. The old domain has CPUs and cells of the
        dead host.
    :param devices: the fact ``devices`` of its move.
    """
    return {
        "uuid": order["uuid"],
        "name": order["name"],
        "xml": _xml_there(order["xml"], numa, devices),
        "pci_devices": [each["address_there"] for each in devices["pci"]],
        "mdevs": passthrough.made_there(devices),
        "running": order["state"] in RAN,
        "autostart": bool(order["autostart"]),
        "files": files_of(order["disks"]),
        "snapshotting": order["snapshotting"],
        "order": order["order"],
        "images": images_of(order["disks"], order["node"], order["there"]),
    }


def _xml_there(text: str | None, numa: NumaBinding | None, devices: Devices) -> str | None:
    if text is None:
        return None
    try:
        return passthrough.with_devices_there(
            text if numa is None else rebound(text, numa), devices
        )
    except ValueError:
        # The destination refuses such XML and gives the reason.
        return text
