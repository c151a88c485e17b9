# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a resize: begun, left its host, arrived, confirmed; or undone, or reverted."""

from __future__ import annotations

import time

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC, DroverAction, difference
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.lease_holder import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.remote_module import Hand
from ansible_collections.drover.compute.plugins.plugin_utils.conductor import refusals, used_files
from ansible_collections.drover.compute.plugins.plugin_utils.conductor import resize as resizing
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import resizes
from ansible_collections.drover.compute.plugins.plugin_utils.migrations.options import Options
from ansible_collections.drover.compute.plugins.plugin_utils.planner import movers
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file
from ansible_collections.drover.compute.plugins.plugin_utils.store import decisions, instance_lookup
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import domain, record

LOST = "The resize stays open: run this again when the host is back, and it goes on."
AGAIN = "Run drover.compute.instance_resize again, which goes on with it."


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "state": {
            "type": "str",
            "choices": ["begun", "left", "arrived", "undone", "confirmed", "leaving_again", "reverted"],
            "required": True,
        },
        "instance": {"type": "raw", "required": True},
        "flavor": {"type": "str"},
        "host": {"type": "str"},
        "timeout": {"type": "int", "default": 60},
        "force": {"type": "bool", "default": False},
        "despite_policy": {"type": "bool", "default": False},
        "options": {"type": "dict", "default": {}},
        "message": {"type": "str"},
        "policy": {"type": "dict", "default": {}},
        "policy_file": {"type": "path"},
        "service_down_time": {"type": "int", "default": 0},
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time",)

    def act(self, args, task_vars):
        store = self.store(args, task_vars)
        self._hand = Hand(self, self.target(task_vars), task_vars)
        # What contradicts itself is refused before anything is done.
        self._options = Options(args["options"])
        with store.read() as connection:
            (instance,) = instance_lookup.find(connection, [args["instance"]])
            found = instance["migration"]
            resize = None
            if found is not None and found["type"] == migration_claims.RESIZE:
                resize = self._described(connection, found["uuid"])
        if args["state"] == "begun":
            return self._begun(store, instance, resize, args, task_vars)
        if resize is None:
            return {"changed": False, "resize": None}
        return getattr(self, f"_{args['state']}")(store, resize, args, task_vars)

    def _described(self, connection, migration):
        """What is known of a resize, with the options of its move laid over both orders."""
        resize = resizes.describe(connection, migration)
        options = self._options.of(resize)
        del resize["migration_options"]
        for way, source in (("order", "source"), ("back", "destination")):
            move = {"uuid": resize["uuid"], "source": resize[source], "destination": resize[way]["destination"]}
            resize[way].update(used_files.of_moves(connection, [move])[resize["uuid"]], **options)
        return resize

    # -- there ----------------------------------------------------------------------------------

    def _begun(self, store, instance, resize, args, task_vars):
        """Find the size and the place, let the hypervisor look at it, and write it down."""
        if resize is not None:
            return self._going_on(resize, args)
        instance_lookup.refuse(instance, "It is not resized")
        if instance["state"] == "missing":
            raise DroverError(
                f"Instance {instance['name']} is missing: {instance['host']} no longer shows its domain. It is not resized: find out "
                "where it is with drover.compute.discover."
            )
        flavor, host = args["flavor"], args["host"]
        if flavor is None and host == instance["host"]:
            return {"changed": False, "resize": None}
        self._at(instance["host"], task_vars)
        now = time.time()
        policy = policy_file.combined(args["policy"], args["policy_file"], task_vars.get("playbook_dir"))
        purpose, actor = "migrate" if flavor is None else "resize", Actor.of_this_task().holder
        with refusals.kept(store, purpose, actor, now), store.read() as connection:
            selection, size = resizing.resize(connection, instance, flavor, host, policy, now, args["service_down_time"])
        have = {key: instance[key] for key in ("flavor", "vcpus", "memory_mb", "disk_gb")}
        if have == size and host in (None, instance["host"]) and flavor is not None:
            return {"changed": False, "resize": None}
        if selection["host"] != instance["host"] and not args["despite_policy"]:
            self._ask_policy(instance, selection["host"])
        facts = self._look(instance, size, args, task_vars)
        wanted = {
            "flavor": size["flavor"],
            "resources": selection["resources"],
            "running": facts["state"] not in ("shutoff", "crashed"),
            "sizes": {
                "old": {key: facts[key] for key in ("vcpus", "memory_mb")},
                "new": {key: size[key] for key in ("vcpus", "memory_mb", "disk_gb")},
            },
        }
        with store.write(together=True) as connection:
            opened = migration_claims.begin_resize(
                connection, instance["uuid"], selection["host"], selection["node"], wanted, now, instance["host"]
            )
            resize = self._described(connection, opened["uuid"])
            whose, place = (instance["uuid"], instance["name"]), (selection["host"], selection["node"])
            decided = decisions.row(purpose, actor, whose, now, place, explanation=selection["explanation"])
            decisions.record(connection, [decided])
        result = {"changed": True, "resize": resize}
        if self._task.diff:
            before = {**have, **wanted["sizes"]["old"], "host": instance["host"]}
            result["diff"] = [difference(instance["name"], before, {**size, "host": selection["host"]})]
        return result

    @staticmethod
    def _ask_policy(instance, host):
        policy = instance["policy"] or {}
        kept = movers.why_policy_keeps(policy.get("move"), policy.get("error"), instance["state"], cold=True)
        if kept:
            raise DroverError(
                f"Instance {instance['name']} is not moved from {instance['host']} to {host}: {kept}. Nothing was done. Change its "
                "policy, or move it despite that with drover_despite_policy=true."
            )

    def _going_on(self, resize, args):
        """A resize that an earlier run began: the same one is gone on with, another is refused."""
        flavor = args["flavor"] if args["flavor"] is not None else resize["old"]["flavor"]
        if flavor != resize["new"]["flavor"] or args["host"] not in (None, resize["destination"]):
            raise DroverError(
                f"Instance {resize['name']} is being resized to {resize['new']['flavor']} on {resize['destination']} already, or waits to "
                "be confirmed. End that first: run it again with that flavor, or with drover_resize=confirm or "
                "drover_resize=revert."
            )
        if resize["status"] == "finished" and resize["arrived"]:
            return {"changed": False, "resize": resize}
        return {"changed": True, "resize": resize}

    def _look(self, instance, size, args, task_vars):
        """Whether the hypervisor has it, and would give it that size; nothing is changed."""
        given = self._size(instance["name"], instance["uuid"], instance["uri"], size, args)
        given.update(state="shutoff", disk_gb=size["disk_gb"] or None)
        self._foretell(given, f"Instance {instance['name']} on {instance['host']}: {{}} Nothing was done.")
        given = {"uri": instance["uri"], "uuid": instance["uuid"], "state": "present"}
        told = self._foretell(given, f"Instance {instance['name']} on {instance['host']}: {{}} Nothing was done.")
        return told["domain"]

    def _foretell(self, given, sentence):
        told = self._hand.foretell("domain", given)
        if told.get("failed"):
            raise DroverError(sentence.format(told.get("msg")))
        return told

    def _left(self, store, resize, args, task_vars):
        """Shut it down at its host and give it the new size there."""
        return self._off(
            store,
            resize,
            resize["source"],
            resize["source_uri"],
            resize["new"],
            ("accepted", "running"),
            resize["migration"],
            args,
            task_vars,
        )

    def _arrived(self, store, resize, args, task_vars):
        """It is at its destination with the new size, and runs if it did."""
        if resize["status"] == "finished" and resize["arrived"]:
            return {"changed": False, "resize": resize}
        host, uri = resize["destination"], resize["destination_uri"]
        self._at(host, task_vars)
        given = self._size(resize["name"], resize["uuid"], uri, resize["new"], args)
        done = self._domain(host, {**given, "state": "present", "order": resize["migration"]}, resize)
        proof = certainty.is_shown(host, done["domain"]["state"])
        with store.write(together=True) as connection:
            migration_claims.finish(connection, resize["migration"], proof, "shutoff", time.time())
        facts = self._power(host, uri, resize, args, "It has the new size there, and can be confirmed or reverted.")
        with store.write(together=True) as connection:
            record.record_seen(connection, resize["uuid"], host, domain.describe(facts), time.time())
            migration_claims.note(connection, resize["migration"], {"arrived": True}, time.time())
        self.show(f"{resize['name']}: {self._told(resize['new'])}, {facts['state']} on {host}")
        return {"changed": True, "resize": {**resize, "status": "finished", "arrived": True}}

    def _undone(self, store, resize, args, task_vars):
        """It did not leave: it gets its old size and state back at its host, and then its room."""
        if resize["status"] == "finished":
            return {"changed": False, "resize": resize}
        self._at(resize["source"], task_vars)
        # First of all nothing more may begin: neither its move nor what an earlier run has told its host to do.
        withdrawn = {resize["uuid"]: [resize["migration"]]}
        found = self._hand.look(resize["source_uri"], withdrawn, args["timeout"])[resize["uuid"]]
        proof = certainty.has_not_left(resize["source"], found)
        if proof is None:
            self._seek(store, resize, found)
            raise DroverError(
                f"Instance {resize['name']}: {resize['source']} does not show it, or is still at work on it, so nothing was taken back. {AGAIN}"
            )
        facts = self._back(resize, args, task_vars)
        with store.write(together=True) as connection:
            migration_claims.undo(connection, resize["migration"], proof, args["message"] or "undone", time.time())
            record.record_seen(connection, resize["uuid"], resize["source"], domain.describe(facts), time.time())
        return {"changed": True, "resize": None}

    def _seek(self, store, resize, here):
        """Where neither end has it, write that down: then a discovery that finds it elsewhere ends the resize.

        :raises DroverError: neither has it.
        """
        source, destination = resize["source"], resize["destination"]
        gone = certainty.is_absent(source, here) is not None
        if gone and not resize["same_host"]:
            told = self._hand.foretell("domain_migration", {"uri": resize["source_uri"], "start": [resize["order"]]})
            gone = all(certainty.is_nowhere(each) for each in told.get("moves") or [{}])
        if gone:
            with store.write() as connection:
                migration_claims.note_nowhere(connection, resize["migration"], time.time())
            raise DroverError(
                f"Instance {resize['name']}: neither {source} nor {destination} has it, so somebody moved or removed it. Nothing was taken "
                "back. Run drover.compute.discover: if another host has it, that ends the resize."
            )

    # -- afterwards -----------------------------------------------------------------------------

    def _confirmed(self, store, resize, args, task_vars):
        """Its disk grows, which is never taken back, and what its old size held is free."""
        self._finished(resize)
        host = resize["destination"]
        self._at(host, task_vars)
        given = {"uri": resize["destination_uri"], "uuid": resize["uuid"], "name": resize["name"], "state": "present"}
        if resize["new"]["disk_gb"]:
            given["disk_gb"] = resize["new"]["disk_gb"]
        done = self._domain(host, given, resize)
        if not self._task.check_mode:
            proof = certainty.is_shown(host, done["domain"]["state"])
            with store.write(together=True) as connection:
                record.record_seen(connection, resize["uuid"], host, domain.describe(done["domain"]), time.time())
                migration_claims.confirm(connection, resize["migration"], proof, time.time())
        return {"changed": True, "resize": {**resize, "status": "confirmed"}, **self._difference(resize, "confirmed")}

    def _leaving_again(self, store, resize, args, task_vars):
        """Shut it down where it is now and give it the old size there."""
        self._finished(resize, arrived=False)
        return self._off(
            store, resize, resize["destination"], resize["destination_uri"], resize["old"], ("finished",), None, args, task_vars
        )

    def _reverted(self, store, resize, args, task_vars):
        """It is where it was, with its old size and state, and so is its room."""
        self._finished(resize, arrived=False)
        if not self._task.check_mode:
            facts = self._back(resize, args, task_vars)
            proof = certainty.is_shown(resize["source"], facts["state"])
            with store.write(together=True) as connection:
                migration_claims.revert(connection, resize["migration"], proof, facts["state"], time.time())
                record.record_seen(connection, resize["uuid"], resize["source"], domain.describe(facts), time.time())
            self.show(f"{resize['name']}: {self._told(resize['old'])} again, {facts['state']} on {resize['source']}")
        return {"changed": True, "resize": {**resize, "status": "reverted"}, **self._difference(resize, "reverted")}

    # -- parts ----------------------------------------------------------------------------------

    def _finished(self, resize, arrived=True):
        if resize["status"] != "finished" or (arrived and not resize["arrived"]):
            raise DroverError(f"The resize of {resize['name']} has not ended yet, so it cannot be confirmed or reverted. {AGAIN}")

    def _at(self, host, task_vars):
        if self.target(task_vars) != host:
            raise DroverError(f"This task runs on {self.target(task_vars)}, but its hypervisor is {host}. Delegate it there.")

    def _size(self, name, uuid, uri, size, args):
        given = {"uri": uri, "uuid": uuid, "name": name, "timeout": args["timeout"], "force": args["force"]}
        return {**given, "vcpus": size["vcpus"], "memory_mb": size["memory_mb"], "flavor": size["flavor"] or ""}

    def _domain(self, host, given, resize):
        answer = self._hand.act("domain", given)
        if answer.outcome != certainty.DONE:
            raise DroverError(
                f"Instance {resize['name']} on {host}: {answer.message.rstrip('.')}. {'' if answer.result else LOST}".strip(),
                absent=certainty.unable(host, answer) is not None,
            )
        return answer.result

    def _off(self, store, resize, host, uri, size, statuses, order, args, task_vars):
        if resize["status"] not in statuses:
            return {"changed": False, "resize": resize}
        self._at(host, task_vars)
        given = self._size(resize["name"], resize["uuid"], uri, size, args)
        try:
            result = self._domain(host, {**given, "state": "shutoff", "order": order}, resize)
        except DroverError as problem:
            if problem.details.get("absent") and not resize["same_host"]:
                # A run that was killed had moved it already.
                return {"changed": False, "resize": resize}
            raise
        if resize["nowhere"] and not self._task.check_mode:
            with store.write() as connection:
                migration_claims.note_nowhere(connection, resize["migration"], time.time(), nowhere=False)
        return {"changed": bool(result["changed"]), "resize": resize}

    def _back(self, resize, args, task_vars):
        """Give it the old size at its source and start it if it ran; the domain's facts."""
        host, uri = resize["source"], resize["source_uri"]
        self._at(host, task_vars)
        given = self._size(resize["name"], resize["uuid"], uri, resize["old"], args)
        self._foretell({**given, "state": "present"}, f"Instance {resize['name']} on {host}: {{}} Nothing was taken back. {AGAIN}")
        self._domain(host, {**given, "state": "present"}, resize)
        return self._power(host, uri, resize, args, "It has its old size there; the resize stays open.")

    def _power(self, host, uri, resize, args, note):
        given = {"uri": uri, "uuid": resize["uuid"], "timeout": args["timeout"]}
        state = "running" if resize["running"] else "present"
        try:
            return self._domain(host, {**given, "state": state}, resize)["domain"]
        except DroverError as problem:
            raise DroverError(f"{problem} {note}") from None

    def _difference(self, resize, word):
        if not self._task.diff:
            return {}
        old = {**resize["old"], "host": resize["source"]}
        new = {**resize["new"], "host": resize["destination"]}
        both = ({"size": new, "else": old}, {"size": new}) if word == "confirmed" else (new, old)
        return {"diff": [difference(resize["name"], *both)]}

    def _told(self, size):
        flavor = f"{size['flavor']}, " if size["flavor"] else ""
        return f"{flavor}{size['vcpus']} vCPU, {size['memory_mb']} MiB"
