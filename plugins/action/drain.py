# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty hosts or a storage pool: one conductor.drain.Drain or conductor.pool_drain.PoolDrain."""

from __future__ import annotations

from collections.abc import Mapping

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
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.plan_info import (
    DRAIN_PLAN_SPEC,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    policy_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import host_names
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import (
    SHUTDOWN,
    SKIP,
    Drain,
    DrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.pool_drain import (
    PoolDrain,
    PoolDrainRequest,
)


class Args(DrainArgs, StoreArgs):
    """The arguments of this action."""

    host: list[str]
    pool: str | None
    destination_pool: str | None
    reason: str
    rounds: int
    extra_moves: int


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "list", "elements": "str", "default": [], "aliases": ["name"]},
        "pool": {"type": "str"},
        "destination_pool": {"type": "str"},
        "reason": {"type": "str", "default": DrainRequest.reason},
        "rounds": {"type": "int", "default": DrainRequest.rounds},
        **DRAIN_PLAN_SPEC,
        **DRAIN_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = (*DRAIN_PLAN_SPEC, *DRAIN_VARIABLES)

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        if args["pool"]:
            pool_drain = PoolDrain(
                self.ports(args, task_vars), self._pool_request(args["pool"], args)
            )
            result = pool_drain.run()
            return (
                {**result, "changed": pool_drain.would_change} if self._task.check_mode else result
            )
        if not args["host"]:
            raise DroverError(
                "What is drained? Give host, the names of hosts, or pool, the name of a storage"
                " pool. Nothing was done."
            )
        if args["destination_pool"]:
            raise DroverError(
                "drover_destination_pool goes with drover_pool, and no pool is named: a drain of"
                " hosts chooses where disks go. Nothing was done: leave it out, or set drover_pool."
            )
        policy = policy_of(args, task_vars)
        plan_only = args["plan_only"] or self._task.check_mode
        request = drain_request(
            args["host"],
            policy,
            args,
            args["reason"],
            args["rounds"],
            plan_only,
        )
        drain = Drain(self.ports(args, task_vars), request)
        drained = drain.run()
        return {**drained, "changed": drain.would_change} if self._task.check_mode else drained

    def _pool_request(self, pool: str, args: Args) -> PoolDrainRequest:
        unsuitable = {
            "drover_unmovable=shutdown": args["unmovable"] == SHUTDOWN,
            "drover_extra_moves": args["extra_moves"] > 0,
        }
        wrong = [name for name, is_set in unsuitable.items() if is_set]
        if wrong:
            raise DroverError(
                f"{' and '.join(wrong)} has no meaning for a drain of a storage pool (drover_pool),"
                " which neither shuts down nor moves an instance. Nothing was done: leave it out."
            )
        if args["rounds"] < 1 or args["max_migrations"] < 1:
            raise DroverError(
                "drover_drain_rounds and drover_max_migrations must be at least 1, or nothing would"
                " ever move."
            )
        return PoolDrainRequest(
            pool,
            host_names(args["host"]) if args["host"] else [],
            args["destination_pool"] or None,
            args["reason"],
            args["unmovable"] == SKIP,
            args["plan_only"] or self._task.check_mode,
            args["max_migrations"],
            args["rounds"],
            args["migration"],
        )
