# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The migration matrix: each scenario of matrix.py under each condition, for each pair of releases.

The condition gives the expected result of each scenario: it is moved; it is refused before anything
is begun; or the move fails and the guest is where it was. After each run the hosts are looked at
from outside: each guest has exactly one QEMU process, one definition and its disk.

There are too many cells for each run, so one of SHARE scenarios is tested with a condition, another one
with the next condition and the next pair. With DROVER_MATRIX_SHARE=1 all of them are. With
DROVER_MATRIX_COUNTS the counts of each pair are written into that folder.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import threading
import time

import pytest
from lablib import layout as lab_layout
from matrix import (
    CARRIAGES,
    DEFINE,
    DESTINATIONS,
    REMOVE,
    SOURCE,
    Guests,
    PairLab,
    Scenario,
    is_at,
    qemus,
)
from test_fleet import BOOT_SECTOR, LOCAL, MARK, SHARED, Fleet, eventually
from test_migration_options import AUTHORITY, CERTIFICATES

from conftest import HERE, Lab, run

pytestmark = pytest.mark.long

#: Oldest first.
RELEASES = ("bullseye", "bookworm", "trixie", "sid")
PAIRS = list(itertools.combinations(RELEASES, 2))

#: One of so many scenarios is tested with each condition. It has no factor in common with the numbers
#: of values of the axes, so that each value is among the tested ones.
SHARE = int(os.environ.get("DROVER_MATRIX_SHARE", "7"))

MOVED, REFUSED, FAILED = "moved", "refused", "failed"

#: libvirt of kvm3 listens to plain TCP.
LISTEN = """
printf 'listen_tls = 0\\nlisten_tcp = 1\\nauth_tcp = "none"\\n' >> /etc/libvirt/libvirtd.conf
sed -i 's/libvirtd -d/libvirtd -d --listen/' /etc/init.d/libvirtd
"""

#: The libvirt of a destination refuses a guest that arrives while this file exists.
REJECTING = "/run/reject-guests"
HOOK = f"""
mkdir -p /etc/libvirt/hooks
printf '#!/bin/sh\\ncat > /dev/null\\n[ "$2" != migrate ] || [ ! -e {REJECTING} ]\\n' > /etc/libvirt/hooks/qemu
chmod +x /etc/libvirt/hooks/qemu
/etc/init.d/libvirtd restart
"""
NETWORK = "<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/></network>"
LAN = f"""
echo "{NETWORK}" > /root/lan.xml
virsh net-define /root/lan.xml && virsh net-start lan
"""
TEMPLATE = f"""
mkdir -p {SHARED}
qemu-img create -q -f qcow2 {SHARED}/.boots.qcow2 8M
echo SECTOR | base64 -d > /tmp/boot
qemu-io -f qcow2 -c 'write -q -s /tmp/boot 0 512' {SHARED}/.boots.qcow2
"""


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request, tmp_path_factory):
    """Yield the guests of all scenarios in a lab with two releases."""
    names = request.param
    try:
        words = PairLab(*names).words()
    except lab_layout.NoLabHere as problem:
        pytest.skip(str(problem))
    folder = tmp_path_factory.mktemp("-".join(names)) / "lab"
    lab = [os.fspath(HERE / "lab"), "--folder", os.fspath(folder)]
    try:
        run([*lab, "up", *words])
        pair_lab = Lab(lab_layout.Layout(folder))
        pair_lab.command("install")
        (folder / MARK).touch()
        yield Pair(names, pair_lab, tmp_path_factory.mktemp("store"))
    finally:
        run([*lab, "down"], check=False)


class Pair:
    """Two releases, with a guest for each scenario on the old one."""

    def __init__(self, names, lab, folder):
        self.names = names
        self.fleet = fleet = Fleet(lab, folder, f"sqlite:///{folder / 'store.db'}")
        self.guests = Guests(fleet)
        self.cells = collections.defaultdict(collections.Counter)
        self._settings()
        fleet.run("kvm3", LISTEN)
        fleet.everywhere(HOOK + LAN)
        fleet.run(SOURCE, AUTHORITY)
        fleet.everywhere(CERTIFICATES)
        fleet.run(SOURCE, TEMPLATE.replace("SECTOR", base64.b64encode(BOOT_SECTOR).decode()))
        self.versions = {host: self._versions(host) for host in fleet.hosts}
        fleet.playbook("discover")

    def _settings(self):
        """Give the hosts room for all guests, and kvm3 its separate ways."""
        for host in self.fleet.hosts:
            self.set(host)

    def set(self, host, **more):
        values = {
            "drover_cpu_allocation_ratio": 1000.0,
            "drover_reserved_host_memory_mb": 0,
            "drover_ram_allocation_ratio": 4.0,
            "drover_shared_pools": ["shared"],
        }
        if host == "kvm3":
            values["drover_migration_uri"] = "qemu+tcp://kvm3/system"
            values["drover_migration_address"] = "10.98.0.13"
        folder = self.fleet.lab.layout.folder / "host_vars"
        folder.mkdir(exist_ok=True)
        (folder / f"{host}.yml").write_text(json.dumps({**values, **more}))

    def _versions(self, host):
        """Return the versions of QEMU and libvirt, as libvirt has them."""
        program = (
            "import libvirt; conn = libvirt.openReadOnly('qemu:///system');"
            " print(conn.getVersion(), conn.getLibVersion())"
        )
        return tuple(map(int, self.guests.script(host, program).split()))

    def dotted(self, host):
        number = self.versions[host][0]
        return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"

    def part(self, name, share):
        """Return the scenarios that are tested with a condition."""
        first = list(CONDITIONS).index(name) + PAIRS.index(self.names)
        return self.guests.scenarios[first % share :: share]

    def move(self, source, moves, at_once):
        """Make moves; return the outcomes by the name of the guest."""
        result = self.fleet.folder / "result.json"
        given = {
            "moves": moves,
            "source": source,
            "at_once": at_once,
            "result_file": os.fspath(result),
        }
        file = self.fleet.folder / "given.json"
        file.write_text(json.dumps(given))
        done = self.fleet.playbook("matrix.yml", "-e", f"@{file}", check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        answer = json.loads(result.read_text())
        outcomes = answer.get("migrations") or answer.get("details", {}).get("migrations")
        assert outcomes, answer
        return {each["name"]: each for each in outcomes}


# The conditions. Each has strike() and mend(), and expect() gives the result of a scenario with a
# pattern of its message.


class Condition:
    """Nothing is wrong."""

    source = SOURCE
    share = SHARE
    at_once = 3

    def __init__(self, pair):
        self.pair, self.fleet, self.guests = pair, pair.fleet, pair.guests

    def strike(self):
        pass

    def mend(self):
        pass

    def applies(self, each):
        return True

    def destination(self, each):
        return each.destination

    @contextlib.contextmanager
    def during(self):
        """Do the work of the condition while the moves are made."""
        yield

    def always_refused(self, each):
        """Return the pattern of a reason that holds in all conditions, or None."""
        if each.carriage == "tunnelled" and each.disk == "copied":
            return "tunnelled carries memory, not disks"
        if each.carriage == "zstd" and self.pair.versions[SOURCE][1] < 9004000:
            return r"needs libvirt 9\.4\.0"
        if each.cold and each.life == "transient":
            return "transient"
        return None

    def expect(self, each):
        return MOVED, ""

    def result(self, each):
        """Return the result and the pattern of a cell."""
        found, words = self.expect(each)
        if always := self.always_refused(each):
            return REFUSED, f"{always}|{words}" if found == REFUSED else always
        return found, words


class Free(Condition):
    """Nothing is wrong."""

    share = min(SHARE, 3)


class Older(Condition):
    """The way back: from the new release to the old one."""

    at_once = 12

    def __init__(self, pair, source):
        super().__init__(pair)
        self.source = source

    def destination(self, each):
        return SOURCE


    def expect(self, each):
        versions = map(re.escape, (self.pair.dotted(SOURCE), self.pair.dotted(self.source)))
        return REFUSED, r"older \({}\) than the source's \({}\)".format(*versions)


class Refusing(Condition):
    """Everything is refused, with the same words."""

    words = ""
    at_once = 12

    def expect(self, each):
        return REFUSED, self.words


class Twin(Refusing):
    """The destination has another domain of that name."""

    words = "another domain named"
    other = "<domain type='qemu'><name>{}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>{}</domain>"

    def definition(self, each):
        return self.other.format(each.name, "")

    def strike(self):
        for host in DESTINATIONS:
            there = [self.definition(each) for each in self.guests.scenarios if each.destination == host]
            self.guests.script(host, DEFINE, there)

    def mend(self):
        for host in DESTINATIONS:
            left = self.fleet.run(
                host, "for i in $(virsh list --all --uuid); do virsh undefine $i; done | wc -l"
            )
            assert left.strip()


class Leftover(Twin):
    """The destination has a definition of it that is shut off."""

    words = "has a definition of it that is shut off|Both hosts know it"

    def definition(self, each):
        return self.other.format(each.name, f"<uuid>{each.uuid}</uuid>")


class NoRoom(Refusing):
    """All memory of the destination is claimed."""

    words = "MEMORY_MB"

    def strike(self):
        for host in DESTINATIONS:
            self.pair.set(host, drover_ram_allocation_ratio=0.004)
        self.fleet.playbook("discover")

    def mend(self):
        for host in DESTINATIONS:
            self.pair.set(host)
        self.fleet.playbook("discover")


class NoStorage(Refusing):
    """The destination does not have the shared folder, and its disk has no room for copies."""

    words = "shared|free"

    def strike(self):
        self.fleet.everywhere(
            f"mount -t tmpfs -o size=1M none /srv/shared; mkdir -p {SHARED};"
            f" mount -t tmpfs -o size=256k none {LOCAL}",
            DESTINATIONS,
        )

    def mend(self):
        self.fleet.everywhere(f"umount /srv/shared {LOCAL}", DESTINATIONS)


class NoNetwork(Refusing):
    """The network of the guest is not active on the destination."""

    words = "the network lan is not active"

    def strike(self):
        self.fleet.everywhere("virsh net-destroy lan", DESTINATIONS)

    def mend(self):
        self.fleet.everywhere("virsh net-start lan", DESTINATIONS)


class NoLibvirt(Refusing):
    """libvirt of the destination is not running."""

    words = "cannot be reached|cannot be opened|refused|not answer"

    def strike(self):
        self.fleet.everywhere("/etc/init.d/libvirtd stop", DESTINATIONS)

    def mend(self):
        self.fleet.everywhere(
            "/etc/init.d/libvirtd start; until virsh list; do sleep 0.1; done", DESTINATIONS
        )


class CutOff(Refusing):
    """Nothing that the source sends to the destination arrives."""

    words = "cannot be reached|cannot be opened|not answer|timed out"
    addresses = [f"10.{net}.0.{number}" for net in (98, 99) for number in (12, 13)]

    def strike(self):
        for address in self.addresses:
            device = "eth1" if address.startswith("10.98") else "eth0"
            self.fleet.run(
                SOURCE,
                f"ip neigh replace {address} lladdr 02:00:00:00:00:99 dev {device} nud permanent",
            )

    def mend(self):
        for address in self.addresses:
            device = "eth1" if address.startswith("10.98") else "eth0"
            self.fleet.run(SOURCE, f"ip neigh del {address} dev {device}")


class NoDisk(Refusing):
    """The disk was deleted at the source."""

    words = "qcow2"

    def strike(self):
        self.rename("", ".gone")

    def mend(self):
        self.rename(".gone", "")

    def rename(self, old, new):
        self.fleet.run(
            SOURCE,
            f"for i in {SHARED}/[a-z]*.qcow2{old} {LOCAL}/*.qcow2{old}; do"
            f' mv "$i" "${{i%{old}}}{new}"; done',
        )


class Rejected(Condition):
    """libvirt of the destination refuses the guest after the checks."""

    def strike(self):
        self.fleet.everywhere(f"touch {REJECTING}", DESTINATIONS)

    def mend(self):
        self.fleet.everywhere(f"rm {REJECTING}", DESTINATIONS)

    def expect(self, each):
        return FAILED, "[Hh]ook"


class Struck(Condition):
    """Something dies while the memory of a guest is sent: there are two QEMUs of it."""

    def __init__(self, pair):
        super().__init__(pair)
        self.before, self.struck = {}, set()

    def applies(self, each):
        return not each.cold and not self.always_refused(each)

    @contextlib.contextmanager
    def during(self):
        self.before = {uuid: pids[0] for uuid, pids in qemus().items()}
        self.struck, over = set(), threading.Event()

        def watch():
            while not over.wait(0.02):
                for uuid, pids in qemus().items():
                    new = [pid for pid in pids if pid != self.before.get(uuid)]
                    if len(pids) == 2 and new and uuid not in self.struck:
                        self.struck.add(uuid)
                        self.hit(uuid, self.before[uuid], new[0])

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def hit(self, uuid, old, new):
        raise NotImplementedError


class DiesThere(Struck):
    """The QEMU of the destination dies while the guest arrives."""

    def hit(self, uuid, old, new):
        os.kill(new, signal.SIGKILL)

    def expect(self, each):
        return (FAILED, "") if each.uuid in self.struck else (MOVED, "")


class Crashes(Struck):
    """The guest crashes at the source while it is sent."""

    def hit(self, uuid, old, new):
        os.kill(old, signal.SIGKILL)

    def expect(self, each):
        return (FAILED, "") if each.uuid in self.struck else (MOVED, "")


CONDITIONS = {
    "twin": Twin,
    "leftover": Leftover,
    "no-room": NoRoom,
    "no-storage": NoStorage,
    "no-network": NoNetwork,
    "no-libvirt": NoLibvirt,
    "cut-off": CutOff,
    "no-disk": NoDisk,
    "rejected": Rejected,
    "dies-there": DiesThere,
    "free": Free,
}


def problem(condition, each, outcome, before, after):
    """Return the reason why a cell is not as expected, or an empty string."""
    result, words = condition.result(each)
    message = outcome["message"]
    found = {"completed": MOVED, "failed": FAILED}.get(outcome["status"], outcome["status"])
    if found == FAILED and re.search("was refused|was not begun|not begun", message):
        found = REFUSED
    if found != result:
        return f"{result} expected, {found}: {message}"
    if not re.search(words, message):
        return f"not the reason {words!r}: {message}"
    if result == MOVED:
        host = condition.destination(each)
        if not is_at(each, after, host):
            return f"it is not at {host} alone: {after}"
        if after["domains"][host][0] != each.state:
            return f"it was {each.state}: {after}"
        return ""
    if result == FAILED:
        before, after = ({**seen, "started": []} for seen in (before, after))
    return "" if before == after else f"changed: {before} -> {after}"


def check(pair, name, condition, scenarios):
    moves = [each.move(condition.source, condition.destination(each)) for each in scenarios]
    try:
        condition.strike()
        before = pair.guests.facts()
        began = time.monotonic()
        with condition.during():
            outcomes = pair.move(condition.source, moves, condition.at_once)
        elapsed = time.monotonic() - began
        after = pair.guests.facts()
    finally:
        condition.mend()
    problems = {
        each.name: said
        for each in scenarios
        if (said := problem(condition, each, outcomes[each.name], before[each.name], after[each.name]))
    }
    print("PROBLEMS", json.dumps(problems, indent=1), flush=True)
    pair.fleet.settled()
    for each in scenarios:
        pair.cells[name][condition.result(each)[0]] += 1
    print(f"{name}: {dict(pair.cells[name])} in {elapsed:.0f} s")
    assert not problems, f"{name}: {json.dumps(problems, indent=1)}"
    write_counts(pair)


def write_counts(pair):
    if folder := os.environ.get("DROVER_MATRIX_COUNTS"):
        file = pathlib.Path(folder) / f"{'-'.join(pair.names)}.json"
        file.write_text(
            json.dumps({"versions": pair.versions, "cells": pair.cells}, indent=1) + "\n"
        )


@pytest.mark.parametrize("name", CONDITIONS)
def test_from_old_to_new(pair, name):
    condition = CONDITIONS[name](pair)
    scenarios = [each for each in pair.part(name, condition.share) if condition.applies(each)]
    pair.guests.restore(scenarios)
    check(pair, name, condition, scenarios)


@pytest.mark.parametrize("source", DESTINATIONS)
def test_from_new_to_old(pair, source):
    """Each guest that the test before has moved is refused on its way back."""
    facts = pair.guests.facts()
    moved = [
        each
        for each in pair.guests.scenarios
        if each.destination == source and is_at(each, facts[each.name], source)
    ]
    assert moved
    check(pair, "older", Older(pair, source), moved)
