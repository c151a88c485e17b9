# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling maintenance in a scenario: the steps of conductor.rolling, carried out as the role
drover.compute.rolling does.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import DrainRequest
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    DrainQuestion,
    RollingQuestion,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling import Rolling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling_request import (
    RollingRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.undrain import (
    Undrain,
    UndrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling
from ansible_collections.drover.compute.tests.scenarios import together
from ansible_collections.drover.compute.tests.scenarios.simulated import Broken, Violation

#: Seconds from the power-on of a host to its end of boot.
BOOT = 60


class Maintenance:
    """The command, a part of running.Scenario."""

    def do_rolling(
        self,
        hosts,
        hooks=(),
        fails=None,
        stop=None,
        call=None,
        actor=None,
        elsewhere=False,
        limit=2,
        **request,
    ):
        """Run the playbook rolling_maintenance.

        :param hooks: names of the existing hooks.
        :param fails: the name of a hook, and the host that it fails on.
        :param stop, call: see ports.Fate. Power that goes off or on counts as a call.
        :param request: more of a RollingRequest or a RollingQuestion.
        """
        with self.run(stop, call, actor, elsewhere) as run:
            limits = MigrationLimits(limit)
            moves = MoveSettings(limits, {}, 600)
            back = request.get("bring_back", False)
            question = RollingQuestion(
                self.policy, batch_size=request.pop("batch_size", 0), back=back
            )
            drain = DrainRequest(
                [], DrainQuestion(self.policy, limits), moves, "rolling maintenance"
            )
            files = dict.fromkeys(hooks, __file__)
            rolling_request = RollingRequest(
                hosts, question, drain, files, sentinels=["/run/reboot-required"], **request
            )
            try:
                _Role(self, run, Rolling(run, rolling_request), moves, fails).play()
            finally:
                if not elsewhere:
                    # A playbook that has ended has no process.
                    self.dead.add(actor or f"run {self.runs}")

    def do_want_reboot(self, hosts):
        """Let a file on these hosts request a reboot."""
        for host in hosts:
            self.fleet.hosts[host].sentinel = True

    def do_say_rolling(self, dummy):
        """Report the store's record of the maintenance, and the number of reboots of each host."""
        with self.open_store().read() as connection:
            stages = [f"{each['host']} at {each['stage']}" for each in rolling.read(connection)]
        self.said.append(f"rolling: {', '.join(stages) or 'nothing is left'}")
        self.said.append(
            "reboots: "
            + ", ".join(f"{name} {host.boots}" for name, host in sorted(self.fleet.hosts.items()))
        )


class _Role:
    """The tasks of the role."""

    def __init__(self, scenario, run, order, moves, fails):
        self.scenario, self.fleet, self.run, self.order = scenario, scenario.fleet, run, order
        self.moves, self.fails, self.failed = moves, fails, set()

    def play(self):
        """Carry out tasks/main.yml and rounds.yml."""
        self.order.begin()
        planned = self.order.plan([self.order.look(host) for host in self.order.request.hosts])
        if not planned["work"]:
            return
        try:
            for _dummy in sum(planned["rounds"], []):
                if not self._batch(self.order.next()):
                    break
        finally:
            reported = self.order.report(planned["left_out"])
        if reported["message"]:
            raise DroverError(reported["message"])

    def _batch(self, batch):
        """Carry out tasks/batch.yml and host.yml; return False if no host is left."""
        for step in batch["steps"]:
            alive = [host for host in batch["hosts"] if host not in self.failed]
            together.carry_out(
                self.scenario.clock,
                [lambda host=host, step=step: self._step(host, step) for host in alive],
            )
        self.order.close(batch["hosts"])
        return not batch["finished"]

    def _step(self, host, step):
        try:
            do = self.order.step(host, step["name"])
            if "hook" in do:
                self._hook(host, step["name"])
            if "power" in do:
                self._power(host, do["power"])
            if do.get("undrain"):
                Undrain(self.run, UndrainRequest([host], self.moves)).run()
        except (DroverError, Broken) as problem:
            self.failed.add(host)
            self.order.fail(host, step["name"], str(problem))

    def _hook(self, host, name):
        if name == "after_drain":
            self._refuse_running(host, "the hook after the drain")
        if self.fails == [name, host]:
            raise DroverError("the mirror is down")

    def _power(self, host, action):
        """Carry out role power."""
        server = self.fleet.hosts[host]
        if action == "reboot":
            self._refuse_running(host, "its reboot")
            self.run.hosts.fate.call(lambda: self.fleet.power_off(host))
            server.sentinel = False
            server.boots += 1
        self.run.hosts.fate.call(lambda: self.scenario.do_power_on(host))
        self.scenario.clock.sleep(BOOT)
        self.run.hosts.discover(host)

    def _refuse_running(self, host, what):
        names = [each.name for each in self.fleet.hosts[host].domains.values() if each.active]
        if names:
            raise Violation(f"{', '.join(names)} runs on {host} at {what}")
