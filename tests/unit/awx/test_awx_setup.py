# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx_setup: real modules of awx.awx, an imitation of the AWX."""

from __future__ import annotations

import importlib
import json
import os
import re
import sysconfig

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.awx import fake_awx, shipped

pytestmark = pytest.mark.long

TASKS = yaml.safe_load((shipped.ROOT / "playbooks" / "tasks" / "awx.yml").read_text())
SECRET = "hush-hush"
# What docs/awx.md says that a user writes down.
SAID = json.loads(json.dumps(shipped.documented("yaml")[0]).replace(":secret@", f":{SECRET}@"))
CHANGED = re.compile(r"changed=(\d+)")


class Captured(Exception):
    pass


def argument_spec(module, monkeypatch):
    """The argument spec of a module of awx.awx, without what every one of them has."""
    found = importlib.import_module(f"ansible_collections.awx.awx.plugins.modules.{module}")

    def capture(argument_spec, **dummy):
        raise Captured(argument_spec)

    monkeypatch.setattr(found, "ControllerAPIModule", capture)
    with pytest.raises(Captured) as caught:
        found.main()
    return caught.value.args[0]


def set_up(folder, awx, *options, environment=None, said=None, playbook="drover.compute.awx_setup"):
    """Run the playbook; returns (exit code, output)."""
    (folder / "awx.yml").write_text(json.dumps(SAID if said is None else said))
    return ansible(
        folder,
        "playbook",
        playbook,
        "-e",
        "@awx.yml",
        *options,
        environment={
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "CONTROLLER_HOST": awx.url if awx else "http://127.0.0.1:9",
            "CONTROLLER_OAUTH_TOKEN": "token",
            **(environment or {}),
        },
    )


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["name"])
def test_module_takes_what_the_task_gives_it(task, monkeypatch):
    (action,) = [name for name in task if name.startswith("awx.awx.")]
    spec = argument_spec(action.rpartition(".")[2], monkeypatch)
    assert set(task[action]) <= set(spec)
    (kind,) = re.findall(r"\w+", task["loop"])
    for each in shipped.objects()[kind]:
        # Whatever the data say of an object is given to the module.
        assert set(each) <= set(task[action]), each["name"]
        given = {name: value for name, value in each.items() if value is not None}
        assert ArgumentSpecValidator(spec).validate(given).error_messages == []


def test_every_kind_of_object_is_made():
    assert {re.findall(r"\w+", task["loop"])[0] for task in TASKS} == set(shipped.objects())


def test_awx_gets_it_all_and_a_second_run_changes_little(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        code, text = set_up(tmp_path, awx, "-vvv")
        assert code == 0, text
        assert SECRET not in text
        _look(awx)
        first = len(awx.writes)
        code, again = set_up(tmp_path, awx)
        assert code == 0, again
        # AWX shows no secret, so that the credential may differ; the node of an approval always does.
        written = {path.split("/")[0] for dummy, path, data in awx.writes[first:]}
        assert written <= {"credentials", "workflow_job_template_nodes"}, awx.writes[first:]
        assert int(CHANGED.search(again).group(1)) < int(CHANGED.search(text).group(1))


def _look(awx):
    wanted = shipped.objects(**SAID)
    for kind, data in (
        ("projects", "controller_projects"),
        ("execution_environments", "controller_execution_environments"),
        ("inventories", "controller_inventories"),
        ("inventory_sources", "controller_inventory_sources"),
        ("job_templates", "controller_templates"),
        ("workflow_job_templates", "controller_workflows"),
        ("schedules", "controller_schedules"),
        ("hosts", "controller_hosts"),
    ):
        assert [each["name"] for each in awx.objects[kind]] == [each["name"] for each in wanted[data]]
    (kind,) = [each for each in awx.objects["credential_types"] if each["name"] == "drover-store"]
    assert kind["injectors"] == {"env": {"DROVER_STORE_URL": "{{ store_url }}"}}
    assert json.loads(awx.objects["hosts"][0]["variables"]) == SAID["drover_awx_hypervisors"]["kvm1"]
    (credential,) = [each for each in awx.objects["credentials"] if each["name"] == "drover-store"]
    assert credential["inputs"] == {"store_url": SAID["drover_awx_store_url"]}
    for template, each in zip(awx.objects["job_templates"], wanted["controller_templates"]):
        assert awx.surveys[str(template["id"])] == each["survey_spec"]
        assert template["job_slice_count"] == 1 and template["allow_simultaneous"] is False
        assert len(awx.lists["job_templates", str(template["id"]), "credentials"]) == 2
    (group,) = awx.objects["groups"]
    assert len(awx.lists["groups", str(group["id"]), "hosts"]) == 2
    assert [each["name"] for each in awx.objects["workflow_approval_templates"]]


def test_wrapper_of_the_project_does_the_same(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        text = set_up(tmp_path, awx, "--check", playbook=str(shipped.PROJECT / "awx_setup.yml"))[1]
        assert "Execution environment" in text, text
        assert awx.writes == []


def test_without_awx_awx_it_says_what_to_install(tmp_path, collections):
    # The collections that ours depends on, and not what else is beside the Python packages.
    (tmp_path / "ansible_collections").mkdir()
    (tmp_path / "ansible_collections" / "drover").symlink_to(collections / "ansible_collections" / "drover")
    general = os.path.join(sysconfig.get_path("purelib"), "ansible_collections", "community")
    (tmp_path / "ansible_collections" / "community").symlink_to(general)
    only = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"}
    code, text = set_up(tmp_path, None, environment=only)
    assert code != 0
    assert "The collection awx.awx is not installed" in " ".join(text.split()), text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "Both drover_awx_store_url"),
        ({"drover_awx_store_url": "postgresql://db/x"}, "drover_awx_image"),
        ({"drover_awx_store_url": "sqlite:////x", "drover_awx_image": "x"}, "Give the URL of a PostgreSQL database"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(tmp_path, said, words):
    code, text = set_up(tmp_path, None, said=said)
    assert code != 0
    assert words in " ".join(text.split())
