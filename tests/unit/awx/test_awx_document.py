# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/awx.md is true: its files, its commands, its play. Both kinds of project can be
installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sysconfig

import yaml

from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.awx import shipped

GENERAL = os.path.join(sysconfig.get_path("purelib"), "ansible_collections", "community")


def run(folder, *words, **environment):
    """Run one of Ansible's commands in the folder."""
    code, said = ansible(folder, *words, environment=environment)
    assert code == 0, said


def test_variables_that_it_sets_are_those_that_there_are():
    names = set(shipped.read(shipped.AWX / "defaults.yml"))
    for each in shipped.documented("yaml"):
        if isinstance(each, dict):
            assert set(each) <= names


def test_names_that_it_names_are_those_that_there_are():
    names = {each["name"] for found in shipped.objects().values() for each in found}
    text = (shipped.ROOT / "docs" / "awx.md").read_text()
    assert set(re.findall(r"`(drover-[a-z-]+)`", text)) <= names
    for path in re.findall(r"\]\(\.\./([^)]+)\)", text) + ["execution-environment.yml"]:
        assert (shipped.ROOT / path).is_file()


def test_playbooks_and_files_of_its_commands_are_there(collections):
    for block in shipped.documented("console"):
        for playbook in re.findall(r"ansible-playbook drover\.compute\.(\w+)", block):
            assert playbook in shipped.PLAYBOOKS
        for path in re.findall(r"cp -r ~/\.ansible/collections/(\S+)", block):
            assert (collections / path).is_dir()


def test_play_with_other_roles_reads_the_same_objects(tmp_path, collections):
    """The test runs the play of the page with a role that takes the place of
    infra.aap_configuration.dispatch and writes the variables that it gets."""
    source = collections / "ansible_collections/drover/compute/playbooks/vars/awx"
    folder = tmp_path / "fleet-awx"
    shutil.copytree(source, folder)
    tasks = tmp_path / "ansible_collections/infra/aap_configuration/roles/dispatch/tasks/main.yml"
    tasks.parent.mkdir(parents=True)
    objects = shipped.objects()
    seen = "{{ {" + ", ".join(f"'{name}': {name}" for name in objects) + "} | to_json }}"
    tasks.write_text(
        json.dumps(
            [{"ansible.builtin.copy": {"content": seen, "dest": str(tmp_path / "seen.json")}}]
        )
    )
    (play,) = [each for each in shipped.documented("yaml") if isinstance(each, list)]
    (folder / "set_up.yml").write_text(yaml.safe_dump(play))
    (folder / "awx.yml").write_text(json.dumps(shipped.SAID))
    run(folder, "playbook", "set_up.yml", "-e", "@awx.yml", ANSIBLE_COLLECTIONS_PATH=str(tmp_path))
    assert json.loads((tmp_path / "seen.json").read_text()) == objects


def test_wrappers_can_be_read(collections, tmp_path):
    project = collections / "ansible_collections/drover/compute/extensions/awx/project"
    wrappers = [str(project / f"{name}.yml") for name in sorted(shipped.PLAYBOOKS)]
    run(
        tmp_path, "playbook", "--syntax-check", *wrappers, ANSIBLE_COLLECTIONS_PATH=str(collections)
    )


def test_repository_is_a_project_that_brings_its_collection(tmp_path):
    """Install the collections of requirements.yml in the project's folder, as AWX does when it
    synchronises."""
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns(".*", "tests", "build", "collections", "__pycache__")
    shutil.copytree(shipped.ROOT, checkout, ignore=ignored)
    installed = tmp_path / "requirements_collections"
    (installed / "ansible_collections").mkdir(parents=True)
    (installed / "ansible_collections" / "community").symlink_to(GENERAL)
    only = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    run(checkout, "galaxy", "collection", "install", "-r", "requirements.yml", "--offline", **only)
    assert (installed / "ansible_collections/drover/compute/MANIFEST.json").is_file()
    run(checkout, "playbook", "--syntax-check", "playbooks/drain.yml", **only)
