# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)


class Args(TypedDict):
    """The arguments of this action."""

    lines: list[str]


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"lines": {"type": "list", "elements": "str", "required": True}}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        for line in args["lines"]:
            self.show(line)
        return {"changed": False}
