# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of an evacuation: settle and plan, claim, restart at one destination."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.lease_holder import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.remote_module import Hand
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.evacuate import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file
from ansible_collections.drover.compute.plugins.plugin_utils.store import evacuations, leases, services


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["planned", "begun", "withdrawn", "claimed", "restarted", "settled"], "default": "planned"},
        "read": {"type": "list", "elements": "str", "default": []},
        "failed": {"type": "dict", "default": {}},
        "migrations": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "list", "elements": "str", "default": []},
        "max_evacuations": {"type": "int", "default": 4},
        "timeout": {"type": "int", "default": 60},
        "policy": {"type": "dict", "default": {}},
        "policy_file": {"type": "path"},
        "service_down_time": {"type": "int", "default": 0},
        **STORE_SPEC,
    }
    VARIABLES = ("max_evacuations", "service_down_time")

    def act(self, args, task_vars):
        if args["max_evacuations"] < 1:
            raise DroverError("max_evacuations must be at least 1, or nothing would ever start.")
        host, actor = args["host"], Actor.of_this_task()

        def keep(connection):
            leases.renew(connection, host, actor)

        store = self.store(args, task_vars)
        with store.read() as connection:
            services.get(connection, host)
        evacuation = Evacuation(store, host, args["read"], keep, args["force"])
        if args["state"] == "begun":
            with store.read() as connection:
                return {"changed": False, "begun": evacuations.begun_destinations(connection, host)}
        if args["state"] == "withdrawn":
            return self._withdraw(evacuation, args, task_vars)
        if args["state"] == "restarted":
            return self._restart(evacuation, args, task_vars)
        if args["state"] == "settled":
            said, left = evacuation.settle_returned()
            for sentence in said:
                self.show(sentence)
            return {"changed": bool(said), "settled": said, "left": left}
        claim = args["state"] == "claimed" and not self._task.check_mode
        said = evacuation.settle() if claim else []
        for sentence in said:
            self.show(sentence)
        policy = policy_file.combined(args["policy"], args["policy_file"], task_vars.get("playbook_dir"))
        plan = evacuation.plan(policy, args["service_down_time"], args["failed"], claim)
        return {"changed": bool(claim and (said or plan["restarts"])), "settled": said, **plan}

    def _withdraw(self, evacuation, args, task_vars):
        if self._task.check_mode:
            return {"settled": []}
        hand = Hand(self, self.target(task_vars), task_vars)
        said = evacuation.withdraw(hand.host, lambda uri, wanted: hand.look(uri, wanted, args["timeout"]))
        for sentence in said:
            self.show(sentence)
        return {"changed": bool(said), "settled": said}

    def _restart(self, evacuation, args, task_vars):
        destination = self.target(task_vars)
        hand = Hand(self, destination, task_vars)

        def look(uri, wanted):
            return hand.look(uri, wanted, args["timeout"])

        def start(uri, instances):
            given = {"uri": uri, "instances": instances, "at_once": args["max_evacuations"], "timeout": args["timeout"]}
            answer = hand.act("domain_restart", given)
            if answer.outcome == certainty.NOTHING:
                return [{"uuid": each["uuid"], "status": "failed", "message": answer.message} for each in instances]
            if answer.outcome != certainty.DONE:
                raise DroverError(f"{destination}: {answer.message}")
            return answer.result["instances"]

        if self._task.check_mode:
            return {"restarted": [], "failed_restarts": [], "uncertain": []}
        result = evacuation.restart(destination, args["migrations"], hand.reach, look, start)
        for key, words in (
            ("restarted", ""),
            ("failed", ", did not start: "),
            ("uncertain", ", it is not known what became of it: "),
        ):
            for each in result[key]:
                self.show(
                    f"{each['name']}: {args['host']} -> {destination}{words or ', ' + str(each['state']) + ' there'}{each['message']}"
                )
        return {
            "changed": bool(result["restarted"]),
            "restarted": result["restarted"],
            "failed_restarts": result["failed"],
            "uncertain": result["uncertain"],
        }
