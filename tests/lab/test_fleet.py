# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hypervisors as a test has them: empty at first, with a separate store.

The other files of tests take their fixtures from here. The tests empty hosts and cut their power,
so they have a separate lab. The checkout's lab, or a lab in DROVER_LAB, belongs to a person and is
never touched. libvirt on the hosts reports the places of guests; the store reports the allocations.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import time
import types
import typing
import uuid

import pytest
import sqlalchemy as sa
from lablib import control
from lablib import layout as lab_layout
from settings import read_by

PLAYBOOKS = pathlib.Path(__file__).parent / "playbooks"
SHARED = "/srv/shared/instances"
LOCAL = "/var/lib/libvirt/images"
MARK = "made-by-the-tests"
IMAGE = "/srv/shared/images/base.qcow2"

#: Seconds after which a wait is a hang. A loaded machine may need minutes for what takes a second.
PATIENCE = 300

#: Run on a host: list all domains of libvirt, through its own binding; a domain that disappears
#: during the reading is left out.
LOOK = """
import json, libvirt
import xml.etree.ElementTree as ET
states = dict(enumerate("nostate running blocked paused shutdown shutoff crashed pmsuspended".split()))
found = []
for domain in libvirt.openReadOnly("qemu:///system").listAllDomains():
    try:
        root, state = ET.fromstring(domain.XMLDesc(0)), states[domain.state()[0]]
        flags = {"persistent": bool(domain.isPersistent()), "autostart": bool(domain.autostart())}
    except libvirt.libvirtError as problem:
        if problem.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        continue
    found.append({
        "name": domain.name(), "uuid": domain.UUIDString(), "state": state, **flags,
        "vcpus": int(root.findtext("vcpu")), "memory_mb": int(root.findtext("memory")) // 1024,
        "disks": [source.get("file") for source in root.findall("devices/disk[@device='disk']/source")],
        "cdroms": [source.get("file") for source in root.findall("devices/disk[@device='cdrom']/source")],
        "title": root.findtext("title"),
    })
print(json.dumps(found))
"""

#: Run on a host: remove everything that a test may have left.
CLEAN = f"""
for uuid in $(virsh list --all --uuid); do
    virsh domjobabort $uuid; virsh destroy $uuid
    virsh undefine $uuid --managed-save --snapshots-metadata --checkpoints-metadata --nvram || virsh undefine $uuid
done
umount /usr/bin/qemu-img
rm -rf {LOCAL}/* {LOCAL}/.drover* {SHARED}/* {SHARED}/.drover* /var/lib/drover/migrations
true
"""

DOMAIN = """
<domain type='qemu'>
  <name>{name}</name><uuid>{uuid}</uuid>
  <metadata><drover:instance xmlns:drover='https://drover.compute/instance/1'>{metadata}</drover:instance></metadata>
  <memory unit='MiB'>{memory_mb}</memory><vcpu>{vcpus}</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
  <devices>{disks}</devices>
</domain>
"""

#: A guest's whole operating system: it waits for the power button and then switches itself off.
#: cli; outw(0x602, 0x100) (ACPI: enable the button); sti; do hlt, ax = inw(0x600) while not ax &
#: 0x100; outw(0x604, 0x2000) (soft off)
BOOT_SECTOR = (
    bytes.fromhex("fa ba0206 b80001 ef fb ba0006 f4 ed f6c401 74f9 ba0406 b80020 ef ebfe").ljust(
        510, b"\0"
    )
    + b"\x55\xaa"
)

DISK = """<disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/>
<source file='{path}'/><target dev='{target}' bus='virtio'/></disk>"""


@dataclasses.dataclass
class Domain:
    """A domain that a test makes by hand, with virsh, as a person did before drover came."""

    name: str
    state: str = "running"  # running, paused or shutoff
    vcpus: int = 1
    memory_mb: int = 64
    folder: str = SHARED
    disks: int = 1
    size: str = "1G"  # size of each disk, as qemu-img takes it
    written_mb: int = 0  # MiB that the guest has written to the first
    boots: bool = False  # it has an operating system that obeys the power button
    metadata: str = ""
    uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def paths(self) -> list[str]:
        return [f"{self.folder}/{self.name}-{number}.qcow2" for number in range(self.disks)]

    def script(self) -> str:
        """Return the shell script that makes it."""
        lines = ["set -e"]
        for path in self.paths:
            lines.append(f"qemu-img create -q -f qcow2 {path} {self.size}")
        if self.written_mb:
            lines.append(
                f"qemu-io -f qcow2 -c 'write -q -P 90 0 {self.written_mb}M' {self.paths[0]}"
            )
        if self.boots:
            sector = base64.b64encode(BOOT_SECTOR).decode()
            lines.append(f"echo {sector} | base64 -d > /tmp/boot")
            lines.append(f"qemu-io -f qcow2 -c 'write -q -s /tmp/boot 0 512' {self.paths[0]}")
        disks = "".join(
            DISK.format(path=path, target=f"vd{'abcdef'[number]}")
            for number, path in enumerate(self.paths)
        )
        xml = DOMAIN.format(
            disks=disks,
            **{
                field: getattr(self, field)
                for field in ("name", "uuid", "memory_mb", "vcpus", "metadata")
            },
        )
        lines.append(f"virsh define /dev/stdin <<'END'\n{xml}\nEND")
        if self.state != "shutoff":
            lines.append(f"virsh start {self.name}{' --paused' if self.state == 'paused' else ''}")
        return "\n".join(lines)


class Run:
    """A running playbook, read line by line."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.said = ""

    def until(self, pattern: str) -> None:
        """Read until a line matches; the test fails if none does."""
        for line in self.process.stdout:
            self.said += line
            if re.search(pattern, line):
                return
        pytest.fail(f"no line matched {pattern!r}:\n{self.said}", pytrace=False)

    def kill(self, spared: typing.Iterable[int] = ()) -> None:
        """Send SIGKILL to ansible-playbook and all its child processes except some, at once."""
        end({self.process.pid, *descendants(self.process.pid)} - set(spared))
        self.process.wait()
        self.process.stdout.close()

    def signal(self, number: int) -> None:
        """Send a signal to ansible-playbook and all its child processes."""
        for pid in (self.process.pid, *descendants(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def finish(self) -> str:
        self.said += self.process.stdout.read()
        self.process.wait()
        self.process.stdout.close()
        return self.said


def end(pids: typing.Iterable[int]) -> None:
    """Send SIGKILL to processes that a test has started, if they still run."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the child processes of a process, and their children. (Ansible's workers have separate
    sessions, so a process group is not enough.)"""
    children: dict[int, list[int]] = {}
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(
                file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
        children.setdefault(parent, []).append(int(file.parent.name))
    pids = [pid]
    for process in pids:
        pids += children.get(process, [])
    return pids[1:]


def qemus() -> dict[str, list[int]]:
    """Return the QEMU processes on the machine: uuid of the guest -> its processes."""
    found: dict[str, list[int]] = {}
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu-system" in words[0] and b"-uuid" in words:
            found.setdefault(words[words.index(b"-uuid") + 1].decode(), []).append(
                int(file.parent.name)
            )
    return found


def processes(uuid: str) -> list[int]:
    """Return the QEMU processes of a domain on the machine, in all hosts."""
    return qemus().get(uuid, [])


class Fleet:
    """The lab's hosts, empty, and a store."""

    def __init__(self, lab: typing.Any, folder: pathlib.Path, store_url: str) -> None:
        self.lab, self.folder, self.store_url = lab, folder, store_url
        self.hosts = lab.hosts

    # Ansible

    def playbook(
        self, name: str, *words: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook of the collection, or one of tests/lab/playbooks, on this test's store."""
        return self.lab.playbook(
            self.path_of(name), *read_by(name, words), store_url=self.store_url, check=check
        )

    def start(self, name: str, *words: str) -> Run:
        """Start a playbook and continue at once."""
        return Run(
            ["ansible-playbook", self.path_of(name), *read_by(name, words)],
            self.lab.environment(self.store_url),
        )

    def path_of(self, name: str) -> str:
        return os.fspath(PLAYBOOKS / name) if name.endswith(".yml") else f"drover.compute.{name}"

    def refused(self, name: str, *words: str) -> str:
        """Run a playbook that must fail; return its output in one line."""
        done = self.playbook(name, *words, check=False)
        output = done.stdout + done.stderr
        assert done.returncode != 0, f"it went through:\n{output}"
        assert "Traceback" not in output, output
        return " ".join(output.split())

    def drain(self, host: str, *words: str, check: bool = True, **variables: object):
        extra = json.dumps({"drover_host": host, **variables})
        return self.playbook("drain", "-e", extra, *words, check=check)

    def place(self, instances: typing.Any, *words: str, check: bool = True, **variables: object):
        """Place a definitions file (a path) or definitions (a list)."""
        key = "drover_instance_definitions" if isinstance(instances, list) else "drover_definitions"
        value = instances if isinstance(instances, list) else os.fspath(instances)
        extra = json.dumps({key: value, **variables})
        return self.playbook("place", "-e", extra, *words, check=check)

    def delete(self, name: str, **variables: object):
        """Delete an instance by force, because the guests of the lab ignore the power button."""
        gone = {
            "drover_instance": name,
            "drover_instance_timeout": 1,
            "drover_instance_force": True,
        }
        return self.playbook("instance_delete", "-e", json.dumps({**gone, **variables}))

    def move_live(self, name: str, **variables: object) -> str:
        """Move a running instance to another host; return that host. Check that it runs only there,
        in one process, without a copy of its disks."""
        source, state = self.settled()[name]
        destination = next(host for host in self.hosts if host != source)
        given = {"drover_instance": name, "drover_destination": destination, **variables}
        done = self.playbook("instance_migrate", "-e", json.dumps(given))
        assert state == "running" and self.settled()[name] == (destination, "running"), said(done)
        (uuid_,) = [
            each["uuid"] for each in self.look([destination])[destination] if each["name"] == name
        ]
        assert len(processes(uuid_)) == 1, said(done)
        query = (
            "SELECT type, copied_disk_mib FROM migrations WHERE instance_name = :name AND"
            " destination = :host"
        )
        moves = self.query(query, name=name, host=destination)
        assert [(kind.startswith("live"), copied or 0) for kind, copied in moves] == [(True, 0)], (
            moves
        )
        return destination

    # The hosts

    def run(self, host: str, command: str) -> str:
        """Return the output of a command on a host; it must succeed."""
        done = self.lab.host(host).run(command)
        assert done.rc == 0, f"{host}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def everywhere(self, command: str, hosts: typing.Iterable[str] | None = None) -> dict[str, str]:
        """Run a command on several hosts at the same time."""
        hosts = list(self.hosts if hosts is None else hosts)
        with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
            return dict(zip(hosts, pool.map(lambda host: self.run(host, command), hosts)))

    def make(self, host: str, *domains: Domain) -> None:
        """Make domains by hand."""
        self.run(host, "\n".join(domain.script() for domain in domains))

    def look(
        self, hosts: typing.Iterable[str] | None = None
    ) -> dict[str, list[dict[str, typing.Any]]]:
        """Return libvirt's domains on each host: host -> domains."""
        said = self.everywhere(f"/usr/bin/python3 -c {shlex.quote(LOOK)}", hosts)
        return {host: json.loads(text) for host, text in said.items()}

    def where(self, hosts: typing.Iterable[str] | None = None) -> dict[str, tuple[str, str]]:
        """Return the host and state of each domain, by name; none may be on two hosts."""
        places: dict[str, tuple[str, str]] = {}
        for host, domains in self.look(hosts).items():
            for domain in domains:
                assert domain["name"] not in places, (
                    f"{domain['name']}: on {host} and {places[domain['name']]}"
                )
                places[domain["name"]] = (host, domain["state"])
        return places

    def files(self, folder: str, host: str = "kvm1") -> list[str]:
        return self.run(host, f"ls -A {folder}").split("\n")[:-1]

    # The store

    def query(self, statement: str, **values: object) -> list[tuple]:
        engine = sa.create_engine(self.store_url)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(sa.text(statement), values)]
        finally:
            engine.dispose()

    def booked(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the allocations: name of the instance (or uuid of the migration) -> host -> class
        -> amount."""
        rows = self.query(
            "SELECT coalesce(i.name, c.uuid), n.host, r.name, a.used FROM allocations a JOIN"
            " consumers c ON c.id = a.consumer_id JOIN resource_classes r ON r.id = a.class_id JOIN"
            " resource_providers p ON p.id = a.provider_id JOIN compute_nodes n ON n.uuid = p.uuid"
            " LEFT JOIN instances i ON i.uuid = c.uuid"
        )
        bookings: dict[str, dict[str, dict[str, int]]] = {}
        for name, host, resource, used in rows:
            bookings.setdefault(name, {}).setdefault(host, {})[resource] = used
        return bookings

    def service(self, host: str) -> dict[str, typing.Any]:
        """Return a host's service: disabled, reason, maintenance, last_error."""
        (row,) = self.query(
            "SELECT disabled, disabled_reason, maintenance, forced_down, last_error FROM services"
            " WHERE host = :host",
            host=host,
        )
        return dict(zip(("disabled", "reason", "maintenance", "forced_down", "last_error"), row))

    def dump(self) -> list[list[tuple]]:
        """Return the part of the store that a dry run must not change."""
        return [
            self.query(f"SELECT * FROM {table} ORDER BY 1, 2")
            for table in (
                "instances",
                "allocations",
                "consumers",
                "migrations",
                "server_groups",
                "domains",
                "services",
            )
        ]

    def settled(self, hosts: typing.Iterable[str] | None = None) -> dict[str, tuple[str, str]]:
        """Check that hosts and store agree: each domain is on one host and allocates its vCPUs and
        memory only there, there is no other allocation, and no migration is open.

        :returns: the same as where().
        """
        domains = [(host, domain) for host, found in self.look(hosts).items() for domain in found]
        names = [domain["name"] for dummy, domain in domains]
        assert len(names) == len(set(names)), f"on two hosts: {domains}"
        booked = {
            name: {
                host: {key: amount for key, amount in amounts.items() if key != "DISK_GB"}
                for host, amounts in hosts.items()
            }
            for name, hosts in self.booked().items()
        }
        assert booked == {
            domain["name"]: {host: {"VCPU": domain["vcpus"], "MEMORY_MB": domain["memory_mb"]}}
            for host, domain in domains
        }
        assert (
            self.query(
                "SELECT instance_name, status FROM migrations"
                " WHERE status NOT IN ('completed', 'failed', 'cancelled', 'confirmed', 'reverted')"
            )
            == []
        )
        assert dict(
            self.query(
                "SELECT i.name, n.host FROM instances i JOIN compute_nodes n ON n.id ="
                " i.compute_node_id"
            )
        ) == {domain["name"]: host for host, domain in domains}
        return {domain["name"]: (host, domain["state"]) for host, domain in domains}


def recap(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, int]]:
    """Return the PLAY RECAP: host -> its counters."""
    text = done.stdout.rpartition("PLAY RECAP")[2]
    return {
        line.split()[0]: {key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", line)}
        for line in text.splitlines()
        if "ok=" in line
    }


def changed(done: subprocess.CompletedProcess[str]) -> int:
    return sum(counts["changed"] for counts in recap(done).values())


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the whole output of a run, as one line."""
    return " ".join((done.stdout + done.stderr).split())


def clean(lab: typing.Any) -> None:
    """Power on all hosts, and remove every domain, disk and record of a migration.

    It works only in a lab that these tests have made, which has their mark.
    """
    mark = lab.layout.folder / MARK
    assert mark.exists(), (
        f"{lab.layout.folder} is not a lab of these tests: nothing in it is touched"
    )
    power = control.ask(lab.layout, "status")
    if not all(power[host] for host in lab.hosts):
        lab.command("up")
    Fleet(lab, lab.layout.folder, "").everywhere(CLEAN)


@pytest.fixture(scope="session")
def own_lab(tmp_path_factory, request):
    """Yield a lab for these tests alone, and remove it at the end."""
    folder = tmp_path_factory.mktemp("lab") / "lab"
    before = os.environ.get("DROVER_LAB")
    os.environ["DROVER_LAB"] = os.fspath(folder)
    try:
        lab = request.getfixturevalue("lab")
        assert lab.layout.folder == folder, f"the fixture lab is {lab.layout.folder} already"
        (folder / MARK).touch()
    finally:
        if before is None:
            del os.environ["DROVER_LAB"]
        else:
            os.environ["DROVER_LAB"] = before
    return lab


@pytest.fixture(scope="module")
def with_bmcs(own_lab):
    """Return the lab with power controllers for its hosts."""
    own_lab.command("bmc", "up")
    return own_lab


@pytest.fixture(scope="session")
def discovered(own_lab, tmp_path_factory):
    """Return a store that knows the empty hosts, for copies."""
    clean(own_lab)
    file = tmp_path_factory.mktemp("discovered") / "store.db"
    own_lab.playbook("drover.compute.discover", store_url=f"sqlite:///{file}")
    return file


@pytest.fixture
def empty_fleet(own_lab, tmp_path):
    """Return empty hosts and an empty store."""
    clean(own_lab)
    yield Fleet(own_lab, tmp_path, f"sqlite:///{tmp_path / 'store.db'}")
    clean(own_lab)


@pytest.fixture
def fleet(discovered, empty_fleet, tmp_path):
    """Return empty hosts, and a store that knows them."""
    with (
        contextlib.closing(sqlite3.connect(discovered)) as source,
        contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as target,
    ):
        source.backup(target)
    # Without this file the store would count as restored from a backup.
    shutil.copyfile(f"{discovered}.claims", tmp_path / "store.db.claims")
    return empty_fleet


def eventually(check: typing.Callable[[], bool]) -> None:
    """Wait until a condition is true. The limit is there for a hang only."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, f"not so within {PATIENCE} s"
        time.sleep(0.05)


def test_a_lab_of_somebody_else_is_never_emptied(tmp_path):
    """The test calls no host: there is no lab behind this folder."""
    somebodys = types.SimpleNamespace(layout=lab_layout.Layout(tmp_path), hosts=["kvm1"])
    with pytest.raises(AssertionError, match="not a lab of these tests"):
        clean(somebodys)
