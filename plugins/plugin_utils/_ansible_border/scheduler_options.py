# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of actions that call the scheduler, as in the fragment drover.compute.scheduler."""

from __future__ import annotations

from typing import Any, TypedDict

from .._scheduler import policy_file
from .._scheduler.policy import Policy
from .options import OptionSpec, Variables

SCHEDULER_SPEC: dict[str, OptionSpec] = {
    "policy": {"type": "dict", "default": {}},
    "policy_file": {"type": "path"},
    "service_down_time": {"type": "int", "default": 0},
}


class SchedulerArgs(TypedDict):
    """The values of the options of SCHEDULER_SPEC."""

    policy: Any
    policy_file: str | None
    service_down_time: int


#: The variables that also set these options, see action.DroverAction.
SCHEDULER_VARIABLES: tuple[str | tuple[str, str], ...] = (
    "service_down_time",
    ("policy", "scheduler"),
    ("policy_file", "scheduler_file"),
)
#: The options of the plan of a rebalance, and their variables without ``drover_``.
REBALANCE_VARIABLES = {
    **{
        name: f"rebalance_{name}"
        for name in (
            "max_moves",
            "threshold",
            "margin",
            "cost_per_gib",
            "cooldown",
            "weights",
            "despite_maintenance",
        )
    },
    "max_migrations": "max_migrations",
}


def policy_of(args: SchedulerArgs, task_vars: Variables) -> Policy:
    """Return the Policy of a task with the options of SCHEDULER_SPEC.

    :raises PolicyError: the policy is not valid.
    """
    folder = task_vars.get("playbook_dir")
    return policy_file.combined(
        args["policy"], args["policy_file"], None if folder is None else str(folder)
    )
