# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take and release the lease of a host."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases


class Args(StoreArgs):
    """The arguments of this action."""

    host: str
    state: str
    purpose: str
    seconds: int
    force: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True, "aliases": ["name"]},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "purpose": {"type": "str", "default": "work on the host"},
        "seconds": {"type": "int", "default": leases.SECONDS},
        "force": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        if args["seconds"] < 1:
            raise DroverError(
                "seconds must be at least 1, because a lease that expires at once reserves nothing."
            )
        actor = LeaseHolder.of_this_task()
        with self.store(args, task_vars).write() as connection:
            if args["state"] == "absent":
                released = leases.release(connection, args["host"], actor, args["force"])
                return {"changed": released, "taken": False, "taken_over": None}
            result = leases.take(connection, args["host"], actor, args["purpose"], args["seconds"])
        if result["taken_over"]:
            self.show(result["taken_over"])
        return {**result, "taken": result["changed"]}
