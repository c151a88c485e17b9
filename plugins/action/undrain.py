# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring drained hosts back: one run of conductor.undrain.Undrain; or a storage pool."""

from __future__ import annotations

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
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import host_names
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import pool_undrain
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.undrain import (
    Undrain,
    UndrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits


class Args(StoreArgs):
    """The arguments of this action."""

    host: list[str]
    pool: str | None
    timeout: int
    max_migrations: int
    shutdown_timeout: int


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "list", "elements": "str", "default": [], "aliases": ["name"]},
        "pool": {"type": "str"},
        "timeout": {"type": "int", "default": 60},
        "max_migrations": {"type": "int", "default": 2},
        "shutdown_timeout": {"type": "int", "default": 300},
        **STORE_SPEC,
    }
    VARIABLES = ("max_migrations", "shutdown_timeout")

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        if args["pool"]:
            hosts = host_names(args["host"]) if args["host"] else []
            return pool_undrain.bring_back(
                self.ports(args, task_vars), args["pool"], hosts, self._task.check_mode
            )
        if not args["host"]:
            raise DroverError(
                "What is brought back? Give host, the names of hosts, or pool, the name of a"
                " storage pool. Nothing was done."
            )
        moves = MoveSettings(
            MigrationLimits(args["max_migrations"]), shutdown_timeout=args["shutdown_timeout"]
        )
        request = UndrainRequest(args["host"], moves, args["timeout"], self._task.check_mode)
        return Undrain(self.ports(args, task_vars), request).run()
