# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the task file of a notice can be included.

Ansible ends the whole run for a file that it cannot read, even with a rescue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from ansible.errors import AnsibleError
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.task import Task

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.known_variables import (
    PREFIX,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import shown

#: The words of the task meta that end the run or the rest of it.
ENDS = {"end_play", "end_batch", "end_host", "end_role"}


class Args(TypedDict):
    """The arguments of this action."""

    path: Any


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"path": {"type": "raw", "required": True}}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        task_file = args["path"]
        if not isinstance(task_file, str) or not task_file.strip():
            raise DroverError(
                f"drover_notify must be the path of a task file, not {shown(task_file)}."
            )
        path = os.path.abspath(os.path.expanduser(task_file))
        if not os.path.isfile(path):
            raise DroverError(
                f"drover_notify names {path}, which is no file. Give the path of a task file."
            )
        for task in self._tasks(path):
            what = task.args.get("_raw_params")
            if (
                task.action in ("meta", "ansible.builtin.meta", "ansible.legacy.meta")
                and what in ENDS
            ):
                raise DroverError(
                    f"{path} has the task meta: {what}, which would end the run that gives notice."
                    " Take it out."
                )
            names = [name for name in (*task.args, task.register) if str(name).startswith(PREFIX)]
            if names and (task.register in names or task.action.rpartition(".")[2] == "set_fact"):
                raise DroverError(
                    f"{path} sets {names[0]}, which the run would take for its own variable. Give"
                    " it another name."
                )
        return {"path": path}

    def _tasks(self, path: str) -> Iterator[Task]:
        """Load a task file as Ansible includes it, and yield its tasks."""
        try:
            data = self._loader.load_from_file(path) or []
            if not isinstance(data, list):
                raise DroverError(
                    f"{path} is no list of tasks, each with a name and a module. Correct it."
                )
            play = {
                "name": "Notice",
                "hosts": "localhost",
                "gather_facts": False,
                "tasks": [{"import_tasks": path}] if data else [],
            }
            blocks = Play.load(
                play, variable_manager=self._task.get_variable_manager(), loader=self._loader
            ).tasks
            yield from _flat(blocks)
        except AnsibleError as problem:
            raise DroverError(f"{path} is no task file that Ansible can run. {problem}") from None


def _flat(blocks: list[Any]) -> Iterator[Task]:
    for entry in blocks:
        if isinstance(entry, Block):
            yield from _flat([*entry.block, *entry.rescue, *entry.always])
        else:
            yield entry
