# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every action plugin of the collection does around its one call of the engine."""

from __future__ import annotations

import gc

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border import known_variables, options
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store

STORE_SPEC = {"store_url": {"type": "str", "no_log": True}}


class DroverAction(ActionBase):
    """Validates arguments, opens the store, calls ``act`` and turns failures into sentences.

    A subclass sets ARGUMENT_SPEC, may set VARIABLES (options that fall back on a variable ``drover_<option>``; a pair is
    an option and its variable, without ``drover_``) and writes ``act(args, task_vars) -> dict`` of plain types.
    """

    ARGUMENT_SPEC = {}
    REQUIREMENTS = {}
    VARIABLES = ()
    _supports_check_mode = True
    _supports_async = False

    def __init_subclass__(cls):
        # All is imported by now and stays for as long as the process lives: to search it for garbage at the end of ansible-playbook, and
        # of each process that it forks, takes a tenth of the time of a short command.
        gc.freeze()

    def run(self, tmp=None, task_vars=None):
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        # Ansible shows a sentence once in a run, however many tasks and hosts say it.
        for sentence in known_variables.unknown({*task_vars, *self.variables(task_vars)}):
            Display().warning(sentence)
        try:
            args = self._arguments(task_vars)
            result.update(self.act(args, task_vars))
        except DroverError as problem:
            # Ansible would add the text of a cause to ours, and ours says it already.
            raise AnsibleActionFail(str(problem), result=to_plain(problem.details)) from None
        result.setdefault("changed", False)
        return result

    def act(self, args, task_vars):
        raise NotImplementedError

    def store(self, args, task_vars):
        """The Store this task works on. In check mode its writes are rolled back."""
        return Store.open(options.store_url(args, task_vars, self._templar), check_mode=self._task.check_mode)

    def show(self, line):
        """A line for the person who watches, in a terminal or a job log."""
        Display().display(line)

    def variables(self, task_vars):
        """The variables that VARIABLES are looked up in."""
        return task_vars

    def target(self, task_vars):
        """The name of the inventory host this task works on."""
        return str(self._task.delegate_to or task_vars.get("inventory_hostname") or "localhost")

    def _arguments(self, task_vars):
        given = dict(self._task.args)
        pairs = [(each, each) if isinstance(each, str) else each for each in self.VARIABLES]
        known = {option: variable for option, variable in pairs if option in self.ARGUMENT_SPEC}
        options.add_variables(given, known, self.variables(task_vars), self._templar)
        self._task.args = given
        dummy, args = self.validate_argument_spec(argument_spec=self.ARGUMENT_SPEC, **self.REQUIREMENTS)
        args = to_plain(args)
        for name, spec in self.ARGUMENT_SPEC.items():
            if spec.get("type") in ("int", "float") and args[name] is not None and args[name] < 0:
                raise DroverError(f"{name} must be 0 or more, not {args[name]}.")
        return args


def difference(name, before, after):
    """One entry of the ``diff`` of a thing that may not have been there before or be there now (None).

    Its uuid is left out: in check mode it is not the one that a real run would give.
    """
    shown = [{key: value for key, value in (each or {}).items() if key != "uuid"} for each in (before, after)]
    return {"before": shown[0], "after": shown[1], "before_header": name, "after_header": name}
