# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of the actions that plan, schedule or count from the present store.

They write nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from .._scheduler.policy import Policy
from .._store.engine import Connection
from . import own_known
from .action import STORE_SPEC, DroverAction, StoreArgs
from .options import OptionSpec, Variables
from .scheduler_options import SCHEDULER_SPEC, SCHEDULER_VARIABLES, SchedulerArgs, policy_of

#: The options of all these actions, as in the fragments drover.compute.scheduler and
#: drover.compute.scheduler.show.
PLAN_INFO_SPEC: dict[str, OptionSpec] = {
    "show": {"type": "bool", "default": False},
    **SCHEDULER_SPEC,
    **STORE_SPEC,
}


class PlanInfoArgs(SchedulerArgs, StoreArgs):
    """The values of the options of PLAN_INFO_SPEC."""

    show: bool


PLAN_INFO_VARIABLES = SCHEDULER_VARIABLES
#: The options of the plan of a drain alone, which a rolling maintenance does not have, as in the
#: fragment drover.compute.plans.moves. The variable ``drover_<option>`` also sets each of them.
DRAIN_PLAN_SPEC: dict[str, OptionSpec] = {"extra_moves": {"type": "int", "default": 0}}


#: The TypedDict of the arguments of an action.
Plan = TypeVar("Plan", bound=PlanInfoArgs)


class PlanInfo(DroverAction[Plan]):
    """Answer from the store, and show the lines of the answer if the option ``show`` is set."""

    _requires_connection = False

    def act(self, args: Plan, task_vars: Variables) -> Mapping[str, object]:
        policy, store = policy_of(args, task_vars), self.store(args, task_vars)
        #: The controller and the server of the store, if they are in this fleet.
        self.own = own_known.machines(store, self.variables(task_vars), self._templar)
        with store.read() as connection:
            result, lines = self.answer(connection, policy, args)
        if args["show"]:
            # Show the lines here, because some output formats of Ansible fold the long lines of a
            # result.
            for line in lines:
                self.show(line)
        return result

    def answer(
        self, connection: Connection, policy: Policy, args: Plan
    ) -> tuple[Mapping[str, object], list[str]]:
        """Return the result of the task, and the lines for people."""
        raise NotImplementedError
