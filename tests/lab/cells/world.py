# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cell's world: the hosts and the store as they are when an operation begins, its runs, and what must hold in the end."""

from __future__ import annotations

import json
import math
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

import pytest
from cells import storages
from cells.operations import BASE, ISO, NEEDED, OnVolumes
from lablib import control
from settings import read_by
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
for folder in {LOCAL} {LOCAL}/fast {SHARED}; do grep -q "^/dev/loop[0-9]* $folder ext4 " /proc/mounts && umount $folder; done
ip neigh flush nud permanent
virsh list || /usr/sbin/libvirtd -d
true
"""

#: Run on a host: which domains run, what domains need, what of that is not there, files and part files, and processes that are still at work.
LOOK = f"""
import glob, json, libvirt, os
import xml.etree.ElementTree as ET
running, missing, working, sources = [], [], [], []
for domain in libvirt.openReadOnly("qemu:///system").listAllDomains():
    if domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
        running.append({{"name": domain.name(), "uuid": domain.UUIDString()}})
    for source in ET.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).findall("devices/disk/source"):
        path = source.get("file") or source.get("dev")
        if path and not os.path.exists(path):
            missing.append(f"{{path}} of {{domain.name()}}")
        sources.append({{"domain": domain.name(), **source.attrib}})
folders = ("{LOCAL}", "{LOCAL}/fast", "{SHARED}")
parts = [path for folder in folders for path in glob.glob(folder + "/.drover-*")]
files = [path for folder in folders for path in glob.glob(folder + "/*") if os.path.isfile(path)]
for number in glob.glob("/proc/[0-9]*"):
    try:
        words = open(number + "/cmdline").read().split("\\0")
    except OSError:
        continue
    # Not the host itself, who watches, or this.
    if "python" in words[0] and int(number[6:]) not in (1, os.getpid()) and "watched" not in str(words):
        working.append(" ".join(words))
print(json.dumps({{"running": running, "missing": missing, "parts": parts, "files": files, "working": working, "sources": sources}}))
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
        self.lab, self._folder, self._made, self._storage = lab, folder, {}, storages.Files(lab)

    def storage(self, operation) -> storages.Files:
        """The storage of the disks of an operation, empty. It runs while operations need it that come one after the other."""
        if not isinstance(self._storage, operation.storage):
            self._storage.close()
            self._storage = operation.storage(self.lab)
        self._storage.ready()
        return self._storage

    def store(self, operation) -> pathlib.Path:
        """The folder of the store, to be copied."""
        kind = type(operation)
        if kind not in self._made:
            folder = self._folder / kind.__name__
            # There is one if the cell before failed while it was made.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fleet = Fleet(self.lab, folder, f"sqlite:///{folder / 'store.db'}")
            reset(self.lab)
            made(fleet, operation, self.storage(operation))
            fleet.playbook("discover", *extra(**operation.storage.variables))
            operation.settings(fleet)
            operation.prepare(fleet)
            self._made[kind] = folder
        return self._made[kind]

    def close(self) -> None:
        """The hosts as they were."""
        reset(self.lab)
        self._storage.close()
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


def made(fleet, operation, storage) -> None:
    """Make what an operation begins with: the guests, and volumes that are theirs or like theirs."""
    fleet.run("kvm1", NEEDED)
    guests = operation.guests()
    if operation.storage.name:
        others = [f"{OnVolumes('web').own}-kept", f"{OnVolumes('web').uuid}-vdc", storages.SOMEBODYS]
        fleet.run("kvm1", storages.MAKE_GOLDEN)
        storage.make("kvm1", [name for each in guests for name in (each.own, each.given) if name] + others)
    fleet.make("kvm1", *guests)


class World:
    """The hosts with the guests of an operation, and a store that knows them."""

    def __init__(self, prepared: Prepared, operation, folder: pathlib.Path) -> None:
        self.operation, self._prepared = operation, prepared
        self.folder, self.backup = folder / "store", prepared.store(operation)
        self.fleet = Fleet(prepared.lab, folder, self.store_in(self.folder))
        self.runs: list[Command] = []
        #: Hosts that the controller does not reach, whose guests go on.
        self.cut: set[str] = set()
        reset(prepared.lab)
        self.storage = prepared.storage(operation)
        shutil.copytree(self.backup, self.folder)
        made(self.fleet, operation, self.storage)
        self.kept = {path: self._digest(path) for path in (IMAGE, BASE, ISO)}
        self.contents = self.storage.digests(self.storage.volumes(self.fleet.hosts))
        #: Volumes that are nobody's to remove, and files that there were.
        own = {each.own for each in operation.guests()} if operation.storage.makes else set()
        self.foreign = {each for each in self.contents if each[1] not in own}
        self.files = self._files(self._look())
        operation.begin(self)

    def close(self) -> None:
        for host in self.cut:
            self.power_off(host)
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
        run = self.playbook("discover", *extra(**self.operation.storage.variables), *words, store=store)
        run.finish()
        return run

    def playbook(self, name: str, *words: str, environment: dict[str, str] | None = None, store: pathlib.Path | None = None) -> Command:
        """Start a playbook of the collection, on this store or another one."""
        environment = {**self.fleet.lab.environment(self.store_in(store or self.folder)), **(environment or {})}
        self.runs.append(Command(["ansible-playbook", self.fleet.path_of(name), *read_by(name, words)], environment))
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
        if host in self.cut:
            self.power_off(host)
        self.fleet.lab.command("start", host)
        self.fleet.run(host, WRAP)
        if host not in self.cut:
            self.storage.again(host)
        self.cut.discard(host)

    def living(self) -> list[str]:
        power = control.ask(self.fleet.lab.layout, "status")
        return [host for host in self.fleet.hosts if power[host] and host not in self.cut]

    def slow_start(self, seconds: float = START_SECONDS) -> None:
        self.fleet.everywhere(f"echo {seconds} > /run/slow", self.living())

    def quick_start(self) -> None:
        self.fleet.everywhere("rm -f /run/slow", self.living())

    def come_to_the_middle(self) -> None:
        """Wait until the work on the hypervisor is in its middle."""
        if self.operation.midst:
            self.fleet.run(self.operation.at, f"for each in $(seq 1000); do {self.operation.midst} && exit; sleep 0.02; done; true")
        else:
            time.sleep(STRIKE_SECONDS)

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
        self.operation.intrude(self, {each["name"] for found in looked.values() for each in found["running"]})
        running = [each["uuid" if namesakes else "name"] for found in looked.values() for each in found["running"]]
        assert len(running) == len(set(running)), looked
        assert {host: found["missing"] for host, found in looked.items() if found["missing"]} == {}
        assert {path: self._digest(path) for path in self.kept} == self.kept
        self.check_volumes(looked)

    def check_volumes(self, looked, ended: bool = False, gone: bool = False) -> None:
        """Each volume that a domain needs, or that a person has made, is there as it was, the disk of one that runs is a copy of its image, and
        in the end there is no other one.
        """
        if not self.operation.storage.name:
            return
        volumes = self.storage.volumes(looked)
        needed = {(host, each["domain"]): set() for host, found in looked.items() for each in found["sources"]}
        for host, found in looked.items():
            for each in found["sources"]:
                if volume := self.storage.volume_of(host, each):
                    needed[host, each["domain"]].add(volume)
        wanted = set().union(self.foreign, *needed.values())
        # Those of a host that is off cannot be seen.
        wanted = {each for each in wanted if each[0] in ("", *looked)}
        assert wanted <= set(volumes), (wanted - set(volumes), looked)
        before = {name: digest for (dummy, name), digest in self.contents.items()}
        now = self.storage.digests([each for each in wanted if each[1] in before])
        running = {(host, each["name"]) for host, found in looked.items() for each in found["running"]}
        started = set().union(*(needed[each] for each in running if each in needed))
        assert now == {each: before[each[1]] for each in now}
        # Those that were built: of a guest that runs the whole image was copied.
        built = [each for each in wanted if each[1] not in before and (ended or each in started)]
        assert set(self.storage.digests(built, storages.GOLDEN_MB).values()) <= ({self.storage.golden_digest()} if built else set())
        if ended:
            more = set(volumes) - wanted
            # A person has undefined the domain of one of them.
            assert len(more) == (gone and self.operation.state is not None and self.storage.makes), (more, looked)
            assert self._files(looked) == self.files | self.operation.new_files
            self._check_promised(needed, volumes)

    def _check_promised(self, needed, volumes) -> None:
        expected: dict[str, int] = {}
        for one in needed.values() if self.storage.pool else ():
            for place in {place for place, dummy in one}:
                expected[place] = expected.get(place, 0) + math.ceil(sum(volumes[each] for each in one if each[0] == place) / storages.GIB)
        assert self.storage.promised(Fleet(self.fleet.lab, self.folder, self.store_in(self.folder))) == expected

    @staticmethod
    def _files(looked) -> set[str]:
        """All files in folders of disks."""
        return {path for found in looked.values() for path in found["files"]}

    def check_end(self, store: pathlib.Path | None = None, gone: bool = False) -> dict[str, tuple[str, str]]:
        """Room is held where instances are, and nothing is left behind. Where each is.

        :param gone: a person has undefined web, and its disk is left.
        """
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
        self.check_volumes(looked, True, gone)
        return where

    def _look(self) -> dict[str, dict[str, list[str]]]:
        said = self.fleet.everywhere(f"/usr/bin/python3 -c {shlex.quote(LOOK)}", self.living())
        return {host: json.loads(text) for host, text in said.items()}

    def _digest(self, path: str) -> str:
        return self.fleet.run("kvm2", f"sha256sum {path}").split()[0]
