# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person sees of ordinary runs with a plain ansible.cfg: tables without quotes, and no line wider than the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.action.running import ansible

pytestmark = pytest.mark.long
WIDE = 100
GUEST = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'><name>{name}</name><uuid>{uuid}</uuid>
<memory unit='MiB'>1024</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>"""
CPU = "<cpu><mhz>2000</mhz><model>x86_64</model><active>4</active><nodes>1</nodes><sockets>1</sockets><cores>4</cores><threads>1</threads></cpu>"
LONG = "a-web-server-of-the-shop-with-a-name-that-is-much-longer-than-it-ought-to-be"
# A list or text of a result as the default callback shows it.
QUOTED = re.compile(r'^\s*(\S+ => )?[{\[]?\s*"', re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fleet on libvirt's test driver: kvm1 has three guests."""
    pytest.importorskip("libvirt")
    folder = tmp_path_factory.mktemp("seen")
    hosts = {}
    for number, name in enumerate(("kvm1", "kvm2", "kvm3")):
        guests = ["web1", "db1", LONG] if name == "kvm1" else []
        described = "".join(
            GUEST.format(name=each, uuid=f"5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b{number}c0{place}") for place, each in enumerate(guests)
        )
        (folder / f"{name}.xml").write_text(f"<node>{CPU}<memory>67108864</memory>{described}</node>")
        uri = f"test://{folder / name}.xml"
        hosts[name] = {"drover_uris": [uri], "drover_migration_uri": uri}
    common = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"hypervisors": {"hosts": hosts, "vars": common}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
    (folder / "ansible.cfg").write_text("[defaults]\ninventory = inventory.yml\nlocalhost_warning = false\n")
    return folder


def see(folder, *words, status=0, columns=WIDE):
    environment = {"DROVER_STORE_URL": f"sqlite:///{folder / 'store.db'}", "COLUMNS": str(columns)}
    found, output = ansible(folder, "playbook", *words, environment=environment)
    assert found == status, output
    return output


@pytest.fixture(scope="module")
def discovered(folder):
    """What discover shows, as the first of all runs."""
    return see(folder, "drover.compute.discover")


def widest(output):
    """The width of the widest line that is not of Ansible itself."""
    ours = (line for line in output.splitlines() if not re.match(r"(PLAY|TASK) \[|\S+ +: ok=", line))
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
    "drain": r"^  web1 \(running\): no host that has room takes it",
}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_for_people(discovered, folder, name):
    output = see(folder, f"drover.compute.{name}", *RUNS[name])
    assert_for_people(output)
    assert re.search(MEANT[name], output, re.MULTILINE), output


def test_one_host(discovered, folder):
    output = see(folder, "drover.compute.hosts", "-e", "drover_host=kvm1")
    assert_for_people(output)
    assert re.search(rf"^{LONG[:14]}\S*\.\.\.\S*{LONG[-14:]} +running +kvm1/vm +1 +1 GiB", output, re.MULTILINE), output


def test_the_plan_of_a_drain(discovered, folder):
    """By the lookup: to the module all hosts of the test driver are one machine."""
    show = {"drover.compute.show": {"lines": "{{ lookup('drover.compute.drain_plan', 'kvm1').lines }}"}}
    (folder / "plan.yml").write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [show]}]))
    output = see(folder, "plan.yml")
    assert_for_people(output)
    assert re.search(r"^ +\d  web1 +running +1 +1 GiB +0 GiB  kvm1/vm  ->  kvm[23]/vm\n +live, copies 1 GiB$", output, re.MULTILINE), output


def test_place_in_check_mode(discovered, folder):
    (folder / "fleet.yml").write_text(yaml.safe_dump({"instances": [{"name": "new", "vcpus": 1, "memory_mb": 64}]}))
    output = see(folder, "drover.compute.place", "-e", "drover_definitions=fleet.yml", "--check")
    assert_for_people(output)
    assert re.search(r"^INSTANCE  HOST +ELSE$\n^new +kvm[123]", output, re.MULTILINE), output
    assert re.search(r"^new on kvm[123]\S*: \w", output, re.MULTILINE) and "\nNothing was claimed" in output, output
    assert "No instances." not in output, output


def test_an_empty_store_says_what_to_run(tmp_path):
    environment = {"DROVER_STORE_URL": f"sqlite:///{tmp_path / 'new.db'}"}
    with Store.open(environment["DROVER_STORE_URL"]).write():
        pass
    for name in ("hosts", "instances", "report"):
        code, output = ansible(tmp_path, "playbook", "-i", "localhost,", f"drover.compute.{name}", environment=environment)
        assert code == 0 and "\nThe store has no hosts yet. Run the playbook drover.compute.discover.\n" in output, output


def test_without_a_terminal_a_line_has_160_columns_and_no_colour(discovered, folder):
    environment = {"DROVER_STORE_URL": f"sqlite:///{folder / 'store.db'}"}
    code, output = ansible(folder, "playbook", "drover.compute.hosts", environment=environment)
    assert code == 0 and "FREE VCPU, MEMORY, DISK" in output and "\x1b" not in output and 82 < widest(output) <= 160, output


def test_a_terminal_says_its_width(discovered, folder):
    """A narrow one, by a pseudo-terminal."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 82, 0, 0))
    environment = {name: os.environ[name] for name in ("PATH", "ANSIBLE_COLLECTIONS_PATH") if name in os.environ}
    environment.update(HOME=str(folder), LC_ALL="C.UTF-8", TERM="xterm", DROVER_STORE_URL=f"sqlite:///{folder / 'store.db'}")
    words = [sys.executable, "-m", "ansible", "playbook", "drover.compute.hosts"]
    with subprocess.Popen(words, cwd=folder, env=environment, stdin=follower, stdout=follower, stderr=follower) as running:
        os.close(follower)
        output = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            output += part
    os.close(leader)
    text = re.sub(r"\x1b\[[\d;]*m", "", output.decode().replace("\r", ""))
    assert running.returncode == 0 and "kvm1" in text, text
    assert widest(text) <= 82, text
    assert "FREE" not in text and "ZONE" not in text and "REASON" not in text
