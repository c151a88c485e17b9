# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete a flavor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import _sizes as sizes
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC, DroverAction, difference
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_fields import extra_specs
from ansible_collections.drover.compute.plugins.plugin_utils._store import flavors


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "vcpus": {"type": "int"},
        "memory_mb": {"type": "raw"},
        "disk_gb": {"type": "raw"},
        "extra_specs": {"type": "dict"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        name = args["name"]
        given = {key: value for key, value in (args["extra_specs"] or {}).items() if value is not None}
        # Checked here, so that a mistake is found before a request names the flavor.
        values = {**(args["extra_specs"] or {}), **extra_specs({"extra_specs": given}, f"Flavor {name}")}
        given_sizes = [(key, unit) for key, unit in (("memory_mb", sizes.MIB), ("disk_gb", sizes.GIB)) if args[key] is not None]
        args.update({key: sizes.read(f"Flavor {name}: {key}", args[key], unit) for key, unit in given_sizes})
        with self.store(args, task_vars).write() as connection:
            before = flavors.find(connection, name)
            if args["state"] == "absent":
                result: dict[str, Any] = {"changed": flavors.delete(connection, name)}
            else:
                found, changed = flavors.ensure(connection, name, {**args, "extra_specs": values}, time.time())
                result = {"changed": changed, "flavor": found}
        if self._task.diff:
            result["diff"] = [difference(name, before, result.get("flavor"))]
        return result
