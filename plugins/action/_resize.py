# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one step of a resize on the host of the task, see conductor.resize_steps."""

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
    SIZE_SPEC,
    ConductorAction,
    ResizeArgs,
    SizeArgs,
    new_size,
    refuse_orphan,
    resize_settings,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.remote_module import (
    Hand,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.resize_steps import (
    ResizeSteps,
    StepResult,
)

#: {state: method of ResizeSteps}, without the state begun.
STEPS = {
    "left": "leave",
    "arrived": "arrive",
    "undone": "undo",
    "confirmed": "confirm",
    "leaving_again": "leave_again",
    "reverted": "revert",
}


class Args(SizeArgs, ResizeArgs, StoreArgs):
    """The arguments of this action."""

    state: str
    instance: Any
    host: str | None
    options: Any
    message: str | None


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["begun", *STEPS], "required": True},
        "instance": {"type": "raw", "required": True},
        **SIZE_SPEC,
        "host": {"type": "str"},
        **RESIZE_SPEC,
        "options": {"type": "dict", "default": {}},
        "message": {"type": "str"},
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time",)

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        target_host, go_on = self.target(task_vars), refuse_orphan()

        def hand(host: str) -> Hand:
            if host != target_host:
                raise DroverError(
                    f"This task runs on {target_host}, but its hypervisor is {host}. Delegate it"
                    " there."
                )
            return self.hand(args, task_vars, go_on)

        settings = resize_settings(args, task_vars, args["options"], self._task.check_mode)
        steps = ResizeSteps(self.ports(args, task_vars), settings, hand)
        instance, resize = steps.find(args["instance"])
        if args["state"] == "begun":
            step = steps.begin(instance, resize, new_size(args), args["host"])
        elif resize is None:
            step = StepResult(False, None)
        elif args["state"] == "undone":
            step = steps.undo(resize, args["message"])
        else:
            step = getattr(steps, STEPS[args["state"]])(resize)
        result: dict[str, object] = {"changed": step.changed, "resize": step.resize}
        if self._task.diff and step.difference:
            result["diff"] = [difference(instance["name"], *step.difference)]
        return result
