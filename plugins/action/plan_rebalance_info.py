# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show a score of imbalance, and the few moves that improve it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    OptionSpec,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
    PlanInfoArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    REBALANCE_VARIABLES,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import plan_file
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    RebalanceQuestion,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection

#: The options with the same names as fields of RebalanceQuestion.
SAME_SPEC: dict[str, OptionSpec] = {
    "max_moves": {"type": "int", "default": 10},
    "threshold": {"type": "float", "default": 0.01},
    "margin": {"type": "float", "default": 0.005},
    "cost_per_gib": {"type": "float", "default": 0.0},
    "cooldown": {"type": "int", "default": 3600},
    "weights": {"type": "dict", "default": {}},
    "despite_maintenance": {"type": "bool", "default": False},
    "max_migrations": {"type": "int", "default": 2},
}


class Args(PlanInfoArgs):
    """The arguments of this action."""

    plan_file: str | None
    max_moves: int
    threshold: float
    margin: float
    cost_per_gib: float
    cooldown: int
    weights: Any
    despite_maintenance: bool
    max_migrations: int


class ActionModule(PlanInfo[Args]):
    ARGUMENT_SPEC = {"plan_file": {"type": "path"}, **SAME_SPEC, **PLAN_INFO_SPEC}
    VARIABLES = (*REBALANCE_VARIABLES.items(), *PLAN_INFO_VARIABLES)

    def answer(
        self, connection: Connection, policy: Policy, args: Args
    ) -> tuple[Mapping[str, object], list[str]]:
        saved = plan_file.read_moves(args["plan_file"]) if args["plan_file"] else None
        plan = RebalanceQuestion(
            policy,
            args["max_moves"],
            args["threshold"],
            args["margin"],
            args["cost_per_gib"],
            args["cooldown"],
            args["weights"],
            args["despite_maintenance"],
            args["max_migrations"],
            args["service_down_time"],
            self.own.guests(),
        ).plan(connection)
        result: dict[str, object] = {"plan": plan}
        if saved is not None:
            result["same"] = plan_file.is_same(saved, plan["moves"])
        return result, plan["lines"]
