# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of scenarios on single instances, and the modules of simulated hosts that they call."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_migrations import (
    InstanceMigrationRequest,
    InstanceMigrations,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.resize import (
    ResizeRequest,
    ResizeRun,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import (
    MoveSettings,
    ResizeSettings,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.undrain import (
    Undrain,
    UndrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import (
    MigrationLimits,
    NewSize,
)
from ansible_collections.drover.compute.tests.scenarios.several import several
from ansible_collections.drover.compute.tests.scenarios.simulated import Broken

#: Seconds that the start of a guest takes.
START = 2.0


class Refused(Exception):
    """The failure of a module that has done nothing; ``left``: True if the domain exists."""

    def __init__(self, message, left):
        super().__init__(message)
        self.result = {"failed": True, "begun": False, "domain_left": left, "msg": message}


class Instances:
    """The commands, a part of running.Scenario."""

    def _settings(self, **given):
        return ResizeSettings(policy=self.policy, **{"timeout": 30, **given})

    def do_resize(
        self,
        names,
        flavor=None,
        sizes=None,
        host=None,
        ending=None,
        stop=None,
        call=None,
        **settings,
    ):
        """Run the playbook instance_resize."""
        with self.run(stop, call) as run:
            size = NewSize(flavor) if flavor else NewSize(sizes=sizes) if sizes else None
            ResizeRun(
                run, ResizeRequest(list(names), self._settings(**settings), size, ending, host)
            ).run()

    def do_migrate(self, names, host=None, cold=False, stop=None, call=None, **settings):
        """Run the playbook instance_migrate."""
        with self.run(stop, call) as run:
            request = InstanceMigrationRequest(
                list(names),
                MoveSettings(MigrationLimits(2)),
                self._settings(**settings),
                host,
                cold,
            )
            InstanceMigrations(run, request).run()

    def do_undrain(self, host, stop=None, call=None):
        """Run the playbook undrain."""
        with self.run(stop, call) as run:
            Undrain(run, UndrainRequest(several(host), MoveSettings(MigrationLimits(2)))).run()

    def do_does_not_start(self, names):
        """Let instances fail to start on every host from now on."""
        self.fleet.broken = set(names)


class Modules:
    """The modules domain, domain_power and domain_order, and their predictions, a part of
    ports.SimulatedHand."""

    def foretell(self, module, args):
        """Return the prediction of a module.

        :raises Unreachable: the host cannot be reached.
        """
        return self._hosts.fate.call(lambda: self._foretold(module, args))

    def _foretold(self, module, args):
        self.reach()
        if module == "_domain_migration":
            return self._domain_migration({**args, "check": True})
        domain = self._fleet.hosts[self.host].domains.get(args["uuid"])
        if domain is None:
            return {"failed": True, "msg": f"there is no domain {args['uuid']} on {self.host}."}
        return {"changed": True, "domain": domain.facts()}

    def _domain_order(self, args):
        """Withdraw orders, and return the state of domains."""
        self.reach()
        server, answers = self._fleet.hosts[self.host], []
        for entry in args["domains"]:
            server.withdrawn.update(entry["withdraw"])
            domain = server.domains.get(entry["uuid"])
            answers.append(
                {
                    "uuid": entry["uuid"],
                    "busy": entry["uuid"] in server.workers,
                    "domain": domain and domain.facts(),
                }
            )
        return {"domains": answers}

    def _domain(self, args):
        """Bring a domain to a state and give it a size; a missing domain is not made."""
        self.reach()
        here, changed = self._fleet.hosts[self.host], False
        domain = here.domains.get(args["uuid"])
        if args.get("order") in here.withdrawn:
            raise Refused(
                f"the order on {self.host} was withdrawn by a later run",
                domain is not None,
            )
        if domain is None:
            raise Refused(f"there is no domain {args['uuid']} on {self.host}", False)
        if args["state"] == "stopped":
            changed = self._fleet.shut_down(
                self.host, args["uuid"], args["timeout"], args.get("force")
            )["changed"]
        size = {key: args[key] for key in ("vcpus", "memory_mb") if args.get(key) is not None}
        if any(getattr(domain, key) != amount for key, amount in size.items()):
            if domain.active:
                raise Refused(f"{domain.name} is {domain.state} and cannot have another size", True)
            for key, amount in size.items():
                setattr(domain, key, amount)
            changed = True
        if args["state"] == "running":
            changed = self._start(domain) or changed
        return {"changed": changed, "domain": domain.facts()}

    def _start(self, domain):
        if domain.state == "running":
            return False
        if domain.name in self._fleet.broken:
            raise Broken(f"{domain.name} does not start: No such file or directory")
        self._fleet.clock.sleep(START)
        domain.state = "running"
        self._fleet.check()
        return True

    def _domain_power(self, args):
        """Start domains."""
        self.reach()
        here, answers = self._fleet.hosts[self.host], []
        for entry in args["domains"]:
            domain = here.domains[entry["uuid"]]
            answer = {
                "uuid": entry["uuid"],
                "name": domain.name,
                "changed": False,
                "status": "done",
                "message": "",
                "domain": None,
            }
            try:
                answer["changed"] = self._start(domain)
            except Broken as problem:
                answer.update(status="failed", message=str(problem))
            answers.append({**answer, "domain": domain.facts()})
        return {"changed": any(each["changed"] for each in answers), "domains": answers}
