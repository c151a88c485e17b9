# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated hypervisors: hosts with domains, power, a network, and faults.

Instances have their disks on storage that all hosts see, and a lock manager allows only one user of
a disk.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field

from ansible_collections.drover.compute.tests.unit.store import fleets

POOL = {"name": "nfs", "path": "/nfs", "shared_id": "nfs:a:/x"}
#: The reason of a paused domain: libvirt's VIR_DOMAIN_PAUSED_MIGRATION, and a person's request.
INCOMING, WISHED = 2, 1
#: Seconds that the shutdown of a guest takes.
SHUTDOWN = 5.0


class Broken(Exception):
    """The error of a lost connection, or of one that was never made."""


class Violation(BaseException):
    """A state that must never happen; no handler of errors may catch it."""


@dataclass
class Domain:
    """A domain on one host."""

    name: str
    state: str
    vcpus: int = 1
    memory_mb: int = 1024
    reason: int = WISHED
    job: bool = False
    persistent: bool = True
    group: str | None = None

    @property
    def active(self):
        return self.state != "shutoff"

    def seen(self):
        """Return the state, as _migration.state.look() sees it."""
        keys = ("name", "state", "reason", "active", "persistent", "job")
        return {key: getattr(self, key) for key in keys}

    def facts(self):
        """Return the facts, as hypervisor_info reports them."""
        disk = {
            "target": "vda",
            "device": "disk",
            "type": "file",
            "source": f"/nfs/{self.name}.qcow2",
        }
        more = {
            "state": self.state,
            "persistent": self.persistent,
            "xml": f"<domain>{self.name}</domain>",
            "disks": [disk],
            "metadata": {"server_group": self.group} if self.group else {},
        }
        return fleets.domain(self.name, self.vcpus, self.memory_mb, **more)


@dataclass
class Host:
    """A hypervisor. ``libvirt``: True if its libvirt answers; ``mended``: True if it answers after
    a restart.

    ``records`` are the records of its moves, which a reboot removes; ``workers`` the living
    workers, ``turns`` the workers that move or wait for it, ``checks`` the workers that are checked
    or wait for it; ``aborts`` the requested aborts; ``withdrawn`` the migrations that no longer
    begin. ``sentinel``: True if a file requests a reboot; ``boots``: number of reboots.
    """

    name: str
    vcpus: int = 8
    memory_mb: int = 8192
    on: bool = True
    answers: bool = True
    libvirt: bool = True
    mended: bool = True
    domains: dict = field(default_factory=dict)
    records: dict = field(default_factory=dict)
    workers: dict = field(default_factory=dict)
    turns: list = field(default_factory=list)
    checks: list = field(default_factory=list)
    aborts: dict = field(default_factory=dict)
    withdrawn: set = field(default_factory=set)
    sentinel: bool = False
    boots: int = 0


class Fleet:
    """All hosts.

    :param faults: [{of: name of an instance, at: phase, fault: name of one of FAULTS, for: seconds
        until its repair}]; each happens once, in the middle of the phase.
    """

    def __init__(self, clock, hosts, instances):
        self.clock = clock
        self.hosts = {each["name"]: Host(**each) for each in hosts}
        self.jobs = []
        self.cuts = set()
        self.faults = []
        # Pairs of an instance's name and a host that refuses it.
        self.refusals = set()
        # Names of instances that ignore their power button.
        self.deaf = set()
        # Names of instances that do not start.
        self.broken = set()
        self.most = 0
        # The greatest numbers of parallel migrations, by their common property.
        self.peaks = {}
        self.names = {}
        for instance in instances:
            data = {key: value for key, value in instance.items() if key != "host"}
            uuid = fleets.uuid_of(data["name"])
            self.names[uuid] = data["name"]
            self.hosts[instance["host"]].domains[uuid] = Domain(**{"state": "running", **data})

    # Queries

    def reach(self, one, other):
        """Return True if two hosts reach each other."""
        return (
            self.hosts[one].on and self.hosts[other].on and frozenset((one, other)) not in self.cuts
        )

    def look(self, host, uuid, from_host):
        """Return _migration.state.look() from another host."""
        if not self.reach(from_host, host):
            raise Broken(f"Failed to connect to {host}")
        found = self.hosts[host].domains.get(uuid)
        return found.seen() if found is not None else None

    def refusal(self, name, host):
        """Return the reason why a host refuses an instance, or None."""
        return (
            "the network br9 does not exist at the destination"
            if (name, host) in self.refusals
            else None
        )

    def shut_down(self, host, uuid, timeout, force=False):
        """Act as the module domain with state stopped."""
        server = self.hosts[host]
        if not (server.on and server.answers):
            raise Broken(f"Host {host} cannot be reached: timed out.")
        domain = server.domains[uuid]
        if not domain.active:
            return {"changed": False, "domain": domain.facts()}
        if domain.name in self.deaf:
            self.clock.sleep(timeout)
        if domain.name in self.deaf and not force:
            raise Broken(f"{domain.name} did not shut down within {timeout} s")
        self.clock.sleep(SHUTDOWN)
        domain.state, domain.reason = "shutoff", WISHED
        return {"changed": True, "domain": domain.facts()}

    def where(self, uuid):
        """Return {host: Domain}, with hosts that are off."""
        return {
            name: host.domains[uuid] for name, host in self.hosts.items() if uuid in host.domains
        }

    def running(self, uuid):
        """Return the hosts with the running domain."""
        return [
            name
            for name, each in self.where(uuid).items()
            if each.state == "running" and self.hosts[name].on
        ]

    def report(self, host):
        """Return a host as discovery reads it."""
        server = self.hosts[host]
        if not (server.on and server.answers):
            raise Broken(f"Host {host} cannot be reached: timed out.")
        if not server.libvirt:
            raise Broken(f"libvirt on {host} does not answer.")
        domains = [domain.facts() for domain in server.domains.values()]
        return fleets.host(
            host, *domains, vcpus=server.vcpus, memory_mb=server.memory_mb, pools=[POOL]
        )

    def check(self):
        """Check the conditions of every moment."""
        for uuid, name in self.names.items():
            if len(self.running(uuid)) > 1:
                raise Violation(f"{name} runs on {' and '.join(self.running(uuid))}")
            if not self.where(uuid):
                raise Violation(f"{name} is nowhere any more")

    def under_way(self):
        """Return the number of running moves."""
        return sum(
            worker.moves() for host in self.hosts.values() for worker in host.workers.values()
        )

    def count(self):
        """Record the number of running moves when a migration begins."""
        ways = [[f"from {job.source}", f"to {job.destination}", "in all"] for job in self.jobs]
        groups = {self.hosts[job.source].domains[job.uuid].group for job in self.jobs} - {None}
        ways += [
            [f"of {group}"]
            for group in groups
            for job in self.jobs
            if self.hosts[job.source].domains[job.uuid].group == group
        ]
        for what, number in collections.Counter(what for way in ways for what in way).items():
            self.peaks[what] = max(self.peaks.get(what, 0), number)

    # Events

    def happen(self, phase, name, job):
        """Let the faults of a phase of an instance's move happen."""
        for fault in [each for each in self.faults if (each["of"], each["at"]) == (name, phase)]:
            self.faults.remove(fault)
            mend = FAULTS[fault["fault"]](self, job)
            if mend is not None and fault.get("for") is not None:
                self.clock.at(fault["for"], mend)
            self.check()

    def power_off(self, name):
        """Cut the power: every process on the host ends."""
        host = self.hosts[name]
        if not host.on:
            return
        host.on = False
        host.records.clear()
        host.aborts.clear()
        host.withdrawn.clear()
        host.workers.clear()
        for job in [each for each in self.jobs if name in (each.source, each.destination)]:
            job.end_by_death(name)
        for uuid, domain in list(host.domains.items()):
            if not domain.persistent:
                del host.domains[uuid]
            domain.state, domain.reason, domain.job = "shutoff", WISHED, False
        self.check()

    def power_on(self, name):
        """Start the host again, with its definitions shut off."""
        self.hosts[name].on = True

    def cut(self, one, other):
        """Cut the network between two hosts."""
        self.cuts.add(frozenset((one, other)))
        for job in [each for each in self.jobs if {one, other} == {each.source, each.destination}]:
            job.break_off()

    def mend(self, one, other):
        """Restore the network."""
        self.cuts.discard(frozenset((one, other)))


def _refuse(fleet, job):
    job.refused = "the network br9 does not exist at the destination"


def _error(fleet, job):
    job.fail("operation failed: migration out job: unexpectedly failed")


def _worker_killed(fleet, job):
    fleet.hosts[job.source].workers.pop(job.uuid, None)


def _source_libvirtd(fleet, job):
    """Restart libvirtd: libvirt cancels a migration before its handover, and completes one after
    it."""
    if job.phase == "copy":
        job.fail("operation failed: job was cancelled by a restart")


def _cut(fleet, job):
    fleet.cut(job.source, job.destination)
    return lambda: fleet.mend(job.source, job.destination)


def _controller_cut(fleet, job):
    host = fleet.hosts[job.source]
    host.answers = False
    return lambda: setattr(host, "answers", True)


def _destination_dies(fleet, job):
    fleet.power_off(job.destination)
    return lambda: fleet.power_on(job.destination)


def _source_dies(fleet, job):
    fleet.power_off(job.source)
    return lambda: fleet.power_on(job.source)


#: Faults: {name: function (fleet, job) that returns the repair, or None}.
FAULTS = {
    "refused": _refuse,
    "error": _error,
    "worker killed": _worker_killed,
    "libvirtd restarted": _source_libvirtd,
    "network cut": _cut,
    "controller cut off": _controller_cut,
    "destination dies": _destination_dies,
    "source dies": _source_dies,
}
