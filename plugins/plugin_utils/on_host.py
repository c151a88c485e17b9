# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that action plugins run on a hypervisor, with what fails put in words."""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain


def run(action, host, module, args, task_vars, lost):
    """Run a module of the collection on a host.

    :param action: the action plugin, connected to the host.
    :param lost: what to do when the host is lost, a sentence.
    :returns: its result as plain types, a failure included.
    :raises DroverError: the host cannot be reached.
    """
    try:
        result = action._execute_module(
            module_name=f"drover.compute.{module}",
            module_args={key: value for key, value in args.items() if value is not None},
            task_vars=task_vars,
        )
    except AnsibleConnectionFailure as problem:
        raise DroverError(
            f"Host {host} cannot be reached: {' '.join(str(problem).split())}. {lost}", host=host
        ) from None
    # A failure may come with an object of Ansible's own that holds the traceback.
    return to_plain({key: value for key, value in result.items() if key != "exception"})


def foretell(action, host, module, args, task_vars, lost):
    """As run(), in check mode whatever the task's is: nothing is changed."""
    before = action._task.check_mode
    action._task.check_mode = True
    try:
        return run(action, host, module, args, task_vars, lost)
    finally:
        action._task.check_mode = before
