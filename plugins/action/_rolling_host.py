# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the record of a rolling maintenance."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling

VALUES = ("stage", "boot_id", "instances", "message")


class Args(StoreArgs):
    """The arguments of this action."""

    hosts: list[str]
    state: str
    stage: str | None
    boot_id: str | None
    instances: list[Any] | None
    message: str | None


class ActionModule(DroverAction[Args]):
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

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        store, now, changed = self.store(args, task_vars), time.time(), False
        if args["hosts"] or args["state"] == "absent":
            given: Mapping[str, object] = args
            values = {name: given[name] for name in VALUES}
            with store.write() as connection:
                if args["state"] == "absent":
                    hosts: Sequence[str | None] = args["hosts"] or [None]
                    for each in hosts:
                        changed |= rolling.forget(connection, each)
                else:
                    for host in args["hosts"]:
                        changed |= rolling.write(connection, host, values, now)
                return {"changed": changed, "hosts": rolling.read(connection)}
        with store.read() as connection:
            return {"changed": False, "hosts": rolling.read(connection)}
