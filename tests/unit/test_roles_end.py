# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No task of an evacuation waits for a host without an end, and none that is not answered ends the play."""

from __future__ import annotations

import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "roles" / "evacuate" / "tasks").glob("*.yml"))

#: Tasks whose failure is seen to in another way: the file, the task, how.
FAILURE_IS_SEEN_TO = {
    ("returned.yml", "Remove what is stale on the host"): "the host is back and not evacuated: begin.yml says what failed",
}


def tasks(found):
    """All tasks, those in blocks too."""
    for task in found:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part) or [])


def at_a_host():
    return [
        (file.name, task["name"], task)
        for file in FILES
        for task in tasks(yaml.safe_load(file.read_text(encoding="utf-8")) or [])
        if "delegate_to" in task
    ]


@pytest.mark.parametrize("file, name, task", at_a_host(), ids=lambda value: value if isinstance(value, str) else "")
def test_safety_09_each_task_at_a_host_has_an_end(file, name, task):
    assert task.get("timeout"), f"{file}: {name}: without timeout it may wait for ever"
    if (file, name) not in FAILURE_IS_SEEN_TO:
        assert task.get("ignore_errors") is True, f"{file}: {name}: one that does not answer ends the play"


@pytest.mark.parametrize("playbook", ["discover.yml", "evacuate.yml"])
def test_safety_09_reading_the_fleet_ends(playbook):
    plays = yaml.safe_load((ROOT / "playbooks" / playbook).read_text(encoding="utf-8"))
    reading = [task for play in plays for task in tasks(play.get("tasks") or []) if "drover.compute.compute_node" in task]
    assert reading and all(task.get("timeout") for task in reading)


def test_all_that_are_excused_exist():
    assert set(FAILURE_IS_SEEN_TO) <= {(file, name) for file, name, dummy in at_a_host()}
