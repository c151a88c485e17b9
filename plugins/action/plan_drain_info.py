# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan how to empty hosts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    DRAIN_PLAN_SPEC,
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
    PlanInfoArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import host_names
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection


class Args(PlanInfoArgs):
    """The arguments of this action."""

    host: list[str]
    max_migrations: int
    max_migrations_per_destination: int | None
    max_migrations_overall: int | None
    extra_moves: int
    solver_seconds: float
    migration: Any
    excluded: Any


class ActionModule(PlanInfo[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
        "max_migrations": {"type": "int", "default": 2},
        "max_migrations_per_destination": {"type": "int"},
        "max_migrations_overall": {"type": "int"},
        **DRAIN_PLAN_SPEC,
        "solver_seconds": {"type": "float", "default": 0},
        "migration": {"type": "dict", "default": {}},
        "excluded": {"type": "dict", "default": {}},
        **PLAN_INFO_SPEC,
    }
    VARIABLES = (
        "max_migrations",
        "max_migrations_per_destination",
        "max_migrations_overall",
        *DRAIN_PLAN_SPEC,
        "solver_seconds",
        "migration",
        *PLAN_INFO_VARIABLES,
    )

    def answer(
        self, connection: Connection, policy: Policy, args: Args
    ) -> tuple[Mapping[str, object], list[str]]:
        question = dataclasses.replace(
            DrainQuestion.of_options(policy, args), own=self.own.guests()
        )
        plan = question.plan(connection, host_names(args["host"]), args["excluded"])
        return {"plan": plan}, plan["lines"]
