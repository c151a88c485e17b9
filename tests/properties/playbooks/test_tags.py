# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--tags`` and ``--skip-tags`` with each playbook: a sentence; no successful run that did
nothing, and no run of a step that should be skipped."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.drover.compute.plugins.filter import _without_tags
from ansible_collections.drover.compute.tests.unit.action.running import ansible

PLAYBOOKS = sorted(_without_tags.PLAYBOOKS.glob("*.yml"))
REFUSAL = "the playbooks of drover.compute have no tags, and this run has"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hosts.yml").write_text("hypervisors: {hosts: {kvm1: {}}}\n", encoding="utf-8")
    return tmp_path


def run(folder, playbook, *words):
    status, output = ansible(
        folder, "playbook", "-i", "hosts.yml", playbook, "-e", "drover_host=kvm1", *words
    )
    return status, output, " ".join(output.split())


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_tags_are_refused(path, folder):
    status, output, said = run(folder, f"drover.compute.{path.stem}", "--tags", "plan")
    assert status != 0 and "TASK" not in output, output
    assert f"Nothing was done: {REFUSAL} --tags plan. Run it without." in said


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_every_first_play_refuses_them(path):
    """The first play of discover, and of playbooks that use a limit, may be skipped: each of the
    first two plays refuses."""
    plays = [play for play in yaml.safe_load(path.read_text(encoding="utf-8")) if "hosts" in play]
    assert all(
        "_without_tags" in play["hosts"] for play in plays[: 2 if path.stem == "discover" else 1]
    )


def test_skipped_tags_are_refused(folder):
    status, output, message = run(
        folder, "drover.compute.rolling_maintenance", "--skip-tags", "reboot"
    )
    assert status != 0 and "TASK" not in output, output
    assert f"{REFUSAL} --skip-tags reboot. Run it without." in message


def test_a_playbook_by_its_path(folder):
    status, dummy, said = run(folder, str(PLAYBOOKS[0]), "--tags", "plan", "--skip-tags", "b,a")
    assert status != 0
    assert f"{REFUSAL} --tags plan and --skip-tags a,b." in said


def test_tags_that_leave_nothing_out(folder, prepared_url):
    (folder / "ansible.cfg").write_text("[tags]\nskip = slow\n", encoding="utf-8")
    status, output, dummy = run(
        folder,
        "drover.compute.hosts",
        "-e",
        f"drover_host= drover_store_url={prepared_url}",
        "--tags",
        "all,plan",
    )
    assert status == 0 and "TASK [Show" in output, output


def test_a_playbook_of_somebody_with_tags(folder, prepared_url):
    (folder / "mine.yml").write_text(
        "- {ansible.builtin.import_playbook: drover.compute.hosts, tags: [fleet]}\n- {hosts:"
        " localhost, gather_facts: false, tags: [web], tasks: [{ansible.builtin.debug: {msg: web is"
        " done}}]}\n",
        encoding="utf-8",
    )
    status, output, dummy = run(
        folder, "mine.yml", "-e", f"drover_host= drover_store_url={prepared_url}", "--tags", "web"
    )
    assert status == 0 and "web is done" in output and "TASK [Show" not in output, output
    status, output, dummy = run(
        folder, "mine.yml", "-e", f"drover_host= drover_store_url={prepared_url}", "--tags", "fleet"
    )
    assert status == 0 and "web is done" not in output and "TASK" in output, output
