# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the instance of a claim; start, stop, reboot and remove instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants as C

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.conducting import ConductorAction
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.lease_holder import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.remote_module import Hand
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.building import Building
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.instance_operations import InstanceOperations
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.operations import NOT_DONE, POWER, Operations
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import claims, selections
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, instance_lookup


class ActionModule(ConductorAction):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["built", "settled", *POWER, "absent"], "default": "built"},
        "instances": {"type": "list", "elements": "raw"},
        "uuid": {"type": "str"},
        "name": {"type": "str"},
        "xml": {"type": "str"},
        "disks": {"type": "list", "elements": "dict", "default": []},
        "seed": {"type": "dict"},
        "autostart": {"type": "bool", "default": False},
        "uri": {"type": "str", "default": "qemu:///system"},
        "timeout": {"type": "int", "default": 60},
        "alternates": {"type": "list", "elements": "dict", "default": []},
        "expires": {"type": "int", "default": claims.LIFETIME},
        "message": {"type": "str", "default": "It was not built."},
        "force": {"type": "bool", "default": False},
        "hard": {"type": "bool", "default": False},
        "keep_disks": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_if": [
            ["state", "built", ["uuid", "name", "xml"]],
            ["state", "settled", ["uuid"]],
            *(["state", state, ["instances"]] for state in NOT_DONE),
        ]
    }

    def conduct(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        host = self.target(task_vars)
        store, hand = self.store(args, task_vars), Hand(self, host, task_vars)
        if args["state"] == "built":
            return self._built(Building(store, hand, host, args["timeout"]), host, args)
        if args["state"] == "settled":
            return self._settled(Building(store, hand, host, args["timeout"]), args)
        return self._operate(store, hand, host, args, task_vars)

    def _built(self, building: Building, host: str, args: dict[str, Any]) -> dict[str, Any]:
        wanted = {key: args[key] for key in ("uuid", "name", "xml", "disks", "seed", "autostart", "uri") if args[key] is not None}
        # In check mode the claim was rolled back.
        result = building.foretell(wanted) if self._task.check_mode else building.build(wanted)
        answer = {"changed": bool(result["changed"]), "host": host, "domain": result["domain"]}
        if self._task.diff and "diff" in result:
            answer["diff"] = result["diff"]
        return to_plain(answer)

    def _settled(self, building: Building, args: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:
            raise DroverError(f"{args['message']} In check mode nothing was built, so there is nothing to settle.")
        if args["alternates"]:
            selections.check_alternates(f"Instance {args['uuid']}", args["alternates"])
        actor = Actor.of_this_task().holder
        found = building.settle(args["uuid"], args["alternates"], args["expires"], args["message"], actor)
        return {"changed": True, **found}

    def _operate(self, store: Store, hand: Hand, host: str, args: dict[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Start, stop, reboot or remove instances; if one fails, the others still follow."""
        with store.read() as connection:
            found = instance_lookup.find(connection, args["instances"], [])
        if host in C.LOCALHOST and host not in {each["host"] for each in found}:
            everywhere = InstanceOperations(self.ports(args, task_vars), self._task.check_mode)
            result, differences, failed = everywhere.run(args["instances"], args["state"], args)
        else:
            operations = Operations(store, hand, host, self._task.check_mode)
            answers, differences, failed = operations.carry_out(args["instances"], args["state"], args)
            result = {"changed": any(each["changed"] for each in answers), "host": host, "instances": answers}
        if self._task.diff:
            result["diff"] = differences
        if failed:
            raise DroverError(" ".join(failed), **result)
        return result
