# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop, reboot and remove instances that are on one host."""

from __future__ import annotations

import time

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.conductor import used_files
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, drained, instance_lookup, orders
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import domain, record

#: What the hypervisor brings the domains to.
POWER = {"started": "running", "stopped": "shutoff", "rebooted": "rebooted"}
#: How a refusal begins.
NOT_DONE = {
    "started": "It is not started",
    "stopped": "It is not stopped",
    "rebooted": "It is not rebooted",
    "absent": "It is not removed",
}
LOST = "What became of its instances is not known: when it is back, run drover.compute.discover, and this again."
AGAIN = "Run drover.compute.instance_delete again, which finds out what became of that."


class Operations:
    """What is done with instances of one host. All are tried; each has an answer: uuid, name, changed, status, message, domain.

    :param store: an open Store.
    :param hand: remote_module.Hand, or what answers as it does.
    :param host: the name of the host.
    :param check_mode: whether nothing is to be changed.
    """

    def __init__(self, store, hand, host, check_mode=False):
        self.store, self.hand, self.host, self.check_mode = store, hand, host, check_mode

    def carry_out(self, wanted: list, state: str, options: dict) -> tuple[list, list, list]:
        """Bring instances of this host to a state; all are tried.

        :param wanted: what names them, see find().
        :param state: a key of NOT_DONE.
        :param options: timeout (seconds), force, hard, keep_disks.
        :returns: (answers, differences, sentences on those that failed).
        """
        found = self.find(wanted, state)
        given = {key: options[key] for key in ("timeout", "force")}
        if state == "absent":
            answers, differences = self.remove(found, {**given, "remove_disks": not options["keep_disks"]})
        else:
            answers, differences = self.power(found, state, {**given, "hard": options["hard"]})
        return answers, differences, [self._sentence(each) for each in answers if each["status"] != "done"]

    def _sentence(self, answer: dict) -> str:
        """The sentence about one that failed; many a message names it already."""
        name, text = answer["name"], answer["message"]
        text = text if text.startswith(f"{name} ") else f"Instance {name} on {self.host}: {text}"
        return text if text.endswith(".") else f"{text}."

    def find(self, wanted, state):
        """The instances that are named, on this host, and free to be worked on; those of ``absent`` may be unknown.

        :raises DroverError: one of them is not.
        """
        with self.store.read() as connection:
            found = instance_lookup.find(connection, wanted, [] if state == "absent" else None)
        for instance in found:
            instance_lookup.refuse(
                instance, NOT_DONE[state], settled=state == "absent", order=orders.DELETING if state == "absent" else None
            )
            if instance["host"] != self.host:
                raise DroverError(
                    f"Instance {instance['name']} is on {instance['host']}, but this task runs on {self.host}. Delegate it there."
                )
        return found

    def power(self, found, state, options):
        """Bring instances to a power state.

        :param options: timeout (seconds), force, hard.
        :returns: (answers, differences).
        """
        answers, differences = [], []
        for uri in sorted({each["uri"] for each in found}):
            here = [each for each in found if each["uri"] == uri]
            wanted = [{"uuid": each["uuid"], "name": each["name"] if each["named"] else None} for each in here]
            given = {**options, "uri": uri, "state": POWER[state], "domains": wanted}
            answer = self.hand.act("domain_power", given)
            if answer.outcome != certainty.DONE:
                raise DroverError(f"Host {self.host}: {answer.message.rstrip('.')}. {LOST}")
            self._write_down(answer.result["domains"])
            answers += [_answer(each) for each in answer.result["domains"]]
            differences += [answer.result["diff"]] if "diff" in answer.result else []
        return answers, differences

    def _write_down(self, answers):
        if self.check_mode:
            return
        with self.store.write(together=True) as connection:
            for facts in [each["domain"] for each in answers if each["domain"]]:
                record.record_seen(connection, facts["uuid"], self.host, domain.describe(facts), time.time())
            drained.settle(connection, self.host, [each["uuid"] for each in answers if each["status"] == "done"])

    def remove(self, found, options):
        """Remove instances: domain, disks that are provably theirs, room and record.

        :param options: timeout (seconds), force, remove_disks.
        :returns: (answers, differences).
        """
        answers, differences = [], []
        for instance in found:
            answer = {"uuid": instance["uuid"], "name": instance["name"], "changed": True, "status": "done", "message": ""}
            answer.update(removed_disks=[], kept_disks=[])
            try:
                result = self._remove(instance, options)
                answer.update({key: result.get(key, []) for key in ("removed_disks", "kept_disks")})
                differences += [result["diff"]] if "diff" in result else []
            except DroverError as problem:
                answer.update(changed=False, status="failed", message=str(problem))
            answers.append(answer)
        return answers, differences

    def _remove(self, instance, options):
        """Remove one. Its order is open from before its domain is touched until its record is gone, so that the next run goes on."""
        uuid, uri = instance["uuid"], instance["uri"]
        given = {**options, "uri": uri, "uuid": uuid, "name": instance["name"] if instance["named"] else None, "state": "absent"}
        with self.store.read() as connection:
            given["used_elsewhere"] = used_files.elsewhere(connection, uuid, self.host)
        foreseen = self.hand.foretell("domain", given)
        if foreseen.get("failed"):
            raise DroverError(str(foreseen.get("msg")))
        if not foreseen["changed"] and instance["task_state"] != orders.DELETING and instance["state"] != "missing":
            raise DroverError(
                f"it is not on {self.host} any more, and where it is now is not known. Nothing was removed: run drover.compute.discover, "
                "and this again."
            )
        if self.check_mode:
            return foreseen
        with self.store.read() as connection:
            # It may have other disks by now than the store has seen.
            given["used_elsewhere"] = used_files.elsewhere(connection, uuid, self.host, foreseen.get("removed_disks") or [])
        order = bulk.new_uuid()
        with self.store.write(together=True) as connection:
            orders.begin(connection, uuid, orders.DELETING, order, instead_of=instance["order_uuid"])
        withdrawn = [each for each in (instance["order_uuid"],) if each]
        if withdrawn and self.hand.look(uri, {uuid: withdrawn}, options["timeout"])[uuid] is None:
            raise DroverError(f"an earlier run began to remove it, and {self.host} does not tell what became of that. {AGAIN}")
        answer = self.hand.act("domain", {**given, "order": order})
        if answer.outcome != certainty.DONE:
            self._give_up(instance, order, answer)
        proof = certainty.is_not_shown(self.host)
        with self.store.write(together=True) as connection:
            orders.end(connection, uuid, order)
            claims.forget(connection, [uuid], proof, time.time())
            drained.settle(connection, self.host, [uuid])
        return answer.result

    def _give_up(self, instance, order, answer):
        """Its removal failed: the order is closed where it is certain that nothing was done, else the next run finds out.

        :raises DroverError: always.
        """
        if answer.outcome == certainty.NOTHING:
            with self.store.write(together=True) as connection:
                orders.end(connection, instance["uuid"], order)
            raise DroverError(answer.message)
        raise DroverError(f"{answer.message.rstrip('.')}. It may be removed in part. {AGAIN}")


def _answer(entry):
    """What is said of one instance; one that is not on its host fails."""
    answer = {key: entry[key] for key in ("uuid", "name", "changed", "status", "message", "domain")}
    if answer["status"] == "absent":
        answer["message"] += ". Run drover.compute.discover to find it"
    return answer
