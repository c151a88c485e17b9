# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The world of a cell: the hosts and the store at the begin of an operation, its runs, and the
conditions at the end."""

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
#: The time that the start of a guest takes if a fault must happen in its middle, and the time of
#: the fault (seconds).
START_SECONDS, STRIKE_SECONDS = 2, 1.2

#: Run on a host: the start of a guest takes as many seconds as a file says. The wrapper stays until
#: the end and never changes, because libvirt queries all features of a changed QEMU, which takes
#: longer than a cell.
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

#: Run on a host: undo all effects of a fault. The instances are removed after that.
UNDO = f"""
kill -CONT $(cat /run/libvirtd.pid)
rm -f /run/slow
for folder in {LOCAL} {LOCAL}/fast {SHARED}; do grep -q "^/dev/loop[0-9]* $folder ext4 " /proc/mounts && umount $folder; done
ip neigh flush nud permanent
virsh list || /usr/sbin/libvirtd -d
true
"""

#: Run on a host: report the running domains, their files, the missing ones of these, all files and
#: part files, and working processes.
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
    """A run of a playbook; its output goes into a file."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self._said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Send SIGKILL to ansible-playbook and all its child processes, at once."""
        end({self.process.pid, *descendants(self.process.pid)})
        self.process.wait()

    def finish(self) -> int:
        """Wait for its end; return its exit status."""
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
    """The stores for the begin of each operation; each is made when it is first needed."""

    def __init__(self, lab, folder: pathlib.Path) -> None:
        self.lab, self._folder, self._made, self._storage = lab, folder, {}, storages.Files(lab)

    def storage(self, operation) -> storages.Files:
        """Return the empty storage of the disks of an operation. It runs as long as consecutive
        operations need it."""
        if not isinstance(self._storage, operation.storage):
            self._storage.close()
            self._storage = operation.storage(self.lab)
        self._storage.ready()
        return self._storage

    def store(self, operation) -> pathlib.Path:
        """Return the folder of the store, for copies."""
        kind = type(operation)
        if kind not in self._made:
            folder = self._folder / kind.__name__
            # The folder exists if the cell before failed during its making.
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
        """Bring the hosts back to their first state."""
        reset(self.lab)
        self._storage.close()
        Fleet(self.lab, self._folder, "").everywhere(UNWRAP)


def reset(lab) -> None:
    """Power on all hosts, undo the faults, remove every domain and disk."""
    power = control.ask(lab.layout, "status")
    if not all(power[host] for host in lab.hosts):
        lab.command("up")
    fleet = Fleet(lab, lab.layout.folder, "")
    fleet.everywhere(UNDO)
    clean(lab)
    fleet.everywhere(WRAP)


def made(fleet, operation, storage) -> None:
    """Make the initial fleet of an operation: the guests, and volumes that belong to them or look
    like it."""
    fleet.run("kvm1", NEEDED)
    guests = operation.guests()
    if operation.storage.name:
        others = [
            f"{OnVolumes('web').own}-kept",
            f"{OnVolumes('web').uuid}-vdc",
            storages.SOMEBODYS,
        ]
        fleet.run("kvm1", storages.MAKE_GOLDEN)
        storage.make(
            "kvm1", [name for each in guests for name in (each.own, each.given) if name] + others
        )
    fleet.make("kvm1", *guests)


class World:
    """The hosts with the guests of an operation, and a store that knows them."""

    def __init__(self, prepared: Prepared, operation, folder: pathlib.Path) -> None:
        self.operation, self._prepared = operation, prepared
        self.folder, self.backup = folder / "store", prepared.store(operation)
        self.fleet = Fleet(prepared.lab, folder, self.store_in(self.folder))
        self.runs: list[Command] = []
        #: Hosts that the controller does not reach, but with guests that continue to run.
        self.cut: set[str] = set()
        reset(prepared.lab)
        self.storage = prepared.storage(operation)
        shutil.copytree(self.backup, self.folder)
        made(self.fleet, operation, self.storage)
        self.kept = {path: self._digest(path) for path in (IMAGE, BASE, ISO)}
        self.contents = self.storage.digests(self.storage.volumes(self.fleet.hosts))
        #: Volumes that no operation may remove, and files that existed before.
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

    def start(
        self, environment: dict[str, str] | None = None, store: pathlib.Path | None = None
    ) -> Command:
        """Give the command."""
        return self.playbook(
            self.operation.what, *self.operation.words(), environment=environment, store=store
        )

    def discover(self, *words: str, store: pathlib.Path | None = None) -> Command:
        """Discover the hosts, and wait for the end."""
        run = self.playbook(
            "discover", *extra(**self.operation.storage.variables), *words, store=store
        )
        run.finish()
        return run

    def playbook(
        self,
        name: str,
        *words: str,
        environment: dict[str, str] | None = None,
        store: pathlib.Path | None = None,
    ) -> Command:
        """Start a playbook of the collection, on this store or another one."""
        environment = {
            **self.fleet.lab.environment(self.store_in(store or self.folder)),
            **(environment or {}),
        }
        self.runs.append(
            Command(
                ["ansible-playbook", self.fleet.path_of(name), *read_by(name, words)], environment
            )
        )
        return self.runs[-1]

    def ad_hoc(self, module: str, options: dict) -> Command:
        """Run one module of the store on the controller, and wait for the end."""
        environment = self.fleet.lab.environment(self.store_in(self.folder))
        self.runs.append(
            Command(["ansible", "localhost", "-m", module, "-a", json.dumps(options)], environment)
        )
        self.runs[-1].finish()
        return self.runs[-1]

    def copy_of_the_store(self, name: str) -> pathlib.Path:
        """Make the store of another controller, which has read the same hosts."""
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
            self.fleet.run(
                self.operation.at,
                f"for each in $(seq 1000); do {self.operation.midst} && exit; sleep 0.02; done;"
                " true",
            )
        else:
            time.sleep(STRIKE_SECONDS)

    def virsh(self, words: str, hosts=None) -> None:
        """Change something by hand on the host of web, as a person does."""
        self.fleet.everywhere(
            f"virsh domstate web > /dev/null 2>&1 && {{ {words}; }} > /dev/null 2>&1; true",
            hosts or self.living(),
        )

    # Conditions that must be true

    def check_always(self, watch, namesakes: bool = False) -> None:
        """Check that no uuid and no name ran twice, and that every file of a domain is unchanged.

        :param namesakes: True if two of one name may run.
        """
        assert watch.doubled("uuid" if namesakes else "name") == []
        looked = self._look()
        self.operation.intrude(
            self, {each["name"] for found in looked.values() for each in found["running"]}
        )
        running = [
            each["uuid" if namesakes else "name"]
            for found in looked.values()
            for each in found["running"]
        ]
        assert len(running) == len(set(running)), looked
        assert {host: found["missing"] for host, found in looked.items() if found["missing"]} == {}
        assert {path: self._digest(path) for path in self.kept} == self.kept
        self.check_volumes(looked)

    def check_volumes(self, looked, ended: bool = False, gone: bool = False) -> None:
        """Check the volumes: each volume of a domain, or of a person, is unchanged; the disk of a
        running guest is a copy of its image; at the end there is no other volume.
        """
        if not self.operation.storage.name:
            return
        volumes = self.storage.volumes(looked)
        needed = {
            (host, each["domain"]): set()
            for host, found in looked.items()
            for each in found["sources"]
        }
        for host, found in looked.items():
            for each in found["sources"]:
                if volume := self.storage.volume_of(host, each):
                    needed[host, each["domain"]].add(volume)
        required = set().union(self.foreign, *needed.values())
        # The volumes of a host that is off cannot be seen.
        required = {each for each in required if each[0] in ("", *looked)}
        assert required <= set(volumes), (required - set(volumes), looked)
        before = {name: digest for (dummy, name), digest in self.contents.items()}
        now = self.storage.digests([each for each in required if each[1] in before])
        running = {
            (host, each["name"]) for host, found in looked.items() for each in found["running"]
        }
        started = set().union(*(needed[each] for each in running if each in needed))
        assert now == {each: before[each[1]] for each in now}
        # For a built guest that runs, the whole image was copied.
        built = [each for each in required if each[1] not in before and (ended or each in started)]
        assert set(self.storage.digests(built, storages.GOLDEN_MB).values()) <= (
            {self.storage.golden_digest()} if built else set()
        )
        if ended:
            more = set(volumes) - required
            # A person has undefined one of these domains.
            assert len(more) == (
                gone and self.operation.state is not None and self.storage.makes
            ), (more, looked)
            assert self._files(looked) == self.files | self.operation.new_files
            self._check_promised(needed, volumes)

    def _check_promised(self, needed, volumes) -> None:
        expected: dict[str, int] = {}
        for one in needed.values() if self.storage.pool else ():
            for place in {place for place, dummy in one}:
                expected[place] = expected.get(place, 0) + math.ceil(
                    sum(volumes[each] for each in one if each[0] == place) / storages.GIB
                )
        assert (
            self.storage.promised(Fleet(self.fleet.lab, self.folder, self.store_in(self.folder)))
            == expected
        )

    @staticmethod
    def _files(looked) -> set[str]:
        """Return all files in folders of disks."""
        return {path for found in looked.values() for path in found["files"]}

    def check_end(
        self, store: pathlib.Path | None = None, gone: bool = False
    ) -> dict[str, tuple[str, str]]:
        """Check that room is held on the hosts of the instances, and that nothing is left behind.
        Return the host of each.

        :param gone: True if a person has undefined web, and its disk is left.
        """
        fleet = Fleet(self.fleet.lab, self.folder, self.store_in(store or self.folder))
        where = fleet.settled()
        assert fleet.query("SELECT name, purpose FROM leases") == []
        assert (
            fleet.query(
                "SELECT name, state, task_state FROM instances WHERE state != 'active' OR"
                " order_uuid IS NOT NULL"
            )
            == []
        )
        deadline = time.monotonic() + PATIENCE
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
