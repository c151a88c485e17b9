# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete an image."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC, DroverAction, difference
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check
from ansible_collections.drover.compute.plugins.plugin_utils._store import images


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "source": {"type": "str"},
        "checksum": {"type": "str"},
        "disk_format": {"type": "str"},
        "properties": {"type": "dict"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        name = args["name"]
        (given,) = check.images([{key: args[key] for key in ("name", *images.FIELDS)}], lambda item: "Module image")
        with self.store(args, task_vars).write() as connection:
            before = images.find(connection, name)
            if args["state"] == "absent":
                result: dict[str, Any] = {"changed": images.delete(connection, name)}
            else:
                found, changed = images.ensure(connection, name, given, time.time())
                result = {"changed": changed, "image": found}
        if self._task.diff:
            result["diff"] = [difference(name, before, result.get("image"))]
        return result
