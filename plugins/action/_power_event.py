# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record a power action on a host before it begins, and its result."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import own_known
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import power, services

ACTIONS = ["startup", "shutdown", "reboot", "hard_off", "cycle", "fence"]


class Args(StoreArgs):
    """The arguments of this action."""

    host: str
    action: str | None
    #: Required with action, as status with uuid.
    driver: str
    uuid: str | None
    status: str
    power_state: str | None
    boot_id: str | None
    message: str | None


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "action": {"type": "str", "choices": ACTIONS},
        "driver": {"type": "str"},
        "uuid": {"type": "str"},
        "status": {"type": "str", "choices": ["completed", "failed"]},
        "power_state": {"type": "str", "choices": ["on", "off", "unknown"]},
        "boot_id": {"type": "str"},
        "message": {"type": "str"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_together": [["action", "driver"], ["uuid", "status"]],
        "mutually_exclusive": [["action", "uuid"]],
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        store = self.store(args, task_vars)
        if args["action"] not in (None, "startup", "fence"):
            # A fenced host is dead, so the controller or the server of the store cannot run there
            # any more.
            own = own_known.machines(store, self.variables(task_vars), self._templar)
            own.refuse_power(args["host"], f"{args['action']} is refused and nothing was changed")
        if args["action"]:
            with store.write() as connection:
                event = power.begin(
                    connection,
                    args["host"],
                    args["action"],
                    args["driver"],
                    args["boot_id"],
                    clock.now(connection),
                )
        elif args["uuid"]:
            with store.write() as connection:
                event = power.finish(
                    connection,
                    args["uuid"],
                    args["status"],
                    args["power_state"],
                    args["boot_id"],
                    args["message"],
                    clock.now(connection),
                )
        else:
            with store.read() as connection:
                services.get(connection, args["host"])
                return {"changed": False, "event": power.last(connection, args["host"])}
        return {"changed": True, "event": event}
