# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The migration matrix: each scenario of migration_scenarios.py under each condition, for each pair
of releases.

The condition gives the expected result of each scenario: it is moved; it is refused before anything
is begun; or the move fails and the guest is where it was. After each run the hosts are looked at
from outside: each guest has exactly one QEMU process, one definition and its disk.

There are too many cells for each run, so one of SHARE scenarios is tested with each pair, and
others with the next pair. With DROVER_MATRIX_SHARE=1 all of them are. With DROVER_MATRIX_COUNTS the
counts of each pair are written into that folder, for migration_table.py.
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
import uuid

import labs
import pytest
from migration_scenarios import (
    DEFINE,
    DESTINATIONS,
    REMOVE,
    SOURCE,
    Guests,
    is_at,
)
from test_fleet import BOOT_SECTOR, LOCAL, SHARED, Fleet, qemus

from ansible_collections.drover.compute.plugins.module_utils._libvirt.versions import dotted
from conftest import run

pytestmark = pytest.mark.long

#: Oldest first.
RELEASES = ("bullseye", "bookworm", "trixie", "sid")
PAIRS = list(itertools.combinations(RELEASES, 2))

#: One of so many scenarios is tested with each pair. It has no factor in common with the numbers
#: of values of the axes, so that each value is among the tested ones.
SHARE = int(os.environ.get("DROVER_MATRIX_SHARE", "11"))

#: A conflict changes nothing either; a person must say which of two definitions is the instance.
MOVED, REFUSED, FAILED, CONFLICT = "moved", "refused", "failed", "conflict"

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
#: Make an authority and a certificate for each host: the folder, then the hosts. libvirt 7.0 asks
#: for a certificate of the address where a disk is copied.
CERTIFICATES = """
mkdir "$1/pki"; cd "$1/pki"; shift
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -subj /CN=lab -days 2 -out ca-cert.pem \\
    -addext keyUsage=keyCertSign,cRLSign
for host; do
    mkdir $host; cp ca-cert.pem $host
    openssl req -newkey rsa:2048 -nodes -keyout $host/server-key.pem -subj /CN=$host -out request.pem
    number=${host#kvm}
    printf '%s\\n' subjectAltName=DNS:$host,IP:10.99.0.1$number,IP:10.98.0.1$number keyUsage=digitalSignature,keyEncipherment \\
        extendedKeyUsage=serverAuth,clientAuth > extensions
    openssl x509 -req -in request.pem -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \\
        -extfile extensions -out $host/server-cert.pem
    cp $host/server-cert.pem $host/client-cert.pem; cp $host/server-key.pem $host/client-key.pem
done
"""
NETWORK = "<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/></network>"
LAN = f"""
echo "{NETWORK}" > /root/lan.xml
virsh net-define /root/lan.xml && virsh net-start lan
"""
OTHER = """
<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>
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
    old, new = names
    releases = {SOURCE: old, **dict.fromkeys(DESTINATIONS, new)}
    words = [word for host, release in releases.items() for word in ("--host", f"{host}={release}")]
    folder = tmp_path_factory.mktemp("-".join(names)) / "lab"
    with labs.separate(folder, *words) as pair_lab:
        yield Pair(names, pair_lab, tmp_path_factory.mktemp("store"))


class Pair:
    """Two releases, with a guest for each scenario on the old one."""

    def __init__(self, names, lab, folder):
        self.names = names
        self.fleet = fleet = Fleet(lab, folder, f"sqlite:///{folder / 'store.db'}")
        self.guests = Guests(fleet)
        self.cells = {}
        self._settings()
        fleet.run("kvm3", LISTEN)
        fleet.everywhere(HOOK + LAN)
        # The roots of other releases have no openssl.
        run(["sh", "-ec", CERTIFICATES, "sh", os.fspath(lab.layout.shared), *fleet.hosts])
        fleet.everywhere("mkdir -p /etc/pki; cp -r /srv/shared/pki/$(hostname) /etc/pki/qemu")
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
        return dotted(self.versions[host][0])

    def part(self, share):
        """Return one of so many scenarios."""
        return self.guests.scenarios[PAIRS.index(self.names) % share :: share]

    def move(self, source, moves, at_once=1, state="done"):
        """Make moves; return the outcomes by the name of the guest."""
        result = self.fleet.folder / "result.json"
        given = {
            "moves": moves,
            "source": source,
            "at_once": at_once,
            "state": state,
            "result_file": os.fspath(result),
        }
        file = self.fleet.folder / "given.json"
        file.write_text(json.dumps(given))
        result.unlink(missing_ok=True)
        done = self.fleet.playbook("migration_scenarios.yml", "-e", f"@{file}", check=False)
        assert result.exists(), done.stdout + done.stderr
        answer = json.loads(result.read_text())
        assert "migrations" in answer, answer
        return {each["name"]: each for each in answer["migrations"]}


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

    share = min(SHARE, 5)


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

    def uuid(self, each):
        """Return the uuid of the other definition."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"twin of {each.name}"))

    def script(self, program, data):
        for host in DESTINATIONS:
            here = [data(each) for each in self.guests.scenarios if each.destination == host]
            self.guests.script(host, program, here)

    def strike(self):
        self.script(DEFINE, lambda each: OTHER.format(name=each.name, uuid=self.uuid(each)))

    def mend(self):
        self.script(REMOVE, self.uuid)


class Leftover(Twin):
    """The destination has a definition of it that is shut off."""

    words = "has a definition of it that is shut off|Both hosts know it"

    def uuid(self, each):
        return each.uuid

    def expect(self, each):
        # Either of two that are shut off may be the instance.
        return (CONFLICT, "") if each.state == "shutoff" else (REFUSED, self.words)

    def mend(self):
        super().mend()
        self.pair.move(SOURCE, [], state="settled")


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

    words = "cannot be reached|not answer"

    def strike(self):
        self.fleet.everywhere("/etc/init.d/libvirtd stop", DESTINATIONS)

    def mend(self):
        self.fleet.everywhere(
            "/etc/init.d/libvirtd start; until virsh list; do sleep 0.1; done", DESTINATIONS
        )


class CutOff(Refusing):
    """The source has no way to the destination."""

    words = "cannot be reached|not answer|No route|unreachable"

    def strike(self):
        self.routes("add")

    def mend(self):
        self.routes("del")

    def routes(self, what):
        addresses = [f"10.{net}.0.{number}" for net in (98, 99) for number in (12, 13)]
        self.fleet.run(
            SOURCE, "; ".join(f"ip route {what} unreachable {each}" for each in addresses)
        )


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
        # libvirt 7.0 may report the end of its SSH connection in place of the reason.
        return FAILED, "[Hh]ook|End of file"


class DiesThere(Condition):
    """The QEMU of the destination dies while the guest arrives: there are two QEMUs of it."""

    def __init__(self, pair):
        super().__init__(pair)
        self.struck = set()

    def applies(self, each):
        return not each.cold and not self.always_refused(each)

    @contextlib.contextmanager
    def during(self):
        own, over = {each.uuid for each in self.guests.scenarios}, threading.Event()
        before = {guest: pids[0] for guest, pids in qemus().items() if guest in own}

        def watch():
            while not over.wait(0.02):
                found = qemus()
                for guest in before.keys() - self.struck:
                    new = [pid for pid in found.get(guest, []) if pid != before[guest]]
                    if new:
                        self.struck.add(guest)
                        os.kill(new[0], signal.SIGKILL)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

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
    # The outcomes of a run with an uncertain place have no messages.
    message = outcome.get("message", "")
    found = {"completed": MOVED, "failed": FAILED}.get(outcome["status"], outcome["status"])
    if found == FAILED and not re.search(r" failed(:| before)", message):
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
        # A guest that was shut down for its move runs again, in another process.
        kept = each.cold or before["processes"] == after["processes"]
        home = is_at(each, after, SOURCE) and after["domains"][SOURCE][0] == each.state
        return "" if kept and home else f"it is not as it was: {before} -> {after}"
    return "" if before == after else f"changed: {before} -> {after}"


def check(pair, name, condition, scenarios):
    moves = [each.move(condition.source, condition.destination(each)) for each in scenarios]
    before = pair.guests.facts()
    began = time.monotonic()
    try:
        condition.strike()
        with condition.during():
            outcomes = pair.move(condition.source, moves, condition.at_once)
    finally:
        condition.mend()
    elapsed = time.monotonic() - began
    after = pair.guests.facts()
    problems = {
        each.name: said
        for each in scenarios
        if (
            said := problem(
                condition, each, outcomes[each.name], before[each.name], after[each.name]
            )
        )
    }
    pair.fleet.settled()
    pair.cells[name] = collections.Counter(
        condition.result(each)[0] for each in scenarios if each.name not in problems
    )
    write_counts(pair)
    print(f"{name}: {dict(pair.cells[name])} in {elapsed:.0f} s")
    assert not problems, f"{name}: {json.dumps(problems, indent=1)}"


def write_counts(pair):
    if folder := os.environ.get("DROVER_MATRIX_COUNTS"):
        file = pathlib.Path(folder) / f"{'-'.join(pair.names)}.json"
        # A run of some conditions keeps the counts of the others.
        earlier = json.loads(file.read_text())["cells"] if file.exists() else {}
        counts = {"versions": pair.versions, "cells": {**earlier, **pair.cells}}
        file.write_text(json.dumps(counts, indent=1) + "\n")


@pytest.mark.parametrize("name", CONDITIONS)
def test_from_old_to_new(pair, name):
    condition = CONDITIONS[name](pair)
    scenarios = [each for each in pair.part(condition.share) if condition.applies(each)]
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
    check(pair, f"older than {source}", Older(pair, source), moved)
