# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop, reboot and remove instances."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import selecting
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.operating import (
    CHOICE_REQUIREMENTS,
    CHOICE_SPEC,
    ChoiceArgs,
    OperatingAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.operations import POWER


class Args(ChoiceArgs, StoreArgs):
    """The arguments of this action."""

    state: str
    timeout: int
    force: bool
    hard: bool
    keep_disks: bool


class ActionModule(OperatingAction[Args]):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": [*POWER, "absent"], "default": "running"},
        **CHOICE_SPEC,
        "timeout": {"type": "int", "default": 60},
        "force": {"type": "bool", "default": False},
        "hard": {"type": "bool", "default": False},
        "keep_disks": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    REQUIREMENTS = CHOICE_REQUIREMENTS

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        chosen = selecting.instances(self.store(args, task_vars), args, self.show)
        if args["selector"] is not None and args["state"] == "absent" and not self._task.check_mode:
            selecting.refuse_unseen(args["selector"], chosen)
        return self.operate(chosen, args["state"], args, args, task_vars)
