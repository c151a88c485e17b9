# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enable or disable a host for the scheduler, rename it, or take it out of the store."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import drained
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import actions
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import host_changes


class Args(StoreArgs):
    """The arguments of this action."""

    host: str
    state: str | None
    #: Required in the state renamed.
    new_name: str
    reason: str | None
    forced_down: bool | None
    shuts_down: list[str]


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True, "aliases": ["name"]},
        "state": {
            "type": "str",
            "choices": [
                "enabled",
                "disabled",
                "maintenance",
                "draining",
                "restored",
                "absent",
                "renamed",
            ],
        },
        "new_name": {"type": "str"},
        "reason": {"type": "str"},
        "forced_down": {"type": "bool"},
        "shuts_down": {"type": "list", "elements": "str", "default": []},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_one_of": [["state", "forced_down"]],
        "required_if": [["state", "renamed", ["new_name"]]],
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        with self.store(args, task_vars).write() as connection:
            if args["state"] == "absent":
                return self._absent(connection, args["host"])
            if args["state"] == "renamed":
                return self._renamed(connection, args["host"], args["new_name"])
            before, after = host_state.change(
                connection,
                args["host"],
                args["state"],
                args["reason"],
                args["forced_down"],
                args["shuts_down"],
            )
            result = {"changed": before != after, "host": {"host": args["host"], **after}}
            if args["state"] == "restored":
                memory = services.get(connection, args["host"]).status_before_drain
                result["to_start"] = drained.left_to_start(connection, args["host"], memory)
        if self._task.diff:
            result["diff"] = [
                {
                    "before": before,
                    "after": after,
                    "before_header": args["host"],
                    "after_header": args["host"],
                }
            ]
        return result

    def _absent(self, connection: Connection, host: str) -> dict[str, object]:
        if connection.execute(services.of_host(host)).first() is None:
            return {"changed": False}
        found = host_changes.remove(connection, host, clock.now(connection))
        actions.note(connection, "host", "removed from the store", host=host)
        return {"changed": True, "removed": {"host": host, **found}}

    def _renamed(self, connection: Connection, host: str, new_name: str) -> dict[str, object]:
        if (
            connection.execute(services.of_host(host)).first() is None
            and connection.execute(services.of_host(new_name)).first() is not None
        ):
            return {
                "changed": False,
                "renamed": {"host": host, "new_name": new_name, "instances": 0},
            }
        found = host_changes.rename(connection, host, new_name)
        actions.note(connection, "host", f"is called {new_name} now", host=host)
        return {"changed": True, "renamed": {"host": host, "new_name": new_name, **found}}
