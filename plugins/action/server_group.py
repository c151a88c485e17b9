# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create or delete a server group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC, DroverAction, difference
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "policy": {"type": "str", "choices": list(server_groups.POLICIES)},
        "max_server_per_host": {"type": "int"},
        "max_moving": {"type": "int"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {"required_if": [["state", "present", ["policy"]]]}
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        name = args["name"]
        with self.store(args, task_vars).write() as connection:
            before = server_groups.described(server_groups.by_name(connection, name))
            if args["state"] == "absent":
                result: dict[str, Any] = {"changed": server_groups.delete(connection, name)}
            else:
                row, changed = server_groups.ensure(connection, name, args["policy"], args["max_server_per_host"], args["max_moving"])
                result = {"changed": changed, "server_group": server_groups.described(row)}
        if self._task.diff:
            result["diff"] = [difference(name, before, result.get("server_group"))]
        return result
