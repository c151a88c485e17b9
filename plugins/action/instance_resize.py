# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resize instances, confirm or revert it: one run of conductor.resize.ResizeRun."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import selecting
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
    difference,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    INSTANCES_SPEC,
    SIZE_SPEC,
    ConductorAction,
    InstancesArgs,
    SizeArgs,
    new_size,
    resize_settings,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_VARIABLES,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.resize import (
    CONFIRM,
    REVERT,
    ResizeRequest,
    ResizeRun,
)


class Args(SizeArgs, InstancesArgs, StoreArgs):
    """The arguments of this action."""

    ending: str | None
    host: str | None


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        **SIZE_SPEC,
        "ending": {"type": "str", "choices": [CONFIRM, REVERT]},
        "host": {"type": "str"},
        **INSTANCES_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("migration", *SCHEDULER_VARIABLES)

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        settings = resize_settings(args, task_vars, args["migration"], self._task.check_mode)
        wanted = selecting.instances(self.store(args, task_vars), args, self.show)
        request = ResizeRequest(
            wanted, settings, new_size(args), args["ending"] or None, args["host"] or None
        )
        resize = ResizeRun(self.ports(args, task_vars), request)
        result = resize.run()
        if self._task.diff:
            result["diff"] = [difference(*each) for each in resize.differences]
        return result
