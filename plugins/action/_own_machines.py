# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the controller and the server of the store in this fleet; refuse to cut their power."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import own_known
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)


class Args(StoreArgs):
    """The arguments of this action."""

    host: str | None
    not_done: str


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str"},
        "not_done": {"type": "str", "default": "nothing was done"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        own = own_known.machines(
            self.store(args, task_vars), self.variables(task_vars), self._templar
        )
        if args["host"]:
            own.refuse_power(args["host"], args["not_done"])
        return {
            "changed": False,
            "machines": [each._asdict() for each in own.read()],
            "lines": own.sentences(),
        }
