# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make, change or delete a flavor."""

from __future__ import annotations

import time

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.store import flavors


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "vcpus": {"type": "int"},
        "memory_mb": {"type": "int"},
        "disk_gb": {"type": "int"},
        "extra_specs": {"type": "dict"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args, task_vars):
        with self.store(args, task_vars).write() as connection:
            if args["state"] == "absent":
                return {"changed": flavors.delete(connection, args["name"])}
            found, changed = flavors.ensure(connection, args["name"], args, time.time())
            return {"changed": changed, "flavor": found}
