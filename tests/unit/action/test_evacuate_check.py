# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dry run of an evacuation ends as the real run would, and gives the reason; a closed SSH port
is not a refused login."""

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

INVENTORY = """
all:
  hosts:
    localhost: {ansible_connection: local, ansible_python_interpreter: PYTHON}
  children:
    hypervisors: {hosts: {kvm1: {}, kvm2: {}}, vars: {ansible_host: nowhere.invalid, ansible_ssh_executable: SILENT}}
"""
SILENT = """#!/bin/sh
echo 'ssh: connect to host nowhere.invalid port 22: No route to host' >&2
exit 255
"""
#: The rules that would stop a run in this small fleet, besides the tested ones.
RULES = "no_witness,many_down,just_started,too_early,quiet_time,unread_hosts"
WORD = 'drover_host_is_off="kvm1 is powered off"'
POOL = {"name": "nfs", "path": "/nfs", "shared_id": "nfs:a:/x"}
SHARED = {
    "xml": "<domain/>",
    "disks": [{"target": "vda", "device": "disk", "type": "file", "source": "/nfs/web.qcow2"}],
}
CLOSED = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_executable": "ssh"}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the playbook evacuate for kvm1 and returns (exit code, its
    output, its artifact)."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(
        url,
        host("kvm1", domain("web", **SHARED), pools=[POOL]),
        host("kvm2", pools=[POOL]),
        now=time.time(),
    )
    with Store.open(url).write() as connection:
        services.record_unreachable(connection, "kvm1", "no route to host", time.time())
    ssh = tmp_path / "silent-ssh"
    ssh.write_text(SILENT)
    ssh.chmod(0o755)
    (tmp_path / "hosts.yml").write_text(
        INVENTORY.replace("PYTHON", sys.executable).replace("SILENT", str(ssh))
    )
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "ansible.cfg").write_text("[defaults]\nshow_custom_stats = true\n")

    def ran(variables, *options, force=RULES):
        (tmp_path / "host_vars" / "kvm1.yml").write_text(json.dumps(variables))
        arguments = (
            "-e",
            f"drover_store_url={url}",
            "-e",
            "drover_host=kvm1",
            "-e",
            f"drover_evacuate_force={force}",
            "-i",
            "hosts.yml",
        )
        code, said = ansible(tmp_path, "playbook", *arguments, "drover.compute.evacuate", *options)
        assert "Traceback" not in said, said
        return code, said

    return ran


def verdict(said):
    """Return the artifact of a run."""
    stats = said.partition("CUSTOM STATS")[2]
    return json.JSONDecoder().raw_decode(stats[stats.index("{") :])[0]["drover_evacuate_result"]


def test_walk_f05_a_closed_port_is_no_refused_login(run):
    code, output = run(CLOSED, "--check")
    outcome = verdict(output)
    assert code == 2 and "web kvm1 -> kvm2" in " ".join(output.split()), output
    assert outcome["message"].startswith(
        "kvm1: nothing would be restarted now. kvm1 answers and refuses connections to its SSH port"
    ), output
    assert (
        outcome["refused"] in (True, "True")
        and "Start its SSH server" in outcome["verdict"]
        and "refuses the login" not in output
    ), output


def test_walk_f04_a_dry_run_ends_as_the_real_run(run):
    """kvm1 is dead and has no power driver."""
    code, output = run({}, "--check")
    last = verdict(output)["message"]
    assert code == 2 and last.startswith(
        "kvm1: nothing would be restarted now. kvm1 has no power driver that can tell whether it"
        " is off"
    ), output
    assert f"'{WORD}'" in last and last.endswith(
        "Once it is off: kvm1: 1 instance would be restarted, 0 not."
    ), output
    code, output = run({})
    assert code == 2 and "Nothing was started" in output and f"'{WORD}'" in output, output


def test_walk_f04_a_dry_run_is_green_where_the_real_run_would_restart_all(run):
    code, output = run({}, "-e", WORD, "--check")
    outcome = verdict(output)
    assert (
        code == 0
        and outcome["planned"] == ["web"]
        and outcome["message"] == "kvm1: 1 instance would be restarted, 0 not."
    ), output
    assert (
        outcome["refused"] in (False, "False")
        and outcome["verdict"] == "kvm1 is off, as a person says, and nobody can reach it."
    ), output
