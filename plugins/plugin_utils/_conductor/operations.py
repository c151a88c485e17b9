# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start, stop, reboot, labels and removal of instances that are on one host."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from .._common import certainty
from .._common.errors import DroverError, as_sentence
from .._placement import claims
from .._records.instances import NamedInstance
from .._records.outcomes import InstanceOutcome
from .._records.statuses import OperationStatus
from .._store.database import bulk
from .._store.hosts import continuity
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import drained, instance_lookup, orders
from .._store.runs import actions
from .._tracker import domain, record_domain
from . import starting
from .instance_order import named_domain, sentence_on
from .ports import Hand, Ports
from .removing import Removing
from .starting import Starting

#: The states that the module domain_power can give to domains.
POWER = ("running", "stopped", "rebooted")
#: The beginning of a refusal.
NOT_DONE = {
    "running": "It is not started",
    "stopped": "It is not stopped",
    "rebooted": "It is not rebooted",
    "absent": "It is not removed",
    "labelled": "Its labels are not changed",
    "set": "Its settings are not changed",
}
#: The states that stop or interrupt a guest.
STOPS = ("stopped", "rebooted", "absent")
#: The words for such a run, for other runs that wait for the lease.
DOING = {
    "running": "starting",
    "stopped": "stopping",
    "rebooted": "rebooting",
    "absent": "removing",
    "labelled": "labelling",
    "set": "changing settings of",
}
LOST = (
    "What became of its instances is not known: when it is back, run drover.compute.discover, and"
    " this again."
)
UNCHECKED = "Its instances were not checked, and nothing was changed."
AGAIN = "Run drover.compute.instance_delete again, which finds out what became of that."


class Operations:
    """The work on instances of one host. A failure of one stops no other instance.

    :param proofs: the proofs of the run; by default the proofs of this work alone.
    """

    def __init__(
        self,
        ports: Ports,
        hand: Hand,
        host: str,
        check_mode: bool = False,
        proofs: Starting | None = None,
    ) -> None:
        self.store, self.hand, self.host, self.check_mode = ports.store, hand, host, check_mode
        self.fleet, self._proofs, self._own = (
            ports.hosts.names(),
            proofs or Starting(ports),
            ports.own,
        )
        self._removing = Removing(ports)

    def carry_out(
        self, wanted: Sequence[Any], state: str, options: Mapping[str, object]
    ) -> tuple[list[InstanceOutcome], list[dict[str, object]], list[str]]:
        """Bring instances of this host to a state.

        :param wanted: names, uuids, or mappings of both.
        :param state: a key of NOT_DONE.
        :param options: timeout (seconds), force, hard, keep_disks; for ``labelled`` only labels;
            for ``set`` only labels, policy and autostart, see settle().
        :returns: (outcomes, differences, sentences on failures).
        """
        instances = self.find(wanted, state)
        if state in STOPS:
            self._own.refuse_stop(instances, NOT_DONE[state])
        self._refuse_unread(instances, state, options)
        if state in ("labelled", "set"):
            outcomes, differences = self.settle(
                instances,
                {key: options[key] for key in ("labels", "policy", "autostart") if key in options},
            )
        else:
            common = {key: options[key] for key in ("timeout", "force")}
            if state == "absent":
                outcomes, differences = self.remove(
                    instances, {**common, "remove_disks": not options["keep_disks"]}
                )
            else:
                outcomes, differences = self.power(
                    instances, state, {**common, "hard": options["hard"]}
                )
        return (
            outcomes,
            differences,
            [
                sentence_on(each["name"], self.host, each["message"])
                for each in outcomes
                if each["status"] != "done"
            ],
        )

    def find(self, wanted: Sequence[Any], state: str) -> list[NamedInstance]:
        """Return instances by their names or uuids; for ``absent`` they may be unknown.

        :raises DroverError: an instance is on another host, or another run works on it.
        """
        with self.store.read() as connection:
            instances = instance_lookup.find(connection, wanted, [] if state == "absent" else None)
        for instance in instances:
            refuse(instance, state)
            if instance["host"] != self.host:
                raise DroverError(
                    f"Instance {instance['name']} is on {instance['host']}, but this task runs on"
                    f" {self.host}. Delegate it there."
                )
        return instances

    def _refuse_unread(
        self, found: Sequence[NamedInstance], state: str, options: Mapping[str, object]
    ) -> None:
        """Refuse a state while an unread host may run an instance, or may need its disks."""
        removes = state == "absent" and not options["keep_disks"]
        # The removal frees all its room, also on storage that all hosts share. A host that was not
        # read may still run the instance.
        lost = state == "absent" and any(each["state"] == "missing" for each in found)
        if found and (starts(state, options) or removes or lost):
            names = ", ".join(each["name"] for each in found)
            refused = (
                f"Instance {names}: {NOT_DONE[state]}"
                if len(found) == 1
                else f"Instances {names}: nothing was done"
            )
            unknown = continuity.FILES if removes else continuity.RUNNING
            advice = (
                " Or keep the disks: -e drover_delete_keep_disks=true."
                if removes and not lost
                else ""
            )
            with self.store.read() as connection:
                continuity.refuse_unread(connection, refused, self.fleet, unknown, advice)

    def power(
        self, found: Sequence[NamedInstance], state: str, options: Mapping[str, object]
    ) -> tuple[list[InstanceOutcome], list[dict[str, object]]]:
        """Bring instances to a power state.

        :param options: timeout (seconds), force, hard.
        :returns: (outcomes, differences).
        """
        proofs: list[certainty.StartProof] = []
        stay: dict[str, str] = {}
        if starts(state, options):
            instances = {each["uuid"]: each["name"] for each in found}
            proofs, stay = self._proofs.prove_each(
                self.host, instances, lambda dummy: NOT_DONE[state]
            )
        given = {**options, "state": state}
        answers, differences = self._change_domains(
            "domain_power", [each for each in found if each["uuid"] not in stay], given, proofs
        )
        refused: list[InstanceOutcome] = [
            {
                "uuid": each["uuid"],
                "name": each["name"],
                "changed": False,
                "status": "failed",
                "message": stay[each["uuid"]],
                "domain": None,
            }
            for each in found
            if each["uuid"] in stay
        ]
        return [*(_outcome(each, "domain") for each in answers), *refused], differences

    def settle(
        self, found: Sequence[NamedInstance], settings: Mapping[str, object]
    ) -> tuple[list[InstanceOutcome], list[dict[str, object]]]:
        """Change settings of instances without work in their guests.

        :param settings: labels and policy (texts by key; a key without a value is removed, other
            keys stay), and autostart.
        :returns: (outcomes, differences).
        """
        answers, differences = self._change_domains("_domain_settings", found, settings)
        return [_outcome(each, "labels") for each in answers], differences

    def _change_domains(
        self,
        module: str,
        found: Sequence[NamedInstance],
        options: Mapping[str, object],
        proofs: Iterable[certainty.StartProof] = (),
    ) -> tuple[list[InstanceOutcome], list[dict[str, object]]]:
        """Let a module change domains, and record the domains that it shows afterwards.

        :returns: (the entries of the module, differences).
        """
        answers: list[InstanceOutcome] = []
        differences: list[dict[str, object]] = []
        for uri in sorted({each["uri"] or DEFAULT_URI for each in found}):
            at_uri = [each for each in found if (each["uri"] or DEFAULT_URI) == uri]
            domains = [
                {"uuid": each["uuid"], "name": each["name"] if each["named"] else None}
                for each in at_uri
            ]
            answer = starting.order(
                self.hand, self.host, module, {**options, "uri": uri, "domains": domains}, proofs
            )
            if answer.outcome != certainty.DONE:
                raise DroverError(
                    f"Host {self.host}: {as_sentence(answer.message)}"
                    f" {UNCHECKED if self.check_mode else LOST}"
                )
            self._write_down(
                answer.result["domains"],
                str(options["state"]) if module == "domain_power" else None,
            )
            answers += answer.result["domains"]
            differences += [answer.result["diff"]] if "diff" in answer.result else []
        return answers, differences

    def _write_down(self, answers: Sequence[InstanceOutcome], power_state: str | None) -> None:
        """Record domains as their host shows them.

        :param power_state: the power state that the operator ordered; an undrain then does not
            change it. None if only settings changed.
        """
        if self.check_mode:
            return
        with self.store.write(together=True) as connection:
            shown = [each["domain"] for each in answers if each["domain"]]
            for facts in sorted(shown, key=lambda facts: facts["uuid"]):
                record_domain.record_seen(
                    connection, facts["uuid"], self.host, domain.describe(facts), time.time()
                )
            note = power_state or "settings changed"
            done = [(each["uuid"], each["name"]) for each in answers if each["changed"]]
            actions.note_all(
                connection,
                [
                    {"kind": "instance", "message": note, "instance": each, "host": self.host}
                    for each in done
                ],
            )
            if power_state is not None:
                drained.settle(
                    connection,
                    self.host,
                    [each["uuid"] for each in answers if each["status"] == "done"],
                )

    def remove(
        self, found: Iterable[NamedInstance], options: Mapping[str, Any]
    ) -> tuple[list[InstanceOutcome], list[dict[str, object]]]:
        """Remove instances: domain, disks that provably belong to them, room and record.

        :param options: timeout (seconds), force, remove_disks.
        :returns: (outcomes, differences).
        """
        outcomes: list[InstanceOutcome] = []
        differences: list[dict[str, object]] = []
        for instance in found:
            status: OperationStatus = "done"
            message, result = "", {}
            try:
                result = self._remove_instance(instance, options)
                differences += [result["diff"]] if "diff" in result else []
            except DroverError as problem:
                status, message = "failed", str(problem)
            outcomes.append(
                {
                    "uuid": instance["uuid"],
                    "name": instance["name"],
                    "changed": status == "done",
                    "status": status,
                    "message": message,
                    "removed_disks": result.get("removed_disks", []),
                    "kept_disks": result.get("kept_disks", []),
                }
            )
        return outcomes, differences

    def _remove_instance(
        self, instance: NamedInstance, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Remove an instance.

        Its order is open from before the first change of its domain until its record is gone. The
        next run thus finds an unfinished removal.
        """
        uuid, uri = instance["uuid"], instance["uri"] or DEFAULT_URI
        arguments: dict[str, object] = {**options, **named_domain(instance), "state": "absent"}
        arguments["used_elsewhere"] = self._removing.recorded(uuid, self.host)
        foreseen = self.hand.foretell("domain", arguments)
        if foreseen.get("failed"):
            raise DroverError(str(foreseen.get("msg")))
        if (
            not foreseen["changed"]
            and instance["task_state"] != orders.DELETING
            and instance["state"] != "missing"
        ):
            raise DroverError(
                f"it is not on {self.host} any more, and where it is now is not known. Nothing was"
                " removed: run drover.compute.discover, and this again."
            )
        going = foreseen.get("removed_disks") or []
        if going:
            arguments["used_elsewhere"] = self._removing.look(uuid, self.host, going)
        if self.check_mode:
            return (
                self.hand.foretell("domain", arguments)
                if going and arguments["used_elsewhere"]
                else foreseen
            )
        order = bulk.new_uuid()
        with self.store.write(together=True) as connection:
            orders.begin(
                connection, uuid, orders.DELETING, order, instead_of=instance["order_uuid"]
            )
        withdrawn = [each for each in (instance["order_uuid"],) if each]
        if withdrawn and self.hand.look(uri, {uuid: withdrawn}, options["timeout"])[uuid] is None:
            raise DroverError(
                f"an earlier run began to remove it, and {self.host} does not show what became of"
                f" that. {AGAIN}"
            )
        answer = starting.order(self.hand, self.host, "domain", {**arguments, "order": order})
        if answer.outcome != certainty.DONE:
            self._give_up(instance, order, answer)
        proof = certainty.is_not_shown(self.host)
        with self.store.write(together=True) as connection:
            orders.end(connection, uuid, order)
            claims.forget(connection, [uuid], proof, time.time())
            drained.settle(connection, self.host, [uuid])
        return answer.result

    def _give_up(self, instance: NamedInstance, order: str, answer: certainty.Answer) -> NoReturn:
        """End a removal that failed.

        Close its order if it is certain that nothing was done. Otherwise the next run does that.

        :raises DroverError: always.
        """
        if answer.outcome == certainty.NOTHING:
            with self.store.write(together=True) as connection:
                orders.end(connection, instance["uuid"], order)
            raise DroverError(answer.message)
        raise DroverError(f"{as_sentence(answer.message)} It may be removed in part. {AGAIN}")


def starts(state: str, options: Mapping[str, object]) -> bool:
    """Return True if a start leads to the state.

    A soft reboot needs a running guest, so it does not.
    """
    return state == "running" or (state == "rebooted" and bool(options["hard"]))


def refuse(instance: NamedInstance, state: str) -> None:
    """Refuse a change of state: another run works on the instance, or no host has it.

    :raises DroverError: it is refused.
    """
    absent = state == "absent"
    # The revert of a resize would bring back the old labels.
    instance_lookup.refuse(
        instance,
        NOT_DONE[state],
        settled=absent or state == "labelled",
        order=orders.DELETING if absent else None,
    )


def _outcome(entry: InstanceOutcome, more: Literal["domain", "labels"]) -> InstanceOutcome:
    """Return the outcome of an instance from the answer of a module.

    :param more: the key of the answer that the outcome also has.
    """
    outcome: InstanceOutcome = {
        "uuid": entry["uuid"],
        "name": entry["name"],
        "changed": entry["changed"],
        "status": entry["status"],
        "message": (
            entry["message"]
            + (". Run drover.compute.discover to find it" if entry["status"] == "absent" else "")
        ),
    }
    if more == "domain":
        outcome["domain"] = entry["domain"]
    else:
        outcome["labels"] = entry["labels"]
    return outcome
