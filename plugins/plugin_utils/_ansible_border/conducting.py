# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class, options and ports of the action plugins that call the conductor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from .._common import sizes
from .._common.errors import DroverError, RunOver, some
from .._common.plain import to_plain
from .._common.validation import read_whole
from .._conductor.drain import FAIL, SHUTDOWN, SKIP, DrainRequest
from .._conductor.leasing import Leasing
from .._conductor.migrate import PATIENCE
from .._conductor.plans import DrainQuestion
from .._conductor.ports import Ports, StartRules
from .._conductor.settings import MoveSettings, ResizeSettings
from .._conductor.under_way import UnderWay
from .._records.orders import NewSize, Sizes
from .._scheduler.policy import Policy
from .._store import Store
from .._store.hosts import looks
from . import interruption, own_known
from .action import Args, DroverAction
from .delegation import AnsibleHosts
from .lease_holder import LeaseHolder
from .options import OptionSpec, Variables
from .scheduler_options import SCHEDULER_SPEC, SCHEDULER_VARIABLES, SchedulerArgs, policy_of
from .selecting import SELECTOR_SPEC, SelectorArgs

#: The variables of ports.StartRules.
ABSENT, MAX_AGE = "drover_absent_hosts", "drover_start_max_age"

# Each spec has a fragment drover.compute.migration_options.<name>. The variable ``drover_<option>``
# also sets each option of LIMITS_SPEC.

#: The limits of migrations at a time, and the seconds that one waits.
LIMITS_SPEC: dict[str, OptionSpec] = {
    "max_migrations": {"type": "int", "default": 2},
    "max_migrations_per_destination": {"type": "int"},
    "max_migrations_overall": {"type": "int"},
    "max_wait": {"type": "int", "default": PATIENCE},
    "shutdown_timeout": {"type": "int", "default": 300},
}


class LimitsArgs(TypedDict):
    """The values of the options of LIMITS_SPEC."""

    max_migrations: int
    max_migrations_per_destination: int | None
    max_migrations_overall: int | None
    max_wait: int
    shutdown_timeout: int


#: The options of actions that drain hosts. Each module documents ``unmovable`` itself, because the
#: choices differ.
DRAIN_SPEC: dict[str, OptionSpec] = {
    "unmovable": {"type": "str", "choices": [FAIL, SKIP, SHUTDOWN], "default": FAIL},
    "plan_only": {"type": "bool", "default": False},
    "solver_seconds": {"type": "float", "default": 0},
    "migration": {"type": "dict", "default": {}},
    **LIMITS_SPEC,
    **SCHEDULER_SPEC,
}


class DrainArgs(LimitsArgs, SchedulerArgs):
    """The values of the options of DRAIN_SPEC."""

    unmovable: str
    plan_only: bool
    solver_seconds: float
    migration: Any


DRAIN_VARIABLES: tuple[str | tuple[str, str], ...] = (
    "solver_seconds",
    "migration",
    *LIMITS_SPEC,
    *SCHEDULER_VARIABLES,
)
#: The options of actions that give instances a new size: a flavor, or sizes.
SIZE_SPEC: dict[str, OptionSpec] = {
    "flavor": {"type": "str"},
    "vcpus": {"type": "int"},
    "memory_mb": {"type": "raw"},
    "disk_gb": {"type": "raw"},
}


class SizeArgs(TypedDict):
    """The values of the options of SIZE_SPEC."""

    flavor: str | None
    vcpus: int | None
    memory_mb: Any
    disk_gb: Any


#: The options of actions that shut instances down, resize or move them, and start them again.
RESIZE_SPEC: dict[str, OptionSpec] = {
    "timeout": {"type": "int", "default": 60},
    "force": {"type": "bool", "default": False},
    "despite_policy": {"type": "bool", "default": False},
    **SCHEDULER_SPEC,
}


class ResizeArgs(SchedulerArgs):
    """The values of the options of RESIZE_SPEC."""

    timeout: int
    force: bool
    despite_policy: bool


#: The options of actions that move the instances of the operator's choice.
INSTANCES_SPEC: dict[str, OptionSpec] = {
    "instances": {"type": "list", "elements": "raw", "default": []},
    **SELECTOR_SPEC,
    "migration": {"type": "dict", "default": {}},
    **RESIZE_SPEC,
}


class InstancesArgs(SelectorArgs, ResizeArgs):
    """The values of the options of INSTANCES_SPEC."""

    instances: list[Any]
    migration: Any


class ConductorAction(DroverAction[Args]):
    """An action that works on several hosts."""

    def ports(self, args: Mapping[str, object], task_vars: Variables) -> Ports:
        """Return the ports of the conductor. They refuse new calls after the end of the playbook.

        :raises DroverError: the playbook has ended.
        """
        store, actor, go_on = (
            self.store(args, task_vars),
            LeaseHolder.of_this_task(),
            refuse_orphan(),
        )
        given = {"store_url": args["store_url"]} if args.get("store_url") else {}
        hosts = AnsibleHosts(self, task_vars, go_on, self.warn, given)
        rules = self._start_rules(store, hosts, task_vars)
        own = own_known.machines(store, self.variables(task_vars), self._templar)
        return Ports(
            store,
            hosts,
            Leasing(store, actor, self.show),
            self.show,
            time,
            rules,
            own,
            self._under_way,
        )

    def _start_rules(self, store: Store, hosts: AnsibleHosts, task_vars: Variables) -> StartRules:
        """Return the rules of starts, from drover_absent_hosts and drover_start_max_age.

        :raises DroverError: a host is not known, or the age is not a number.
        """
        variables = self.variables(task_vars)
        settings = {
            name: to_plain(self._templar.template(variables[name]))
            for name in (ABSENT, MAX_AGE)
            if name in variables
        }
        absent = settings.get(ABSENT) or []
        names = [
            name.strip()
            for name in (absent.split(",") if isinstance(absent, str) else map(str, absent))
        ]
        absent_hosts = frozenset(name for name in names if name)
        if absent_hosts:
            with store.read() as connection:
                unknown = sorted(absent_hosts - {*hosts.names(), *looks.hosts(connection)})
            if unknown:
                raise DroverError(
                    f"{ABSENT} names {some(unknown)}, which is no host of the inventory or the"
                    " store. Correct it; nothing was done."
                )
        age = (
            read_whole(MAX_AGE, settings[MAX_AGE], 1)
            if settings.get(MAX_AGE) not in (None, "")
            else StartRules().max_age
        )
        return StartRules(absent_hosts, age)

    def warn(self, sentence: str) -> None:
        """Add a warning to the result of this task."""
        self.warnings.append(sentence)

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        self.warnings: list[str] = []
        self._under_way = UnderWay()
        with interruption.saying(self._under_way.sentence):
            try:
                result = self.conduct(args, task_vars)
            except DroverError:
                # Operations on hypervisors continue after an error here, for example after the loss
                # of the store.
                if left := self._under_way.left():
                    self.show(left)
                raise
        return {**result, "warnings": self.warnings} if self.warnings else result

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        raise NotImplementedError


def drain_request(
    hosts: Sequence[str],
    policy: Policy,
    args: DrainArgs,
    reason: str,
    rounds: int,
    plan_only: bool = False,
) -> DrainRequest:
    """Return the DrainRequest of a task with the options of DRAIN_SPEC.

    :raises DroverError: a number is too small.
    """
    if rounds < 1:
        raise DroverError("rounds must be at least 1, or nothing would ever move.")
    question = DrainQuestion.of_options(policy, {"extra_moves": 0, **args})
    moves = MoveSettings(
        question.limits, args["migration"], args["max_wait"], args["shutdown_timeout"]
    )
    return DrainRequest(hosts, question, moves, reason, args["unmovable"], plan_only, rounds)


def resize_settings(
    args: ResizeArgs,
    task_vars: Variables,
    migration: Any,
    check_mode: bool,
) -> ResizeSettings:
    """Return the ResizeSettings of a task with the options of RESIZE_SPEC.

    :param migration: the options of each move.
    """
    return ResizeSettings(
        policy_of(args, task_vars),
        args["timeout"],
        args["force"],
        args["despite_policy"],
        migration,
        args["service_down_time"],
        check_mode,
    )


def new_size(args: SizeArgs) -> NewSize | None:
    """Return the new size of a task with the options of SIZE_SPEC; None without a size.

    :raises DroverError: a flavor and sizes are given, or a size cannot be read.
    """
    given: Mapping[str, object] = args
    names = [name for name in SIZE_SPEC if given[name] not in (None, "")]
    if args["flavor"]:
        if len(names) > 1:
            others = " and ".join(f"drover_{name}" for name in names[1:])
            raise DroverError(
                f"Nothing was done, because drover_flavor is set together with {others}, and each"
                " of them gives a size. Set drover_flavor alone, or only drover_vcpus,"
                " drover_memory_mb and drover_disk_gb."
            )
        return NewSize(args["flavor"])
    if not names:
        return None
    amounts: Sizes = {}
    if "vcpus" in names:
        amounts["vcpus"] = read_whole("drover_vcpus", args["vcpus"], 1)
    if "memory_mb" in names:
        amounts["memory_mb"] = sizes.read("drover_memory_mb", args["memory_mb"], sizes.MIB, 1)
    if "disk_gb" in names:
        amounts["disk_gb"] = sizes.read("drover_disk_gb", args["disk_gb"], sizes.GIB, 1)
    return NewSize(sizes=amounts)


def refuse_orphan() -> Callable[[], None]:
    """Return a function that raises RunOver if the playbook of this task has ended.

    The workers of a killed ansible-playbook stay alive, but must not continue beside the next run.
    """
    playbook = os.getppid()

    def go_on() -> None:
        if os.getppid() != playbook:
            raise RunOver("The playbook of this task is gone. Run it again.")

    return go_on
