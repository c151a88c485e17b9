# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring images into the cache of the host of the task, or clean the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.image_cache import (
    ImageCache,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts.compute_nodes import (
    DEFAULT_URI,
)


class Args(StoreArgs):
    """The arguments of this action."""

    state: str
    folder: str
    images: list[Any]
    uri: str


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["present", "clean"], "default": "present"},
        "folder": {"type": "str", "required": True},
        "images": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "source": {"type": "str"},
                "checksum": {"type": "str"},
            },
        },
        "uri": {"type": "str", "default": DEFAULT_URI},
        **STORE_SPEC,
    }

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        host = self.target(task_vars)
        cache = ImageCache(self.ports(args, task_vars), host, args["folder"], self._task.check_mode)
        if args["state"] == "clean":
            return cache.clean(args["uri"])
        paths: dict[str, str | None] = {}
        changed = False
        for image in args["images"]:
            if image["name"] not in paths:
                more, paths[image["name"]] = cache.bring(image)
                changed = changed or more
        return {"changed": changed, "paths": paths}
