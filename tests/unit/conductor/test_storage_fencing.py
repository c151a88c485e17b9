# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dead host that cannot be switched off is cut from its storage: the instances that may restart
then, and the time of the lift."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    HostTimeout,
    Unreachable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import storage_fencing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.storage_fencing import (
    StorageFencing,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    services,
    storage_fences,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit.conductor import test_evacuation as test_evacuate
from ansible_collections.drover.compute.tests.unit.conductor.test_evacuation import (
    Hosts,
    World,
    disk,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain

ORIGINS = {"web": "rbd:mon1:/vms/web", "db": "rbd:mon1:/vms/db"}


def rbd(name, target="vda"):
    return {
        "target": target,
        "device": "disk",
        "type": "network",
        "source": f"rbd:vms/{name}",
        "origin": ORIGINS[name],
    }


def instance(name, *disks, **more):
    return domain(name, xml=f"<domain>{name}</domain>", disks=list(disks), **more)


def host(name, *domains, **more):
    return test_evacuate.host(
        name, *domains, **{"addresses": [f"192.0.2.{name[-1]}", "192.168.122.1"], **more}
    )


class Fenced(World):
    """``returned``: the domains of kvm1, if it answers again."""

    returned = None

    def __init__(self, url, *domains):
        super().__init__(url, *domains)
        fleets.discover(url, host("kvm1", *domains), host("kvm2"), host("kvm3"), now=time.time())
        self.switched_off("kvm1", time.time() - 60)
        self.silent()

    def silent(self):
        with Store.open(self.url).write() as connection:
            services.record_unreachable(connection, "kvm1", "it does not answer", time.time())

    def ports(self):
        world = self

        class Returning(Hosts):
            def discover(self, name, limit=None):
                if name == "kvm1" and world.returned is not None:
                    fleets.discover(world.url, host("kvm1", *world.returned), now=time.time())
                    return
                super().discover(name, limit)

        return Ports(Store.open(self.url), Returning(self), self.leasing(), str, time)

    def fencing(self):
        return StorageFencing(self.ports(), "kvm1")

    def cut(self, *disks, declared=()):
        self.leasing().take("kvm1", "evacuate")
        asked = self.fencing().begin("ceph", declared)
        self.fencing().verified("ceph", disks or asked["disks"])
        return asked

    def fences(self):
        with Store.open(self.url).read() as connection:
            return {each["fence"]: each["cut"] for each in storage_fences.read(connection, "kvm1")}

    def restarted(self):
        """Run the second half of the evacuation; return the instances that run, and the reasons of
        the others."""
        plan = self.run(fenced=False)
        return set(self.where()), {
            each["name"]: each["reason"] for each in plan["left"] + plan["lost"]
        }


WEB, DB = instance("web", rbd("web")), instance("db", rbd("db"))


def test_what_is_on_the_storage_that_was_cut_off_is_restarted(prepared_url):
    mixed = instance("off", rbd("db"), disk("/nfs/off.qcow2"))
    world = Fenced(prepared_url, WEB, mixed, instance("db"))
    asked = world.cut(ORIGINS["web"], ORIGINS["db"])
    # Another host also has the second address.
    assert asked["addresses"] == ["192.0.2.1"] and set(asked["disks"]) == {
        *ORIGINS.values(),
        "nfs:a:/x/off.qcow2",
    }
    running, staying = world.restarted()
    assert running == {"web"}
    assert "its disk /nfs/off.qcow2 is on no storage that kvm1 was cut off from" in staying["off"]
    assert "it has no disk that kvm1 could be cut off from" in staying["db"]


def test_f3_a_disk_that_only_the_running_guest_has_is_cut_off_too(prepared_url):
    """The guest may still use the disk, for any definition of its next start."""
    hot = {**rbd("db", "vdb"), "only": "running"}
    world = Fenced(prepared_url, instance("web", rbd("web"), running_disks=[hot]))
    assert set(world.cut(ORIGINS["web"])["disks"]) == set(ORIGINS.values())
    assert (
        "its disk rbd:vms/db is on no storage that kvm1 was cut off from"
        in world.restarted()[1]["web"]
    )
    world.cut()
    assert world.restarted()[0] == {"web"}


def test_nothing_is_started_before_the_cut_is_verified(prepared_url):
    world = Fenced(prepared_url, WEB)
    world.leasing().take("kvm1", "evacuate")
    world.fencing().begin("ceph")
    with pytest.raises(DroverError, match="not proven that kvm1 is off or cut off"):
        world.run(fenced=False)
    assert world.calls == []


def test_a_cut_that_another_run_has_seen_is_no_proof(prepared_url):
    world = Fenced(prepared_url, WEB)
    world.cut()
    world.leasing().release(["kvm1"])
    with pytest.raises(DroverError, match="not proven that kvm1 is off or cut off"):
        world.run(fenced=False)
    assert world.calls == []


def test_a_cut_that_begins_anew_is_not_verified_any_more(prepared_url):
    world = Fenced(prepared_url, WEB)
    world.cut()
    world.fencing().begin("ceph")
    with pytest.raises(DroverError, match="not proven that kvm1 is off or cut off"):
        world.run(fenced=False)
    assert world.fences() == {"ceph": [ORIGINS["web"]]}, "it may still be: it is lifted one day"


def test_addresses_are_those_declared_and_those_that_discovery_saw(prepared_url):
    world = Fenced(prepared_url, WEB)
    assert world.cut(declared=["198.51.100.7"])["addresses"] == ["192.0.2.1", "198.51.100.7"]
    # An address that an earlier run cut off is also lifted.
    assert world.cut()["addresses"] == ["192.0.2.1", "198.51.100.7"]


def test_a_host_without_known_addresses_or_without_shared_disks_is_refused(prepared_url):
    world = Fenced(prepared_url, WEB)
    fleets.discover(prepared_url, host("kvm1", WEB, addresses=None), now=time.time())
    with pytest.raises(
        DroverError,
        match=(
            "not known from which addresses kvm1 reaches its storage.*Set drover_storage_addresses"
            " of kvm1"
        ),
    ):
        world.cut()
    fleets.discover(
        prepared_url, host("kvm1", instance("web", disk("/local/web.qcow2"))), now=time.time()
    )
    with pytest.raises(DroverError, match="No instance of kvm1 writes to shared storage"):
        world.cut()
    assert world.calls == []


def test_without_the_lease_nothing_is_written(prepared_url):
    world = Fenced(prepared_url, WEB)
    with pytest.raises(leases.LeaseLost):
        world.fencing().begin("ceph")
    Leasing(Store.open(prepared_url), LeaseHolder(os.getpid()), str)
    with Store.open(prepared_url).read() as connection:
        assert storage_fences.read(connection, "kvm1") == []


def test_it_is_let_in_again_once_nothing_runs_there_that_runs_elsewhere(prepared_url):
    world = Fenced(prepared_url, WEB, DB)
    world.cut(ORIGINS["web"])
    assert world.restarted()[0] == {"web"}
    world.look()
    with pytest.raises(DroverError, match="it does not answer"):
        world.fencing().returned()
    for state in ("running", "paused"):
        world.returned = [{**WEB, "state": state}, DB]
        with pytest.raises(
            DroverError,
            match=(
                r"stays shut out of its storage: web \(now on kvm\d\) still runs there.*virsh"
                r" destroy web"
            ),
        ):
            world.fencing().returned()
    # An instance that was not restarted on another host may still run.
    world.returned = [{**WEB, "state": "shutoff"}, DB]
    (fence,) = world.fencing().returned()
    assert fence["addresses"] == ["192.0.2.1"] and fence["cut"] == [ORIGINS["web"]]
    world.leasing().take("kvm1", "undrain")
    assert world.fencing().lifted("ceph") and not world.fencing().lifted("ceph")
    assert world.fencing().returned() == []


def test_a_fence_that_is_not_proven_keeps_no_other_one_off(prepared_url):
    """The fence may still have cut the host off: it is lifted with the other one."""
    world = Fenced(prepared_url, WEB)
    world.leasing().take("kvm1", "evacuate")
    world.fencing().begin("/srv/wrong.yml")
    world.cut()
    assert world.restarted()[0] == {"web"}
    world.look()
    world.returned = []
    assert [each["fence"] for each in world.fencing().returned()] == ["/srv/wrong.yml", "ceph"]
    world.leasing().take("kvm1", "undrain")
    assert world.fencing().lifted("/srv/wrong.yml") and world.fences() == {"ceph": [ORIGINS["web"]]}
    assert world.fencing().lifted("ceph") and world.fences() == {}


def test_what_one_fence_has_cut_is_no_proof_for_another(prepared_url):
    """A fence of an earlier run is not a proof either."""
    world = Fenced(prepared_url, WEB, DB)
    world.cut(ORIGINS["web"])
    world.leasing().release(["kvm1"])
    world.leasing().take("kvm1", "evacuate")
    world.fencing().begin("/srv/own.yml")
    world.fencing().verified("/srv/own.yml", [ORIGINS["db"]])
    assert world.restarted()[0] == {"db"}
    assert world.fences() == {"ceph": [ORIGINS["web"]], "/srv/own.yml": [ORIGINS["db"]]}


def test_given_again_when_nothing_is_left(prepared_url):
    world = Fenced(prepared_url, WEB)
    world.cut()
    assert world.restarted()[0] == {"web"}
    world.look()
    calls, before = list(world.calls), world.fences()
    world.leasing().take("kvm1", "evacuate")
    assert world.fencing().begin("ceph") == {"addresses": [], "disks": []}
    assert world.fences() == before
    world.leasing().take("kvm1", "evacuate")
    result = world.evacuation(Hosts(world)).restart(["kvm2", "kvm3"])
    assert (
        not result["changed"]
        and result["restarted"] == result["remaining"] == []
        and world.calls == calls
    )


@pytest.mark.parametrize("local", [False, True], ids=["nothing", "a local disk"])
def test_what_cannot_be_cut_off_is_refused_all_the_same(prepared_url, local):
    """The refusal covers a host without a proven fence, and a host with an instance that may still
    run there."""
    there = [instance("off", disk("/local/off.qcow2"))] if local else []
    world = Fenced(prepared_url, *there, *([WEB] if local else []))
    if local:
        world.cut()
        assert world.restarted()[0] == {"web"}
        world.look()
    world.leasing().take("kvm1", "evacuate")
    with pytest.raises(DroverError, match="No instance of kvm1 writes to shared storage"):
        world.fencing().begin("ceph")
    world.leasing().take("kvm1", "evacuate")
    with pytest.raises(DroverError, match="not proven that kvm1 is off or cut off"):
        world.evacuation(Hosts(world)).restart(["kvm2", "kvm3"])


@pytest.mark.parametrize("lifted", [(), ("storage_active",)])
def test_a_fence_that_cuts_nothing_is_seen_by_the_client_that_still_writes(
    prepared_url, monkeypatch, lifted
):
    world = Fenced(prepared_url, WEB)
    world.leasing().take("kvm1", "evacuate")
    fencing = world.fencing()
    fence = fencing.begin("/srv/own.yml")
    probed = []

    def read(hand, module, given):
        probed.append((hand.name, module, given))
        return {"reached": None, "storage": "active", "in_use": [ORIGINS["web"]]}

    monkeypatch.setattr(test_evacuate.Hand, "read", read)
    monkeypatch.setattr(storage_fencing, "FORGOTTEN", 0)
    if lifted:
        fencing.verified("/srv/own.yml", fence["disks"], ["kvm1", "kvm2", "kvm3"], lifted)
        assert probed == []
        return
    with pytest.raises(DroverError, match="Ceph still has a client that writes there") as refused:
        fencing.verified("/srv/own.yml", fence["disks"], ["kvm1", "kvm2", "kvm3"])
    assert ORIGINS["web"] in str(refused.value) and {name for name, *_rest in probed} == {
        "kvm2",
        "kvm3",
    }
    with pytest.raises(DroverError, match="not proven that kvm1 is off or cut off"):
        world.run(fenced=False)
    assert world.calls == []


def test_a_client_that_is_gone_is_forgotten_by_ceph_after_a_while(prepared_url, monkeypatch):
    world = Fenced(prepared_url, WEB)
    world.leasing().take("kvm1", "evacuate")
    fence, answers = (
        world.fencing().begin("/srv/own.yml"),
        [[ORIGINS["web"]], [ORIGINS["web"]], [], []],
    )
    look = test_evacuate.Hand.read

    def read(hand, module, given):
        return (
            look(hand, module, given)
            if module == "_domain_sightings"
            else {"in_use": answers.pop(0)}
        )

    monkeypatch.setattr(test_evacuate.Hand, "read", read)
    monkeypatch.setattr(storage_fencing, "LOOK", 0)
    world.fencing().verified("/srv/own.yml", fence["disks"], ["kvm2", "kvm3"])
    assert answers == [] and world.restarted()[0] == {"web"}


def asked_of_ceph(monkeypatch, answers):
    """Set the answers of Ceph before each start; the last answer repeats. Return the list of
    questions."""
    questions, other = [], test_evacuate.Hand.read

    def read(hand, module, given):
        if module != "_ceph_fence":
            return other(hand, module, given)
        questions.append((hand.name, given))
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(test_evacuate.Hand, "read", read)
    return questions


LET_IN = {"failed": True, "msg": "192.0.2.1 is not on the blocklist of Ceph, or not for long."}


@pytest.mark.parametrize(
    "answer", [LET_IN, Unreachable("kvm3", "no route"), HostTimeout("kvm3", 60)]
)
def test_a_blocklist_that_was_lifted_since_it_was_verified_is_no_proof(
    prepared_url, monkeypatch, answer
):
    world = Fenced(prepared_url, WEB)
    world.cut()
    given = {"drover_ceph_admin": "kvm3", "drover_ceph_arguments": ["--name", "client.fence"]}
    monkeypatch.setattr(Hosts, "variables", lambda hosts, name: given if name == "kvm1" else {})
    questions = asked_of_ceph(monkeypatch, [answer])
    with pytest.raises(
        DroverError,
        match="not proven any more that kvm1 is cut off.*Nothing more was started.*evacuate again",
    ) as refused:
        world.run(fenced=False)
    assert (answer["msg"] if answer is LET_IN else "kvm3") in str(refused.value)
    assert world.calls == [] and world.where() == {}
    assert questions == [
        (
            "kvm3",
            {
                "state": "verified",
                "addresses": ["192.0.2.1"],
                "arguments": ["--name", "client.fence"],
            },
        )
    ]
    # The next run cuts the host off again, and continues with the claims.
    asked_of_ceph(monkeypatch, [{"cut": [], "problems": []}])
    world.cut()
    assert world.restarted() == ({"web"}, {})


def test_a_blocklist_that_is_lifted_between_two_destinations(prepared_url, monkeypatch):
    """An answer before the first start is not a proof for the second one."""
    world = Fenced(prepared_url, WEB, DB)
    world.cut()
    questions = asked_of_ceph(monkeypatch, [{"cut": [], "problems": []}, LET_IN])
    with pytest.raises(
        DroverError,
        match=r"not proven any more.* Started before that: (web|db) on kvm\d\. See that none",
    ) as refused:
        world.run(fenced=False)
    assert len(world.calls) == 1 and len(questions) == 2, refused.value


def test_the_tasks_of_an_own_fence_are_not_asked_again(prepared_url, monkeypatch):
    """The tasks belong to the operator, and run only before the first start."""
    world = Fenced(prepared_url, WEB)
    world.leasing().take("kvm1", "evacuate")
    asked = world.fencing().begin("/srv/own.yml")
    world.fencing().verified("/srv/own.yml", asked["disks"])
    questions = asked_of_ceph(monkeypatch, [LET_IN])
    assert world.restarted()[0] == {"web"} and questions == []
