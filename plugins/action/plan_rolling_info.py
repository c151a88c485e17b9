# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan batches of hosts that can be down together."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
    PlanInfoArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    RollingQuestion,
    naming_own,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection


class Args(PlanInfoArgs):
    """The arguments of this action."""

    hosts: list[str] | None
    spare_hosts: int
    batch_size: int
    back: bool
    unmovable: str
    empty: list[str]


class ActionModule(PlanInfo[Args]):
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
        self, connection: Connection, policy: Policy, args: Args
    ) -> tuple[Mapping[str, object], list[str]]:
        question = RollingQuestion(
            policy,
            args["spare_hosts"],
            args["batch_size"],
            args["back"],
            args["unmovable"],
            args["service_down_time"],
        )
        plan = naming_own(question.plan(connection, args["hosts"], args["empty"]), self.own)
        return {"plan": plan}, plan["lines"]
