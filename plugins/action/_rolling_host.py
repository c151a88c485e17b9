# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the record of a rolling maintenance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling

VALUES = ("stage", "boot_id", "instances", "message")


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "hosts": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "stage": {"type": "str", "choices": list(rolling.STAGES)},
        "boot_id": {"type": "str"},
        "instances": {"type": "list", "elements": "dict"},
        "message": {"type": "str"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        store, now, changed = self.store(args, task_vars), time.time(), False
        if args["hosts"] or args["state"] == "absent":
            values = {name: args[name] for name in VALUES}
            with store.write() as connection:
                if args["state"] == "absent":
                    for host in args["hosts"] or [None]:
                        changed |= rolling.forget(connection, host)
                else:
                    for host in args["hosts"]:
                        changed |= rolling.write(connection, host, values, now)
                return {"changed": changed, "hosts": rolling.read(connection)}
        with store.read() as connection:
            return {"changed": False, "hosts": rolling.read(connection)}
