# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cell's world: the hosts and the store as they are when an operation begins, its runs, and what must hold in the end."""

from __future__ import annotations

import json
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

import pytest
from cells.operations import BASE, ISO, NEEDED
from lablib import control
from test_evacuate import extra
from test_fleet import IMAGE, LOCAL, SHARED, Fleet, clean, descendants, end

#: Seconds after which a run is killed, and the cell fails.
PATIENCE = 300
#: How long a guest takes to start where the strike is to come in the middle, and when the strike comes.
START_SECONDS, STRIKE_SECONDS = 2, 1.2

#: Run on a host: guests take as many seconds to start as a file says. It stays until the end, and is one file for ever, for
#: libvirt asks a QEMU that has changed all that it can do, which takes longer than a cell.
WRAP = """
mkdir -p /run/real; mountpoint -q /run/real && exit
[ -e /root/slow ] || cat > /root/slow <<'END'
#!/bin/sh
case "$*" in *guest=*) [ -e /run/slow ] && sleep $(cat /run/slow) ;; esac
exec /run/real/bin/qemu-system-x86_64 "$@"
END
chmod 755 /root/slow; mount --bind /usr /run/real && mount --bind /root/slow /usr/bin/qemu-system-x86_64
"""
UNWRAP = "umount --lazy /usr/bin/qemu-system-x86_64; umount --lazy /run/real; true"

#: Run on a host: whatever a fault has done to it is undone. The instances are taken away after that.
UNDO = f"""
kill -CONT $(cat /run/libvirtd.pid)
rm -f /run/slow
for folder in {LOCAL} {LOCAL}/fast {SHARED}; do grep -q "^full $folder " /proc/mounts && umount $folder; done
ip neigh flush nud permanent
virsh list || /usr/sbin/libvirtd -d
true
"""

#: Run on a host: which domains run, what domains need and is not there, part files, and processes that are still at work.
LOOK = f"""
import glob, json, libvirt, os
import xml.etree.ElementTree as ET
running, missing, working = [], [], []
for domain in libvirt.openReadOnly("qemu:///system").listAllDomains():
    if domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
        running.append({{"name": domain.name(), "uuid": domain.UUIDString()}})
    for source in ET.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).findall("devices/disk/source"):
        if not os.path.exists(source.get("file")):
            missing.append(f"{{source.get('file')}} of {{domain.name()}}")
parts = [path for folder in ("{LOCAL}", "{LOCAL}/fast", "{SHARED}") for path in glob.glob(folder + "/.drover-*")]
for number in glob.glob("/proc/[0-9]*"):
    try:
        words = open(number + "/cmdline").read().split("\\0")
    except OSError:
        continue
    # Not the host itself, who watches, or this.
    if "python" in words[0] and int(number[6:]) not in (1, os.getpid()) and "watched" not in str(words):
        working.append(" ".join(words))
print(json.dumps({{"running": running, "missing": missing, "parts": parts, "working": working}}))
"""


class Command:
    """A run of a playbook; what it says goes into a file."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self._said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=self._said, stderr=subprocess.STDOUT, start_new_session=True
        )

    def kill(self) -> None:
        """SIGKILL for ansible-playbook and all that it started, at once."""
        end({self.process.pid, *descendants(self.process.pid)})
        self.process.wait()

    def finish(self) -> int:
        """Wait for its end; its exit status."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"it did not end within {PATIENCE} s:\n{self.said}", pytrace=False)

    @property
    def said(self) -> str:
        self._said.seek(0)
        return self._said.read()


class Prepared:
    """The stores in which each operation can begin, each made when it is first needed."""

    def __init__(self, lab, folder: pathlib.Path) -> None:
        self.lab, self._folder, self._made = lab, folder, {}

    def store(self, operation) -> pathlib.Path:
        """The folder of the store, to be copied."""
        kind = type(operation)
        if kind not in self._made:
            folder = self._folder / kind.__name__
            folder.mkdir()
            fleet = Fleet(self.lab, folder, f"sqlite:///{folder / 'store.db'}")
            reset(self.lab)
            fleet.run("kvm1", NEEDED)
            fleet.make("kvm1", *operation.guests())
            fleet.playbook("discover", *extra())
            operation.settings(fleet)
            operation.prepare(fleet)
            self._made[kind] = folder
        return self._made[kind]

    def close(self) -> None:
        """The hosts as they were."""
        reset(self.lab)
        Fleet(self.lab, self._folder, "").everywhere(UNWRAP)


def reset(lab) -> None:
    """Power on what is off, undo what faults did, take away every domain and disk."""
    power = control.ask(lab.layout, "status")
    if not all(power[host] for host in lab.hosts):
        lab.command("up")
    fleet = Fleet(lab, lab.layout.folder, "")
    fleet.everywhere(UNDO)
    clean(lab)
    fleet.everywhere(WRAP)


class World:
    """The hosts with the guests of an operation, and a store that knows them."""

    def __init__(self, prepared: Prepared, operation, folder: pathlib.Path) -> None:
        self.operation, self._prepared = operation, prepared
        self.folder, self.backup = folder / "store", prepared.store(operation)
        self.fleet = Fleet(prepared.lab, folder, self.store_in(self.folder))
        self.runs: list[Command] = []
        reset(prepared.lab)
        shutil.copytree(self.backup, self.folder)
        self.fleet.run("kvm1", NEEDED)
        self.fleet.make("kvm1", *operation.guests())
        self.kept = {path: self._digest(path) for path in (IMAGE, BASE, ISO)}
        if operation.dead:
            self.power_off("kvm1")

    def close(self) -> None:
        for run in self.runs:
            run.kill()

    @staticmethod
    def store_in(folder: pathlib.Path) -> str:
        return f"sqlite:///{folder / 'store.db'}"

    # Runs

    def start(self, environment: dict[str, str] | None = None, store: pathlib.Path | None = None) -> Command:
        """Give the command."""
        return self.playbook(self.operation.what, *self.operation.words(), environment=environment, store=store)

    def discover(self, *words: str, store: pathlib.Path | None = None) -> Command:
        """Discover, and wait for the end."""
        run = self.playbook("discover", *extra(), *words, store=store)
        run.finish()
        return run

    def playbook(self, name: str, *words: str, environment: dict[str, str] | None = None, store: pathlib.Path | None = None) -> Command:
        """Start a playbook of the collection, on this store or another one."""
        environment = {**self.fleet.lab.environment(self.store_in(store or self.folder)), **(environment or {})}
        self.runs.append(Command(["ansible-playbook", self.fleet.path_of(name), *words], environment))
        return self.runs[-1]

    def ad_hoc(self, module: str, options: dict) -> Command:
        """Run one module of the store on the controller, and wait for the end."""
        environment = self.fleet.lab.environment(self.store_in(self.folder))
        self.runs.append(Command(["ansible", "localhost", "-m", module, "-a", json.dumps(options)], environment))
        self.runs[-1].finish()
        return self.runs[-1]

    def copy_of_the_store(self, name: str) -> pathlib.Path:
        """The store of another controller, which has read the same hosts."""
        return shutil.copytree(self.backup, self.folder.with_name(name))

    # Hosts

    def power_off(self, host: str) -> None:
        control.ask(self.fleet.lab.layout, "kill", host)

    def power_on(self, host: str) -> None:
        self.fleet.lab.command("start", host)
        self.fleet.run(host, WRAP)

    def living(self) -> list[str]:
        power = control.ask(self.fleet.lab.layout, "status")
        return [host for host in self.fleet.hosts if power[host]]

    def slow_start(self, seconds: float = START_SECONDS) -> None:
        self.fleet.everywhere(f"echo {seconds} > /run/slow", self.living())

    def quick_start(self) -> None:
        self.fleet.everywhere("rm -f /run/slow", self.living())

    def virsh(self, words: str, hosts=None) -> None:
        """Something that a person does by hand, wherever web is."""
        self.fleet.everywhere(f"virsh domstate web > /dev/null 2>&1 && {{ {words}; }} > /dev/null 2>&1; true", hosts or self.living())

    # What must hold

    def check_always(self, watch, namesakes: bool = False) -> None:
        """No uuid and no name ran twice, and what any domain needs is there as it was.

        :param namesakes: two of one name may run.
        """
        assert watch.doubled("uuid" if namesakes else "name") == []
        looked = self._look()
        running = [each["uuid" if namesakes else "name"] for found in looked.values() for each in found["running"]]
        assert len(running) == len(set(running)), looked
        assert {host: found["missing"] for host, found in looked.items() if found["missing"]} == {}
        assert {path: self._digest(path) for path in self.kept} == self.kept

    def check_end(self, store: pathlib.Path | None = None) -> dict[str, tuple[str, str]]:
        """Room is held where instances are, and nothing is left behind. Where each is."""
        fleet = Fleet(self.fleet.lab, self.folder, self.store_in(store or self.folder))
        where = fleet.settled()
        assert fleet.query("SELECT name, purpose FROM leases") == []
        assert fleet.query("SELECT name, state, task_state FROM instances WHERE state != 'active' OR order_uuid IS NOT NULL") == []
        deadline = time.monotonic() + 20
        looked = self._look()
        while any(found["working"] for found in looked.values()):
            assert time.monotonic() < deadline, looked
            looked = self._look()
        assert {host: found["parts"] for host, found in looked.items() if found["parts"]} == {}
        return where

    def _look(self) -> dict[str, dict[str, list[str]]]:
        said = self.fleet.everywhere(f"/usr/bin/python3 -c {shlex.quote(LOOK)}", self.living())
        return {host: json.loads(text) for host, text in said.items()}

    def _digest(self, path: str) -> str:
        return self.fleet.run("kvm2", f"sha256sum {path}").split()[0]
