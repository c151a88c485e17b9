# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab uses the Ansible of the environment that runs the tests, and a deprecation warning fails
a test."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import pytest

from ansible_collections.drover.compute.tests import deprecations

pytest_plugins = ["test_fleet"]


def write(folder, tasks):
    (folder / "play.yml").write_text(
        json.dumps(
            [{"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": tasks}]
        )
    )
    return str(folder / "play.yml")


def test_a_playbook_runs_in_the_environment_of_the_tests(own_lab, tmp_path):
    message = "ansible-core {{ ansible_version.full }} of {{ ansible_playbook_python }}"
    done = own_lab.playbook(write(tmp_path, [{"ansible.builtin.debug": {"msg": message}}]))
    assert (
        f"ansible-core {importlib.metadata.version('ansible-core')} of {sys.executable}"
        in done.stdout
    )


def test_a_deprecation_warning_is_seen(own_lab, tmp_path, ansible_log):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "old_thing.py").write_text(
        "from ansible.module_utils.basic import AnsibleModule\nmodule ="
        " AnsibleModule({})\nmodule.deprecate('the old thing goes', version='99.0',"
        " collection_name='ansible.builtin')\nmodule.exit_json()\n"
    )
    own_lab.playbook(write(tmp_path, [{"old_thing": {}}]))
    said = ansible_log.read_text()
    with pytest.raises(AssertionError, match="the old thing goes"):
        deprecations.refuse(said)
    ansible_log.unlink()
