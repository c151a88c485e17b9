# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the fault matrix: what they begin with, what they do, and how the fleet is when they have ended well.

Each carries out the tasks of the role of its name with the action plugins that ship.
"""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, instance_lookup, services
from ansible_collections.drover.compute.tests.matrix.world import TimedOut
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


class Operation:
    """One operation."""

    #: The states of the instance web before it, and after it; None where it is not there.
    before, after = "running", "running"
    #: Where it is afterwards; None for wherever.
    place = None

    def prepare(self, world):
        """The fleet before it: web, an instance of another one's beside it, and one on another host."""
        if self.before is not None:
            world.instance("web", "kvm1", self.before)
        world.instance("beside", "kvm1")
        world.instance("db", "kvm2")
        world.discover()

    def run(self, run):
        """Give the command; a failure is raised as its playbook fails."""
        raise NotImplementedError

    def afterwards(self, world):
        """What a person does when it has ended."""

    def check(self, world):
        """It has ended well."""
        places = world.fleet.where().get("web", [])
        wanted = [] if self.after is None else [self.after]
        assert [state for dummy, state in places] == wanted, places
        if self.place is not None:
            assert places[0][0] == self.place, places
        assert world.fleet.where()["beside"] == [("kvm1", "running")]


class Place(Operation):
    """Role place with one definition that is new."""

    before = None

    def run(self, run):
        world = run.world
        (found,) = run.task("localhost", "definitions", instances=[{"name": "web", "memory_mb": 64}])["instances"]
        if found["state"] == "missing":
            raise AnsibleActionFail("web is missing")
        selection = found["selection"]
        if found["state"] == "new":
            (selection,) = run.task("localhost", "allocation", state="scheduled", requests=[found["request"]])["selections"]
        elif found["state"] != "building":
            return
        claimed = run.task("localhost", "allocation", selections=[selection], of_definitions=True)
        claim = {**found, **claimed["claims"][0]}
        while claim is not None:
            claim = self._build(run, world, claim)

    def _build(self, run, world, claim):
        """Tasks build.yml: the next claim, or None when it is built."""
        disk = os.path.join(world.disks, f"web-{claim['uuid'][:8]}-vda.qcow2")
        try:
            run.task(
                claim["host"],
                "instance",
                name="web",
                uuid=claim["uuid"],
                xml=hypervisors.xml("web", claim["uuid"], [disk]),
                disks=[{"path": disk, "size_gb": 1}],
                timeout=1,
            )
            return None
        except (AnsibleActionFail, TimedOut) as problem:
            message = str(problem) or "It took too long."
        given = {"uuid": claim["uuid"], "alternates": claim["alternates"], "message": message, "timeout": 1}
        settled = run.task(claim["host"], "instance", state="settled", **given)
        return None if settled["built"] else {**claim, **settled["claim"]}


class _OfInstance(Operation):
    """Role instance: find it, work on it at its host."""

    state = None

    def host(self, run):
        with Store.open(run.url).read() as connection:
            found = instance_lookup.find(connection, ["web"], [])
        return found[0]["host"] if found else None

    def run(self, run):
        host = self.host(run)
        if host is None:
            return
        run.task(host, "instance", state=self.state, instances=["web"], timeout=1, force=True)


class Start(_OfInstance):
    before, state, place = "shutoff", "started", "kvm1"


class Stop(_OfInstance):
    after, state, place = "shutoff", "stopped", "kvm1"


class Reboot(_OfInstance):
    state, place = "rebooted", "kvm1"

    def run(self, run):
        run.task(self.host(run), "instance", state="rebooted", instances=["web"], timeout=1, hard=True)


class Delete(_OfInstance):
    after, state = None, "absent"

    def check(self, world):
        super().check(world)
        assert not os.path.exists(os.path.join(world.disks, "web.qcow2")), "its disk is left"

    def prepare(self, world):
        super().prepare(world)
        # Its own disk may go.
        world.contents.pop(os.path.join(world.disks, "web.qcow2"))


class LiveMove(_OfInstance):
    """Role instance, action migrate, to a host that is named."""

    place = "kvm2"

    def run(self, run):
        with Store.open(run.url).read() as connection:
            (found,) = instance_lookup.find(connection, ["web"])
        if found["migration"] is not None:
            run.task(found["migration"]["source"], "migration", state="settled", shutdown_timeout=1)
            with Store.open(run.url).read() as connection:
                (found,) = instance_lookup.find(connection, ["web"])
        if found["host"] == "kvm2":
            return
        move = {"uuid": uuid_of("web"), "name": "web", "from_host": found["host"], "host": "kvm2", "node": "kvm2"}
        moved = run.task(found["host"], "migration", moves=[{**move, "live": self.before == "running"}], shutdown_timeout=1)
        if moved["failed_moves"]:
            raise AnsibleActionFail(moved["failed_moves"][0]["message"])


class ColdMove(LiveMove):
    before = after = "shutoff"


class Settle(LiveMove):
    """The module migration with state settled, after a run that opened a move and was killed."""

    place = "kvm1"

    def prepare(self, world):
        super().prepare(world)
        from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims

        with Store.open(world.url).write(together=True) as connection:
            migration_claims.begin(connection, uuid_of("web"), "kvm2", "kvm2", "live-migration", fleets.NOW, "kvm1")

    def run(self, run):
        run.task("kvm1", "migration", state="settled", shutdown_timeout=1)


class Drain(Operation):
    """The module drain: kvm1 is emptied and in maintenance."""

    def run(self, run):
        # One at a time, for the same moments in the same order every time.
        run.task("localhost", "drain", host="kvm1", max_migrations=1, max_migrations_overall=1, max_wait=2, shutdown_timeout=1)

    def check(self, world):
        where = world.fleet.where()
        assert sorted(where) == ["beside", "db", "web"], where
        assert {state for places in where.values() for dummy, state in places} == {"running"}, where
        assert "kvm1" not in {host for places in where.values() for host, dummy in places}, where
        with Store.open(world.url).read() as connection:
            assert services.get(connection, "kvm1").maintenance


class Evacuate(Operation):
    """The module evacuate, and between its halves the role power, which cuts the power of kvm1: all that ran there runs elsewhere."""

    def prepare(self, world):
        world.share()
        super().prepare(world)
        world.fleet.hosts["kvm1"].power_off()
        world.discover()

    def run(self, run):
        given = {"host": "kvm1", "others": ["kvm2", "kvm3"], "max_evacuations": 1, "start_timeout": 1}
        # It died just now, and so did others where a fault is about them; the machine may have just started.
        limits = {"down_seconds": 0, "quiet_seconds": 0, "start_seconds": 0, "down_percent": 100}
        dead = not run.world.fleet.hosts["kvm1"].on
        judged = run.task("localhost", "evacuate", state="judged", power="off" if dead else "on", **given, **limits)
        assert judged["fence"]
        try:
            self._fence(run)
        except (AnsibleActionFail, TimedOut):
            run.task("localhost", "lease", name="kvm1", state="absent")
            raise
        run.task("localhost", "evacuate", state="restarted", **given)

    @staticmethod
    def _fence(run):
        """Role power, tasks fence."""
        event = run.task("localhost", "power_event", host="kvm1", action="fence", driver="ipmi")["event"]
        run.world.fleet.hosts["kvm1"].power_off()
        run.task("localhost", "power_event", host="kvm1", uuid=event["uuid"], status="completed", power_state="off")

    def afterwards(self, world):
        """kvm1 is back, and discovery removes what is stale there."""
        world.fleet.hosts["kvm1"].power_on()
        world.discover()

    def check(self, world):
        where = world.fleet.where()
        for name in ("web", "beside", "db"):
            assert [state for host, state in where[name] if host != "kvm1"] == ["running"], where


OPERATIONS = {
    "drain": Drain,
    "evacuate": Evacuate,
    "place": Place,
    "start": Start,
    "stop": Stop,
    "reboot": Reboot,
    "delete": Delete,
    "live move": LiveMove,
    "cold move": ColdMove,
    "settle": Settle,
}
