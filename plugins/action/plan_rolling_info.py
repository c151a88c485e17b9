# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan batches of hosts that can be down together."""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    RollingQuestion,
    naming_own,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection


class ActionModule(PlanInfo):
    ARGUMENT_SPEC = {
        "hosts": {"type": "list", "elements": "str"},
        "spare_hosts": {"type": "int", "default": 0},
        "batch_size": {"type": "int", "default": 0},
        "back": {"type": "bool", "default": True},
        "unmovable": {"type": "str", "choices": ["fail", "shutdown"], "default": "fail"},
        "empty": {"type": "list", "elements": "str", "default": []},
        **PLAN_INFO_SPEC,
    }
    VARIABLES = (
        ("spare_hosts", "rolling_spare_hosts"),
        ("batch_size", "rolling_batch_size"),
        *PLAN_INFO_VARIABLES,
    )

    def answer(
        self, connection: Connection, policy: Policy, args: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        names = ("spare_hosts", "batch_size", "back", "unmovable", "service_down_time")
        question = RollingQuestion(policy, **{name: args[name] for name in names})
        plan = naming_own(question.plan(connection, args["hosts"], args["empty"]), self.own)
        return {"plan": plan}, plan["lines"]
