# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``drover_selector`` with each playbook: it selects by it, or refuses it before anything else."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

from ansible_collections.drover.compute.plugins.filter import _without_tags
from ansible_collections.drover.compute.tests.unit.action.running import ansible

PLAYBOOKS = sorted(_without_tags.PLAYBOOKS.glob("*.yml"))
ROLES = pathlib.Path(_without_tags.PLAYBOOKS).parent / "roles"


def takes(path):
    """Whether a playbook has the variable in its own tasks, or runs an entry point of a role that has it as an option."""
    text = re.sub("^ *#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return "drover_selector" in text or any("drover_selector" in options for options in _options(yaml.safe_load(text)))


def _options(found):
    """Yield the options of each entry point of a role that tasks include or import."""
    for each in found if isinstance(found, list) else [found]:
        for key, value in each.items() if isinstance(each, dict) else ():
            if key in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
                specs = yaml.safe_load((ROLES / value["name"].split(".")[-1] / "meta/argument_specs.yml").read_text(encoding="utf-8"))
                yield specs["argument_specs"].get(value.get("tasks_from", "main"), {}).get("options", {})
            else:
                yield from _options(value)


REFUSING = [path for path in PLAYBOOKS if not takes(path)]


def test_which_playbooks_take_it():
    taking = {path.stem for path in PLAYBOOKS} - {path.stem for path in REFUSING}
    assert {"hosts", "instances", "instance_stop", "instance_delete", "migration_abort"} <= taking
    assert not {"drain", "evacuate", "power", "place", "discover", "rebalance"} & taking


@pytest.mark.parametrize("path", REFUSING, ids=lambda path: path.stem)
def test_who_does_not_take_it_refuses_it(path, tmp_path):
    (tmp_path / "hosts.yml").write_text("hypervisors: {hosts: {kvm1: {}, kvm2: {}}}\n", encoding="utf-8")
    words = ("-e", "drover_host=kvm1", "-e", "drover_selector=rack=7")
    status, output = ansible(tmp_path, "playbook", "-i", "hosts.yml", f"drover.compute.{path.stem}", *words)
    assert status != 0 and "changed=0" in output, output
    said = "This playbook takes no drover_selector (rack=7): it would not be limited to what that selects. Leave it out. Nothing was done."
    assert said in " ".join(output.split())
    assert re.findall(r"^TASK \[(.*?)\]", output, re.MULTILINE) == ["Stop where drover_selector is set"], output


@pytest.mark.parametrize("path", REFUSING, ids=lambda path: path.stem)
def test_it_is_the_first_task_of_the_first_plays(path):
    """With a limit the first play of discover is left out."""
    plays = [play for play in yaml.safe_load(path.read_text(encoding="utf-8")) if "hosts" in play]
    for play in plays[: 2 if path.stem == "discover" else 1]:
        assert play["tasks"][0].get("ansible.builtin.import_tasks") == "tasks/no_selector.yml", play["name"]
