# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A call that starts instances on another host and outlives its controller. The store is a real
one, the hypervisors run the shipped modules."""

from __future__ import annotations

import subprocess
import time

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.dead_host import DeadHost
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_restarts import (
    EvacuationRestarts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_settling import (
    EvacuationSettling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.starting import Starting
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

NAMES = ("db", "web")


class Killed(BaseException):
    """The end of the run, as by kill -9; its sent calls are on their way."""


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    made = hypervisors.Fleet(tmp_path / "hosts", monkeypatch, names=("kvm1", "kvm2"))
    yield made
    made.close()


class Dead:
    """A fleet with a dead kvm1; its instances are on storage that kvm2 sees."""

    def __init__(self, url, fleet, folder):
        self.url, self.fleet, self.sent = url, fleet, []
        self.disks = {name: str(folder / f"{name}.qcow2") for name in NAMES}
        for path in self.disks.values():
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1M"], check=True)
        self.pool = {"name": "nfs", "path": str(folder), "shared_id": "declared:nfs"}
        self.discover("running")
        with Store.open(url).write() as connection:
            host_state.change(connection, "kvm1", forced_down=True)

    def discover(self, state):
        """Record the instances of kvm1 in that state, and kvm2 as it is."""
        mine = [self.domain(name, state) for name in NAMES]
        domains = [
            self.domain(name, state) for name, state in self.fleet.hosts["kvm2"].states().items()
        ]
        nodes = [
            fleets.host("kvm1", *mine, pools=[self.pool]),
            fleets.host("kvm2", *domains, pools=[self.pool]),
        ]
        return fleets.discover(self.url, *nodes, now=time.time())

    def domain(self, name, state):
        path = self.disks[name]
        disk = {
            "target": "vda",
            "device": "disk",
            "type": "file",
            "source": path,
            "driver": "qcow2",
        }
        return fleets.domain(
            name, state=state, disks=[disk], xml=hypervisors.xml(name, uuid_of(name), [path])
        )

    def host(self):
        return DeadHost(Store.open(self.url), "kvm1", {"kvm2"}, lambda connection: None)

    def claimed(self):
        """Return the uuids of the evacuations that the next run must start."""
        return [
            each["migration"]
            for each in EvacuationRestarts(self.host()).plan(Policy.from_mapping({}), 0, {})[
                "restarts"
            ]
        ]

    def start(self, migrations, hand=None):
        proofs = Starting(self.fleet.ports(Store.open(self.url)), lambda: {"kvm2"})
        return EvacuationRestarts(self.host()).start(
            "kvm2", migrations, hand or self.fleet.hand("kvm2"), 4, 2, proofs
        )

    def settle_returned(self):
        return EvacuationSettling(self.host()).settle_returned()

    def withdraw(self):
        return EvacuationSettling(self.host()).withdraw("kvm2", self.fleet.hand("kvm2"), 2)

    def begin(self):
        """Kill a run after it has sent its call to kvm2."""
        migrations = self.claimed()
        assert len(migrations) == len(NAMES)
        hand = self.fleet.hand("kvm2")
        hand.act = self.send
        with pytest.raises(Killed):
            self.start(migrations, hand)

    def send(self, module, given):
        self.sent.append(given)
        raise Killed

    def arrive(self, only=NAMES):
        """Carry out the call at kvm2, or the part of it about some instances."""
        (call,) = self.sent
        wanted = [each for each in call["instances"] if each["name"] in only]
        return self.fleet.run("kvm2", "_domain_restart", {**call, "instances": wanted})["instances"]


@pytest.fixture
def dead(prepared_url, fleet, tmp_path):
    return Dead(prepared_url, fleet, tmp_path)


def test_suspected_3_a_call_that_comes_when_its_host_is_back_begins_nothing(dead):
    """One instance had been started when the host came back; the call was still at work on the
    other."""
    dead.begin()
    (answer,) = dead.arrive(["db"])
    assert answer["status"] == "restarted", answer["message"]
    dead.discover("shutoff")
    # Nothing is released before kvm2 has answered.
    sentences, left = dead.settle_returned()
    assert [each["name"] for each in left] == ["web"] and "about to start on kvm2" in left[0][
        "reason"
    ], sentences
    assert dead.withdraw() == ["web: it was not started on kvm2."]
    assert dead.settle_returned() == ([], [])
    assert fleets.where(dead.url)["web"] == "kvm1" and set(
        fleets.holdings(dead.url)[uuid_of("web")]
    ) == {"kvm1"}
    # Now the call arrives: the instance may run on kvm1 by then.
    assert [each["status"] for each in dead.arrive()] == ["there", "uncertain"]
    assert dead.fleet.where() == {"db": [("kvm2", "running")]}


def test_suspected_3_while_an_earlier_call_may_begin_no_other_is_given(dead):
    """The next run could not withdraw the call, because its host did not answer then; the host
    answers when it must start the instances."""
    dead.begin()
    moves = dead.claimed()
    assert len(moves) == 2
    silent = dead.fleet.hand("kvm2")
    silent.look, silent.act = lambda uri, wanted, patience: dict.fromkeys(wanted), pytest.fail
    done = dead.start(moves, silent)
    assert [each["message"] for each in done["uncertain"]] == [
        "what an earlier run ordered there may still begin"
    ] * 2

    def late(name, module, given):
        if module.endswith("_domain_restart"):
            dead.fleet.before.remove(late)
            assert {each["status"] for each in dead.arrive()} == {"uncertain"}

    dead.fleet.before.append(late)
    done = dead.start(moves)
    assert {each["name"] for each in done["restarted"]} == set(NAMES), done
    assert dead.fleet.where() == {name: [("kvm2", "running")] for name in NAMES}


def test_suspected_3_a_call_that_comes_while_the_next_run_is_at_work_starts_each_once(dead):
    """kvm1 stays dead: the next run withdraws the first call and sends another one."""
    dead.begin()
    assert dead.withdraw() == [f"{name}: it was not started on kvm2." for name in NAMES]
    moves = dead.claimed()
    assert {each["status"] for each in dead.arrive()} == {"uncertain"} and dead.fleet.where() == {}
    done = dead.start(moves)
    assert {each["name"] for each in done["restarted"]} == set(NAMES), done
    assert dead.fleet.where() == {name: [("kvm2", "running")] for name in NAMES}
