# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator answers as the module _domain_migration does, and the checks of the scenarios
notice errors."""

from __future__ import annotations

import threading

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._migration import following
from ansible_collections.drover.compute.tests.scenarios.clock import BEGIN, Clock, Endless
from ansible_collections.drover.compute.tests.scenarios.migrating import Module
from ansible_collections.drover.compute.tests.scenarios.simulated import Domain, Fleet, Violation
from ansible_collections.drover.compute.tests.scenarios.together import carry_out
from ansible_collections.drover.compute.tests.unit.module_utils.migration import (
    test_options as real_options,
)
from ansible_collections.drover.compute.tests.unit.module_utils.migration import test_worker as real
from ansible_collections.drover.compute.tests.unit.store import fleets

fleet = real.fleet
slow = real_options.slow
COMPARED = ("status", "source_state", "destination_state")


class Simulated:
    """Move one instance from kvm1 to kvm2, and wait for the end."""

    def __init__(self, state):
        hosts = [{"name": "kvm1"}, {"name": "kvm2"}]
        self.fleet = Fleet(Clock(), hosts, [{"name": "vm", "host": "kvm1", "state": state}])
        self.uuid = fleets.uuid_of("vm")
        order = {
            "uuid": self.uuid,
            "name": "vm",
            "source": "kvm1",
            "destination": "kvm2",
            "migration": "m1",
        }
        self.order = {**order, "live": state != "shutoff"}

        self.module = Module(self.fleet, "kvm1", lambda: {(self.uuid, "kvm1", "kvm2")})

    def move(self, seconds=600, **fault):
        if fault:
            self.fleet.faults.append({"of": "vm", **fault})
        (answer,) = self.module([self.order], [], seconds)
        return answer

    def abort(self):
        (answer,) = self.module([], [], 600, abort=[self.order])
        return answer


def broken(*dummy):
    raise libvirt.libvirtError("client socket is closed")


def really(fleet, state, behave):
    """Return the real worker's report on libvirt's test driver."""
    if state == "paused":
        fleet.domain().suspend()
    elif state == "shutoff":
        fleet.domain().destroy()
    fleet.behave = behave or fleet.succeed
    fleet.move()
    return following.report({"uuid": real.UUID}, fleet.records, None)


@pytest.mark.parametrize("state", ["running", "paused", "shutoff"])
def test_a_move_and_asking_again(fleet, state):
    simulated = Simulated(state)
    for turn in range(2):
        simulated_move, real_move = (
            simulated.move(),
            really(fleet, "as it is", None) if turn else really(fleet, state, None),
        )
        assert set(simulated_move) == set(real_move)
        assert (
            [simulated_move[key] for key in COMPARED]
            == [real_move[key] for key in COMPARED]
            == ["completed", "absent", state]
        )


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_an_error_in_the_copy(fleet, state):
    simulated_move, real_move = (
        Simulated(state).move(at="copy", fault="error"),
        really(fleet, state, fleet.fail),
    )
    assert (
        [simulated_move[key] for key in COMPARED]
        == [real_move[key] for key in COMPARED]
        == ["failed", state, "absent"]
    )


def test_a_paused_source_and_a_running_destination(fleet):
    def half(domain, flags):
        fleet.destination.defineXML(real.XML).create()
        domain.suspend()
        broken()

    simulated = Simulated("running")
    for fault in ({"at": "handover", "fault": "network cut", "for": 5}, {}):
        simulated_move, real_move = simulated.move(**fault), really(fleet, "running", half)
        assert (
            [simulated_move[key] for key in COMPARED]
            == [real_move[key] for key in COMPARED]
            == ["conflict", "paused", "running"]
        )


def test_the_destination_is_lost_and_back(fleet):
    def vanish(domain, flags):
        fleet.down.add("test:///kvm2")
        fleet.destination.lookupByUUIDString = broken
        broken()

    simulated = Simulated("running")
    simulated_move, real_move = (
        simulated.move(at="copy", fault="destination dies"),
        really(fleet, "running", vanish),
    )
    assert simulated_move["status"] == real_move["status"] == "lost"
    assert simulated.move()["status"] == really(fleet, "running", vanish)["status"] == "lost"
    simulated.fleet.power_on("kvm2")
    fleet.down.clear()
    del fleet.destination.lookupByUUIDString
    simulated_move, real_move = simulated.move(), really(fleet, "running", None)
    assert (
        [simulated_move[key] for key in COMPARED]
        == [real_move[key] for key in COMPARED]
        == ["completed", "absent", "running"]
    )


def test_arrived_but_off(fleet):
    def arrive_off(domain, flags):
        fleet.succeed(domain)
        fleet.domain(there=True).destroy()

    simulated = Simulated("running")
    simulated.move(at="cleanup", fault="destination dies")
    simulated.fleet.power_on("kvm2")
    simulated_move, real_move = simulated.move(), really(fleet, "running", arrive_off)
    assert (
        [simulated_move[key] for key in COMPARED]
        == [real_move[key] for key in COMPARED]
        == ["conflict", "absent", "shutoff"]
    )


def test_an_abort_in_the_copy_and_asking_again(slow, monkeypatch):
    monkeypatch.setattr(real_options.worker_module, "time_limit", lambda *dummy: 100)
    threading.Timer(0.2, slow.records.ask_abort, (real.UUID, "m1")).start()
    slow.move(migration="m1")
    simulated = Simulated("running")
    assert simulated.move(seconds=4)["phase"] == "migrating"
    simulated_move, real_move = (
        simulated.abort(),
        following.report({"uuid": real.UUID}, slow.records, None),
    )
    assert (
        [simulated_move[key] for key in COMPARED]
        == [real_move[key] for key in COMPARED]
        == ["cancelled", "running", "absent"]
    )
    assert simulated.move()["status"] == slow.move(migration="m1")[0]["status"] == "cancelled"
    simulated.order, slow.behave = {**simulated.order, "migration": "m2"}, slow.succeed
    assert simulated.move()["status"] == slow.move(migration="m2")[0]["status"] == "completed"


def test_an_abort_of_what_was_not_begun_and_of_what_has_ended(slow):
    slow.records.ask_abort(real.UUID, "m1")
    simulated = Simulated("running")
    assert (
        simulated.abort()["status"]
        == slow.move(may_start=False, migration="m1")[0]["status"]
        == "cancelled"
    )
    simulated.order, slow.behave = {**simulated.order, "migration": "m2"}, slow.succeed
    simulated.move()
    slow.move(migration="m2")
    slow.records.ask_abort(real.UUID, "m2")
    assert (
        simulated.abort()["status"]
        == slow.move(may_start=False, migration="m2")[0]["status"]
        == "completed"
    )


def test_courses_take_turns_as_their_time_comes():
    clock, events = Clock(), []

    def course(name, seconds):
        for _dummy in range(3):
            events.append((name, clock.now - BEGIN))
            clock.sleep(seconds)

    clock.at(1, lambda: events.append(("event", clock.now - BEGIN)))
    carry_out(clock, [lambda: course("a", 1), lambda: course("b", 2)])
    assert events == [("a", 0), ("b", 0), ("event", 1), ("a", 1), ("a", 2), ("b", 2), ("b", 4)]
    assert clock.now - BEGIN == 6
    with pytest.raises(ZeroDivisionError):
        carry_out(clock, [lambda: 1 / 0, lambda: clock.sleep(1)])
    with pytest.raises(Endless):
        clock.sleep(10**9)
        clock.step(10**10)


def test_what_must_not_be_is_seen():
    simulated = Simulated("running")
    simulated.fleet.hosts["kvm2"].domains[simulated.uuid] = Domain("vm", "running")
    with pytest.raises(Violation, match="vm runs on kvm1 and kvm2"):
        simulated.fleet.check()
    for host in simulated.fleet.hosts.values():
        host.domains.clear()
    with pytest.raises(Violation, match="vm is nowhere"):
        simulated.fleet.check()
    simulated = Simulated("running")
    with pytest.raises(Violation, match="the store knows nothing of it"):
        Module(simulated.fleet, "kvm1", set)([simulated.order], [], 2)
