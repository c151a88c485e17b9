# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pick hosts for instances, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
    PlanInfoArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.scheduling import (
    decide,
    refuse_unknown,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report.placing import schedule_lines
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection


class Args(PlanInfoArgs):
    """The arguments of this action."""

    requests: list[Any]
    explain: bool


class ActionModule(PlanInfo[Args]):
    ARGUMENT_SPEC = {
        "requests": {"type": "list", "elements": "dict", "required": True},
        "explain": {"type": "bool", "default": True},
        **PLAN_INFO_SPEC,
    }
    VARIABLES = PLAN_INFO_VARIABLES

    def answer(
        self, connection: Connection, policy: Policy, args: Args
    ) -> tuple[Mapping[str, object], list[str]]:
        refuse_unknown(args["requests"])
        now = clock.now(connection)
        placements = decide(
            connection, args["requests"], policy, now, args["service_down_time"], args["explain"]
        )
        lines = schedule_lines(placements)
        return {"selections": placements, "lines": lines}, lines
