# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process or host dies in the middle of a drain: the run says so, and after the repair the next
run ends right.

test_drain_killed.py kills the playbook itself.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time

import pytest
from guests import Full
from test_fleet import LOCAL, Domain, Fleet, clean, eventually
from watching import Watch

from ansible_collections.drover.compute.tests.unit import postgres as server

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

postgres = server.postgres

#: The memory of "full" and the disk of "local" take some 4 s each.
SLOW = {
    "drover_host": "kvm1",
    "drover_max_migrations": 2,
    "drover_migration": {"bandwidth_mib": 20},
}

#: The time limit (seconds) of a run for the detection and its end.
PATIENCE = 420


# The moments. Each returns the destination.


def begun(run):
    """Wait until the first move is in the store, before the call of libvirt."""
    run.until(r"^full: kvm1 -> kvm\d, live, started")
    return destination(run)


def in_the_middle(run):
    """Wait until memory is copied."""
    target = begun(run)
    eventually(
        lambda: (
            "Memory remaining" in run.fleet.lab.host("kvm1").run("virsh domjobinfo full").stdout
        ),
    )
    return target


def one_has_arrived(run):
    """Wait until one has arrived and is recorded; some of the others are on their way."""
    run.until(r"\[1 of \d\b")
    return re.search(r"^\w+: kvm1 -> (kvm\d), \w+ there.*\[1 of \d\b", run.said, re.M)[1]


def destination(run):
    return re.search(r"^full: kvm1 -> (kvm\d), live", run.said, re.M)[1]


# The faults: strike(there) and mend(there), with the destination.


class Fault:
    """A fault.

    says: pattern of the output if the run does not end well.
    """

    says = r"is lost: .*libvirt at qemu\+ssh://root@{there}/system.* If {there} will not come back"

    def __init__(self, fleet, watch):
        self.fleet, self.watch = fleet, watch

    def strike(self, there):
        raise NotImplementedError

    def mend(self, there):
        pass


class SourceLibvirtd(Fault):
    """Kill libvirtd and start it again, as systemd does. Its guests continue to run."""

    says = r"kvm1.*libvirt"

    def host(self, there):
        return "kvm1"

    def strike(self, there):
        self.fleet.run(
            self.host(there), "kill -9 $(cat /run/libvirtd.pid); sleep 1; /usr/sbin/libvirtd -d"
        )


class DestinationLibvirtd(SourceLibvirtd):
    says = r"{there}.*libvirt"

    def host(self, there):
        return there


class SourceLibvirtdStaysDead(SourceLibvirtd):
    """libvirtd is dead until a person starts it."""

    def strike(self, there):
        self.fleet.run("kvm1", "kill -9 $(cat /run/libvirtd.pid)")

    def mend(self, there):
        self.fleet.run("kvm1", "/usr/sbin/libvirtd -d && virsh list")


class Power(Fault):
    """The destination has a power failure. Guests that have arrived there are off after its
    return.
    """

    def strike(self, there):
        self.fleet.lab.command("kill", there)

    def mend(self, there):
        self.fleet.lab.command("start", there)
        self.watch.on(there)


class Network(Fault):
    """Packets between the two hosts are lost; the controller reaches both."""

    def strike(self, there):
        for one, other in (("kvm1", there), (there, "kvm1")):
            self.fleet.run(
                one,
                f"ip neigh replace 10.99.0.1{other[-1]} lladdr 02:00:00:00:00:01 dev br0 nud"
                " permanent",
            )

    def mend(self, there):
        for one, other in (("kvm1", there), (there, "kvm1")):
            self.fleet.run(one, f"ip neigh del 10.99.0.1{other[-1]} dev br0")


MOMENTS = [begun, in_the_middle, one_has_arrived]


def named(value):
    return value.__name__


def drain_through(fleet, strike, moment):
    """Begin a drain, let the fault happen in the middle, and return (destination, exit status,
    output)."""
    run = fleet.start("drain", "-e", json.dumps(SLOW))
    run.fleet = fleet
    limit = threading.Timer(PATIENCE, run.kill)
    limit.start()
    began = time.monotonic()
    try:
        target = moment(run)
        strike(target)
        struck = time.monotonic()
        run.finish()
    finally:
        limit.cancel()
        if run.process.poll() is None:
            run.kill()
    print(
        f"{moment.__name__}: struck after {struck - began:.0f} s, ended"
        f" {time.monotonic() - struck:.0f} s later:\n{run.said}"
    )
    assert "Traceback" not in run.said and run.process.returncode in (0, 2), run.said
    return target, run.process.returncode, " ".join(run.said.split())


def instances():
    return [
        Full("full"),
        Domain("local", folder=LOCAL, size="60M", written_mb=8),
        Domain("off", state="shutoff"),
    ]


def sound(fleet, watch, domains):
    """Check that nothing is lost, that nothing is or was on two hosts, and that the store is
    right.
    """
    fleet.playbook("discover")
    where = fleet.settled()
    assert set(where) == {domain.name for domain in domains}
    for domain in domains:
        path = watch.path(domain.uuid)
        assert len(path) == len(set(path)), f"{domain.name} ran on {path}"
    for host in fleet.hosts:
        ours = sorted(
            path.rpartition("/")[2]
            for domain in domains
            for path in domain.paths
            if domain.folder == LOCAL and where[domain.name][0] == host
        )
        assert fleet.files(LOCAL, host) == ours
    audit = fleet.playbook("audit", "-e", "drover_audit_strict=true")
    assert "checked: consistent." in audit.stdout, audit.stdout
    assert fleet.query("SELECT name FROM leases") == []
    return where


@pytest.mark.parametrize(
    ("what", "moment"),
    [
        *itertools.product([SourceLibvirtd, DestinationLibvirtd, Power, Network], MOMENTS),
        (SourceLibvirtdStaysDead, in_the_middle),
    ],
    ids=named,
)
def test_mended_and_run_again(fleet, what, moment):
    domains = instances()
    fleet.make("kvm1", *domains)
    with Watch(fleet) as watch:
        fault = what(fleet, watch)
        target, status, said = drain_through(fleet, fault.strike, moment)
        if status:
            assert re.search(what.says.format(there=target), said), said
        fault.mend(target)
        done = fleet.drain("kvm1", check=False)
        print(done.stdout, done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
        where = sound(fleet, watch, domains)
    assert "kvm1" not in {host for host, dummy in where.values()}
    off = {"off"} | (
        {name for name, (host, dummy) in where.items() if host == target}
        if what is Power
        else set()
    )
    assert {name for name, (dummy, state) in where.items() if state != "running"} <= off
    assert fleet.service("kvm1")["maintenance"]


@pytest.mark.parametrize("moment", MOMENTS, ids=named)
def test_the_database_dies(own_lab, tmp_path, postgres, moment):
    clean(own_lab)
    domains = instances()
    with postgres.database() as url:
        fleet = Fleet(own_lab, tmp_path, url)
        fleet.make("kvm1", *domains)
        fleet.playbook("discover")
        with Watch(fleet) as watch:
            try:
                dummy, status, output = drain_through(fleet, lambda there: postgres.crash(), moment)
            finally:
                postgres.start_again()
            assert status == 2 and re.search(r"The store postgresql.*cannot be used", output), (
                output
            )
            assert postgres.password not in output
            done = fleet.drain("kvm1", check=False)
            print(done.stdout, done.stderr)
            assert done.returncode == 0, done.stdout + done.stderr
            where = sound(fleet, watch, domains)
        assert "kvm1" not in {host for host, dummy in where.values()}
        assert {name: state for name, (dummy, state) in where.items()} == {
            "full": "running",
            "local": "running",
            "off": "shutoff",
        }
        assert fleet.service("kvm1")["maintenance"]
    clean(own_lab)


def test_a_destination_that_never_comes_back(fleet):
    """After its evacuation the host is known to be off, and the moves to it go to another host."""
    domains = [Full("full"), Domain("off", state="shutoff")]
    fleet.make("kvm1", *domains)
    target, status, output = drain_through(
        fleet, lambda there: fleet.lab.command("kill", there), in_the_middle
    )
    assert (
        status == 2 and "full is lost" in output and f"If {target} will not come back" in output
    ), output
    assert "full is lost" in fleet.refused("drain", "-e", json.dumps(SLOW))
    fleet.playbook("discover", check=False)
    word = {"drover_host": target, "drover_host_is_off": f"{target} is powered off"}
    at_once = {"drover_evacuate_down_seconds": 0, "drover_evacuate_start_seconds": 0}
    fleet.playbook("evacuate", "-e", json.dumps({**word, **at_once}))
    fleet.drain("kvm1")
    (other,) = {"kvm2", "kvm3"} - {target}
    assert fleet.where(["kvm1", other]) == {"full": (other, "running"), "off": (other, "shutoff")}
    assert set(fleet.booked()["full"]) == {other} and fleet.service("kvm1")["maintenance"]
