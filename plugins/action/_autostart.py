# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse to boot a host whose libvirt would start a guest that is on another host."""

from __future__ import annotations

from collections.abc import Mapping

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
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.starting import Starting


class Args(StoreArgs):
    """The arguments of this action."""

    host: str
    not_done: str


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "not_done": {"type": "str", "default": "it is not booted"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        return {
            "changed": False,
            "guests": (
                Starting(self.ports(args, task_vars)).refuse_boot(args["host"], args["not_done"])
            ),
        }
