# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible writes the result of a failed task as JSON: the JSON has the sentence and little more."""

from __future__ import annotations

import json
import sys

import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import _brief
from ansible_collections.drover.compute.tests.unit.action.running import ansible


def fatal_of(output):
    (line,) = [line for line in output.splitlines() if line.startswith("fatal:")]
    return line, json.loads(line.partition("=> ")[2])


def test_a_refused_drain(tmp_path, prepared_url):
    """One host of libvirt's test driver; its instance has no destination."""
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "drover_uris": ["test:///default"],
    }
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump({"hypervisors": {"hosts": {"kvm1": None}, "vars": common}}), encoding="utf-8"
    )
    words = ("-i", "hosts.yml", "-e", f"drover_store_url={prepared_url}")
    status, output = ansible(tmp_path, "playbook", *words, "drover.compute.discover")
    assert status == 0, output
    status, output = ansible(
        tmp_path, "playbook", *words, "drover.compute.drain", "-e", "drover_host=kvm1"
    )
    assert status != 0
    line, result = fatal_of(output)
    message = result.pop("msg")
    assert message.startswith(
        "1 of the instances of kvm1 cannot move, so nothing was changed. test: "
    )
    assert [each["name"] for each in result["staying"]] == ["test"]
    assert len(line) < len(message) + 300, line
    # The plan is shown before, as lines.
    assert "test" in output.partition("fatal:")[0]


def test_records_of_a_failure():
    move = {
        "uuid": "u",
        "name": "web",
        "status": "failed",
        "destination": "kvm2",
        "message": "m" * 400,
        "allocations": {"a": {"VCPU": 1}},
    }
    short = {"uuid": "u", "name": "web", "destination": "kvm2", "status": "failed"}
    details = {
        "migrations": [move],
        "plan": {"restarts": [move], "lines": ["a"]},
        "refusals": ["kvm1: none"],
        "places": [{"provider": "p"}],
    }
    assert _brief(details) == {
        **details,
        "migrations": [short],
        "plan": {"restarts": [short], "lines": ["a"]},
    }
