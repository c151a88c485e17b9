# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty a host: one run of conductor.drain.Drain."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.conducting import ConductorAction
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.drain import FAIL, SHUTDOWN, SKIP, Drain, DrainRequest
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.migrate import PATIENCE
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file


class ActionModule(ConductorAction):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "reason": {"type": "str", "default": DrainRequest.reason},
        "unmovable": {"type": "str", "choices": [FAIL, SKIP, SHUTDOWN], "default": FAIL},
        "plan_only": {"type": "bool", "default": False},
        "rounds": {"type": "int", "default": DrainRequest.rounds},
        "extra_moves": {"type": "int", "default": 0},
        "solver_seconds": {"type": "float", "default": 0},
        "service_down_time": {"type": "int", "default": 0},
        "max_migrations": {"type": "int", "default": 2},
        "max_migrations_per_destination": {"type": "int"},
        "max_migrations_overall": {"type": "int"},
        "max_wait": {"type": "int", "default": PATIENCE},
        "shutdown_timeout": {"type": "int", "default": 300},
        "migration": {"type": "dict"},
        "policy": {"type": "dict", "default": {}},
        "policy_file": {"type": "path"},
        **STORE_SPEC,
    }
    VARIABLES = (
        "extra_moves",
        "solver_seconds",
        "service_down_time",
        "max_migrations",
        "max_migrations_per_destination",
        "max_migrations_overall",
        "max_wait",
        "shutdown_timeout",
        "migration",
        ("policy", "scheduler"),
        ("policy_file", "scheduler_file"),
    )

    def conduct(self, args, task_vars):
        if args["rounds"] < 1:
            raise DroverError("rounds must be at least 1, or nothing would ever move.")
        policy = policy_file.combined(args["policy"], args["policy_file"], task_vars.get("playbook_dir"))
        question = DrainQuestion.of_options(policy, args)
        request = DrainRequest(
            host=args["host"],
            question=question,
            moves=MoveSettings(question.limits, args["migration"] or {}, args["max_wait"], args["shutdown_timeout"]),
            reason=args["reason"],
            unmovable=args["unmovable"],
            plan_only=args["plan_only"] or self._task.check_mode,
            rounds=args["rounds"],
        )
        return Drain(self.ports(args, task_vars), request).run()
