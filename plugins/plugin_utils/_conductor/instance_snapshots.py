# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of instances on any host: make one, delete one, revert to one, or list them.

The order is in the store before the hypervisor gets it. While it is open, no run moves the instance
or restarts it elsewhere, because its newest image is not known. The order is closed when its host
shows the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._common import certainty
from .._common.errors import DroverError, TimeOver
from .._records.domains import ReportedDomain
from .._records.instances import NamedInstance
from .._records.outcomes import SnapshotOutcome
from .._store.database import bulk
from .._store.hosts import continuity
from .._store.instances import instance_lookup, orders
from . import starting
from .instance_order import InstanceOrder, named_domain, refuse_moved, sentence_of
from .ports import Hand, Ports
from .starting import Starting

MODULE = "_domain_snapshot"
PRESENT, ABSENT, REVERTED = "present", "absent", "reverted"
#: The beginning of a refusal, by the wanted state; None to list snapshots.
NOT_DONE = {
    PRESENT: "No snapshot is made",
    ABSENT: "No snapshot is deleted",
    REVERTED: "It is not reverted",
    None: "Its host is not asked",
}
#: The messages afterwards: (done, in check mode).
SAID = {
    PRESENT: ("the snapshot {} was made", "the snapshot {} would be made"),
    ABSENT: (
        "the snapshot {} was deleted; the guest has all that it had",
        "the snapshot {} would be deleted",
    ),
    REVERTED: ("its disks are as of the snapshot {}", "its disks would be as of the snapshot {}"),
}
#: Seconds that a look waits for a running call, and that a run holds its lease beyond the time of a
#: merge.
GRACE, SPARE = 30, 300


class SnapshotRequest(NamedTuple):
    """The request for each instance.

    - state: PRESENT, ABSENT, REVERTED, or None to list.
    - name: the name of the snapshot.
    - description: the description of a new snapshot.
    - discard: remove all data that the guest wrote after the snapshot, in a revert to it.
    - timeout: seconds that a merge may take.
    """

    state: str | None
    name: str | None = None
    description: str | None = None
    discard: bool = False
    timeout: int = 600


class InstanceSnapshots(InstanceOrder):
    """A run on snapshots. A failure of one instance stops no other."""

    def __init__(self, ports: Ports, request: SnapshotRequest, check_mode: bool = False) -> None:
        super().__init__(ports, check_mode)
        self._request, self._proofs = request, Starting(ports)
        self._differences: list[dict[str, object]] = []

    def run(
        self, wanted: Sequence[Any]
    ) -> tuple[list[SnapshotOutcome], list[dict[str, object]], list[str]]:
        """Make, delete, revert to or list the snapshots.

        :param wanted: names, uuids, or mappings of both.
        :returns: (outcomes, differences, sentences on failures).
        :raises DroverError: an instance is not known, or the time of the whole run is over.
        """
        instance_lookup.refuse_none(wanted)
        with self._store.read() as connection:
            found = instance_lookup.find(connection, wanted)
        outcomes, failed = [], []
        for instance in found:
            try:
                outcomes.append(self._run_for_instance(instance_lookup.as_named(instance)))
            except TimeOver:
                raise
            except DroverError as problem:
                failed.append(str(problem))
                outcomes.append(_outcome(instance, {"changed": False}, str(problem)))
        return outcomes, self._differences, failed

    def _run_for_instance(self, wanted: Mapping[str, str]) -> SnapshotOutcome:
        instance = self._find_instance(wanted)
        if self._request.state is None:
            result = self._read_snapshots(self._hand(instance), instance)
            return _outcome(instance, {**result, "changed": False})
        if self._request.state == REVERTED:
            self._own.refuse_stop([instance], NOT_DONE[REVERTED])
        host, seconds = instance["host"] or "", self._request.timeout + SPARE
        with self._lease(host, "working on snapshots of instances", seconds):
            again = self._find_instance(wanted)
            refuse_moved(again, host, NOT_DONE[self._request.state])
            result = self._change_snapshots(again)
        outcome = _outcome(again, result)
        self._tell(outcome)
        return outcome

    def _find_instance(self, wanted: Mapping[str, str]) -> NamedInstance:
        instance = self._read_instance(wanted)
        not_done = NOT_DONE[self._request.state]
        if self._request.state is not None:
            # A revert during an unconfirmed resize would combine another definition with the disks
            # from before.
            instance_lookup.refuse(instance, not_done, order=orders.SNAPSHOTTING)
        if instance["host"] is None or instance["state"] in ("missing", "building"):
            raise DroverError(
                f"Instance {instance['name']} is {instance['state']}, so no host has its domain."
                f" {not_done}: find out where it is with drover.compute.discover."
            )
        return instance

    def _hand(self, instance: NamedInstance) -> Hand:
        return self._hosts.hand(instance["host"] or "")

    def _read_snapshots(self, hand: Hand, instance: NamedInstance) -> dict[str, Any]:
        """Read the snapshots of an instance."""
        snapshots = hand.foretell(MODULE, named_domain(instance))
        if snapshots.get("failed"):
            raise DroverError(
                sentence_of(instance, str(snapshots.get("msg"))),
                host=instance["host"],
            )
        return snapshots

    def _change_snapshots(self, instance: NamedInstance) -> dict[str, object]:
        hand, uuid, host = self._hand(instance), instance["uuid"], instance["host"] or ""
        earlier = instance["order_uuid"] if instance["task_state"] in orders.SNAPSHOTS else None
        if earlier is not None and not self._check_mode:
            # Withdraw the order of the earlier run, and record its result first.
            self._close(
                instance,
                host,
                earlier,
                self._withdraw_order(hand, instance, earlier, "an earlier run was cut off."),
            )
        options = {
            **self._module_arguments(instance),
            "used_elsewhere": self._used_elsewhere(hand, instance, host),
        }
        foreseen = hand.foretell(MODULE, options)
        if foreseen.get("failed"):
            raise DroverError(sentence_of(instance, str(foreseen.get("msg"))), host=host)
        proofs = []
        if foreseen["changed"] and self._request.state == REVERTED:
            refused = f"Instance {instance['name']}: {NOT_DONE[REVERTED]}"
            proofs = [self._proofs.prove(host, uuid, instance["name"], refused)]
        if self._check_mode or not foreseen["changed"]:
            return self._note_result(foreseen)
        order = bulk.new_uuid()
        with self._store.write() as connection:
            doing = (
                orders.DELETING_SNAPSHOT if self._request.state == ABSENT else orders.SNAPSHOTTING
            )
            orders.begin(connection, uuid, doing, order)
        answer = starting.order(hand, host, MODULE, {**options, "order": order}, proofs)
        if answer.outcome == certainty.DONE:
            self._close(instance, host, order, answer.result["domain"])
            return self._note_result(answer.result)
        self._close(
            instance, host, order, self._withdraw_order(hand, instance, order, answer.message)
        )
        raise DroverError(sentence_of(instance, answer.message), host=host)

    def _note_result(self, result: dict[str, Any]) -> dict[str, object]:
        if "diff" in result:
            self._differences.append(result["diff"])
        return result

    def _module_arguments(self, instance: NamedInstance) -> dict[str, object]:
        request = self._request
        options = {
            "state": request.state,
            "snapshot": request.name,
            "description": request.description,
            "discard": request.discard,
        }
        return {**named_domain(instance), **options, "timeout": request.timeout}

    def _used_elsewhere(self, hand: Hand, instance: NamedInstance, host: str) -> list[Any]:
        """Return the images of an instance that other hosts need or may need."""
        if self._request.state == PRESENT:
            if instance["state"] == "shutoff":
                # This definition may be an old one, and the instance may use its disk elsewhere.
                self._refuse_unread(instance, continuity.RUNNING)
            return []
        seen = self._read_snapshots(hand, instance)
        paths = {disk["path"] for each in seen["snapshots"] for disk in each["disks"]}
        paths |= {disk["source"] for disk in seen["domain"]["disks"] if disk["source"]}
        self._refuse_unread(instance, continuity.FILES)
        return self._removing.look(instance["uuid"], host, paths)

    def _refuse_unread(self, instance: NamedInstance, unknown: str) -> None:
        with self._store.read() as connection:
            refused = f"Instance {instance['name']}: {NOT_DONE[self._request.state]}"
            continuity.refuse_unread(connection, refused, self._hosts.names(), unknown)

    def _withdraw_order(
        self, hand: Hand, instance: NamedInstance, order: str, message: str
    ) -> ReportedDomain | None:
        text = sentence_of(instance, message)
        return self._withdraw(
            hand,
            instance,
            order,
            GRACE,
            lambda dummy: (
                f"{text} {instance['host']} does not show what became of it, so it may be done, or"
                " still go on. When that host answers, run this again, which finds out and"
                " goes on."
            ),
        )

    def _tell(self, outcome: SnapshotOutcome) -> None:
        """Show the result to the operator."""
        if not outcome["changed"]:
            return
        words = SAID[self._request.state or PRESENT][self._check_mode].format(self._request.name)
        how = {
            "quiesced": " Its guest had written all that it had (quiesced by its agent).",
            "crash": (
                " It is crash-consistent, as after a loss of power:"
                f" {outcome['consistency_reason']}."
            ),
        }.get(outcome["consistency"] or "", "")
        files = "".join(
            f" {'Would remove' if self._check_mode else 'Removed'} {path}."
            for path in outcome["removed_files"]
        )
        files += "".join(
            f" Kept {each['path']}: {each['reason']}." for each in outcome["kept_files"]
        )
        self._say(f"{outcome['name']} on {outcome['host']}: {words}.{how}{files}")


def _outcome(
    instance: NamedInstance, result: Mapping[str, Any], message: str = ""
) -> SnapshotOutcome:
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "host": instance["host"],
        "changed": bool(result["changed"]),
        "status": "failed" if message else "done",
        "message": message,
        "snapshots": result.get("snapshots") or [],
        "consistency": result.get("consistency"),
        "consistency_reason": result.get("consistency_reason"),
        "removed_files": result.get("removed_files") or [],
        "kept_files": result.get("kept_files") or [],
    }
