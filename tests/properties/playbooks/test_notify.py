# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task file of drover_notify: the time of its run, its variables, and the proof that it stops
nothing."""

from __future__ import annotations

import json
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

WRITE = """
- name: Keep it
  ansible.builtin.shell: 'printf "%s\\n" "$NOTICE" >> FOLDER/notices'
  environment:
    NOTICE: "{{ drover_notice | to_json }}"
  changed_when: false
"""
FAIL = """
- name: Fail
  ansible.builtin.fail:
    msg: the mail server is down
"""
INVENTORY = """
all:
  hosts:
    localhost: {ansible_connection: local, ansible_python_interpreter: PYTHON}
  children:
    hypervisors: {hosts: {kvm1: {}, kvm2: {}}, vars: {ansible_host: 127.0.0.1, ansible_port: 9}}
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a playbook and returns (exit code, its output, the notices)."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(url, host("kvm1", domain("web")), host("kvm2"), now=time.time())
    (tmp_path / "hosts.yml").write_text(INVENTORY.replace("PYTHON", sys.executable))

    def ran(playbook, *words, tasks=WRITE):
        (tmp_path / "notify.yml").write_text(tasks.replace("FOLDER", str(tmp_path)))
        arguments = (
            "-e",
            f"drover_store_url={url}",
            "-e",
            "drover_notify=notify.yml",
            "-i",
            "hosts.yml",
        )
        code, output = ansible(
            tmp_path, "playbook", *arguments, f"drover.compute.{playbook}", *words
        )
        assert "duplicate mapping key" not in output, output
        kept = tmp_path / "notices"
        notices = (
            [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        )
        kept.unlink(missing_ok=True)
        return code, output, notices

    return ran


def test_a_drain_that_fails(run):
    code, output, notices = run("drain", "-e", "drover_host=kvm1")
    assert code != 0 and [(each["run"], each["stage"], each["host"]) for each in notices] == [
        ("drain", "began", "kvm1"),
        ("drain", "failed", "kvm1"),
    ], output
    assert "kvm1" in notices[1]["message"] and notices[1]["time"].endswith("Z")
    assert run("drain", "-e", "drover_host=kvm1", "--check")[2] == []


def test_a_notice_that_fails_hides_nothing(run):
    """The run fails for its own reason, or succeeds as it would without the task file."""
    code, output, _notices = run("drain", "-e", "drover_host=kvm1", tasks=FAIL)
    assert (
        code != 0
        and "No notice was given that the drain began: the mail server is down" in output
        and "failed=1" in output
    ), output
    code, output, _notices = run("audit", tasks=FAIL)
    assert code == 0, output


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ("- ansible.builtin.debug: {msg: 'x'", "is no task file that Ansible can run. "),
        (
            "- no.such.module: {}",
            (
                "is no task file that Ansible can run. couldn't resolve module/action"
                " 'no.such.module'."
            ),
        ),
        ("- hosts: localhost\n  tasks: []", "is no task file that Ansible can run. "),
        ("hosts: localhost", "is no list of tasks"),
        ("- ansible.builtin.meta: end_play", "meta: end_play, which would end the run"),
        ("- block: [{ansible.builtin.meta: end_host}]", "meta: end_host, which would end the run"),
        (
            "- ansible.builtin.set_fact: {drover_plan_only: true}",
            "sets drover_plan_only, which the run would take for its own variable",
        ),
        (
            "- ansible.builtin.fail: {msg: THE-TOKEN}\n  no_log: true",
            "a task failed, and its output is hidden by no_log",
        ),
    ],
)
def test_a_file_that_cannot_be_run_stops_nothing(run, tasks, why):
    """Ansible itself would end the run for most of these, and report success for some."""
    code, output, _notices = run("drain", "-e", "drover_host=kvm1", tasks=tasks)
    assert code != 0 and "cannot be reached" in output, output
    sentences = [
        line
        for line in output.splitlines()
        if line.startswith("No notice was given that the drain ")
    ]
    assert len(sentences) == 2 and all(why in line for line in sentences), output
    assert not any("THE-TOKEN" in line for line in sentences)


@pytest.mark.parametrize("path", ["missing.yml", ".", ["notify.yml"], 5])
def test_a_path_that_is_none_stops_nothing(run, path):
    code, output, _notices = run(
        "drain", "-e", "drover_host=kvm1", "-e", json.dumps({"drover_notify": path})
    )
    assert (
        code != 0
        and "cannot be reached" in output
        and output.count("No notice was given that the drain ") == 2
    ), output


def test_a_host_of_the_file_that_cannot_be_reached_stops_nothing(run):
    """The failure starts no rescue."""
    there = "- ansible.builtin.ping:\n  delegate_to: kvm2\n"
    code, said, _notices = run("drain", "-e", "drover_host=kvm1", tasks=there)
    assert code != 0 and "Host kvm1 cannot be reached" in said, said


def test_an_evacuation_that_is_refused_needs_a_person(run):
    code, said, notices = run("evacuate", "-e", "drover_host=kvm1")
    assert code != 0 and [each["stage"] for each in notices] == ["began", "needs a person"], said
    assert "restarted nothing" in notices[1]["message"] and "up" in notices[1]["message"]


SSH = """#!/bin/sh
echo 'ssh: connect to host nowhere.invalid port 22: No route to host' >&2
exit 255
"""
RULES = "no_witness,many_down,just_started,too_early,quiet_time"


NO_ANSWER = {
    "drover_power_driver": "libvirt",
    "drover_power_domain": "test",
    "drover_power_address": "test:///nowhere.xml",
}
NO_FENCE = {"drover_storage_fence": "nothing"}


@pytest.mark.parametrize(
    ("driver", "storage"),
    [(NO_ANSWER, {}), ({}, NO_FENCE), (NO_ANSWER, NO_FENCE)],
    ids=["power", "storage", "both"],
)
def test_an_evacuation_whose_fence_fails_says_why_in_the_notice(run, tmp_path, driver, storage):
    """The last message of the run does not repeat it."""
    ssh = tmp_path / "silent-ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    dead = {
        "ansible_connection": "ssh",
        "ansible_host": "nowhere.invalid",
        "ansible_port": 22,
        "ansible_ssh_executable": str(ssh),
    }
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "kvm1.yml").write_text(
        json.dumps({**dead, **driver, **storage, "drover_power_timeout": 1})
    )
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}").write() as connection:
        services.record_unreachable(connection, "kvm1", "no route to host", time.time())
    code, output, notices = run(
        "evacuate", "-e", "drover_host=kvm1", "-e", f"drover_evacuate_force={RULES}"
    )
    assert code != 0 and [each["stage"] for each in notices] == ["began", "needs a person"], output
    message, (earlier_output, _refuse, end) = (
        notices[1]["message"],
        output.partition("TASK [drover.compute.evacuate : Refuse to restart the instances]"),
    )
    reasons = ["kvm1 is not fenced, and nothing of it may be started elsewhere."] if driver else []
    reasons += ["drover_storage_fence of kvm1 is nothing, and that is neither"] if storage else []
    assert message.startswith(f"The evacuation of kvm1 restarted nothing. {reasons[0]}"), message
    for reason in reasons:
        assert message.count(reason) == 1 and reason in earlier_output and reason not in end, output


def test_an_audit_without_problems_gives_none(run):
    code, said, notices = run("audit")
    assert code == 0 and notices == [], said


def test_a_rolling_maintenance_that_fails(run):
    code, said, notices = run("rolling_maintenance")
    assert code != 0 and [each["stage"] for each in notices] == ["began", "failed"], said
