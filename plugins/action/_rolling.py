# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one phase of a rolling maintenance: one call of conductor.rolling.Rolling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.utils.vars import load_extra_vars

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import project_paths
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    DRAIN_SPEC,
    DRAIN_VARIABLES,
    ConductorAction,
    DrainArgs,
    drain_request,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    policy_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import (
    FAIL,
    SHUTDOWN,
    DrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import RollingQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling import (
    PURPOSE,
    STEPS,
    Rolling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling_request import (
    ALWAYS,
    NEEDED,
    NEVER,
    SKIP,
    RollingRequest,
)


class Args(DrainArgs, StoreArgs):
    """The arguments of this action."""

    state: str
    hosts: list[str]
    seen: list[Any]
    batch: list[str]
    #: Required in the state of the same name.
    step: str
    task: str | None
    message: str | None
    left_out: list[Any]
    hypervisors: str
    hooks: Any
    reboot: str
    reboot_sentinels: list[str]
    all_hosts: bool
    blocked: str
    bring_back: bool
    restart: bool
    reason: str
    spare_hosts: int
    batch_size: int
    drain_rounds: int


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "state": {
            "type": "str",
            "choices": [
                "begun",
                "looked",
                "planned",
                "next",
                "step",
                "failed",
                "closed",
                "reported",
            ],
            "required": True,
        },
        "hosts": {"type": "list", "elements": "str", "default": []},
        "seen": {"type": "list", "elements": "dict", "default": []},
        "batch": {"type": "list", "elements": "str", "default": []},
        "step": {"type": "str", "choices": [step.name for step in STEPS]},
        "task": {"type": "str"},
        "message": {"type": "str"},
        "left_out": {"type": "list", "elements": "dict", "default": []},
        "hypervisors": {"type": "str", "default": RollingRequest.pattern},
        "hooks": {"type": "dict", "default": {}},
        "reboot": {"type": "str", "choices": [NEEDED, ALWAYS, NEVER], "default": NEEDED},
        "reboot_sentinels": {"type": "list", "elements": "str", "default": []},
        "all_hosts": {"type": "bool", "default": False},
        "blocked": {"type": "str", "choices": [FAIL, SKIP], "default": FAIL},
        "bring_back": {"type": "bool", "default": False},
        "restart": {"type": "bool", "default": False},
        "reason": {"type": "str", "default": PURPOSE},
        "spare_hosts": {"type": "int", "default": 0},
        "batch_size": {"type": "int", "default": 0},
        "drain_rounds": {"type": "int", "default": DrainRequest.rounds},
        **DRAIN_SPEC,
        "unmovable": {"type": "str", "choices": [FAIL, SHUTDOWN], "default": FAIL},
        **STORE_SPEC,
    }
    REQUIREMENTS = {"required_if": [["state", "step", ["step"]]]}
    VARIABLES = (
        "hypervisors",
        ("spare_hosts", "rolling_spare_hosts"),
        ("batch_size", "rolling_batch_size"),
        "drain_rounds",
        *DRAIN_VARIABLES,
    )

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        for name, path in args["hooks"].items():
            if isinstance(path, str):
                project_paths.refuse_outside(
                    path, f"drover_rolling_hooks: {name}", load_extra_vars(self._loader)
                )
        host, state = self.target(task_vars), args["state"]
        run = Rolling(self.ports(args, task_vars), self._request(args, task_vars))
        if state == "begun":
            return run.begin()
        if state == "looked":
            return run.look(host)
        if state == "planned":
            planned = run.plan(args["seen"])
            plan = planned["plan"]
            return (
                {**planned, "changed": isinstance(plan, dict) and bool(plan["batches"])}
                if self._task.check_mode
                else planned
            )
        if state == "next":
            return run.next()
        if state == "step":
            return run.step(host, args["step"])
        if state == "failed":
            return run.fail(host, args["task"] or "", args["message"] or "")
        if state == "closed":
            return run.close(args["batch"])
        return run.report(args["left_out"])

    def _request(self, args: Args, task_vars: Variables) -> RollingRequest:
        policy = policy_of(args, task_vars)
        question = RollingQuestion(
            policy,
            args["spare_hosts"],
            args["batch_size"],
            args["bring_back"],
            args["unmovable"],
            args["service_down_time"],
        )
        return RollingRequest(
            question=question,
            # No extra moves: a batch fits without them, and two drains of one run would need the
            # lease of one host.
            drain=drain_request([], policy, args, args["reason"], args["drain_rounds"]),
            sentinels=args["reboot_sentinels"],
            plan_only=args["plan_only"] or self._task.check_mode,
            pattern=args["hypervisors"],
            hosts=args["hosts"],
            hooks=args["hooks"],
            reboot=args["reboot"],
            all_hosts=args["all_hosts"],
            blocked=args["blocked"],
            bring_back=args["bring_back"],
            restart=args["restart"],
        )
