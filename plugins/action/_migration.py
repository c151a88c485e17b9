# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move instances live or cold, settle open migrations of earlier runs, and abort migrations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants as C

from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import selecting
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    LIMITS_SPEC,
    ConductorAction,
    LimitsArgs,
    refuse_orphan,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.selecting import (
    SELECTOR_SPEC,
    SelectorArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.abort import Abort
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.staged_moves import (
    StagedMoves,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    limits as migration_limits,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import orders
from ansible_collections.drover.compute.plugins.plugin_utils._records.outcomes import MoveOutcome
from ansible_collections.drover.compute.plugins.plugin_utils._records.plans import Move


class Args(SelectorArgs, LimitsArgs, StoreArgs):
    """The arguments of this action."""

    state: str
    moves: list[Any]
    purpose: str
    instances: list[str]
    options: Any


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["done", "settled", "aborted"], "default": "done"},
        "moves": {"type": "list", "elements": "dict", "default": []},
        "purpose": {"type": "str", "default": "moving instances"},
        "instances": {"type": "list", "elements": "str", "default": []},
        **SELECTOR_SPEC,
        **LIMITS_SPEC,
        "options": {"type": "dict", "options": migration_options.SPEC},
        **STORE_SPEC,
    }
    VARIABLES = tuple(LIMITS_SPEC)

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        host = self.target(task_vars)
        ports = self.ports(args, task_vars)
        settings = MoveSettings(
            migration_limits.of_options(args),
            args["options"] or {},
            args["max_wait"],
            args["shutdown_timeout"],
        )
        moves = HostMoves(ports, host, settings, self.hand(args, task_vars, refuse_orphan()))
        if args["state"] == "aborted":
            if args["moves"]:
                raise DroverError(
                    "state aborted takes no moves. Name the instances, or none to abort all moves"
                    " off the host."
                )
            return _result(
                Abort(ports, host, moves).run(
                    selecting.instances(ports.store, args), pretend=self._task.check_mode
                )
            )
        if args["instances"] or args["selector"] is not None:
            raise DroverError(
                "The options instances and selector are for state aborted. Name the instances to be"
                " moved in the option moves."
            )
        if args["state"] == "settled" and args["moves"]:
            raise DroverError(
                "state settled takes no moves. It only ends the open moves of an earlier run."
            )
        if args["moves"]:
            with ports.store.read() as connection:
                orders.check_moves(connection, args["moves"])
        if host in C.LOCALHOST and any(move.get("from_host") != host for move in args["moves"]):
            return self._staged(StagedMoves(ports, settings), args["moves"], args["purpose"])
        if self._task.check_mode:
            found = moves.check(args["moves"])
            refused = [each for each in found if not each["ok"]]
            return {"changed": bool(found), "migrations": found, "failed_moves": refused}
        return _result(moves.carry_out(args["moves"], begin=args["state"] == "done"))

    def _staged(self, staged: StagedMoves, moves: list[Move], purpose: str) -> dict[str, object]:
        """Make moves off other hosts than the host of the task."""
        if self._task.check_mode:
            refused = [each for each in staged.check(moves) if not each["ok"]]
            return {"changed": bool(moves), "failed_moves": refused}
        moved = staged.run(moves, purpose)
        return {**_result(moved.migrations), "skipped_moves": moved.skipped}


def _result(outcomes: list[MoveOutcome]) -> dict[str, object]:
    failed = [outcome for outcome in outcomes if outcome["status"] != "completed"]
    return {"changed": bool(outcomes), "migrations": outcomes, "failed_moves": failed}
