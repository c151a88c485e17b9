# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of scenarios with parallel work: moves of several hosts, several runs, and aborts."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.abort import Abort
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.tests.scenarios import together
from ansible_collections.drover.compute.tests.unit.store import fleets


def several(hosts):
    """Return a list of hosts from a list or one name."""
    return [hosts] if isinstance(hosts, str) else hosts


class Several:
    """The commands, a part of running.Scenario."""

    def do_together(self, courses):
        """Carry out lists of commands that begin at the same time."""
        together.carry_out(
            self.clock,
            [lambda course=course: [self.do(command) for command in course] for course in courses],
        )

    def do_disable(self, hosts):
        """Disable hosts as destinations."""
        with self.open_store().write() as connection:
            for host in hosts:
                host_state.change(connection, host, "disabled", "scenario")

    def do_say_most(self, dummy):
        """Report the greatest number of parallel migrations of libvirt: from and to each host, of
        each server group, and in total."""
        self.said.append(
            "at a time: "
            + ", ".join(f"{most} {what}" for what, most in sorted(self.fleet.peaks.items()))
        )

    def do_refuse(self, refusals):
        """Let hosts refuse some instances from now on: {name of the instance: names of hosts}."""
        self.fleet.refusals |= {(name, host) for name, hosts in refusals.items() for host in hosts}

    def do_cut(self, hosts):
        """Cut the network between the first of these hosts and the others."""
        for other in hosts[1:]:
            self.fleet.cut(hosts[0], other)

    def do_ignore_power_button(self, names):
        """Let instances ignore a shutdown from now on."""
        self.fleet.deaf |= set(names)

    def do_arrive(self, name, host):
        """Move an instance to a host as a person does, without the store."""
        uuid, here = fleets.uuid_of(name), self.fleet.hosts[host].domains
        (source,) = self.fleet.where(uuid)
        here[uuid] = self.fleet.hosts[source].domains.pop(uuid)
        self.unseen[uuid] = {source, host}

    def do_abort(self, host, of=(), actor=None):
        """Run the playbook migration_abort."""
        with self.run(None, None, actor) as run:
            outcomes = Abort(run, host, HostMoves(run, host, MoveSettings(MigrationLimits()))).run(
                list(of)
            )
        for each in outcomes:
            self.said.append(f"abort: {each['name']} is {each['status']}")
        if not outcomes:
            self.said.append("abort: nothing is under way")
