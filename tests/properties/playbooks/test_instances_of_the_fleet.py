# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions on instances of any host: resize, migrate, start and stop, and undrain, on
hypervisors in this process."""

from __future__ import annotations

import types

import pytest
import sqlalchemy as sa

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.action.test_instance import (
    BIG,
    SMALL,
    acts,
    at,
    move,
    states,
    step,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of


@pytest.fixture
def no_lease_is_left(fleet_url):
    yield
    with Store.open(fleet_url).read() as connection:
        assert leases.read(connection) == []


pytestmark = pytest.mark.usefixtures("no_lease_is_left")


def resize(url, *names, **given):
    return run("instance_resize", store_url=url, instances=list(names), timeout=1, **given)


def refused(module, url, *names, **given):
    return failure(module, None, store_url=url, instances=list(names), **given)


def test_a_resize_moves_starts_and_confirms_one_after_the_other(fleet_url, there):
    before = fleets.snapshot(fleet_url)
    assert resize(fleet_url, "web", "db", flavor="big", host="kvm2", check=True)["changed"] is True
    assert fleets.snapshot(fleet_url) == before and acts(there) == []
    done = resize(fleet_url, "web", "db", flavor="big", host="kvm2", ending="confirm", diff=True)
    assert done["changed"] is True and [each["status"] for each in done["resizes"]] == [
        "confirmed",
        "confirmed",
    ]
    assert sorted(each["after_header"] for each in done["diff"]) == ["db", "db", "web", "web"]
    assert fleets.holdings(fleet_url) == {
        uuid_of("web"): {"kvm2": BIG},
        uuid_of("db"): {"kvm2": BIG},
    }
    assert at(there, "kvm2")["state"] == "running" and at(there, "kvm2", "db")["vcpus"] == 2
    assert resize(fleet_url, "web", flavor="big", ending="confirm")["changed"] is False


def test_what_did_not_move_is_taken_back_and_stops_no_other(fleet_url, there):
    holdings = fleets.holdings(fleet_url)

    def stuck(source, destination, guest):
        if guest.name() == "web":
            raise libvirt.libvirtError("unable to connect to server at kvm2")
        there.moved(source, destination, guest)

    there.migrate = stuck
    message = refused(
        "instance_resize", fleet_url, "web", "db", flavor="big", host="kvm2", ending="confirm"
    )
    assert (
        "Instance web did not move from kvm1 to kvm2" in message
        and "unable to connect to server at kvm2" in message
    )
    assert "It is on kvm1 with its old size, as before." in message
    assert at(there, "kvm1")["vcpus"] == 1 and at(there, "kvm1")["state"] == "running"
    assert fleets.holdings(fleet_url) == {
        uuid_of("web"): holdings[uuid_of("web")],
        uuid_of("db"): {"kvm2": BIG},
    }


def test_a_resize_that_somebody_ended_meanwhile_is_left_alone(fleet_url, there):
    def ended(host, module, arguments):
        if (
            module.endswith("domain")
            and arguments.get("state") == "stopped"
            and not there.calls[-1][3]
        ):
            with Store.open(fleet_url).write() as connection:
                connection.execute(sa.update(tables.migrations).values(status="failed"))

    there.before.append(ended)
    said = refused("instance_resize", fleet_url, "web", flavor="big", host="kvm3")
    assert "is not open any more: a discovery, or another run, has ended it" in said
    assert "as before" not in said and there.where()["web"] == [("kvm1", "shutoff")]


def test_a_revert_that_was_killed_after_its_start_is_ended(fleet_url, there):
    resize(fleet_url, "web", flavor="big", host="kvm2")
    step(fleet_url, "leaving_again", "kvm2")
    move(there, "web", "kvm2", "kvm1")
    # It got its old size before its start.
    there.hand("kvm1").act(
        "domain",
        {"uuid": uuid_of("web"), "state": "present", "vcpus": 1, "memory_mb": 64, "flavor": ""},
    )
    there.hosts["kvm1"].domains()[uuid_of("web")].create()
    assert resize(fleet_url, "web", ending="revert")["resizes"][0]["status"] == "reverted"
    assert at(there, "kvm1")["state"] == "running" and fleets.holdings(fleet_url)[
        uuid_of("web")
    ] == {"kvm1": SMALL}


def test_nothing_is_asked_for(fleet_url):
    assert "Nothing was done, because no new size is given. Set drover_flavor" in refused(
        "instance_resize", fleet_url, "web"
    )
    assert "Which instances?" in refused("instance_resize", fleet_url, flavor="big")
    assert "Which instances?" in refused("instance_migrate", fleet_url)
    assert "Which instances?" in refused("instance", fleet_url, state="running")


def test_a_migration_for_which_no_place_is_found_stops_all(fleet_url, there):
    said = refused("instance_migrate", fleet_url, "web", "db", host="kvm9")
    assert (
        "kvm9" in said
        and fleets.where(fleet_url) == {"web": "kvm1", "db": "kvm1"}
        and acts(there) == []
    )


def test_instances_migrate_by_their_state_and_their_policy(fleet_url, there):
    pinned = {"move": "never"}
    fleets.discover(
        fleet_url, host("kvm1", domain("web", disk_gb=1), domain("db", disk_gb=1, metadata=pinned))
    )
    said = refused("instance_migrate", fleet_url, "web", "db", host="kvm2")
    assert "Instance db is not moved from kvm1: its migration policy is 'never'" in said
    assert there.where() == {"web": [("kvm2", "running")], "db": [("kvm1", "running")]}
    done = run(
        "instance_migrate",
        store_url=fleet_url,
        instances=["web"],
        host="kvm3",
        cold=True,
        timeout=1,
    )
    assert (
        done["changed"] is True
        and done["resizes"][0]["status"] == "confirmed"
        and done["migrations"] == []
    )
    assert there.where()["web"] == [("kvm3", "running")] and fleets.holdings(fleet_url)[
        uuid_of("web")
    ] == {"kvm3": SMALL}


def test_instances_of_several_hosts_are_stopped_in_one_task(fleet_url, there):
    move(there, "db", "kvm1", "kvm2")
    fleets.discover(
        fleet_url,
        host("kvm1", domain("web", disk_gb=1)),
        host("kvm2", domain("db", disk_gb=1, state="shutoff")),
    )
    there.hosts["kvm2"].reached = False
    # A dry run has begun nothing, so there is no result to look for.
    message = refused("instance", fleet_url, "web", "db", state="stopped", check=True)
    assert (
        message.endswith("Its instances were not checked, and nothing was changed.")
        and "What became of" not in message
    )
    assert states(fleet_url)["web"] == "running"
    message = refused("instance", fleet_url, "web", "db", state="stopped")
    assert "What became of its instances is not known" in message
    assert "kvm2" in message and states(fleet_url)["web"] == "shutoff"
    there.hosts["kvm2"].reached = True
    done = run("instance", store_url=fleet_url, instances=["web", "db"], state="running")
    assert there.where() == {"web": [("kvm1", "running")], "db": [("kvm2", "running")]}
    assert {each["name"] for each in done["instances"]} == {"web", "db"}
    gone = run(
        "instance", store_url=fleet_url, instances=["db", "nobody"], state="absent", timeout=1
    )["gone"]
    assert gone == [{"uuid": uuid_of("db"), "name": "db"}, "nobody"] and set(there.where()) == {
        "web"
    }


def test_one_instance_is_brought_to_a_state_by_its_name_or_its_uuid(fleet_url, there):
    arguments = {"store_url": fleet_url, "name": "web", "state": "stopped"}
    assert (
        run("instance", **arguments, check=True)["changed"] is True
        and states(fleet_url)["web"] == "running"
    )
    assert [run("instance", **arguments)["changed"] for dummy in range(2)] == [True, False]
    assert states(fleet_url) == {"web": "shutoff", "db": "running"}
    assert (
        run("instance", store_url=fleet_url, uuid=uuid_of("web"))["changed"] is True
        and states(fleet_url)["web"] == "running"
    )
    said = failure("instance", None, store_url=fleet_url, name="web", uuid=uuid_of("db"))
    assert "disagree" in said and states(fleet_url) == {"web": "running", "db": "running"}
    assert "No instance wbe is in the store" in failure(
        "instance", None, store_url=fleet_url, name="wbe"
    )
    assert "mutually exclusive" in refused("instance", fleet_url, "db", name="web")
    assert "one of the following is required" in failure("instance", None, store_url=fleet_url)


def test_an_undrain_starts_what_it_can(fleet_url, there, monkeypatch):
    run(
        "host",
        name="kvm1",
        state="draining",
        shuts_down=[uuid_of("web"), uuid_of("db")],
        store_url=fleet_url,
    )
    for each in there.hosts["kvm1"].domains().values():
        each.destroy()
    create = libvirt.virDomain.createWithFlags

    def start(guest, flags):
        if guest.name() == "db":
            raise libvirt.libvirtError("No such file or directory")
        return create(guest, flags)

    with monkeypatch.context() as patch:
        patch.setattr(libvirt.virDomain, "createWithFlags", start)
        message = failure("undrain", None, store_url=fleet_url, host="kvm1")
    assert (
        "kvm1 is back, but what its drain shut down does not all run again" in message
        and "No such file" in message
    )
    assert there.hosts["kvm1"].states() == {"web": "running", "db": "shutoff"}
    with Store.open(fleet_url).read() as connection:
        assert not services.get(connection, "kvm1").disabled
    done = run("undrain", store_url=fleet_url, host="kvm1")
    assert [each["name"] for each in done["started"]] == ["db"] and done["changed"] is True
    assert run("undrain", store_url=fleet_url, host="kvm1")["started"] == []


def test_a_host_that_is_not_brought_back_keeps_no_other_from_it(fleet_url, there):
    for name in ("kvm1", "kvm2"):
        run("host", name=name, state="draining", store_url=fleet_url)
    other = types.SimpleNamespace(holder="b", process="b", lives=lambda process: None)
    with Store.open(fleet_url).write() as connection:
        leases.take(connection, "kvm1", other, "drain")
    message = failure("undrain", None, store_url=fleet_url, host=["kvm2", "kvm1"])
    assert (
        "kvm1 is being worked on by b (drain)" in message
        and "kvm2 is as it was before its drain or evacuation: enabled." in message
    )
    with Store.open(fleet_url).write() as connection:
        assert [services.get(connection, name).disabled for name in ("kvm1", "kvm2")] == [
            True,
            False,
        ]
        leases.release(connection, "kvm1", other)
    assert "kvm9" in failure("undrain", None, store_url=fleet_url, host="kvm1,kvm9")
    back = run("undrain", store_url=fleet_url, host="kvm1,kvm2")
    assert [(each["host"], each["disabled"]) for each in back["hosts"]] == [
        ("kvm1", False),
        ("kvm2", False),
    ]
    assert "kvm2 was not drained; nothing was changed: enabled." in back["message"]
