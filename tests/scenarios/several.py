# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of scenarios in which several things go on: moves of several hosts, several runs, and aborts."""

from __future__ import annotations

import contextlib
import types

from ansible_collections.drover.compute.plugins.action.migration import ActionModule
from ansible_collections.drover.compute.plugins.plugin_utils.deciding import wanted_to_move
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement.caps import Caps
from ansible_collections.drover.compute.plugins.plugin_utils.planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils.store import leases, moving, services
from ansible_collections.drover.compute.plugins.plugin_utils.store.fleet import read_host_instances, read_instances
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import read_columns
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import host_status
from ansible_collections.drover.compute.tests.scenarios import together
from ansible_collections.drover.compute.tests.scenarios.simulated import Broken


class Aborting(ActionModule):
    """The action of module migration as far as it aborts, for a run of the simulator."""

    def __init__(self, actor, clock):
        self._task = types.SimpleNamespace(check_mode=False)
        self._actor, self._clock = actor, clock

    def show(self, line):
        pass

    @contextlib.contextmanager
    def _leased(self, store, host, purpose="moving instances"):
        with store.write() as connection:
            leases.take(connection, host, self._actor, purpose)
        try:
            yield lambda connection: leases.renew(connection, host, self._actor)
        finally:
            with store.write() as connection:
                if leases.held(connection, host, self._actor):
                    leases.release(connection, host, self._actor)

    def carry_out(self, store, host, names, module):
        """As the action's own _abort()."""

        def hypervisor(start, follow, wait, until=None, abort=()):
            return module(start, follow, wait, until, abort)

        return self._abort(store, host, names, hypervisor, None)


class Several:
    """Those commands, for running.Scenario."""

    def do_together(self, courses):
        """Lists of commands that begin at the same time."""
        together.carry_out(
            self.clock, [lambda course=course: [self.do(command) for command in course] for course in courses]
        )

    def do_disable(self, hosts):
        """Nothing is to go there."""
        with self.open_store().write() as connection:
            for host in hosts:
                host_status.change(connection, host, "disabled", "scenario")

    def do_say_most(self, dummy):
        """Say how many migrations libvirt carried out at a time: from and to each host, of each server group, and in all."""
        self.said.append("at a time: " + ", ".join(f"{most} {what}" for what, most in sorted(self.fleet.peaks.items())))

    def do_abort(self, host, of=(), actor=None):
        """Playbook migration_abort."""
        self.runs += 1
        aborting = Aborting(self.actor(actor or f"run {self.runs}"), self.clock)
        module = self.simulated(host)
        result = aborting.carry_out(self.open_store(), host, list(of), module)
        for each in result["migrations"]:
            self.said.append(f"abort: {each['name']} is {each['status']}")
        if not result["migrations"]:
            self.said.append("abort: nothing is under way")

    # A drain that makes room on other hosts

    def do_drain_with_room(self, host, extra_moves=2, limit=2, call=None, actor=None, elsewhere=False, rounds=3):
        """Role drain with drover_extra_moves.

        :param call: {number: of the call on any hypervisor, moment: before or after} at which the run is killed.
        """
        with self.run(host, "drain", None, actor, elsewhere) as (store, keep):
            part = Part(self, store, host, limit, extra_moves, call)
            part.leased[host] = keep
            plan = part.plan()
            if plan["unmovable"]:
                raise DroverError(f"cannot move: {', '.join(each['name'] for each in plan['unmovable'])}")
            with store.write() as connection:
                host_status.change(connection, host, "draining", "scenario")
            for dummy in range(rounds):
                moves = [move for move in plan["moves"] if move["uuid"] not in part.aborted]
                if not moves:
                    break
                part.carry_out(moves)
                plan = part.plan()
            left = sorted(self.fleet.names[uuid] for uuid in self.fleet.hosts[host].domains)
            if left:
                raise DroverError(f"{host} is not empty: {', '.join(left)}")
            with store.write() as connection:
                host_status.change(connection, host, "maintenance", "scenario")


class Part:
    """What a drain that makes room has found out so far. ``leased``: {host: function that renews its lease}."""

    def __init__(self, scenario, store, host, limit, extra_moves, call):
        self._scenario, self._store, self._host, self._extra = scenario, store, host, extra_moves
        self._limits = Caps(limit)
        calls = [0]
        self._modules = {name: scenario.module(name, call, limit, calls) for name in scenario.fleet.hosts}
        self.leased, self.failed, self.aborted, self._read = {}, {}, set(), set()

    def plan(self):
        """Tasks plan.yml to helpers.yml: settle and read the host, and whichever makes room for it."""
        self._moved(self._host, [])
        self._scenario.discover(self._store, [self._host])
        while True:
            plan, unsettled = self._planned()
            sources = {move["from_host"] for move in plan["moves"]} - {self._host} - self._read
            unsettled = [name for name in unsettled if name != self._host]
            if not sources and not unsettled:
                return plan
            with self._leases(unsettled):
                for name in unsettled:
                    self._moved(name, [])
            for name in sorted(sources):
                self._look(name)
            self._read |= sources

    def _look(self, name):
        """One that does not answer is recorded as down, and the plan does without it."""
        try:
            self._scenario.discover(self._store, [name])
        except DroverError as problem:
            with self._store.write() as connection:
                services.record_unreachable(connection, name, str(problem), self._scenario.clock.time())

    def _planned(self):
        policy, limits = self._scenario.policy, {"per_source": self._limits.per_source}
        with self._store.read() as connection:
            there = read_host_instances(connection, self._host)
            others = read_instances(connection, but=[self._host])
            columns = read_columns(connection, self._scenario.clock.time(), 0, wanted_to_move(there + others, policy))
            unsettled = moving.left_open_for(connection, self._host)
        plan = plan_drain(
            columns, there, self._host, policy, limits, self.failed, others=others, extra_moves=self._extra
        )
        return plan, unsettled

    def carry_out(self, moves):
        """Role migrate: from stage to stage, from host to host."""
        sources = dict.fromkeys(move["from_host"] for move in moves)
        done = set()
        with self._leases([name for name in sorted(sources) if name != self._host]):
            for stage in sorted({move["stage"] for move in moves}):
                now = [move for move in moves if move["stage"] == stage and set(move["after"]) <= done]
                for source in dict.fromkeys(move["from_host"] for move in now):
                    outcomes = self._moved(source, [move for move in now if move["from_host"] == source])
                    done |= {each["uuid"] for each in outcomes if each["status"] == "completed"}

    def _moved(self, host, moves):
        return self._scenario.moved(
            self._store,
            host,
            self._modules[host],
            self._limits,
            self.leased[host],
            moves,
            self.failed,
            aborted=self.aborted,
        )

    @contextlib.contextmanager
    def _leases(self, hosts):
        actor = self._store.actor
        try:
            for name in hosts:
                with self._store.write() as connection:
                    leases.take(connection, name, actor, "making room")
                self.leased[name] = lambda connection, name=name: leases.renew(connection, name, actor)
            yield
        except (DroverError, Broken):
            self._release(hosts)
            raise
        self._release(hosts)

    def _release(self, hosts):
        for name in hosts:
            with self._store.write() as connection:
                if leases.held(connection, name, self._store.actor):
                    leases.release(connection, name, self._store.actor)
