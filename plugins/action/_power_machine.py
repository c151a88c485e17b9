# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the machine that a power driver switches with the machine of a host in the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._management_controllers import identity


class Args(TypedDict):
    """The arguments of this action."""

    host: str
    reported: str
    uuid: str


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "reported": {"type": "str", "default": ""},
        "uuid": {"type": "str", "default": ""},
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        machines = self.machines({}, task_vars)
        return {
            "problem": (
                machines.why_not_switched(
                    args["host"], identity.of_text(args["reported"]), args["uuid"]
                )
                or ""
            )
        }
