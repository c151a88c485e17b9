# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop, reboot and remove instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants as C

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import ConductorAction
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.remote_module import Hand
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_operations import InstanceOperations
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.operations import NOT_DONE, Operations
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import instance_lookup


class ActionModule(ConductorAction):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": list(NOT_DONE), "default": "running"},
        "name": {"type": "str"},
        "uuid": {"type": "str"},
        "instances": {"type": "list", "elements": "raw"},
        "timeout": {"type": "int", "default": 60},
        "force": {"type": "bool", "default": False},
        "hard": {"type": "bool", "default": False},
        "keep_disks": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_one_of": [["name", "uuid", "instances"]],
        "mutually_exclusive": [["name", "instances"], ["uuid", "instances"]],
    }

    def conduct(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        """Work on instances of this host, or on localhost wherever they are; if one fails, the others still follow."""
        wanted = args["instances"]
        if wanted is None:
            wanted = [{key: args[key] for key in ("name", "uuid") if args[key] is not None}]
        host, store = self.target(task_vars), self.store(args, task_vars)
        with store.read() as connection:
            found = instance_lookup.find(connection, wanted, [])
        if host in C.LOCALHOST and host not in {each["host"] for each in found}:
            everywhere = InstanceOperations(self.ports(args, task_vars), self._task.check_mode)
            result, differences, failed = everywhere.run(wanted, args["state"], args)
        else:
            operations = Operations(store, Hand(self, host, task_vars), host, self._task.check_mode)
            outcomes, differences, failed = operations.carry_out(wanted, args["state"], args)
            result = {"changed": any(each["changed"] for each in outcomes), "host": host, "instances": outcomes}
        if self._task.diff:
            result["diff"] = differences
        if failed:
            raise DroverError(" ".join(failed), **result)
        return result
