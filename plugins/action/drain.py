# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty hosts: one run of conductor.drain.Drain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    DRAIN_SPEC,
    DRAIN_VARIABLES,
    ConductorAction,
    drain_request,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import policy_of
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import Drain, DrainRequest


class ActionModule(ConductorAction):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
        "reason": {"type": "str", "default": DrainRequest.reason},
        "rounds": {"type": "int", "default": DrainRequest.rounds},
        "extra_moves": {"type": "int", "default": 0},
        **DRAIN_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("extra_moves", *DRAIN_VARIABLES)

    def conduct(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        policy = policy_of(args, task_vars)
        plan_only = args["plan_only"] or self._task.check_mode
        request = drain_request(args["host"], policy, args, args["reason"], args["rounds"], args["extra_moves"], plan_only)
        return Drain(self.ports(args, task_vars), request).run()
