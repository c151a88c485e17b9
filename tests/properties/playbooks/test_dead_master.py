# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A master of SSH that stays after the death of its host: it accepts connections and never
answers.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shlex
import shutil
import socket
import sys
import tempfile
import time
import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    at_once,
    ssh_ways,
    waiting,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import HostTimeout
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

#: No machine has the address (RFC 5737), and no name has it.
INVENTORY = """
all:
  hosts:
    localhost: {ansible_connection: local, ansible_python_interpreter: PYTHON}
  children:
    hypervisors: {hosts: {kvm1: {}, kvm2: {}}, vars: {ansible_connection: ssh, ansible_host: nowhere.invalid}}
"""
CONFIGURATION = "[defaults]\nlocalhost_warning = false\n[ssh_connection]\ncontrol_path = SOCKET\n"
RULES = "no_witness,many_down,just_started,too_early,quiet_time,unread_hosts,unclear_answer"


@contextlib.contextmanager
def stale_master():
    """Start a master that accepts connections and is silent, as the master of a dead host; yield
    the path of its socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as server:
        path = pathlib.Path(folder) / "master"
        server.bind(str(path))
        server.listen(100)
        yield path


@pytest.fixture
def run(tmp_path):
    if shutil.which("ssh") is None:
        pytest.skip("there is no ssh here")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(url, host("kvm1", domain("web")), host("kvm2"), now=time.time())
    (tmp_path / "hosts.yml").write_text(INVENTORY.replace("PYTHON", sys.executable))
    with stale_master() as path:
        (tmp_path / "ansible.cfg").write_text(CONFIGURATION.replace("SOCKET", str(path)))

        def ran(playbook, **variables):
            given = json.dumps({"drover_store_url": url, **variables})
            return ansible(
                tmp_path, "playbook", "-i", "hosts.yml", "-e", given, f"drover.compute.{playbook}"
            )

        ran.url = url
        yield ran


def test_walk_f02_nothing_waits_for_a_dead_master(run):
    """A connection through the master would end only at its time limit, 200 s, and the record would
    say so."""
    code, output = run("discover", drover_hypervisors="kvm1")
    assert code != 0 and "resolve hostname" in output and "did not answer within" not in output, (
        output
    )
    with Store.open(run.url).read() as connection:
        assert "resolve hostname" in services.get(connection, "kvm1").last_error
    code, output = run(
        "evacuate",
        drover_host="kvm1",
        drover_host_is_off="kvm1 is powered off",
        drover_evacuate_force=RULES,
    )
    assert "Timed out" not in output and "did not answer within" not in output, output
    code, output = run("power", drover_host="kvm1", drover_power_action="status")
    assert "imed out" not in output and "time frame" not in output, output


def test_f04_the_wait_for_a_host_that_comes_up_is_a_real_one(run):
    """The arguments of ssh were the text of a template there, and the run never saw a host come
    up.
    """
    wake = {
        "drover_power_driver": "wakeonlan",
        "drover_power_mac": "52:54:00:99:00:01",
        "drover_power_broadcast": "127.0.0.1",
    }
    code, output = run(
        "power",
        drover_host="kvm1",
        drover_power_action="startup",
        drover_power_boot_timeout=1,
        **wake,
    )
    assert code == 2 and "does not answer over SSH after 1 s" in output, output
    assert "resolve hostname nowhere.invalid" in " ".join(output.split()), output


@pytest.mark.parametrize("action", ["reboot", "shutdown"])
def test_f20_brothers_the_words_of_the_hosts_own_command(run, action):
    """The host continues unchanged: its command is refused."""
    command = {f"drover_power_{action}_command": "sh -c 'echo no right to end >&2; exit 7'"}
    way = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "drover_power_driver": "ssh",
    }
    limits = {"drover_power_boot_timeout": 3, "drover_power_timeout": 3, "drover_power_force": True}
    code, output = run(
        "power", drover_host="kvm1", drover_power_action=action, **command, **way, **limits
    )
    assert code == 2 and "ended with status 7: no right to end" in " ".join(output.split()), output


class Connection:
    """The options of Ansible's connection plugin that matter here."""

    transport = "ssh"

    def __init__(self, folder, **options):
        self.options = {
            "control_path_dir": str(folder),
            "host": "kvm1",
            "port": None,
            "remote_user": "root",
            **options,
        }

    def get_option(self, name):
        return self.options.get(name)

    def set_option(self, name, value):
        self.options[name] = value


def words(connection):
    return shlex.split(connection.options["ssh_args"])


def test_walk_f02_a_run_has_masters_of_its_own_that_notice_silence(monkeypatch):
    monkeypatch.setattr(ssh_ways, "makedirs_safe", lambda path, mode: None)
    first, second, other = (
        Connection("/tmp/cp", ssh_args="-C -o ControlPath=/old", host=name)
        for name in ("kvm1", "kvm1", "kvm2")
    )
    for each in (first, second, other):
        ssh_ways.prepare(each)
    paths = [
        next(word for word in words(each) if "ControlPath" in word)
        for each in (first, second, other)
    ]
    assert paths[0] == paths[1] != paths[2] and "/tmp/cp/drover-" in paths[0]
    assert words(first).index(paths[0]) < words(first).index("ControlPath=/old"), (
        "SSH takes the first value"
    )
    assert "ServerAliveInterval=5" in words(first) and "ServerAliveCountMax=3" in words(first)
    before = dict(first.options)
    ssh_ways.prepare(first)
    assert first.options == before


def test_walk_f02_a_folder_that_is_too_deep_for_a_socket_has_no_masters(tmp_path):
    connection = Connection(tmp_path / ("deep" * 30))
    ssh_ways.prepare(connection)
    assert "ControlPath=none" in words(connection) and not (tmp_path / ("deep" * 30)).exists()


@pytest.mark.parametrize("option", ["ssh_args", "ssh_common_args", "ssh_extra_args"])
def test_walk_f02_who_wants_no_master_gets_none(tmp_path, option):
    connection = Connection(tmp_path, **{option: "-o ControlPath=none"})
    ssh_ways.prepare(connection)
    assert "drover-" not in connection.options["ssh_args"]


def test_walk_f02_a_probe_goes_past_all_masters(tmp_path):
    connection = Connection(tmp_path, ssh_args="-o ControlPath=/old -o ConnectTimeout=90")
    ssh_ways.prepare(connection, probe=True)
    command = words(connection)
    assert command.index("ControlPath=none") < command.index("ControlPath=/old")
    assert (
        command.index("ConnectTimeout=5") < command.index("ConnectTimeout=90")
        and "ServerAliveInterval=5" in command
    )


def test_walk_f02_other_connections_stay_as_they_are():
    ssh_ways.prepare(types.SimpleNamespace(transport="local"))


def test_walk_f02_a_line_says_what_is_waited_for_and_how_long_at_most(monkeypatch):
    monkeypatch.setattr(waiting, "EVERY", 0.05)
    lines = []

    def wait_for(count):
        while len(lines) < count:
            time.sleep(0.01)

    with waiting.shown(lines.append, "kvm1", "drover.compute.compute_node", 200):
        # A nested call gives no further message.
        with waiting.shown(lines.append, "kvm1", "hypervisor_info", 150):
            wait_for(2)
    assert set(lines) == {"kvm1: waiting for its libvirt, which is read, 0 s of at most 200 s."}
    lines.clear()
    with waiting.shown(lines.append, "kvm1", "compute_node", None):
        time.sleep(0.2)
    assert lines == []


def test_walk_f02_a_line_for_many_hosts(monkeypatch):
    monkeypatch.setattr(waiting, "EVERY", 0)
    lines = []
    answers = at_once.ask_each(
        {"kvm1": lambda: time.sleep(1.5), "kvm2": lambda: time.sleep(1.5)}, 5, 30, lines.append
    )
    assert answers == {"kvm1": None, "kvm2": None} and not any(
        isinstance(each, HostTimeout) for each in answers.values()
    )
    assert (
        lines
        and lines[0].startswith("kvm1, kvm2: waiting for an answer, ")
        and lines[0].endswith(" s of at most 30 s.")
    ), lines
