# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the moves back after maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
    PlanInfoArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    homes_of,
    plan_home,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    limits as migration_limits,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection


class Args(PlanInfoArgs):
    """The arguments of this action."""

    instances: list[Any]
    max_migrations: int


class ActionModule(PlanInfo[Args]):
    ARGUMENT_SPEC = {
        "instances": {"type": "list", "elements": "dict", "required": True},
        "max_migrations": {"type": "int", "default": 2},
        **PLAN_INFO_SPEC,
    }
    VARIABLES = ("max_migrations", *PLAN_INFO_VARIABLES)

    def answer(
        self, connection: Connection, policy: Policy, args: Args
    ) -> tuple[Mapping[str, object], list[str]]:
        migration_limits.of_options(args)
        plan = plan_home(
            connection,
            homes_of(args["instances"]),
            policy,
            args["max_migrations"],
            args["service_down_time"],
            self.own.guests(),
        )
        return {"plan": plan}, plan["lines"]
