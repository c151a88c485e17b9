# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of ordinary runs with a plain ansible.cfg: tables without quotes, and no line wider
than the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests import deprecations
from ansible_collections.drover.compute.tests.unit.action.running import ansible, run

pytestmark = pytest.mark.long
WIDE = 100
GUEST = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'><name>{name}</name><uuid>{uuid}</uuid>
<memory unit='MiB'>1024</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>"""
CPU = "<cpu><mhz>2000</mhz><model>x86_64</model><active>4</active><nodes>1</nodes><sockets>1</sockets><cores>4</cores><threads>1</threads></cpu>"
LONG = "a-web-server-of-the-shop-with-a-name-that-is-much-longer-than-it-ought-to-be"
# A list or text of a result in the form of the default callback.
QUOTED = re.compile(r'^\s*(\S+ => )?[{\[]?\s*"', re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a fleet on libvirt's test driver: kvm1 has three guests."""
    pytest.importorskip("libvirt")
    folder = tmp_path_factory.mktemp("seen")
    hosts = {}
    for number, name in enumerate(("kvm1", "kvm2", "kvm3")):
        guests = ["web1", "db1", LONG] if name == "kvm1" else []
        described = "".join(
            GUEST.format(name=each, uuid=f"5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b{number}c0{place}")
            for place, each in enumerate(guests)
        )
        (folder / f"{name}.xml").write_text(
            f"<node>{CPU}<memory>67108864</memory>{described}</node>"
        )
        uri = f"test://{folder / name}.xml"
        hosts[name] = {"drover_uris": [uri], "drover_migration_uri": uri}
    common = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"hypervisors": {"hosts": hosts, "vars": common}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
    (folder / "ansible.cfg").write_text(
        "[defaults]\ninventory = inventory.yml\nlocalhost_warning = false\n"
    )
    return folder


def see(folder, *words, status=0, columns=WIDE):
    environment = {"DROVER_STORE_URL": f"sqlite:///{folder / 'store.db'}", "COLUMNS": str(columns)}
    found, output = ansible(folder, "playbook", *words, environment=environment)
    assert found == status, output
    return output


@pytest.fixture(scope="module")
def discovered(folder):
    """Return the output of discover, the first of all runs."""
    return see(folder, "drover.compute.discover")


def widest(output):
    """Return the width of the widest line that does not come from Ansible itself."""
    ours = (
        line
        for line in output.splitlines()
        if not re.match(r"(PLAY|TASK) (\[|RECAP)|\S+ +: ok=|\[WARNING\]: |included: ", line)
    )
    return max(map(len, ours))


def assert_for_people(output):
    assert not QUOTED.search(output), output
    assert widest(output) <= WIDE, output


def test_discover(discovered):
    assert_for_people(discovered)
    assert re.search(r"^kvm1 +up .* 3/\d+ \d+% +", discovered, re.MULTILINE), discovered


RUNS = {
    "hosts": (),
    "report": (),
    "audit": (),
    "rebalance": ("-e", "drover_rebalance_max_moves=2"),
    "rolling_maintenance": ("--check", "-e", "drover_rolling_reboot=always"),
    "drain": ("--check", "-e", "drover_host=kvm1", "-e", "drover_unmovable=skip"),
}
MEANT = {
    "hosts": r"^kvm2 +up .* 0/\d+ 0% .* just now",
    "report": r"^  kvm1 +up +\d+ % +3/\d+ \d+% ",
    "audit": r"^3 hosts, 3 instances, \d+ allocations checked: consistent\.$",
    "rebalance": r"^  WAVE  INSTANCE .* MEMORY  FROM -> TO",
    "rolling_maintenance": r"^  1\. kvm",
    "drain": r"^  db1 \(running\): no host that has room takes it",
}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_for_people(discovered, folder, name):
    output = see(folder, f"drover.compute.{name}", *RUNS[name])
    assert_for_people(output)
    assert re.search(MEANT[name], output, re.MULTILINE), output


def test_one_host(discovered, folder):
    output = see(folder, "drover.compute.hosts", "-e", "drover_host=kvm1")
    assert_for_people(output)
    assert re.search(
        rf"^{LONG[:14]}\S*\.\.\.\S*{LONG[-14:]} +running +kvm1 +1 +1 GiB", output, re.MULTILINE
    ), output


def test_the_plan_of_a_drain(discovered, folder):
    """Return the environment without the checks of drain: for these all hosts of the test driver
    are one machine."""
    show = {"drover.compute.plan_drain_info": {"host": "kvm1", "show": True}}
    (folder / "plan.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [show]}])
    )
    output = see(folder, "plan.yml")
    assert_for_people(output)
    assert re.search(
        r"^ +\d  web1 +running +1 +1 GiB +0 GiB  kvm1  ->  kvm[23]\n +live, copies 1 GiB$",
        output,
        re.MULTILINE,
    ), output


def test_place_in_check_mode(discovered, folder):
    (folder / "fleet.yml").write_text(
        yaml.safe_dump({"instances": [{"name": "new", "vcpus": 1, "memory_mb": 64}]})
    )
    output = see(folder, "drover.compute.place", "-e", "drover_definitions=fleet.yml", "--check")
    assert_for_people(output)
    assert re.search(r"^INSTANCE  HOST +ELSE$\n^new +kvm[123]", output, re.MULTILINE), output
    assert (
        re.search(r"^new on kvm[123]\S*: \w", output, re.MULTILINE)
        and "\nNothing was claimed" in output
    ), output
    assert "No instances." not in output, output


def test_an_empty_store_says_what_to_run(tmp_path):
    environment = {"DROVER_STORE_URL": f"sqlite:///{tmp_path / 'new.db'}"}
    with Store.open(environment["DROVER_STORE_URL"]).write():
        pass
    for name in ("hosts", "instances", "report"):
        code, output = ansible(
            tmp_path,
            "playbook",
            "-i",
            "localhost,",
            f"drover.compute.{name}",
            environment=environment,
        )
        assert (
            code == 0
            and "\nThe store has no hosts yet. Run the playbook drover.compute.discover.\n"
            in output
        ), output


def watch(folder, *words, columns, status=0, **environment):
    """Return the output of ansible-playbook on a terminal with this number of columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {
        name: os.environ[name]
        for name in ("PATH", "ANSIBLE_COLLECTIONS_PATH")
        if name in os.environ
    }
    kept.update(
        HOME=str(folder),
        LC_ALL="C.UTF-8",
        TERM="xterm",
        DROVER_STORE_URL=f"sqlite:///{folder / 'store.db'}",
    )
    command = [sys.executable, "-m", "ansible", "playbook", *words]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**kept, **environment},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as running:
        os.close(follower)
        output = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            output += part
    os.close(leader)
    text = output.decode().replace("\r", "")
    deprecations.refuse(text)
    assert running.returncode == status, text
    return text


def plain(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


NARROW = 64
SIZE = ("-e", "drover_vcpus=1", "-e", "drover_memory_mb=64")
# Output that is too wide for this terminal, and is folded or cut; a pattern of a line that the run
# still shows.
TABLES = {
    "hosts": ((), r"^kvm1 +up "),
    "instances": ((), rf"^{LONG[:14]}\S*\.\.\.\S*{LONG[-14:]} +running +kvm1"),
    "instance_show": (("-e", f"drover_instance={LONG}"), r"^  state +running on kvm1"),
    "report": ((), r"^  kvm1 +up "),
    "audit": ((), r"^3 hosts, 3 instances, "),
    "capacity": (SIZE, r"^kvm1 +\d+ +\S"),
    "schedule": (SIZE, r"^INSTANCE +HOST +ELSE$"),
    "rebalance": (("-e", "drover_rebalance_max_moves=2"), r"^  WAVE  INSTANCE "),
    "rolling_maintenance": (("--check", "-e", "drover_rolling_reboot=always"), r"^  1\. kvm"),
    "drain": (
        ("--check", "-e", "drover_host=kvm1", "-e", "drover_unmovable=skip"),
        r"^  db1 \(running\): no host that has room takes it",
    ),
    "undrain": (("--check", "-e", "drover_host=kvm1"), r"kvm1"),
}


@pytest.mark.parametrize("name", TABLES)
def test_no_table_is_wider_than_the_terminal(discovered, folder, name):
    words, meant = TABLES[name]
    text = plain(watch(folder, f"drover.compute.{name}", *words, columns=NARROW))
    assert re.search(meant, text, re.MULTILINE), text
    assert widest(text) <= NARROW, text


def test_a_table_leaves_columns_out_in_a_narrow_terminal(discovered, folder):
    text = plain(watch(folder, "drover.compute.hosts", columns=82))
    assert "kvm1" in text and widest(text) <= 82, text
    assert "FREE" not in text and "ZONE" not in text and "REASON" not in text


@pytest.fixture
def troubled(discovered, folder, tmp_path):
    """Return the same fleet, with kvm2 down and kvm3 disabled."""
    for name in ("store.db", "inventory.yml", "ansible.cfg"):
        shutil.copyfile(folder / name, tmp_path / name)
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}").write() as connection:
        services.change(connection, services.get(connection, "kvm2"), {"forced_down": True})
        services.change(
            connection,
            services.get(connection, "kvm3"),
            {"disabled": True, "disabled_reason": "new fan " * 20},
        )
    return tmp_path


def coloured(text, host):
    """Return the colour of the row of a host, and of its continuation lines; None for none."""
    row = next(line for line in text.splitlines() if plain(line).startswith(f"{host} "))
    found = re.fullmatch(r"\x1b\[([\d;]+)m.*\x1b\[0m", row)
    assert found or "\x1b" not in row, row
    return found and found[1]


def test_a_terminal_colours_rows_by_the_state_of_hosts(troubled):
    text = watch(troubled, "drover.compute.hosts", columns=NARROW)
    assert [coloured(text, host) for host in ("HOST", "kvm1", "kvm2", "kvm3")] == [
        None,
        None,
        "0;31",
        "0;33",
    ], text
    fan = [line for line in text.splitlines() if "fan" in line]
    assert len(fan) > 1 and all(line.startswith("\x1b[0;33m") for line in fan), fan
    # The colour is not the only sign.
    assert re.search(r"^kvm2 +down ", plain(text), re.MULTILINE) and re.search(
        r"^kvm3 +up, disabled ", plain(text), re.MULTILINE
    ), text
    assert widest(plain(text)) <= NARROW, text


def test_colours_are_those_of_ansible(troubled):
    assert (
        coloured(
            watch(troubled, "drover.compute.hosts", columns=NARROW, ANSIBLE_COLOR_ERROR="blue"),
            "kvm2",
        )
        == "0;34"
    )
    assert "\x1b" not in watch(
        troubled, "drover.compute.hosts", columns=NARROW, ANSIBLE_NOCOLOR="1"
    )
    environment = {"DROVER_STORE_URL": f"sqlite:///{troubled / 'store.db'}"}
    for settings, expected in (({}, None), ({"ANSIBLE_FORCE_COLOR": "1"}, "0;31")):
        code, output = ansible(
            troubled, "playbook", "drover.compute.hosts", environment={**environment, **settings}
        )
        assert code == 0 and coloured(output, "kvm2") == expected, output


def test_results_are_plain_whatever_a_terminal_shows(troubled):
    url = f"sqlite:///{troubled / 'store.db'}"
    lines = [
        *run("host_info", store_url=url, show=True)["table"],
        *run("instance_info", store_url=url, show=True)["table"],
        *run("capacity_info", store_url=url, requests=[{"vcpus": 1, "memory_mb": 64}], show=True)[
            "lines"
        ],
        *run("plan_rebalance_info", store_url=url, show=True)["plan"]["lines"],
        *run("plan_drain_info", store_url=url, host="kvm1", show=True)["plan"]["lines"],
    ]
    assert {type(line) for line in lines} == {str} and not any("\x1b" in line for line in lines)
    assert any(LONG in line for line in lines) and max(map(len, lines)) > 160


@pytest.mark.parametrize("runner", [False, True])
def test_without_a_terminal_lines_are_whole(troubled, runner):
    """ansible-runner, and with it AWX, has a terminal with a width that differs from the job's
    page."""
    if runner:
        text = plain(
            watch(troubled, "drover.compute.hosts", columns=80, AWX_ISOLATED_DATA_DIR=str(troubled))
        )
    else:
        code, text = ansible(
            troubled,
            "playbook",
            "drover.compute.hosts",
            environment={"DROVER_STORE_URL": f"sqlite:///{troubled / 'store.db'}"},
        )
        assert code == 0 and "\x1b" not in text, text
    assert re.search(
        r"^kvm3 +up, disabled .*" + "new fan " * 19 + "new fan$", text, re.MULTILINE
    ), text
    assert "FREE VCPU, MEMORY, DISK" in text and widest(text) > 160, text


#: The callback ansible.posix.json writes nothing but one document to the standard output.
JSON_CALLBACK = """
from ansible.plugins.callback import CallbackBase
import json

DOCUMENTATION = "name: json\\ntype: stdout\\nshort_description: one document\\ndescription: one document\\nextends_documentation_fragment: default_callback"

class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "stdout", "json"

    def v2_playbook_on_stats(self, stats):
        self._display.display(json.dumps({"stats": {host: stats.summarize(host) for host in stats.processed}}))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["hosts"],
        ["drain", "-e", "drover_host=kvm1", "--check"],
        ["drain", "-e", "drover_host=nowhere"],
    ],
)
def test_an_output_of_json_is_json(folder, discovered, tmp_path, words):
    """Programs that read the document ended at the first line of a table."""
    (tmp_path / "json.py").write_text(JSON_CALLBACK)
    done = subprocess.run(
        [
            os.path.join(os.path.dirname(sys.executable), "ansible-playbook"),
            f"drover.compute.{words[0]}",
            *words[1:],
        ],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CALLBACK_PLUGINS": str(tmp_path),
            "ANSIBLE_STDOUT_CALLBACK": "json",
            "DROVER_STORE_URL": f"sqlite:///{folder / 'store.db'}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "localhost" in json.loads(done.stdout)["stats"], done.stderr
    # Tables and plans are still visible; refusals are in the document.
    assert ("kvm1" in done.stderr) == ("nowhere" not in words[-1])
