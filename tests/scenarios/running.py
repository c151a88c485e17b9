# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of a scenario, carried out with the real store, planner and executors on a simulated
fleet.

Each command has the effect of the role or playbook of its name; they run one after the other in
simulated time.
"""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import operations
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import (
    Drain,
    DrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_request import (
    EvacuationRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import fencing
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import (
    clock as store_clock,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import power, services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.migrations_open import (
    RESIZE,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record
from ansible_collections.drover.compute.tests.properties.store.test_claims_spread import (
    add_provider,
    held,
)
from ansible_collections.drover.compute.tests.scenarios.clock import Clock
from ansible_collections.drover.compute.tests.scenarios.maintenance import Maintenance
from ansible_collections.drover.compute.tests.scenarios.ports import (
    Actor,
    Fate,
    FatedStore,
    Killed,
    SimulatedHosts,
)
from ansible_collections.drover.compute.tests.scenarios.resizing import Instances
from ansible_collections.drover.compute.tests.scenarios.several import Several, several
from ansible_collections.drover.compute.tests.scenarios.simulated import Broken, Fleet, Violation
from ansible_collections.drover.compute.tests.unit.store import fleets


class Scenario(Several, Instances, Maintenance):
    """One case of a scenario.

    said: one line for the end of each command that did not simply succeed.
    """

    def __init__(self, url, data, patch):
        self.url, self.clock = url, Clock()
        self.fleet = Fleet(self.clock, data["hosts"], data["instances"])
        self.policy = Policy.from_mapping({})
        self.said, self.runs, self.dead = [], 0, set()
        # Instances that a person has moved: {uuid: hosts that have not been read since}.
        self.unseen = {}
        self.groups, self.flavors = data.get("groups", []), data.get("flavors", [])
        # Providers below the providers of the hosts, and the amounts that instances hold of them:
        # [{name, parent, inventories}], [{instance, provider, amounts}].
        self.providers, self.holds = data.get("providers", []), data.get("holds", [])
        patch.setattr(operations, "time", self.clock)
        patch.setattr(store_clock, "time", self.clock)

    def begin(self):
        """Discover the fleet into an empty store."""
        with Store.open(self.url).write() as connection:
            for group in self.groups:
                server_groups.ensure(connection, **group)
            for flavor in self.flavors:
                sizes = {key: flavor.get(key, 0) for key in ("vcpus", "memory_mb", "disk_gb")}
                flavors.ensure(connection, flavor["name"], sizes, self.clock.time())
        self.discover(Store.open(self.url))
        with Store.open(self.url).write() as connection:
            for entry in self.providers:
                add_provider(connection, **entry)
            for entry in self.holds:
                fleets.hold(connection, entry["instance"], entry["provider"], entry["amounts"])

    def do(self, command):
        """Carry out one command: {word: its object, and options}."""
        word, subject = next(iter(command.items()))
        options = dict(list(command.items())[1:])
        self.fleet.faults += options.pop("faults", [])
        try:
            getattr(self, f"do_{word}")(subject, **options)
        except Killed:
            self.said.append(f"{word}: killed")
        except (DroverError, Broken) as problem:
            self.said.append(f"{word}: {problem}")
        self.check_places()

    # Time passes, or a person changes something

    def do_wait(self, seconds):
        self.clock.sleep(seconds)

    def do_power_off(self, host):
        self.fleet.power_off(host)

    def do_power_on(self, host):
        self.fleet.power_on(host)
        self.fleet.hosts[host].answers = True

    def do_heal(self, dummy):
        """Restore the network; every host that is on answers."""
        self.fleet.cuts.clear()
        for host in self.fleet.hosts.values():
            host.answers = host.libvirt = host.mended = True

    def do_destroy(self, name, host):
        """Remove one copy of an instance, as a person does."""
        uuid = fleets.uuid_of(name)
        if len(self.fleet.where(uuid)) > 1:
            self.fleet.hosts[host].domains.pop(uuid, None)

    def do_notice(self, host):
        """Read a host in a discovery; record it if the host does not answer."""
        here = self.fleet.hosts[host]
        if here.on and here.answers:
            self.do_discover([host])
            return
        with self.open_store().write() as connection:
            services.record_unreachable(connection, host, "timed out", self.clock.time())

    def do_lose(self, host, of):
        """Let a host live without an answer, and discover that.

        :param of: parts without an answer: controller (the host does not reach it), others (the
            other hosts do not), libvirt (it is dead), for good (a restart does not help it).
        """
        here = self.fleet.hosts[host]
        here.answers, here.libvirt, here.mended = (
            "controller" not in of,
            "libvirt" not in of,
            "for good" not in of,
        )
        for other in self.fleet.hosts:
            if "others" in of and other != host:
                self.fleet.cut(host, other)
        with self.open_store().write() as connection:
            services.record_unreachable(connection, host, "timed out", self.clock.time())

    def do_discover(self, hosts):
        self.discover(Store.open(self.url), None if hosts == "all" else hosts)

    # Drain

    def do_drain(
        self,
        hosts,
        limit=2,
        stop=None,
        call=None,
        actor=None,
        elsewhere=False,
        caps=None,
        patience=600,
        **request,
    ):
        """Run the playbook drain.

        :param hosts: one host, or a list.
        :param caps: {per_destination, overall}: the other limits.
        :param patience: seconds that it waits for other runs.
        :param stop, call: see ports.Fate.
        :param request: more of a DrainRequest or a DrainQuestion.
        """
        with self.run(stop, call, actor, elsewhere) as run:
            limits = MigrationLimits(limit, **(caps or {}))
            question = DrainQuestion(self.policy, limits, extra_moves=request.pop("extra_moves", 0))
            drain_request = DrainRequest(
                several(hosts), question, MoveSettings(limits, {}, patience), "scenario", **request
            )
            began = self.fleet.most = self.fleet.under_way()
            Drain(run, drain_request).run()
            if self.fleet.most > max(limit, began):
                raise Violation(f"{self.fleet.most} moves at a time, more than {limit}")

    def do_settle(self, host, limit=2, stop=None, call=None, actor=None, elsewhere=False):
        """Run the module _migration without moves."""
        with self.run(stop, call, actor, elsewhere) as run:
            HostMoves(run, host, MoveSettings(MigrationLimits(limit))).carry_out()

    def open_store(self):
        return Store.open(self.url)

    @contextlib.contextmanager
    def run(self, stop=None, call=None, actor=None, elsewhere=False):
        """Yield the ports of one run."""
        self.runs += 1
        actor = Actor(actor or f"run {self.runs}", self.dead, elsewhere)
        fate = Fate(stop, call)
        store = FatedStore(self.open_store(), fate)
        hosts = SimulatedHosts(
            self.fleet, store, fate, lambda names: self.discover(store, names), self._open_moves
        )
        try:
            yield Ports(
                store,
                hosts,
                Leasing(store, actor, lambda line: None),
                lambda line: None,
                self.clock,
            )
        except Killed:
            if not elsewhere:
                self.dead.add(actor.process)
            raise

    def _open_moves(self):
        """Return {(uuid, source, destination)} of the store's moves; a resize that is not confirmed
        may move back."""
        rows = [row for row in self._migrations() if row.status in tables.HOLDING_MIGRATION]
        from_store = {
            (row.instance_uuid, row.source, row.destination)
            for row in rows
            if row.status in tables.OPEN_MIGRATION
        }
        return from_store | {
            (row.instance_uuid, row.destination, row.source) for row in rows if row.type == RESIZE
        }

    # Discovery

    def discover(self, store, hosts=None):
        """Read hosts, remove their old definitions, and read those hosts again. With ``hosts`` None
        read the hosts that answer.

        :returns: the names of the hosts that answered.
        """
        read = {}
        for name in sorted(self.fleet.hosts):
            if hosts is None or name in hosts:
                try:
                    read[name] = self.fleet.report(name)
                except Broken as problem:
                    if hosts is not None:
                        raise DroverError(str(problem)) from None
        self.unseen = {
            uuid: left for uuid, hosts in self.unseen.items() if (left := hosts - set(read))
        }
        discovered = self._record(store, read.values())
        if discovered["stale"]:
            recorded = fleets.where(self.url)
            for name in read:
                domains = self.fleet.hosts[name].domains
                for uuid, domain in list(domains.items()):
                    if (
                        domain.name in discovered["stale"]
                        and recorded.get(domain.name) != name
                        and not domain.active
                    ):
                        del domains[uuid]
            # An old definition has its instance on another host, so this must lose nothing.
            self.fleet.check()
            self._record(store, [self.fleet.report(name) for name in read])
        return list(read)

    def _record(self, store, nodes):
        with store.write() as connection:
            return record.record(
                connection, node_data.reports(list(nodes), "unused", {}), self.clock.time()
            )

    # Evacuation

    def do_evacuate(
        self,
        host,
        stop=None,
        call=None,
        refuse=(),
        dies=None,
        lost=(),
        actor=None,
        elsewhere=False,
        driver=True,
        said="",
        back=None,
    ):
        """Run the playbook evacuate.

        :param stop, call: see ports.Fate.
        :param refuse, dies, lost: see ports.SimulatedHosts.
        :param driver: True if the host has a power driver, which always reports the truth.
        :param said: the words of a person.
        :param back: name of another host. While the run reads it, with the power of the dead host
            proven off, a person switches the dead host on.
        """
        with self.run(stop, call, actor, elsewhere) as run:
            run.hosts.refuse, run.hosts.dies, run.hosts.lost = refuse, dies, lost
            others = [name for name in sorted(self.fleet.hosts) if name != host]
            limits = fencing.Limits(down_seconds=0, quiet_seconds=0, down_percent=100)
            evacuation_request = EvacuationRequest(
                host, others, self.policy, said=said, operator="somebody", limits=limits
            )
            power_state = ("on" if self.fleet.hosts[host].on else "off") if driver else "none"
            if Evacuation(run, evacuation_request).judge(power_state)["fence"]:
                self._fence(run, host, driver)
            if back:
                run.hosts.meanwhile[back] = lambda: self.do_power_on(host)
            # Another task, without knowledge of the earlier one.
            Evacuation(run, evacuation_request).restart()

    def _fence(self, run, host, driver):
        """Run the tasks fence of role power: cut the power; the driver confirms that."""
        if not driver:
            run.leasing.release([host])
            raise DroverError(f"{host} has no power driver")
        with run.store.write() as connection:
            event = power.begin(connection, host, "fence", "ipmi", None, self.clock.time())
        self.fleet.power_off(host)
        with run.store.write() as connection:
            power.finish(
                connection, event["uuid"], "completed", "off", None, None, self.clock.time()
            )

    # Conditions after every command

    def check_places(self):
        """Check that room is held on each host of an instance or of its move, and on no other
        host.
        """
        self.fleet.check()
        holdings, migrations = fleets.holdings(self.url), self._migrations()
        for row in migrations:
            if row.uuid in holdings:
                mine = holdings.setdefault(row.instance_uuid, {})
                for host, amounts in holdings[row.uuid].items():
                    mine.setdefault(host, amounts)
        for uuid, name in self.fleet.names.items():
            if uuid in self.unseen:
                continue
            where, rooms = set(self.fleet.where(uuid)), set(holdings.get(uuid, {}))
            rows = [row for row in migrations if row.instance_uuid == uuid]
            ends = {
                end
                for row in rows
                if row.status in tables.HOLDING_MIGRATION
                for end in (row.source, row.destination)
            }
            if where - rooms:
                raise Violation(f"{name} is on {where}, and room is held on {rooms}")
            if rooms - where - ends:
                raise Violation(
                    f"room of {name} is held on {rooms}, and it is on {where} with moves between"
                    f" {ends}"
                )
            if any(row.type == RESIZE and row.status in tables.HOLDING_MIGRATION for row in rows):
                # Both sizes are held.
                continue
            size = next(iter(self.fleet.where(uuid).values()))
            for host in rooms:
                amounts = holdings[uuid][host]
                if (amounts["VCPU"], amounts["MEMORY_MB"]) != (size.vcpus, size.memory_mb):
                    raise Violation(f"{name} holds {amounts} on {host}")

    def _migrations(self):
        with Store.open(self.url).read() as connection:
            return connection.execute(
                sa.select(tables.migrations).order_by(tables.migrations.c.id)
            ).all()

    def journal(self):
        """Return lines: the migrations in their order, the host of every instance, and the hosts
        that are off."""
        lines = [
            f"{row.instance_name}: {row.source} -> {row.destination}, {row.type}, {row.status}"
            for row in self._migrations()
        ]
        recorded = fleets.where(self.url)
        for uuid, name in sorted(self.fleet.names.items(), key=lambda pair: pair[1]):
            seen = " and ".join(
                f"{each.state} on {host}{'' if self.fleet.hosts[host].on else ' (off)'}"
                for host, each in sorted(self.fleet.where(uuid).items())
            )
            recorded_host = recorded.get(name)
            lines.append(
                f"{name} is {seen}"
                + (
                    ""
                    if [recorded_host] == list(self.fleet.where(uuid))
                    else f", recorded on {recorded_host}"
                )
            )
        with Store.open(self.url).read() as connection:
            off = connection.execute(
                sa.select(tables.services)
                .where(tables.services.c.disabled)
                .order_by(tables.services.c.host)
            ).all()
        lines += [
            f"{row.host} is {'in maintenance' if row.maintenance else 'disabled'}" for row in off
        ]
        names = {uuid: name for uuid, name in self.fleet.names.items() if self.providers}
        for uuid, amounts in sorted(
            held(self.url).items() if names else (), key=lambda pair: names.get(pair[0], "")
        ):
            for provider in sorted(set(amounts) & {each["name"] for each in self.providers}):
                taken = ", ".join(f"{amount} {kind}" for kind, amount in amounts[provider].items())
                lines.append(f"{names.get(uuid, 'a move')} holds {taken} of {provider}")
        return lines
