# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evacuate a dead host: the half of a conductor.evacuation.Evacuation before or after the fence."""

from __future__ import annotations

import dataclasses
import os
import pwd
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
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_SPEC,
    SchedulerArgs,
    policy_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_request import (
    FAIL,
    SKIP,
    EvacuationRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import fencing

#: Options that must be at least 1, and the reason.
AT_LEAST_ONE = {
    "max_evacuations": "or nothing would ever start",
    "rounds": "or nothing would ever start",
    "start_timeout": "or no start would ever be waited for",
    "call_timeout": "or no hypervisor would ever be waited for",
}


class Args(SchedulerArgs, StoreArgs):
    """The arguments of this action."""

    host: str
    state: str
    others: list[str]
    read: list[str] | None
    refused: str
    power: str
    said: str
    reason: str
    force: list[str]
    unmovable: str
    plan_only: bool
    rounds: int
    max_evacuations: int
    start_timeout: int
    call_timeout: int
    down_seconds: int
    start_seconds: int
    quiet_seconds: int
    down_percent: int


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True, "aliases": ["name"]},
        "state": {"type": "str", "choices": ["judged", "restarted"], "required": True},
        "others": {"type": "list", "elements": "str", "required": True},
        "read": {"type": "list", "elements": "str"},
        "refused": {"type": "str", "default": ""},
        "power": {"type": "str", "choices": ["on", "off", "unknown", "none"], "default": "none"},
        "said": {"type": "str", "default": ""},
        "reason": {"type": "str", "default": EvacuationRequest.reason},
        "force": {"type": "list", "elements": "str", "default": []},
        "unmovable": {"type": "str", "choices": [FAIL, SKIP], "default": FAIL},
        "plan_only": {"type": "bool", "default": False},
        "rounds": {"type": "int", "default": EvacuationRequest.rounds},
        "max_evacuations": {"type": "int", "default": EvacuationRequest.at_once},
        "start_timeout": {"type": "int", "default": EvacuationRequest.start_timeout},
        "call_timeout": {"type": "int", "default": EvacuationRequest.call_timeout},
        **SCHEDULER_SPEC,
        **{
            each.name: {"type": "int", "default": each.default}
            for each in dataclasses.fields(fencing.Limits)
        },
        **STORE_SPEC,
    }
    VARIABLES = ("max_evacuations", "service_down_time", "start_timeout")

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        numbers = {
            "max_evacuations": args["max_evacuations"],
            "rounds": args["rounds"],
            "start_timeout": args["start_timeout"],
            "call_timeout": args["call_timeout"],
        }
        for name, why in AT_LEAST_ONE.items():
            if numbers[name] < 1:
                raise DroverError(f"{name} must be at least 1, {why}.")
        request = EvacuationRequest(
            host=args["host"],
            others=[name for name in args["others"] if name != args["host"]],
            policy=policy_of(args, task_vars),
            service_down_time=args["service_down_time"],
            said=args["said"],
            operator=_operator(task_vars),
            reason=args["reason"],
            lifted=frozenset(fencing.rules_lifted(args["force"])),
            limits=fencing.Limits.of_options(args),
            unmovable=args["unmovable"],
            plan_only=args["plan_only"] or self._task.check_mode,
            rounds=args["rounds"],
            at_once=args["max_evacuations"],
            start_timeout=args["start_timeout"],
            call_timeout=args["call_timeout"],
        )
        evacuation = Evacuation(self.ports(args, task_vars), request)
        if args["state"] == "judged":
            return evacuation.judge(args["power"])
        result = evacuation.restart(args["read"], args["refused"])
        return (
            {**result, "changed": bool(result["plan"]["restarts"])}
            if self._task.check_mode
            else result
        )


def _operator(task_vars: Variables) -> str:
    """Return the name of the operator in AWX, or else of the account on this machine."""
    named = (
        task_vars.get("awx_user_name")
        or task_vars.get("tower_user_name")
        or os.environ.get("SUDO_USER")
    )
    if named:
        return str(named)
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
