# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how many more instances of each flavor fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    PLAN_INFO_SPEC,
    PLAN_INFO_VARIABLES,
    PlanInfo,
    PlanInfoArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import capacity
from ansible_collections.drover.compute.plugins.plugin_utils._report.growth import growth_lines
from ansible_collections.drover.compute.plugins.plugin_utils._report.host_loss import left_behind
from ansible_collections.drover.compute.plugins.plugin_utils._report.placing import capacity_lines
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import evacuations


class Args(PlanInfoArgs):
    """The arguments of this action."""

    requests: list[Any] | None
    loss: bool


class ActionModule(PlanInfo[Args]):
    ARGUMENT_SPEC = {
        "requests": {"type": "list", "elements": "raw"},
        "loss": {"type": "bool", "default": True},
        **PLAN_INFO_SPEC,
    }
    VARIABLES = PLAN_INFO_VARIABLES

    def answer(
        self, connection: Connection, policy: Policy, args: Args
    ) -> tuple[Mapping[str, object], list[str]]:
        wanted = capacity.all_flavors(connection) if args["requests"] is None else args["requests"]
        capacities = capacity.count(
            connection, wanted, policy, args["loss"], args["service_down_time"]
        )
        growth = capacity.read_growth(connection)
        staying = left_behind(evacuations.with_local_disks(connection)) if args["loss"] else ""
        lines = (
            capacity_lines(capacities)
            + (["", staying] if staying else [])
            + (["", *growth_lines(growth)] if growth else [])
        )
        return {"capacity": capacities, "growth": growth, "lines": lines}, lines
