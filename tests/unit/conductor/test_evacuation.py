# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evacuation, with a kill at any point and any reports of the other hosts. The store is a real
one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    evacuation,
    host_state,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.dead_host import DeadHost
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_request import (
    FAIL,
    SKIP,
    EvacuationRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_restarts import (
    EvacuationRestarts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_settling import (
    EvacuationSettling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import host_answer
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    continuity,
    power,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import evacuations
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import ended_moves
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, uuid_of

POOL = {"name": "nfs", "path": "/nfs", "shared_id": "nfs:a:/x"}
NAMES = ("db", "off", "web")


def disk(path):
    return {"target": "vda", "device": "disk", "type": "file", "source": path}


def instance(name, path="/nfs", **more):
    return domain(
        name, xml=f"<domain>{name}</domain>", disks=[disk(f"{path}/{name}.qcow2")], **more
    )


def host(name, *domains, **more):
    return fleets.host(name, *domains, **{"pools": [POOL], **more})


class World:
    """The real places of domains; destinations answer as the module _domain_restart does."""

    def __init__(self, url, *domains):
        self.url = url
        self.there = {"kvm2": {}, "kvm3": {}}
        self.broken, self.lost, self.calls = set(), set(), []
        #: The answers of kvm1 in their order; the last one repeats.
        self.answers = [host_answer.SILENT]
        fleets.discover(url, host("kvm1", *domains), host("kvm2"), host("kvm3"), now=time.time())
        self.switched_off("kvm1", time.time())

    def switched_off(self, name, now):
        """Record that the power of a host was seen to be off."""
        with Store.open(self.url).write() as connection:
            event = power.begin(connection, name, "fence", "ipmi", None, now)
            power.finish(connection, event["uuid"], "completed", "off", None, "", now)

    def look(self):
        """Run a discovery of the living hosts."""
        nodes = [
            host(name, *[instance(key, state=state) for key, state in found.items()])
            for name, found in self.there.items()
        ]
        return fleets.discover(self.url, *nodes, now=time.time())

    def run(self, read=("kvm2", "kvm3"), rounds=3, kill=None, lifted=(), fenced=True):
        """Run the second half of an evacuation; return its last plan.

        :param kill: number of the destination's call before which the run stops, or after which if
            it is negative.
        :param fenced: True if the first half of the run has taken the lease, and seen that the host
            is off.
        """
        self.leasing().take("kvm1", "evacuate")
        if fenced:
            self.switched_off("kvm1", time.time())
        return self.evacuation(Hosts(self, kill), lifted=frozenset(lifted), rounds=rounds).restart(
            read
        )["plan"]

    def leasing(self):
        return Leasing(Store.open(self.url), LeaseHolder(os.getpid()), str)

    def evacuation(self, hosts, **more):
        request = EvacuationRequest(
            "kvm1", ["kvm2", "kvm3"], Policy.from_mapping({}), unmovable=SKIP, **more
        )
        return Evacuation(Ports(Store.open(self.url), hosts, self.leasing(), str, time), request)

    def start(self, place, orders):
        answers = []
        for order in orders:
            running = [
                name for name, found in self.there.items() if found.get(order["name"]) == "running"
            ]
            assert running in ([], [place]), f"{order['name']} would run twice"
            self.calls.append((place, order["name"]))
            if order["name"] in self.broken and place == "kvm2":
                answers.append({"uuid": order["uuid"], "status": "failed", "message": "no"})
                continue
            state = "running" if order["running"] else "shutoff"
            self.there[place][order["name"]] = state
            answers.append(
                {"uuid": order["uuid"], "status": "restarted", "state": state, "message": ""}
            )
        return answers

    def where(self):
        found = [(name, state) for place in self.there.values() for name, state in place.items()]
        assert len(found) == len(dict(found)), self.there
        return dict(found)

    def holds(self):
        """Return names of instances -> hosts where they hold memory."""
        names = {uuid_of(name): name for name in NAMES}
        return {names[uuid]: set(places) for uuid, places in fleets.holdings(self.url).items()}

    def statuses(self):
        with Store.open(self.url).read() as connection:
            table = tables.migrations
            query = sa.select(table.c.instance_name, table.c.status).order_by(table.c.id)
            return [tuple(row) for row in connection.execute(query)]


class Killed(BaseException):
    """The end of the run, as by kill -9."""


class Hosts:
    """A stand-in for conductor.ports.Hosts. ``limits``: the time limit of each call of a host."""

    def __init__(self, world, kill=None, **variables):
        self.world, self.kill, self.calls, self.limits, self.given = world, kill, 0, [], variables

    def discover(self, name, limit=None):
        self.limits.append(limit)
        if name == "kvm1":
            raise DroverError("it does not answer")

    def hand(self, name, limit=None):
        self.limits.append(limit)
        return Hand(self, name)

    def answer(self, name):
        means = self.world.answers.pop(0) if len(self.world.answers) > 1 else self.world.answers[0]
        return host_answer.HostAnswer(
            means, "words", refusal=host_answer.BY_PORT if means == host_answer.REFUSED else ""
        )

    def variables(self, name):
        return self.given

    def names(self):
        return ["kvm1", "kvm2", "kvm3"]

    def at_once(self, questions, limit):
        self.limits += [limit] * len(questions)
        return {name: question(Hand(self, name)) for name, question in questions.items()}


class Hand:
    """A stand-in for remote_module.Hand on a destination."""

    def __init__(self, hosts, name):
        self.hosts, self.world, self.name = hosts, hosts.world, name

    def read(self, module, given):
        if module == "_domain_sightings":
            shown = {
                uuid_of(name): (name, state) for name, state in self.world.there[self.name].items()
            }
            return {
                "domains": [
                    {"uuid": uuid, "name": name, "state": state}
                    for uuid, (name, state) in shown.items()
                    if uuid in given["uuids"]
                ]
            }
        return {"reached": False, "storage": "unknown"}

    def reach(self):
        self.hosts.calls += 1
        if self.hosts.kill == self.hosts.calls:
            raise Killed

    def look(self, uri, wanted, patience):
        """Return the domains. Earlier orders have ended, because a call of this fake ends when it
        answers."""
        by_uuid = {
            uuid_of(name): {"state": state} for name, state in self.world.there[self.name].items()
        }
        return {uuid: {"busy": False, "domain": by_uuid.get(uuid)} for uuid in wanted}

    def act(self, module, given):
        if module == "domain":
            (name,) = (
                name for name in self.world.there[self.name] if uuid_of(name) == given["uuid"]
            )
            self.world.there[self.name][name] = given["state"]
            return certainty.Answer(certainty.DONE, {"domain": {"state": given["state"]}})
        if self.name in self.world.lost:
            self.world.calls += [(self.name, order["name"]) for order in given["instances"]]
            return certainty.lost("lost")
        answers = self.world.start(self.name, given["instances"])
        if self.hosts.kill == -self.hosts.calls:
            raise Killed
        return certainty.Answer(certainty.DONE, {"instances": answers})


@pytest.fixture
def world(prepared_url):
    return World(prepared_url, instance("db"), instance("off", state="shutoff"), instance("web"))


WHOLE = {"db": "running", "off": "shutoff", "web": "running"}


def test_everything_is_restarted_and_both_ends_are_held(world):
    left = world.run()
    assert world.where() == WHOLE and not (left["left"] or left["lost"] or left["restarts"])
    assert {status for dummy, status in world.statuses()} == {"done"}
    assert all("kvm1" in places and len(places) == 2 for places in world.holds().values())
    calls = list(world.calls)
    world.look()
    world.run()
    assert world.calls == calls


@pytest.mark.parametrize("means", [host_answer.LOGIN, host_answer.REFUSED, host_answer.UNCLEAR])
def test_safety_01_a_host_that_comes_back_before_the_first_start(world, means):
    """Its power was seen to be off. During the reading of the other hosts it came back, with its
    guests."""
    world.answers = [means]
    with pytest.raises(DroverError, match="kvm1 .*answers"):
        world.run()
    assert world.calls == [] and world.where() == {}


def test_safety_01_a_host_that_comes_back_between_two_destinations(world, monkeypatch):
    monkeypatch.setattr(evacuation, "SILENCE", 0)
    world.answers = [host_answer.SILENT, host_answer.LOGIN]
    with pytest.raises(
        DroverError, match="kvm1 has come back.* Started before that: .* on kvm"
    ) as caught:
        world.run()
    assert len(
        {place for place, dummy in world.calls}
    ) == 1 and "See that none of them runs on kvm1 too" in str(caught.value)


@pytest.mark.parametrize("said", ["", "kvm1 is powered off"])
def test_a_host_that_the_store_has_never_read_is_not_empty(prepared_url, said):
    """The store is new, and the host has died: its power is not cut, because its instances are not
    known."""
    fleets.discover(prepared_url, host("kvm2"), host("kvm3"))
    with Store.open(prepared_url).write() as connection:
        services.record_unreachable(connection, "kvm1", "no route to host", time.time())
    leasing = Leasing(Store.open(prepared_url), LeaseHolder(os.getpid()), str)
    request = EvacuationRequest("kvm1", ["kvm2", "kvm3"], Policy.from_mapping({}), said=said)
    with pytest.raises(
        DroverError, match="The store has never read kvm1, .* nothing was changed. .*docs/backup.md"
    ):
        Evacuation(Ports(Store.open(prepared_url), None, leasing, str, time), request).judge("on")


def test_an_unclear_answer_may_be_lifted(world):
    world.answers = [host_answer.UNCLEAR]
    world.run(lifted=["unclear_answer"])
    assert world.where() == WHOLE


@pytest.mark.parametrize("kill", [1, -1, 2, -2])
def test_killed_and_run_again(world, kill):
    try:
        world.run(kill=kill)
    except Killed:
        pass
    world.look()
    left = world.run()
    assert world.where() == WHOLE and not left["left"]
    assert [status for dummy, status in world.statuses()] == ["done"] * 3
    world.look()
    discovered = fleets.discover(world.url, host("kvm1"))
    assert (
        discovered["cleared"] == sorted(NAMES)
        and discovered["missing"] == discovered["moved"] == discovered["doubled"] == []
    )
    assert all(len(places) == 1 and "kvm1" not in places for places in world.holds().values())


@pytest.mark.parametrize("state", ["disabled", "draining"])
def test_b4_what_was_claimed_on_a_host_that_is_closed_since_is_started_elsewhere(world, state):
    """The earlier run was killed before it began anything at a destination."""
    with contextlib.suppress(Killed):
        world.run(kill=1)
    with Store.open(world.url).write() as connection:
        place, *_others = evacuations.open_destinations(connection, "kvm1")
        host_state.change(connection, place, state, "fans")
    world.look()
    left = world.run()
    assert world.where() == WHOLE and not left["left"] and not world.there[place]
    assert all(
        places == {"kvm1", *(each for each in world.there if each != place)}
        for places in world.holds().values()
    )


def test_a_failed_start_goes_to_the_next_destination(world):
    world.broken = set(NAMES)
    left = world.run()
    assert world.where() == WHOLE and not left["left"] and not world.there["kvm2"]
    assert ("kvm2", "web") in world.calls or ("kvm3", "web") in world.calls


def test_lost_on_the_way_is_left_until_it_answers(world):
    world.lost = {"kvm2", "kvm3"}
    world.run(rounds=1)
    left = world.run(read=(), rounds=1)
    assert {each["name"] for each in left["left"]} == set(NAMES) and world.where() == {}
    assert all("does not answer" in each["reason"] for each in left["left"])
    world.lost = set()
    world.look()
    world.run()
    assert world.where() == WHOLE


def test_suspected_2_nothing_is_restarted_while_a_host_that_may_have_it_was_not_read(world):
    """A person may have moved the instance there with virsh since the last discovery; or the run
    had --limit."""
    outcome = world.run(read=("kvm2",))
    assert (
        world.calls == []
        and world.statuses() == []
        and outcome["restarts"] == outcome["lost"] == []
    )
    assert {each["name"] for each in outcome["left"]} == set(NAMES)
    for entry in outcome["left"]:
        assert (
            "it may run on kvm3, not read now" in entry["reason"]
            and "drover_evacuate_force=unread_hosts" in entry["reason"]
        )
    # After a reading of kvm3 its instances are found, and the instances that no host has are
    # restarted.
    world.there["kvm3"] = {"web": "running"}
    world.look()
    outcome = world.run()
    assert (
        world.where() == WHOLE
        and not outcome["left"]
        and "web" not in {name for dummy, name in world.calls}
    )


def test_suspected_2_the_rule_is_lifted_by_its_name_alone(world):
    world.run(read=("kvm2",), lifted=["no_witness", "storage_active", "peers_reach"])
    assert world.calls == []
    world.run(read=("kvm2",), lifted=["unread_hosts"])
    assert world.where() == WHOLE


def test_suspected_2_what_was_claimed_is_gone_on_with_where_it_was_claimed(world):
    """No other host got the order to start it."""
    with pytest.raises(Killed):
        world.run(kill=1)
    outcome = world.run(read=("kvm2",), rounds=1)
    restarted_names = set(world.there["kvm2"])
    assert (
        restarted_names
        and not world.there["kvm3"]
        and {each["name"] for each in outcome["left"]} == set(NAMES) - restarted_names
    )
    world.run()
    assert world.where() == WHOLE


def test_safety_09_each_call_of_a_host_has_an_end(world):
    """A host is lost during the run, and an earlier run had begun to start instances on another:
    each call has a limit in both cases."""
    world.lost = {"kvm2"}
    world.run(rounds=1)
    world.lost = set()
    hosts = Hosts(world)
    assert world.evacuation(hosts).judge("off")["fence"]
    world.switched_off("kvm1", time.time())
    world.evacuation(hosts).restart()
    assert world.where() == WHOLE and len(hosts.limits) > 6 and all(hosts.limits)


def test_nothing_is_started_while_it_is_not_proven_that_it_is_off(world):
    """A person switched the host on again, or it was up since its power was cut."""
    with Store.open(world.url).write() as connection:
        power.begin(connection, "kvm1", "startup", "ipmi", None, time.time())
    with pytest.raises(DroverError, match="It is not proven that kvm1 is off"):
        world.run(fenced=False)
    world.switched_off("kvm1", time.time())
    fleets.discover(
        world.url,
        host("kvm1", instance("db"), instance("off", state="shutoff"), instance("web")),
        now=time.time(),
    )
    with pytest.raises(DroverError, match="It is not proven that kvm1 is off"):
        world.run(fenced=False)
    assert world.calls == [] and world.statuses() == []
    with Store.open(world.url).read() as connection:
        assert leases.read(connection) == []
    world.switched_off("kvm1", time.time())
    world.run()
    assert world.where() == WHOLE


@pytest.mark.parametrize(
    "lease", [False, True], ids=["without the first half", "with a proof of another run"]
)
def test_what_another_run_has_seen_of_its_power_is_no_proof(world, lease):
    """The host was off some day, a person has switched it on since, and now it does not answer."""
    world.switched_off("kvm1", time.time() - 60)
    if lease:
        world.leasing().take("kvm1", "evacuate")
    with pytest.raises(
        DroverError,
        match=(
            "It is not proven that kvm1 is off.*Run drover.compute.evacuate again from its"
            " beginning"
        ),
    ):
        world.evacuation(Hosts(world, None)).restart(("kvm2", "kvm3"))
    assert world.calls == [] and world.statuses() == []
    with Store.open(world.url).read() as connection:
        assert leases.read(connection) == []


@pytest.mark.parametrize("seen_later, restarted", [(False, True), (True, False)])
def test_suspected_2_a_host_that_was_seen_to_be_off_holds_nothing_back(
    world, seen_later, restarted
):
    """An exception is a host that was seen up since."""
    now = time.time() + 1
    world.switched_off("kvm3", now)
    if seen_later:
        fleets.discover(world.url, host("kvm3"), now=now + 1)
    world.run(read=("kvm2",))
    assert bool(world.calls) is restarted


def test_suspected_2_a_host_that_cannot_see_the_disks_holds_nothing_back(prepared_url):
    world = World(prepared_url, instance("web"))
    fleets.discover(
        prepared_url, host("kvm3", pools=[{**POOL, "shared_id": "nfs:b:/x"}]), now=time.time()
    )
    world.run(read=("kvm2",))
    assert world.where() == {"web": "running"}


def test_local_disks_are_named_and_left(prepared_url):
    world = World(prepared_url, instance("db"), instance("web", path="/var/lib/libvirt/images"))
    left = world.run()
    assert world.where() == {"db": "running"}
    (lost,) = left["lost"]
    assert lost["name"] == "web" and "/var/lib/libvirt/images/web.qcow2" in lost["reason"]


@pytest.mark.parametrize(
    "more, restarted", [({}, False), ({"readonly": True}, True)], ids=["written to", "read only"]
)
def test_an_image_on_the_network_that_a_domain_of_another_host_writes_to(
    prepared_url, more, restarted
):
    """A person has started the disks of the dead host by hand. They have no locks, so two guests
    would write to one disk."""
    image = {
        "target": "vda",
        "device": "disk",
        "type": "network",
        "source": "rbd:vms/web",
        "path": None,
        "origin": "rbd:mon:/vms/web",
    }
    world = World(
        prepared_url, instance("db"), domain("web", xml="<domain>web</domain>", disks=[image])
    )
    rescue = domain("rescue", disks=[{**image, "origin": "rbd:mon1,mon2:/vms/web", **more}])
    fleets.discover(prepared_url, host("kvm3", rescue), now=time.time())
    staying = world.run()["left"]
    assert world.where() == {"db": "running", **({"web": "running"} if restarted else {})}
    assert [each["name"] for each in staying] == ([] if restarted else ["web"])
    assert restarted or "rescue on kvm3 too" in staying[0]["reason"]


def test_a_host_without_the_storage_is_no_destination(prepared_url):
    world = World(prepared_url, instance("db"), instance("web"))
    fleets.discover(prepared_url, host("kvm2", pools=[{**POOL, "shared_id": "nfs:b:/x"}]))
    world.run()
    assert world.there == {"kvm2": {}, "kvm3": {"db": "running", "web": "running"}}


def test_already_elsewhere(world):
    world.there["kvm2"] = {"web": "running", "db": "shutoff"}
    world.there["kvm3"] = {"off": "shutoff"}
    world.look()
    left = world.run()
    # A domain that a person only defined does not count as the instance that ran.
    assert [each["name"] for each in left["left"]] == ["db"] and "by an evacuation" in left["left"][
        0
    ]["reason"]
    assert world.calls == []
    assert sorted(world.statuses()) == [("off", "done"), ("web", "done")]


@pytest.mark.parametrize("why", ["disabled", "full"])
def test_b4_it_runs_on_a_host_that_would_not_have_been_chosen(world, why):
    """A person has moved it there by hand. The report of the host counts, and its recorded state
    stops nothing."""
    world.there["kvm2"] = {"web": "running"}
    world.look()
    with Store.open(world.url).write() as connection:
        if why == "disabled":
            host_state.change(connection, "kvm2", "disabled", "fans")
        else:
            kvm2 = connection.execute(
                sa.select(tables.resource_providers.c.id).where(
                    tables.resource_providers.c.name == "kvm2"
                )
            ).scalar()
            connection.execute(
                sa.update(tables.inventories)
                .where(tables.inventories.c.provider_id == kvm2)
                .values(total=1, reserved=1)
            )
    left = world.run()
    assert (
        not left["left"]
        and ("web", "done") in world.statuses()
        and world.holds()["web"] == {"kvm1", "kvm2"}
    )


def test_on_two_hosts(world):
    world.there["kvm2"] = {"web": "running"}
    world.there["kvm3"] = {"web": "running"}
    world.look()
    left = world.run()
    assert [each["name"] for each in left["left"]] == ["web"] and "kvm2 and kvm3 at once" in left[
        "left"
    ][0]["reason"]
    assert "web" not in {name for dummy, name in world.calls}


def test_a_migration_that_had_finished_and_one_that_had_not(world):
    with Store.open(world.url).write() as connection:
        for name in ("web", "db"):
            migration_claims.begin(
                connection, uuid_of(name), "kvm2", "kvm2", "live-migration", time.time()
            )
    world.there["kvm2"] = {"web": "running"}
    world.look()
    world.run()
    assert world.where() == WHOLE and ("kvm2", "web") not in world.calls
    assert sorted(world.statuses()) == [
        ("db", "done"),
        ("db", "failed"),
        ("off", "done"),
        ("web", "done"),
        ("web", "failed"),
    ]


@pytest.mark.parametrize("arrived", [False, True])
def test_a_migration_to_it(prepared_url, arrived):
    world = World(prepared_url)
    world.there["kvm2"] = {"web": "running"}
    world.look()
    with Store.open(prepared_url).write() as connection:
        host_state.change(connection, "kvm1", forced_down=False)
        migration_claims.begin(
            connection, uuid_of("web"), "kvm1", "kvm1", "live-migration", time.time()
        )
    if arrived:
        world.there["kvm2"] = {}
    world.look()
    world.look()
    world.run()
    assert world.where() == {"web": "running"}
    if arrived:
        assert world.statuses() == [("web", "completed"), ("web", "done")] and len(world.calls) == 1
    else:
        assert (
            world.statuses() == [("web", "failed")]
            and world.holds() == {"web": {"kvm2"}}
            and world.calls == []
        )


def test_the_important_ones_have_their_places_first(prepared_url):
    names = [f"vm{number}" for number in range(4)]
    world = World(prepared_url, *[instance(name, memory_mb=4096) for name in names])
    with Store.open(prepared_url).write() as connection:
        table = tables.instances
        connection.execute(
            sa.update(table).where(table.c.name.in_(["vm3", "vm1"])).values(policy={"priority": 5})
        )
    left = world.run()
    assert world.where() == {"vm1": "running", "vm3": "running"}
    assert [each["name"] for each in left["left"]] == ["vm0", "vm2"]


def test_who_has_lost_the_lease_writes_nothing(world):
    def gone(connection):
        raise DroverError("lost the lease")

    plan = EvacuationRestarts(DeadHost(Store.open(world.url), "kvm1", ("kvm2", "kvm3"), gone)).plan(
        Policy.from_mapping({}), 0, {}
    )
    assert plan["restarts"] == [] and world.statuses() == []


def test_a_stale_domain_is_no_sighting_and_one_that_runs_is_doubled(world):
    world.run()
    world.look()
    discovered = fleets.discover(
        world.url, host("kvm1", *[instance(name, state="shutoff") for name in NAMES])
    )
    assert (
        discovered["stale"] == sorted(NAMES)
        and discovered["doubled"] == discovered["moved"] == discovered["cleared"] == []
    )
    with (
        Store.open(world.url).write() as connection,
        pytest.raises(DroverError, match="kvm1 stays forced down: db, off, web"),
    ):
        host_state.change(connection, "kvm1", forced_down=False)
    discovered = fleets.discover(world.url, host("kvm1", instance("web")))
    assert [each["name"] for each in discovered["doubled"]] == ["web"] and discovered[
        "cleared"
    ] == [
        "db",
        "off",
    ]
    assert world.look()["moved"] == []
    assert world.where() == WHOLE
    fleets.discover(world.url, host("kvm1"))
    with Store.open(world.url).write() as connection:
        host_state.change(connection, "kvm1", forced_down=False)


def test_a_stale_domain_is_stale_too_when_all_hosts_are_read_together(world):
    world.run()
    nodes = [
        host(name, *[instance(key, state=state) for key, state in found.items()])
        for name, found in world.there.items()
    ]
    stale = host("kvm1", *[instance(name, state="shutoff") for name in NAMES])
    discovered = fleets.discover(world.url, stale, *nodes, now=time.time())
    assert (
        discovered["stale"] == sorted(NAMES)
        and discovered["cleared"] == discovered["doubled"] == discovered["moved"] == []
    )
    assert all("kvm1" in places and len(places) == 2 for places in world.holds().values())
    discovered = fleets.discover(world.url, host("kvm1"), *nodes, now=time.time())
    assert discovered["cleared"] == sorted(NAMES)
    assert all(len(places) == 1 for places in world.holds().values())


def test_the_way_back_lifts_what_was_forced(world):
    with Store.open(world.url).write() as connection:
        host_state.change(connection, "kvm1", forced_down=False)
        host_state.change(connection, "kvm1", state="draining", reason="new kernel")
        host_state.change(connection, "kvm1", state="draining", reason="dead", forced_down=True)
        dummy, after = host_state.change(connection, "kvm1", state="restored")
    assert after == {
        "disabled": False,
        "disabled_reason": None,
        "maintenance": False,
        "forced_down": False,
    }


def test_back_before_a_killed_run_was_run_again(world):
    """One instance had been started, one was only claimed: each stays on its host."""
    world.broken = set()
    dead = DeadHost(Store.open(world.url), "kvm1", ("kvm2", "kvm3"), lambda connection: None)
    plan = EvacuationRestarts(dead).plan(Policy.from_mapping({}), 0, {})
    web = next(each for each in plan["restarts"] if each["name"] == "web")
    world.there[web["host"]]["web"] = "running"
    back = [instance(name, state="shutoff") for name in NAMES]
    fleets.discover(world.url, host("kvm1", *back))
    world.look()
    said, left = EvacuationSettling(dead).settle_returned()
    assert len(said) == 3 and left == []
    assert sorted(world.statuses()) == [("db", "failed"), ("off", "failed"), ("web", "done")]
    found = fleets.discover(world.url, host("kvm1", *back))
    assert found["stale"] == ["web"] and found["moved"] == found["doubled"] == []
    fleets.discover(world.url, host("kvm1", *back[:2]))
    assert world.holds() == {"db": {"kvm1"}, "off": {"kvm1"}, "web": {web["host"]}}


def back_at_its_source(world):
    """Shut off all instances at kvm1 again. Their other hosts have just reported that they do not
    have them."""
    back = host("kvm1", *[instance(name, state="shutoff") for name in NAMES])
    with Store.open(world.url).write() as connection:
        behind = {
            each["uuid"]: {**each, "state": "shutoff"}
            for each in evacuations.left_behind(connection, ["kvm1"])
        }
        look = {"busy": False, "domain": None}
        absent = {
            uuid_of(name): certainty.is_absent(behind[uuid_of(name)]["host"], look)
            for name in NAMES
        }
        ended_moves.end_moved_back(connection, behind, absent, time.time())
    return fleets.discover(world.url, back, now=time.time())


def test_what_was_moved_back_is_no_stale_domain(world):
    world.run()
    world.look()
    # The other hosts were read before, so an instance may have moved on to one of them.
    assert back_at_its_source(world)["stale"] == sorted(NAMES)
    world.there = {"kvm2": {}, "kvm3": {}}
    world.look()
    assert back_at_its_source(world)["stale"] == []
    world.look()
    discovered = fleets.discover(
        world.url,
        host("kvm1", *[instance(name, state="shutoff") for name in NAMES]),
        now=time.time(),
    )
    assert discovered["stale"] == discovered["doubled"] == discovered["missing"] == []
    assert {status for dummy, status in world.statuses()} == {"completed"}
    assert world.holds() == dict.fromkeys(NAMES, {"kvm1"})
    with Store.open(world.url).write() as connection:
        host_state.change(connection, "kvm1", forced_down=False)


@pytest.mark.parametrize("unknown", ["silent", "backup"])
def test_it_may_have_been_moved_on_to_a_host_that_was_not_read(world, unknown):
    world.run()
    world.look()
    with Store.open(world.url).write() as connection:
        if unknown == "silent":
            services.record_unreachable(connection, "kvm3", "it cannot be reached", time.time())
        else:
            continuity.come_back(connection)
            continuity.witness(connection)
    for _time in range(2):
        assert back_at_its_source(world)["stale"] == sorted(NAMES)
    world.there = {"kvm2": {}, "kvm3": {}}
    world.look()
    assert back_at_its_source(world)["moved"] == sorted(NAMES)


#: case -> (the answer of kvm1, its power as its driver reports it, more fields of the request, its
#: variables, words of the reason why no instance would be restarted).
FORESEEN = {
    "off": (host_answer.SILENT, "off", {}, {}, None),
    "on": (host_answer.SILENT, "on", {}, {}, None),
    "a person's word": (host_answer.SILENT, "none", {"said": "kvm1 is powered off"}, {}, None),
    "no driver": (
        host_answer.SILENT,
        "none",
        {},
        {},
        "say so: -e 'drover_host_is_off=\"kvm1 is powered off\"'",
    ),
    "a driver that does not answer": (
        host_answer.SILENT,
        "unknown",
        {},
        {},
        "The power driver of kvm1 does not say whether it is on",
    ),
    "a closed port": (
        host_answer.REFUSED,
        "on",
        {},
        {},
        "kvm1 answers and refuses connections to its SSH port",
    ),
    "a word that is not true": (
        host_answer.REFUSED,
        "none",
        {"said": "kvm1 is powered off"},
        {},
        "You say that kvm1 is powered off, but it",
    ),
    "only its libvirt is dead": (host_answer.LOGIN, "on", {}, {}, "libvirt is restarted there"),
    "nobody knows": (host_answer.UNCLEAR, "on", {}, {}, "drover_evacuate_force=unclear_answer"),
    "a fence without tasks": (
        host_answer.SILENT,
        "none",
        {},
        {"drover_storage_fence": "nothing"},
        "drover_storage_fence of kvm1 is nothing",
    ),
    "a fence without addresses": (
        host_answer.SILENT,
        "none",
        {},
        {"drover_storage_fence": "ceph"},
        "from which addresses kvm1 reaches its storage",
    ),
    "a fence": (
        host_answer.SILENT,
        "none",
        {},
        {"drover_storage_fence": "ceph", "drover_storage_addresses": ["192.0.2.1"]},
        None,
    ),
}
#: Rules that would refuse this fleet of the tests besides.
LIFTED = frozenset({"many_down", "just_started", "too_early", "quiet_time"})


@pytest.mark.parametrize("case", FORESEEN)
def test_walk_f04_a_plan_says_whether_the_real_run_would_restart_anything(world, case):
    means, power_state, more, variables, reason = FORESEEN[case]
    with Store.open(world.url).write() as connection:
        services.record_unreachable(connection, "kvm1", "timed out", time.time())
    world.answers = [means]
    planned = world.evacuation(Hosts(world, **variables), plan_only=True, lifted=LIFTED, **more)
    judged = planned.judge(power_state)
    assert not judged["fence"] and not judged["changed"]
    if reason is None:
        assert (
            judged["refused"] == ""
            and planned.restart(refused="")["message"]
            == "kvm1: 3 instances would be restarted, 0 not."
        )
    else:
        assert reason in judged["refused"] and judged["message"] == judged["refused"]
        with pytest.raises(
            DroverError,
            match="^kvm1: nothing would be restarted now. .* Once it is off: kvm1: 3 instance",
        ) as caught:
            planned.restart(refused=judged["refused"])
        assert reason in str(caught.value) and len(caught.value.details["plan"]["restarts"]) == 3
    assert world.calls == [] and world.where() == {} and world.statuses() == []
    with Store.open(world.url).read() as connection:
        assert leases.begun(connection, "kvm1") is None


def test_walk_f04_a_plan_fails_for_what_would_be_left(world):
    """The plan includes the unread host as the real run does, unless the operator says that it may
    be left out."""
    with Store.open(world.url).write() as connection:
        services.record_unreachable(connection, "kvm1", "timed out", time.time())
    planned = world.evacuation(Hosts(world), plan_only=True)
    assert planned.restart(read=["kvm2"])["message"].startswith(
        "kvm1: 0 instances would be restarted, 3 not. "
    )
    request = dataclasses.replace(planned.request, unmovable=FAIL)
    with pytest.raises(
        DroverError,
        match="^kvm1: 0 instances would be restarted, 3 not. .* With drover_unmovable=skip",
    ) as caught:
        Evacuation(
            Ports(Store.open(world.url), Hosts(world), world.leasing(), str, time), request
        ).restart(read=["kvm2"])
    assert len(caught.value.details["remaining"]) == 3


def test_walk_f30_a_host_that_is_up_is_refused_with_the_command(world):
    fleets.discover(world.url, host("kvm1"), now=time.time())
    with pytest.raises(
        DroverError,
        match="ansible localhost -m drover.compute.host -a 'host=kvm1 forced_down=true'",
    ):
        world.evacuation(Hosts(world), plan_only=True, service_down_time=3600).judge("none")


def test_walk_f31_the_last_line_is_what_was_restarted(world):
    lines = []
    world.leasing().take("kvm1", "evacuate")
    world.switched_off("kvm1", time.time())
    request = EvacuationRequest("kvm1", ["kvm2", "kvm3"], Policy.from_mapping({}), unmovable=SKIP)
    Evacuation(
        Ports(Store.open(world.url), Hosts(world), world.leasing(), lines.append, time), request
    ).restart(["kvm2", "kvm3"])
    assert [line for line in lines if "is to be restarted" in line] == [] and lines[-1].endswith(
        " there"
    ), lines


def running_disk(path, target="vda", **more):
    """Return a disk that only the running guest has."""
    return {**disk(path), "target": target, "only": "running", **more}


def test_f3_a_guest_that_ran_on_another_file_is_not_restarted_from_that_of_its_definition(
    prepared_url,
):
    """Only a person knows which of the two files has the newest data."""
    world = World(prepared_url, instance("web", running_disks=[running_disk("/nfs/web-new.qcow2")]))
    (entry,) = world.run()["left"]
    assert (
        world.calls == []
        and "its disk vda was /nfs/web-new.qcow2 in the running guest and is /nfs/web.qcow2 in its definition"
        in entry["reason"]
    )
    assert "drover_evacuate_force=open_disk_change" in entry["reason"]
    assert not world.run(lifted=["open_disk_change"])["left"] and world.where() == {
        "web": "running"
    }


def test_f3_one_file_by_two_names_is_one(prepared_url):
    names = {"real_path": "/exports/web.qcow2"}
    one = domain("web", xml="<domain>web</domain>", disks=[{**disk("/nfs/web.qcow2"), **names}])
    one["running_disks"] = [running_disk("/nfs/link.qcow2", **names)]
    world = World(prepared_url, one)
    assert not world.run()["left"] and world.where() == {"web": "running"}


@pytest.mark.parametrize("more", [{"readonly": True}, {"device": "cdrom"}])
def test_f3_another_medium_in_the_running_guest_has_no_data_of_it(prepared_url, more):
    world = World(
        prepared_url, instance("web", running_disks=[running_disk("/nfs/tools.iso", **more)])
    )
    assert not world.run()["left"] and world.where() == {"web": "running"}


def test_f3_a_disk_that_only_the_running_guest_had_is_named(prepared_url):
    world = World(
        prepared_url, instance("web", running_disks=[running_disk("/nfs/hot.qcow2", "vdb")])
    )
    world.leasing().take("kvm1", "evacuate")
    world.switched_off("kvm1", time.time())
    lines = []
    ports = Ports(Store.open(prepared_url), Hosts(world), world.leasing(), lines.append, time)
    request = EvacuationRequest("kvm1", ["kvm2", "kvm3"], Policy.from_mapping({}), unmovable=SKIP)
    Evacuation(ports, request).restart(("kvm2", "kvm3"))
    assert world.where() == {"web": "running"}
    assert any(
        "vdb (/nfs/hot.qcow2)" in line and "only the running guest had" in line for line in lines
    ), lines
