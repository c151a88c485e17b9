# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds that fail, are cut off and are ordered twice: one instance is never built in two places.

The store is a real one, the hypervisors run the shipped modules.
"""

from __future__ import annotations

import contextlib
import itertools
import threading

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._images import images
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.building import Building
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_operations import (
    InstanceOperations,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import audit, claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

HOSTS = ("kvm1", "kvm2", "kvm3")


class TimedOut(BaseException):
    """Ansible's time limit for a task: the task ends, the module on the hypervisor does not."""


class Placing:
    """The steps of role place for one instance: build, and after a failure settle and continue."""

    def __init__(self, url, fleet, folder):
        self.url, self.fleet, self.disk = url, fleet, str(folder / "web.qcow2")
        self.store = Store.open(url)
        fleets.discover(url, *(fleets.host(name) for name in HOSTS))

    def wanted(self, uuid):
        xml = hypervisors.xml("web", uuid, [self.disk])
        return {
            "uuid": uuid,
            "name": "web",
            "xml": xml,
            "disks": [{"path": self.disk, "size_gb": 1}],
            "uri": "qemu:///system",
        }

    def building(self, host, store=None):
        return Building(
            self.fleet.ports(store or self.store), self.fleet.hand(host), host, timeout=2
        )

    def claim(self):
        (found,) = claim_definition(self.url, "web", *HOSTS)
        return found

    def run(self, store=None, limit=None):
        """Run the playbook once; ``limit`` is a hook that ends the task "build" as a time limit
        would."""
        claim = self.claim()
        while True:
            message, building = "", self.building(claim["host"], store)
            try:
                with limit() if limit else contextlib.nullcontext():
                    return building.build(self.wanted(claim["uuid"]))
            except (DroverError, TimedOut) as problem:
                message = str(problem) or "It took too long."
            limit = None
            outcome = building.settle(claim["uuid"], claim["alternates"], 3600, message)
            if outcome["built"]:
                return outcome
            claim = {**claim, **outcome["claim"]}

    def held(self):
        return {name: sorted(places) for name, places in fleets.holdings(self.url).items()}

    def check(self):
        """Check that it runs once, on the host with its room, and that no operation is open."""
        ((host, state),) = self.fleet.where()["web"]
        (uuid,) = self.fleet.hosts[host].domains()
        assert state == "running" and self.held() == {uuid: [host]}
        with self.store.read() as connection:
            row = orders.read(connection, uuid)
        assert (row.state, row.task_state, row.order_uuid) == ("active", None, None)


def claim_definition(url, name, *places):
    with Store.open(url).write(together=True) as connection:
        return claims.claim(connection, [fleets.selection(name, *places)], fleets.NOW, defined=True)


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    made = hypervisors.Fleet(tmp_path / "hosts", monkeypatch)
    yield made
    made.close()


@pytest.fixture
def placing(prepared_url, fleet, tmp_path):
    return Placing(prepared_url, fleet, tmp_path)


class Failing:
    """A store with one failing write: before it begins, before its commit, or after it (the answer
    is lost)."""

    def __init__(self, store, number, moment):
        self._store, self._left, self._moment = store, number, moment

    def read(self):
        return self._store.read()

    @contextlib.contextmanager
    def write(self, **options):
        self._left -= 1
        if self._left == 0 and self._moment == "before":
            raise DroverError("The store cannot be used: database is locked.")
        with self._store.write(**options) as connection:
            yield connection
            if self._left == 0 and self._moment == "inside":
                raise DroverError("The store cannot be used: disk is full.")
        if self._left == 0 and self._moment == "after":
            raise DroverError("The store cannot be used: the connection was lost.")


def test_built_once_and_again_nothing_is_done(placing):
    assert placing.run()["changed"] is True
    assert placing.run() == {"changed": False, "domain": None}
    placing.check()


@pytest.mark.parametrize(
    "number, moment", list(itertools.product((1, 2), ("before", "inside", "after")))
)
def test_safety_01_a_store_that_cannot_be_written_while_it_is_built(placing, number, moment):
    """The guest runs and the store does not know that: it is not built on the next host, and the
    next run ends well."""
    with contextlib.suppress(DroverError):
        placing.run(store=Failing(placing.store, number, moment))
    assert len(placing.fleet.where().get("web", [])) <= 1
    placing.run()
    placing.check()


def test_safety_01_a_host_that_takes_longer_than_the_task_may(placing, monkeypatch):
    """The task ends while the module is at work. The module continues, and its guest is found."""
    slow, release = threading.Event(), threading.Event()
    create = libvirt.virDomain.createWithFlags

    def late(domain, flags):
        slow.set()
        assert release.wait(30)
        return create(domain, flags)

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", late)

    @contextlib.contextmanager
    def time_limit():
        """Run the module in a separate thread, which is left behind."""
        real = placing.fleet.run

        def run(*arguments):
            if arguments[1].endswith(hypervisors.LOOKS):
                return real(*arguments)
            thread = threading.Thread(target=lambda: real(*arguments), daemon=True)
            thread.start()
            assert slow.wait(30)
            raise TimedOut

        with monkeypatch.context() as patch:
            patch.setattr(placing.fleet, "run", run)
            yield

    threading.Timer(0.5, release.set).start()
    assert placing.run(limit=time_limit)["built"] is True
    placing.check()


def test_a_module_that_comes_late_does_nothing(placing):
    """An order of an earlier run, which was given up, arrives after the next run has looked. By
    then the instance is on another host."""
    claim, late = placing.claim(), []
    real = placing.fleet.carry_out

    def held_up(host, module, *given):
        if module.endswith("domain") and not late:
            late.append((host, module, *given))
            raise TimedOut
        return real(host, module, *given)

    placing.fleet.carry_out = held_up
    with pytest.raises(TimedOut):
        placing.building("kvm1").build(placing.wanted(claim["uuid"]))
    outcome = placing.building("kvm1").settle(
        claim["uuid"], claim["alternates"], 3600, "It took too long."
    )
    assert outcome["claim"]["host"] == "kvm2"
    placing.building("kvm2").build(placing.wanted(claim["uuid"]))
    result = real(*late[0])
    assert result["begun"] is False and "was withdrawn by a later run" in result["msg"]
    placing.check()


def test_a_host_that_is_lost_keeps_its_room(placing):
    placing.fleet.after.append(
        lambda host, module, result: setattr(placing.fleet.hosts[host], "reached", False)
    )
    with pytest.raises(
        DroverError, match="so it is not built elsewhere and keeps its room"
    ) as caught:
        placing.run()
    assert caught.value.details["uncertain"] is True
    uuid = placing.claim()["uuid"]
    assert placing.held() == {uuid: ["kvm1"]}
    with (
        placing.store.write() as connection,
        pytest.raises(orders.OrderOpen, match="Run drover.compute.place again"),
    ):
        claims.release(connection, [uuid], certainty.word("a test"), fleets.NOW)
    with placing.store.write() as connection:
        assert (
            audit.audit(connection, fleets.NOW + 10**6, mend=True, release_expired=True)["mended"]
            == []
        )
    placing.fleet.after.clear()
    placing.fleet.hosts["kvm1"].reached = True
    placing.run()
    placing.check()


def test_a_host_that_was_never_reached_is_left_for_an_alternate(placing):
    placing.fleet.hosts["kvm1"].reached = False
    placing.run()
    assert placing.fleet.where()["web"] == [("kvm2", "running")]
    placing.check()


def test_what_the_host_refuses_is_built_on_an_alternate(placing, monkeypatch):
    make = images.make_disk

    def no_room(module, disk):
        if hypervisors.HERE.get().name == "kvm1":
            raise images.ImageProblem("There is no room.")
        return make(module, disk)

    monkeypatch.setattr(images, "make_disk", no_room)
    placing.run()
    assert placing.fleet.where()["web"] == [("kvm2", "running")]
    placing.check()


def test_without_an_alternate_its_room_is_given_back(placing, monkeypatch):
    def no_room(module, disk):
        raise images.ImageProblem("There is no room.")

    monkeypatch.setattr(images, "make_disk", no_room)
    with pytest.raises(
        DroverError, match="no alternate is left. What was made was removed and its room given back"
    ):
        placing.run()
    assert placing.held() == {} and placing.fleet.where() == {}


def test_walk_f01_alternates_that_have_no_room_any_more(placing, monkeypatch):
    """Another instance took the room of the alternates: the room of this instance is released all
    the same, and the cause comes first."""

    def no_room(module, disk):
        for place in HOSTS[1:]:
            fleets.claim(placing.url, fleets.selection(f"large on {place}", place, vcpus=4))
        raise images.ImageProblem("There is no bridge br1.")

    monkeypatch.setattr(images, "make_disk", no_room)
    with pytest.raises(DroverError) as caught:
        placing.run()
    message = str(caught.value)
    assert (
        message.index("There is no bridge br1") < message.index("no alternate is left")
        and "its room given back" in message
    ), message
    assert "VCPU" in message and "faster" not in message
    assert uuid_of("web") not in placing.held()


class TestWalkF01Delete:
    """The test runs instance_delete for an instance that is only claimed."""

    def delete(self, placing):
        ports = placing.fleet.ports(placing.store)._replace(leasing=Unleased())
        options = {"timeout": 1, "force": False, "hard": False, "keep_disks": False}
        return InstanceOperations(ports).run(["web"], "absent", options)

    def test_no_order_was_given(self, placing):
        placing.claim()
        result, _differences, failed = self.delete(placing)
        assert (
            not failed
            and result["changed"]
            and [each["name"] for each in result["gone"]] == ["web"]
        )
        assert placing.held() == {}

    def test_its_order_was_cut_off(self, placing):
        claim = placing.claim()
        with placing.store.write() as connection:
            orders.begin(
                connection, claim["uuid"], orders.SPAWNING, "00000000-0000-0000-0000-000000000001"
            )
        _result, _differences, failed = self.delete(placing)
        assert not failed and placing.held() == {}

    def test_it_was_built_all_the_same(self, placing):
        claim = placing.claim()
        with placing.store.write() as connection:
            orders.begin(
                connection, claim["uuid"], orders.SPAWNING, "00000000-0000-0000-0000-000000000001"
            )
        placing.fleet.hosts[claim["host"]].define("web", claim["uuid"], "running", [placing.disk])
        _result, _differences, failed = self.delete(placing)
        assert "its build had ended. Nothing was removed: run this again" in failed[0]
        assert placing.fleet.where()["web"] == [(claim["host"], "running")]

    def test_its_host_does_not_answer(self, placing):
        claim = placing.claim()
        with placing.store.write() as connection:
            orders.begin(
                connection, claim["uuid"], orders.SPAWNING, "00000000-0000-0000-0000-000000000001"
            )
        placing.fleet.hosts[claim["host"]].power_off()
        _result, _differences, failed = self.delete(placing)
        assert "its room is not given back" in failed[0] and placing.held()


class Unleased:
    """A stand-in for conductor.leasing.Leasing, for the only run."""

    holder = "root@here, process 1"

    def held(self, hosts, purpose, seconds=0):
        return contextlib.nullcontext()


def test_defined_and_not_started_is_started_by_the_next_run(placing, monkeypatch):
    """The host loses its power between the definition and the start; the definition stays."""
    power_start = power.start

    def dies(domain, timeout):
        hypervisors.HERE.get().power_off()
        raise hypervisors.Ended

    monkeypatch.setattr(power, "start", dies)
    with pytest.raises(DroverError, match="keeps its room"):
        placing.run()
    assert placing.fleet.where() == {"web": [("kvm1", "shutoff")]}
    monkeypatch.setattr(power, "start", power_start)
    placing.fleet.hosts["kvm1"].power_on()
    # A discovery runs at this moment: a domain that is off does not count as built.
    there = fleets.domain("web", uuid=placing.claim()["uuid"], state="shutoff")
    fleets.discover(
        placing.url, fleets.host("kvm1", there), fleets.host("kvm2"), fleets.host("kvm3")
    )
    placing.run()
    placing.check()


def test_two_runs_of_one_definition_build_one_instance(placing):
    """Both look for a host before one of them claims: each has another uuid for the same
    definition."""
    with placing.store.write(together=True) as connection:
        first = claims.claim(
            connection, [fleets.selection("web", "kvm1")], fleets.NOW, defined=True
        )[0]
    with placing.store.write(together=True) as connection:
        other = {**fleets.selection("web", "kvm2"), "uuid": uuid_of("another")}
        second = claims.claim(connection, [other], fleets.NOW, defined=True)[0]
    assert (second["uuid"], second["host"], second["new"]) == (first["uuid"], "kvm1", False)
    with placing.store.write(together=True) as connection:
        # An instance that a person made by hand under that name is another one; so is the same name
        # in another project.
        by_hand = claims.claim(connection, [{**other, "uuid": uuid_of("hand")}], fleets.NOW)[0]
        project = claims.claim(connection, [{**other, "project": "p"}], fleets.NOW, defined=True)[0]
    assert (
        by_hand["new"]
        and project["new"]
        and len({first["uuid"], by_hand["uuid"], project["uuid"]}) == 3
    )


def test_two_runs_at_once(placing, fleet):
    """The second run finds the first at work on the host, waits for it, and finds its guest."""
    claim = placing.claim()
    results, barrier = [], threading.Barrier(2)

    def run():
        barrier.wait()
        results.append(placing.run())

    threads = [threading.Thread(target=run) for dummy in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 2 and claim["uuid"]
    placing.check()


# A file by another name


@pytest.mark.parametrize("only_in_xml", [False, True])
def test_safety_22_the_file_of_another_is_not_taken_by_way_of_a_link(
    placing, tmp_path, only_in_xml
):
    """The path is the disk of an instance of another host, in a folder behind a link."""
    (tmp_path / "link").symlink_to(tmp_path)
    theirs, disk = str(tmp_path / "theirs.qcow2"), {"target": "vda", "type": "file"}
    disk.update(source=theirs, path=theirs, real_path=theirs, shared_id=None, chain=[])
    fleets.discover(placing.url, fleets.host("kvm2", fleets.domain("theirs", disks=[disk])))
    claim = placing.claim()
    placing.disk = str(tmp_path / "link" / "theirs.qcow2")
    arguments = placing.wanted(claim["uuid"])
    if only_in_xml:
        arguments["disks"] = []
    for call in (placing.building("kvm1").foretell, placing.building("kvm1").build):
        with pytest.raises(
            DroverError, match=f"its disk {theirs} is a file that theirs on kvm2 uses"
        ):
            call(arguments)
    assert "web" not in placing.fleet.where() and not (tmp_path / "theirs.qcow2").exists()
    with placing.store.read() as connection:
        assert orders.read(connection, claim["uuid"]).order_uuid is None


def test_a_path_with_a_link_of_ones_own(placing, tmp_path):
    (tmp_path / "vms").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "vms")
    placing.disk = str(tmp_path / "link" / "web.qcow2")
    placing.run()
    placing.check()
    assert (tmp_path / "vms" / "web.qcow2").exists()
