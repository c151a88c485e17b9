# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrate single instances: one run of conductor.instance_migrations.InstanceMigrations."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC, difference
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.conducting import ConductorAction
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.instance_migrations import (
    InstanceMigrationRequest,
    InstanceMigrations,
)
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.migrate import PATIENCE
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.settings import MoveSettings, ResizeSettings
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import limits as migration_limits
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file


class ActionModule(ConductorAction):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "instances": {"type": "list", "elements": "raw", "required": True},
        "host": {"type": "str"},
        "cold": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 60},
        "force": {"type": "bool", "default": False},
        "despite_policy": {"type": "bool", "default": False},
        "migration": {"type": "dict", "default": {}},
        "max_migrations": {"type": "int", "default": 2},
        "max_migrations_per_destination": {"type": "int"},
        "max_migrations_overall": {"type": "int"},
        "max_wait": {"type": "int", "default": PATIENCE},
        "shutdown_timeout": {"type": "int", "default": 300},
        "policy": {"type": "dict", "default": {}},
        "policy_file": {"type": "path"},
        "service_down_time": {"type": "int", "default": 0},
        **STORE_SPEC,
    }
    VARIABLES = (
        "migration",
        "max_migrations",
        "max_migrations_per_destination",
        "max_migrations_overall",
        "max_wait",
        "shutdown_timeout",
        "service_down_time",
        ("policy", "scheduler"),
        ("policy_file", "scheduler_file"),
    )

    def conduct(self, args, task_vars):
        settings = ResizeSettings(
            policy=policy_file.combined(args["policy"], args["policy_file"], task_vars.get("playbook_dir")),
            check_mode=self._task.check_mode,
            **{key: args[key] for key in ("timeout", "force", "despite_policy", "migration", "service_down_time")},
        )
        moves = MoveSettings(migration_limits.of_options(args), args["migration"], args["max_wait"], args["shutdown_timeout"])
        wanted = InstanceMigrationRequest(args["instances"], moves, settings, args["host"] or None, args["cold"])
        run = InstanceMigrations(self.ports(args, task_vars), wanted)
        result = run.run()
        if self._task.diff:
            result["diff"] = [difference(*each) for each in run.differences]
        return result
