# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of the conductor in a scenario: a store and hosts that can end or lose a run at one of
its steps."""

from __future__ import annotations

import contextlib

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.remote_module import (
    Hand,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    Unreachable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import host_answer
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import (
    clock as store_clock,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import occupancy
from ansible_collections.drover.compute.tests.scenarios.migrating import Module
from ansible_collections.drover.compute.tests.scenarios.resizing import Modules, Refused
from ansible_collections.drover.compute.tests.scenarios.simulated import Broken, Domain


class Killed(BaseException):
    """The end of the run, as by kill -9: it catches nothing and cleans nothing up."""


class Actor:
    """The actor of a run in leases. ``elsewhere``: True if the state of its process is not known on
    this machine."""

    def __init__(self, name, dead, elsewhere=False):
        self.holder = self.process = name
        self.elsewhere = elsewhere
        self.dead = dead

    def lives(self, process):
        return False if process in self.dead else None


class Fate:
    """The early end of a run.

    :param stop: None, or {step: number of the write, moment: before | inside | after, how: killed |
        lost}.
    :param call: None, or {number: of the call of a host, moment: before | after | seconds into it}.
    """

    def __init__(self, stop=None, call=None):
        self._stop, self._call = stop or {}, call
        self.writes = self.calls = 0
        self._gone = None

    def write(self, moment):
        """Write to the store."""
        if moment == "before":
            self.writes += 1
        if self._stop.get("step") == self.writes and self._stop.get("moment", "before") == moment:
            # A lost database stays away for the rest of the run.
            self._gone = (
                DroverError("The store does not answer.")
                if self._stop.get("how") == "lost"
                else Killed()
            )
        if self._gone is not None:
            raise self._gone

    def call(self, act, within=None):
        """Call a host.

        :param act: a function with the work and the answer of the host.
        :param within: a function (seconds) with the same work, interrupted.
        """
        if isinstance(self._gone, Killed):
            raise self._gone
        self.calls += 1
        is_due = self._call is not None and self._call["number"] == self.calls
        if is_due and self._call["moment"] not in ("before", "after") and within is not None:
            within(self._call["moment"])
        if is_due and self._call["moment"] != "after":
            self._end()
        try:
            answer = act()
        except Exception:
            # The run is killed before it gets the failure.
            if is_due:
                self._end()
            raise
        if is_due:
            self._end()
        return answer

    def _end(self):
        self._gone = Killed()
        raise self._gone


class FatedStore:
    """A store with writes that are steps of a fate."""

    def __init__(self, store, fate):
        self._store, self._fate = store, fate

    def read(self):
        return self._store.read()

    @property
    def server(self):
        return self._store.server

    def rehearsal(self):
        return self._store.rehearsal()

    @contextlib.contextmanager
    def write(self, **options):
        self._fate.write("before")
        with self._store.write(**options) as connection:
            yield connection
            self._fate.write("inside")
        self._fate.write("after")


class SimulatedHosts:
    """A stand-in for conductor.ports.Hosts.

    :param discover: a function (list of hosts) that reads them into the store.
    :param open_moves: see migrating.Module.
    """

    def __init__(self, fleet, store, fate, discover, open_moves):
        self.fleet, self.fate, self._store = fleet, fate, store
        self._discover, self._open_moves = discover, open_moves
        #: Hosts that start nothing; a host that loses its power after its first start of an
        #: instance; hosts that lose their connection after all starts.
        self.refuse, self.dies, self.lost = (), None, ()
        #: {host: a function}: called once, when the host is read.
        self.meanwhile = {}

    def discover(self, host, limit=None):
        self.meanwhile.pop(host, lambda: None)()
        return self.fate.call(lambda: self._read(host))

    def answer(self, host):
        there = self.fleet.hosts[host]
        return host_answer.HostAnswer(
            host_answer.LOGIN if there.on and there.answers else host_answer.SILENT
        )

    def at_once(self, questions, limit):
        """Looks that change nothing are not a step for the end of a run."""
        answers = {}
        for host, question in questions.items():
            try:
                answers[host] = question(self.hand(host))
            except DroverError as problem:
                answers[host] = problem
        return answers

    def variables(self, host):
        return {}

    def names(self):
        return list(self.fleet.hosts)

    def _read(self, host):
        try:
            self._discover([host])
        except DroverError as problem:
            with self._store.write() as connection:
                services.record_unreachable(
                    connection, host, str(problem), store_clock.now(connection)
                )
            raise
        with self._store.read() as connection:
            return {"occupants": occupancy.occupants(connection, host)}

    def hand(self, host, limit=None):
        return SimulatedHand(self, host, self._open_moves)


class SimulatedHand(Modules):
    """A stand-in for remote_module.Hand on a simulated host."""

    def __init__(self, hosts, host, open_moves):
        self.host, self._hosts, self._open_moves = host, hosts, open_moves
        self._fleet = hosts.fleet

    look = Hand.look

    def reach(self):
        here = self._fleet.hosts[self.host]
        if not (here.on and here.answers):
            raise Unreachable(self.host, "timed out")

    def read(self, module, args):
        """Return the result of a module that changes nothing."""
        if module.startswith("ansible.builtin.") or module == "_boot_info":
            return self._hosts.fate.call(lambda: self._read(module.rpartition(".")[2], args))
        return self._read(module, args)

    def _read(self, module, args):
        self.reach()
        return getattr(self, f"_{module.lstrip('_')}")(args)

    def act(self, module, args):
        """Return a certainty.Answer, as of the module on a real host."""
        run = getattr(self, f"_{module.rpartition('.')[2].lstrip('_')}")
        try:
            return self._hosts.fate.call(
                lambda: certainty.Answer(certainty.DONE, run(args)),
                lambda seconds: run({**args, "within": seconds}),
            )
        except Refused as problem:
            return certainty.judge(problem.result)
        except (DroverError, Broken) as problem:
            return certainty.lost(str(problem))

    def _domain_sightings(self, args):
        """Return the domains of the host with these uuids."""
        server = self._fleet.hosts[self.host]
        if not server.libvirt:
            return {"failed": True, "msg": "libvirt does not answer"}
        domains = {
            uuid: domain
            for uuid, domain in server.domains.items()
            if uuid in args["uuids"] or domain.name in args["names"]
        }
        return {
            "domains": [
                {"uuid": uuid, "name": domain.name, "state": domain.state}
                for uuid, domain in domains.items()
            ]
        }

    def _file_users(self, args):
        """Return the names of its files, and no user of other hosts' files: each guest has separate
        files."""
        self.reach()
        names = [
            {"path": path, "real_path": path, "shared_id": None, "inode": None, "mount": "/nfs"}
            for path in args.get("paths") or ()
        ]
        return {"names": names, "users": {}}

    def _domain_migration(self, args):
        start, abort = (
            [{"migration": None, **order, "source": self.host} for order in args.get(key) or ()]
            for key in ("start", "abort")
        )
        module = Module(self._fleet, self.host, self._open_moves, args.get("max_migrations"))
        if args.get("check"):
            return {"moves": [module.check(order) for order in start]}
        wait, until, news_within = args["wait"], args.get("until"), args.get("news_within")
        if "within" in args:
            wait, until, news_within = args["within"], -1, None
        return {
            "moves": module(
                start,
                args.get("follow", ()),
                wait,
                until,
                abort,
                news_within,
                args.get("waiting") or (),
            )
        }

    def _stat(self, args):
        """Act as the module ansible.builtin.stat: the hosts have libvirtd."""
        self.reach()
        return {"stat": {"exists": False}}

    def _service(self, args):
        """Act as the module ansible.builtin.service, which restarts libvirt."""
        self.reach()
        here = self._fleet.hosts[self.host]
        here.libvirt = here.mended
        return {"changed": True}

    def _host_probe(self, args):
        """Return if this host reaches one of the others; the disks of all running guests are
        locked."""
        names = [name for name in args["addresses"] if name in self._fleet.hosts]
        running = [
            each
            for host in self._fleet.hosts.values()
            if host.on
            for each in host.domains.values()
            if each.active
        ]
        active = {f"/nfs/{each.name}.qcow2" for each in running}.intersection(args["disks"])
        return {
            "reached": any(self._fleet.reach(self.host, name) for name in names),
            "storage": "active" if active else "silent",
        }

    def _domain_restart(self, args):
        """Start the missing instances; with ``within`` the call ends after the first start."""
        self.reach()
        wanted = args["instances"][:1] if "within" in args else args["instances"]
        answers = [self._restarted(each) for each in wanted]
        if self.host in self._hosts.lost:
            raise Broken(f"{self.host} was lost on the way")
        return {"instances": answers}

    def _restarted(self, wanted):
        domains, uuid = self._fleet.hosts[self.host].domains, wanted["uuid"]
        domain, answer = domains.get(uuid), {"uuid": uuid, "name": wanted["name"], "message": ""}
        if domain is not None and (domain.active or not wanted["running"]):
            return {**answer, "status": "there", "state": domain.state}
        if self.host in self._hosts.refuse:
            return {**answer, "status": "failed", "state": None, "message": "no"}
        self._fleet.clock.sleep(1)
        state = "running" if wanted["running"] else "shutoff"
        size = next(iter(self._fleet.where(uuid).values()))
        domains[uuid] = Domain(wanted["name"], state, vcpus=size.vcpus, memory_mb=size.memory_mb)
        self._fleet.check()
        if self.host == self._hosts.dies:
            self._fleet.power_off(self.host)
            raise Broken(f"{self.host} was lost on the way")
        return {**answer, "status": "restarted", "state": state}

    def _boot_info(self, args):
        return {"boot_id": f"boot {self._fleet.hosts[self.host].boots}"}

    def _reboot_info(self, args):
        """Return True under ``needed`` if the host needs a reboot."""
        return {"needed": self._fleet.hosts[self.host].sentinel, "message": "a file says so"}
