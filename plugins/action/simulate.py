# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the effects of changes on the fleet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_SPEC,
    SchedulerArgs,
    policy_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import yaml_errors
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._report import html
from ansible_collections.drover.compute.plugins.plugin_utils._report.output_file import OutputFile
from ansible_collections.drover.compute.plugins.plugin_utils._report.simulation import (
    replay_lines,
    simulation_lines,
)
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.replay import replay
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import (
    MAX_MOVES,
    Question,
    simulate,
)


class Args(SchedulerArgs, StoreArgs):
    """The arguments of this action."""

    changes: Any
    replay: Any
    flavors: list[Any] | None
    max_moves: int
    export: str | None
    path: str | None
    fleet: str | None
    show: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "changes": {"type": "raw", "default": []},
        "replay": {"type": "dict"},
        "flavors": {"type": "list", "elements": "raw"},
        "max_moves": {"type": "int", "default": MAX_MOVES},
        "export": {"type": "path"},
        "path": {"type": "path"},
        "fleet": {"type": "str"},
        "show": {"type": "bool", "default": False},
        **SCHEDULER_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = (
        "service_down_time",
        "fleet",
        ("policy", "scheduler"),
        ("policy_file", "scheduler_file"),
    )
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        policy, store = policy_of(args, task_vars), self.store(args, task_vars)
        args["changes"] = _of_text(args["changes"])
        if args["max_moves"] < 0:
            raise DroverError(f"max_moves must be 0 or more, not {args['max_moves']}.")
        if args["replay"] is not None:
            _refuse_with_replay(args)
            again = replay(
                store, policy.over(args["replay"]), args["service_down_time"], args["export"]
            )
            return self._show_simulation(
                args, {"changed": False, "replay": again, "lines": replay_lines(again)}
            )
        # Read the file before the work begins, because it may be unreadable.
        file = (
            OutputFile("page", "drover_simulation_page", args["path"], 0o600)
            if args["path"]
            else None
        )
        before = file.read() if file is not None else b""
        question = Question(
            policy,
            args["flavors"],
            args["max_moves"],
            args["service_down_time"],
            maps=file is not None,
        )
        simulation = simulate(store, args["changes"], question, args["export"])
        result: dict[str, object] = {
            "changed": False,
            "path": None,
            "lines": simulation_lines(simulation),
        }
        if file is not None:
            after = html.simulation_page(simulation, time.time(), args["fleet"])
            result.update(path=file.path, changed=html.differ(before, after))
            if not self._task.check_mode:
                file.write(after)
            for state in (simulation["before"], simulation["after"]):
                state.pop("map", None)
        return self._show_simulation(args, {**result, "simulation": simulation})

    def _show_simulation(self, args: Args, result: dict[str, Any]) -> dict[str, object]:
        if args["show"]:
            # Show the lines here, because some output formats of Ansible fold the long lines of a
            # result.
            for line in result["lines"]:
                self.show(line)
        return result


def _of_text(given: Any) -> Any:
    """Return the changes, also from YAML in a text, for example from a survey of AWX."""
    if not isinstance(given, str):
        return given
    try:
        return yaml.safe_load(given) or []
    except yaml.MarkedYAMLError as problem:
        where = f"line {problem.problem_mark.line + 1}" if problem.problem_mark else "line 1"
        raise DroverError(
            f"The changes, {where}: {yaml_errors.in_words(problem)}. Write a list, such as -"
            " lose_hosts: [kvm1]."
        ) from None


def _refuse_with_replay(args: Args) -> None:
    for option in ("changes", "flavors", "path"):
        if args[option]:
            raise DroverError(
                f"replay decides again what was decided before, on the fleet as it is, and {option}"
                " is about a fleet that changes. Leave one of them out."
            )
