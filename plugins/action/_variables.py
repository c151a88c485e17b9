# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse variables that the playbook does not read, and unknown hypervisors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ansible_collections.drover.compute.plugins.filter._some_host import no_host
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    foreign_variables,
    known_variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain

HYPERVISORS = "drover_hypervisors"


class Args(TypedDict):
    """The arguments of this action."""

    playbook: str


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"playbook": {"type": "str", "required": True}}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        typed = load_extra_vars(self._loader)
        names = [
            name
            for name in foreign_variables.of_others(args["playbook"], typed, task_vars)
            if name in typed or self._is_set(name, task_vars)
        ]
        if names:
            values = {
                name: to_plain(self._templar.template(task_vars[name]))
                for name in names
                if name in foreign_variables.TARGETS
            }
            raise DroverError(foreign_variables.refusal(args["playbook"], names, values))
        playbook = args["playbook"]
        numbers = known_variables.no_numbers(
            task_vars, self._templar.template, lambda name: foreign_variables.reads(playbook, name)
        )
        if numbers:
            raise DroverError(f"Nothing was done. {' '.join(numbers)}")
        for sentence in foreign_variables.without_prefix(args["playbook"], typed):
            Display().warning(sentence)
        unknown = self._no_host(args["playbook"], task_vars)
        if unknown:
            raise DroverError(unknown)
        return {"playbook": args["playbook"]}

    def _no_host(self, playbook: str, task_vars: Variables) -> str | None:
        """Return a sentence if the variable of the hypervisors names no host of the inventory.

        Return None otherwise.
        """
        if HYPERVISORS not in task_vars or not foreign_variables.reads(playbook, HYPERVISORS):
            return None
        groups: Any = task_vars["groups"]
        return no_host(to_plain(self._templar.template(task_vars[HYPERVISORS])), groups)

    def _is_set(self, name: str, task_vars: Variables) -> bool:
        return self._templar.template(task_vars[name]) not in (None, "", [])
