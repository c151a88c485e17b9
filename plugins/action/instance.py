# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the instance of a claim on its hypervisor; start, stop, reboot and remove those that are there."""

from __future__ import annotations

import time

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.plugin_utils import on_host
from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils.store import drained, instances, named
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import domain, record

# What the hypervisor is asked for, and how a refusal begins.
POWER = {"started": "running", "stopped": "shutoff", "rebooted": "rebooted"}
NOT_DONE = {
    "started": "It is not started",
    "stopped": "It is not stopped",
    "rebooted": "It is not rebooted",
    "absent": "It is not removed",
}
LOST = "What became of its instances is not known: when it is back, run drover.compute.discover, and this again."


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["built", *POWER, "absent"], "default": "built"},
        "instances": {"type": "list", "elements": "raw"},
        "uuid": {"type": "str"},
        "name": {"type": "str"},
        "xml": {"type": "str"},
        "disks": {"type": "list", "elements": "dict", "default": []},
        "seed": {"type": "dict"},
        "autostart": {"type": "bool", "default": False},
        "uri": {"type": "str", "default": "qemu:///system"},
        "timeout": {"type": "int", "default": 60},
        "force": {"type": "bool", "default": False},
        "hard": {"type": "bool", "default": False},
        "keep_disks": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_if": [
            ["state", "built", ["uuid", "name", "xml"]],
            *(["state", state, ["instances"]] for state in NOT_DONE),
        ]
    }

    def act(self, args, task_vars):
        if args["state"] == "built":
            return self._built(args, task_vars)
        return self._on_those_there(args, task_vars)

    def _built(self, args, task_vars):
        host = self.target(task_vars)
        # In check mode the claim was rolled back, so there is none to find.
        if not self._task.check_mode:
            with self.store(args, task_vars).read() as connection:
                claims.require_claim(connection, args["uuid"], host)
        result = self._build(host, args, task_vars)
        if not self._task.check_mode:
            with self.store(args, task_vars).write() as connection:
                built = domain.describe(to_plain(result["domain"]))
                record.record_built(connection, args["uuid"], host, built, time.time())
        answer = {"changed": bool(result.get("changed")), "host": host, "domain": result.get("domain")}
        if self._task.diff and "diff" in result:
            answer["diff"] = result["diff"]
        return to_plain(answer)

    def _on_those_there(self, args, task_vars):
        """Work on instances that are on this host; all are tried, and those that failed are named."""
        host, store = self.target(task_vars), self.store(args, task_vars)
        unknown = [] if args["state"] == "absent" else None
        with store.read() as connection:
            found = named.find(connection, args["instances"], unknown)
            for instance in found:
                named.refuse(instance, NOT_DONE[args["state"]], settled=args["state"] == "absent")
                if instance["host"] != host:
                    raise DroverError(
                        f"Instance {instance['name']} is on {instance['host']}, but this task runs on {host}. Delegate it there."
                    )
        if args["state"] == "absent":
            answers, differences = self._remove(host, store, found, args, task_vars)
        else:
            answers, differences = self._power(host, store, found, args, task_vars)
        result = {"changed": any(each["changed"] for each in answers), "host": host, "instances": answers}
        if self._task.diff:
            result["diff"] = differences
        failed = [_told(each, host) for each in answers if each["status"] != "done"]
        if failed:
            raise DroverError(" ".join(failed), **result)
        return result

    def _power(self, host, store, found, args, task_vars):
        answers, differences = [], []
        for uri in sorted({each["uri"] for each in found}):
            here = [each for each in found if each["uri"] == uri]
            given = {key: args[key] for key in ("timeout", "force", "hard")}
            wanted = [{"uuid": each["uuid"], "name": each["name"] if each["named"] else None} for each in here]
            given.update(uri=uri, state=POWER[args["state"]], domains=wanted)
            result = on_host.run(self, host, "domain_power", given, task_vars, LOST)
            if result.get("failed"):
                raise DroverError(f"Host {host}: {result.get('msg')}")
            self._record(host, store, result["domains"])
            answers += [_answer(each) for each in result["domains"]]
            differences += [result["diff"]] if "diff" in result else []
        return answers, differences

    def _record(self, host, store, answers):
        if self._task.check_mode:
            return
        with store.write(together=True) as connection:
            for facts in [each["domain"] for each in answers if each["domain"]]:
                record.record_seen(connection, facts["uuid"], host, domain.describe(facts), time.time())
            drained.settle(connection, host, [each["uuid"] for each in answers if each["status"] == "done"])

    def _remove(self, host, store, found, args, task_vars):
        answers, differences = [], []
        for instance in found:
            answer = {
                "uuid": instance["uuid"],
                "name": instance["name"],
                "changed": True,
                "status": "done",
                "message": "",
            }
            answer.update(removed_disks=[], kept_disks=[])
            try:
                result = self._remove_one(host, store, instance, args, task_vars)
                answer.update({key: result.get(key, []) for key in ("removed_disks", "kept_disks")})
                differences += [result["diff"]] if "diff" in result else []
            except DroverError as problem:
                answer.update(changed=False, status="failed", message=str(problem))
            answers.append(answer)
        return answers, differences

    def _remove_one(self, host, store, instance, args, task_vars):
        """Remove the domain, its disks, what it holds and its record, so that a run that was killed is gone on with.

        While it is being removed the store has it as missing: nobody builds or moves it.
        """
        uuid, was_missing = instance["uuid"], instance["state"] == "missing"
        given = {"uri": instance["uri"], "uuid": uuid, "name": instance["name"] if instance["named"] else None}
        given.update(timeout=args["timeout"], force=args["force"], remove_disks=not args["keep_disks"], state="absent")
        with store.read() as connection:
            given["used_elsewhere"] = named.files_of_others(connection, uuid, host)
        told = on_host.foretell(self, host, "domain", given, task_vars, LOST)
        if told.get("failed"):
            raise DroverError(str(told.get("msg")))
        if not told["changed"] and not was_missing:
            raise DroverError(
                f"it is not on {host} any more, and where it is now is not known. Nothing was removed: run drover.compute.discover, "
                "and this again."
            )
        if self._task.check_mode:
            return told
        self._mark(store, uuid, "missing")
        result = on_host.run(self, host, "domain", given, task_vars, LOST)
        if result.get("failed"):
            if result.get("domain_left") is not False and not was_missing:
                self._mark(store, uuid, "active")
            raise DroverError(str(result.get("msg")))
        with store.write() as connection:
            claims.forget(connection, [uuid], time.time())
            drained.settle(connection, host, [uuid])
        return result

    def _mark(self, store, uuid, state):
        with store.write(together=True) as connection:
            rows = instances.concerned(connection, [uuid], []).values()
            instances.set_state(connection, rows, state)

    def _build(self, host, args, task_vars):
        given = {
            name: args[name]
            for name in ("uuid", "name", "xml", "disks", "seed", "autostart", "uri", "timeout")
            if args[name] is not None
        }
        self._reach(host, args)
        try:
            result = self._execute_module(
                module_name="drover.compute.domain",
                module_args={**given, "state": "running"},
                task_vars=task_vars,
            )
        except AnsibleConnectionFailure as problem:
            raise DroverError(
                f"Instance {args['name']}: host {host} was lost while it was being built: "
                f"{' '.join(str(problem).split())}. Whether it runs there is not known, so it is not built elsewhere. "
                f"When {host} is back, run drover.compute.discover and then place again.",
                host=host,
                uncertain=True,
            ) from None
        if result.get("failed"):
            details = {"host": host}
            if "domain_left" in result or "module_stdout" in result:
                # A module that crashed, or found the domain there, leaves nobody sure; others began nothing.
                details["uncertain"] = result.get("domain_left") is not False
            raise DroverError(f"Instance {args['name']} on {host}: {result.get('msg')}", **details)
        return result

    def _reach(self, host, args):
        """Find out that a host cannot be reached before anything is begun there.

        A failure, not "unreachable": the play goes on with this instance's alternates.
        """
        try:
            self._low_level_execute_command("true")
        except AnsibleConnectionFailure as problem:
            reason = " ".join(str(problem).split())
            raise DroverError(
                f"Instance {args['name']}: host {host} cannot be reached: {reason}. Nothing was begun there.",
                host=host,
            ) from None


def _answer(entry):
    """What is said of one instance; one that is not on its host fails."""
    answer = {key: entry[key] for key in ("uuid", "name", "changed", "status", "message", "domain")}
    if answer["status"] == "absent":
        answer["message"] += ". Run drover.compute.discover to find it"
    return answer


def _told(answer, host):
    """The sentence about one that failed; many a message names it already."""
    name, text = answer["name"], answer["message"]
    text = text if text.startswith(f"{name} ") else f"Instance {name} on {host}: {text}"
    return text if text.endswith(".") else f"{text}."
