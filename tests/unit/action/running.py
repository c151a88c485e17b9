# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running action plugins: in this process, as a task would, and by ansible-playbook."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import types

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.drover.compute.tests import deprecations
from ansible_collections.drover.compute.tests.unit import ansible_process

PACKAGE = "ansible_collections.drover.compute.plugins.action"


def run(module, variables=None, /, check=False, diff=False, **args):
    """Run one task on localhost.

    :param variables: the variables of the play.
    :returns: the task's result.
    :raises AnsibleActionFail: as the plugin does.
    """
    loader = DataLoader()
    task_vars = {"inventory_hostname": "localhost", **(variables or {})}
    task = Task()
    task.action, task.args = f"drover.compute.{module}", args
    task.check_mode, task.diff = check, diff
    plugin = importlib.import_module(f"{PACKAGE}.{module}").ActionModule(
        task=task,
        # A test here never reaches a host, but the plugin reads these fields.
        connection=types.SimpleNamespace(
            host=task_vars["inventory_hostname"], _shell=types.SimpleNamespace(tmpdir=None)
        ),
        play_context=PlayContext(),
        loader=loader,
        templar=Templar(loader=loader, variables=task_vars),
        shared_loader_obj=None,
    )
    # Ansible's loader sets this name; before ansible-core 2.19 the check of arguments reads it.
    plugin._load_name = task.action
    return plugin.run(task_vars=task_vars)


def failure(module, variables=None, **args):
    """Return the sentence that a task fails with, see run()."""
    with pytest.raises(AnsibleActionFail) as caught:
        run(module, variables, **args)
    return str(caught.value)


def is_plain(value):
    """Return True if ansible-core accepts the value in a result, and JSON returns it unchanged."""
    return json.loads(json.dumps(value)) == value


def play(folder, tasks, settings="", environment=None, options=(), **keywords):
    """Run ansible-playbook on a play of these tasks on localhost.

    :param folder: the folder of its files; it is the home and the current folder.
    :param settings: more lines of ansible.cfg.
    :param keywords: more keywords of the play, such as vars.
    :returns: (exit code, its whole output).
    """
    folder = pathlib.Path(folder)
    (folder / "play.json").write_text(
        json.dumps(
            [
                {
                    "hosts": "localhost",
                    "gather_facts": False,
                    "connection": "local",
                    "tasks": tasks,
                    **keywords,
                }
            ]
        )
    )
    _configure(folder, settings)
    return ansible(
        folder, "playbook", "-i", "localhost,", *options, "play.json", environment=environment
    )


def playbook(name, url, *options, folder, variables=None, settings=""):
    """Run a playbook of the collection by its name on localhost, with a store; the rest is as in
    play().
    """
    (folder / "vars.json").write_text(json.dumps({"drover_store_url": url, **(variables or {})}))
    _configure(folder, settings)
    return ansible(
        folder,
        "playbook",
        "-i",
        "localhost,",
        "-e",
        "@vars.json",
        f"drover.compute.{name}",
        *options,
    )


def _configure(folder, settings):
    (folder / "ansible.cfg").write_text(
        "[defaults]\nlocalhost_warning = false\ninventory_unparsed_warning = false\n" + settings
    )


def ansible(folder, command, *words, environment=None):
    """Run one of Ansible's commands in a folder, which is its home too.

    :param command: its name behind "ansible-", such as playbook.
    :returns: (exit code, its whole output).
    """
    kept = {
        name: os.environ[name]
        for name in ("PATH", "ANSIBLE_COLLECTIONS_PATH", "LANG")
        if name in os.environ
    }
    status, output = ansible_process.run(
        folder,
        [command, *words],
        {
            **kept,
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environment or {}),
        },
    )
    deprecations.refuse(output)
    return status, output
