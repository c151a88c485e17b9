# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare instances with their definitions, and align them: one conductor.alignment.Alignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
    difference,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    RESIZE_SPEC,
    ConductorAction,
    ResizeArgs,
    resize_settings,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_VARIABLES,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.alignment import Alignment


class Args(ResizeArgs, StoreArgs):
    """The arguments of this action."""

    definitions: list[Any]
    apply: bool
    migration: Any


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "definitions": {"type": "list", "elements": "dict", "required": True},
        "apply": {"type": "bool", "default": False},
        "migration": {"type": "dict", "default": {}},
        **RESIZE_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("migration", *SCHEDULER_VARIABLES)

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        settings = resize_settings(args, task_vars, args["migration"], self._task.check_mode)
        alignment = Alignment(self.ports(args, task_vars), settings, args["apply"])
        result = alignment.run(args["definitions"])
        if self._task.diff:
            result["diff"] = [difference(*each) for each in alignment.changes]
        return result
