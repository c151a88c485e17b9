# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete a host aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC, DroverAction, difference
from ansible_collections.drover.compute.plugins.plugin_utils._store import aggregates


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "metadata": {"type": "dict"},
        "hosts": {"type": "list", "elements": "str"},
        "remove_hosts": {"type": "list", "elements": "str"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        name = args["name"]
        with self.store(args, task_vars).write() as connection:
            before = aggregates.find(connection, name)
            if args["state"] == "absent":
                result: dict[str, Any] = {"changed": aggregates.delete(connection, name)}
            else:
                found, changed = aggregates.ensure(connection, name, args["metadata"], args["hosts"] or (), args["remove_hosts"] or ())
                result = {"changed": changed, "aggregate": found}
        if self._task.diff:
            result["diff"] = [difference(name, before, result.get("aggregate"))]
        return result
