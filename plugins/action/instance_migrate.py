# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrate single instances: one run of conductor.instance_migrations.InstanceMigrations."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import selecting
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
    difference,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    INSTANCES_SPEC,
    LIMITS_SPEC,
    ConductorAction,
    InstancesArgs,
    LimitsArgs,
    resize_settings,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_VARIABLES,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_migrations import (
    InstanceMigrationRequest,
    InstanceMigrations,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    limits as migration_limits,
)


class Args(InstancesArgs, LimitsArgs, StoreArgs):
    """The arguments of this action."""

    host: str | None
    cold: bool


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "str"},
        "cold": {"type": "bool", "default": False},
        **INSTANCES_SPEC,
        **LIMITS_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("migration", *LIMITS_SPEC, *SCHEDULER_VARIABLES)

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        settings = resize_settings(args, task_vars, args["migration"], self._task.check_mode)
        moves = MoveSettings(
            migration_limits.of_options(args),
            args["migration"],
            args["max_wait"],
            args["shutdown_timeout"],
        )
        chosen = selecting.instances(self.store(args, task_vars), args, self.show)
        request = InstanceMigrationRequest(
            chosen, moves, settings, args["host"] or None, args["cold"]
        )
        run = InstanceMigrations(self.ports(args, task_vars), request)
        result = run.run()
        if self._task.diff:
            result["diff"] = [difference(*each) for each in run.differences]
        return result
