# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host dies while an operation of its instance is open: the evacuation ends the operation, and
the instance runs again. The store is a real one."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    evacuation,
    host_state,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.conductor.test_evacuation import (
    Hosts,
    Killed,
    World,
    host,
    instance,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

WEB = uuid_of("web")


@pytest.fixture
def world(prepared_url):
    return World(prepared_url, instance("web"))


def resize(world, destination, arrived=False, finished=True, memory=128, disk=0):
    """Open a resize of web on kvm1, as the steps of conductor.resize do; web was shut down for
    it.
    """
    target = {
        "flavor": None,
        "resources": {"VCPU": 1, "MEMORY_MB": memory},
        "running": True,
        "sizes": {
            "old": {"vcpus": 1, "memory_mb": 64},
            "new": {"vcpus": 1, "memory_mb": memory, "disk_gb": disk},
        },
        "given": {"memory_mb": memory},
    }
    with Store.open(world.url).write() as connection:
        opened = migration_claims.begin_resize(
            connection, WEB, destination, destination, target, time.time(), "kvm1"
        )
        if finished:
            migration_claims.finish(
                connection,
                opened["uuid"],
                certainty.is_shown(destination, "shutoff"),
                "shutoff",
                time.time(),
            )
        if arrived:
            migration_claims.note(connection, opened["uuid"], {"arrived": True}, time.time())
    return opened["uuid"]


def memory_of(world):
    return {
        host: sum(each["MEMORY_MB"] for each in places.values())
        for host, places in fleets.holdings(world.url).items()
    }


def size_of(world):
    with Store.open(world.url).read() as connection:
        table = tables.instances
        return connection.execute(sa.select(table.c.memory_mb).where(table.c.uuid == WEB)).scalar()


def order(world, task_state, state="running"):
    """Open an order of web, as its operation does before its host gets it."""
    with Store.open(world.url).write() as connection:
        orders.begin(connection, WEB, task_state, "00000000-0000-0000-0000-000000000001")
        connection.execute(
            sa.update(tables.domains).where(tables.domains.c.uuid == WEB).values(state=state)
        )


def runs_again(world, **more):
    outcome = world.run(**more)
    assert world.where() == {"web": "running"} and not (
        outcome["left"] or outcome["lost"] or outcome["restarts"]
    ), outcome
    with Store.open(world.url).read() as connection:
        assert orders.read(connection, WEB).order_uuid is None
    world.look()
    world.run(**more)
    assert len(world.calls) == 1


@pytest.mark.parametrize(
    "arrived, memory",
    [(True, 128), (False, 64)],
    ids=["it has the new size", "it was not seen with it"],
)
def test_c1_a_resize_on_the_host_waits_to_be_confirmed(world, arrived, memory):
    resize(world, "kvm1", arrived)
    runs_again(world)
    assert size_of(world) == memory
    assert world.statuses() == [("web", "confirmed" if arrived else "reverted"), ("web", "done")]


@pytest.mark.parametrize("finished", [True, False])
def test_c1_a_resize_from_a_living_host_to_it(prepared_url, finished):
    """Only the dead host could confirm or revert it. A resize that had not begun leaves the
    instance off at its source, and the evacuation starts it there."""
    world = World(prepared_url)
    world.there["kvm2"] = {"web": "running"}
    world.look()
    with Store.open(prepared_url).write() as connection:
        host_state.change(connection, "kvm1", forced_down=False)
        connection.execute(sa.update(tables.services).values(last_error=None))
        new_size = {
            "flavor": None,
            "resources": {"VCPU": 1, "MEMORY_MB": 128},
            "running": True,
            "sizes": {"old": {}, "new": {"vcpus": 1}},
        }
        opened = migration_claims.begin_resize(
            connection, WEB, "kvm1", "kvm1", new_size, time.time(), "kvm2"
        )
        if finished:
            migration_claims.finish(
                connection,
                opened["uuid"],
                certainty.is_shown("kvm1", "shutoff"),
                "shutoff",
                time.time(),
            )
            migration_claims.note(connection, opened["uuid"], {"arrived": True}, time.time())
    world.there["kvm2"] = {} if finished else {"web": "shutoff"}
    fleets.discover(
        prepared_url,
        host("kvm1", *([instance("web", memory_mb=128)] if finished else [])),
        now=time.time(),
    )
    world.look()
    left = world.run()
    assert world.where() == {"web": "running"} and not left["left"], left
    assert all("kvm2" in places for places in world.holds().values()) or finished


@pytest.mark.parametrize("destination", ["kvm1", "kvm2"])
def test_c1_a_resize_that_had_not_left(world, destination):
    """A discovery read its host, where it was shut down for the resize."""
    resize(world, destination, finished=False)
    fleets.discover(world.url, host("kvm1", instance("web", state="shutoff")), now=time.time())
    runs_again(world)
    assert size_of(world) == 64 and world.statuses() == [("web", "failed"), ("web", "done")]


@pytest.mark.parametrize("kind", ["resize", "migration"])
def test_c1_a_cold_move_that_had_just_arrived_at_a_living_host(world, kind):
    """It is defined at the destination, and off: the evacuation starts it there, with the files of
    the destination."""
    if kind == "resize":
        resize(world, "kvm2", finished=False)
    else:
        with Store.open(world.url).write() as connection:
            migration_claims.begin(
                connection, WEB, "kvm2", "kvm2", "migration", time.time(), notes={"restart": True}
            )
    world.there["kvm2"] = {"web": "shutoff"}
    world.look()
    runs_again(world)
    assert world.there["kvm2"] == {"web": "running"}


def test_c1_both_ends_of_a_move_are_dead(world):
    """Both hosts were seen to be off, so it runs on neither."""
    with Store.open(world.url).write() as connection:
        migration_claims.begin(connection, WEB, "kvm2", "kvm2", "live-migration", time.time())
    world.switched_off("kvm2", time.time() + 1)
    left = world.run(read=("kvm3",))
    assert world.there["kvm3"] == {"web": "running"} and not left["left"], left


@pytest.mark.parametrize("task_state", [*orders.DEVICES, orders.MOVING_DISK, orders.SNAPSHOTTING])
def test_c1_a_change_of_its_devices_or_disks(world, task_state):
    order(world, task_state)
    runs_again(world)


@pytest.mark.parametrize("task_state", [orders.SWITCHING_DISK, orders.DELETING_SNAPSHOT])
def test_c1_where_its_newest_data_are_is_not_known(world, task_state):
    """A person examines the images, and decides which are right: one command, which needs living
    hosts only."""
    order(world, task_state)
    (entry,) = world.run()["left"]
    assert (
        world.calls == []
        and "/nfs/web.qcow2: -e drover_evacuate_force=open_disk_change" in entry["reason"]
    ), entry
    runs_again(world, lifted=["open_disk_change"])


@pytest.mark.parametrize("task_state", orders.DISK_CHANGES)
def test_c1_of_one_that_is_off_the_disks_are_as_they_were(world, task_state):
    order(world, task_state, "shutoff")
    left = world.run()
    assert world.where() == {"web": "shutoff"} and not left["left"], left


def test_c1_a_build_gives_its_claim_back(prepared_url):
    world = World(prepared_url)
    fleets.claim(prepared_url, fleets.selection("web", "kvm1"))
    with Store.open(prepared_url).write() as connection:
        orders.begin(connection, WEB, orders.SPAWNING, "00000000-0000-0000-0000-000000000001")
    world.run()
    assert fleets.holdings(prepared_url) == {}


def test_c1_it_runs_elsewhere_already_while_its_resize_is_open(world):
    """A person has started it by hand on another host."""
    resize(world, "kvm1", arrived=True)
    world.there["kvm3"] = {"web": "running"}
    world.look()
    left = world.run()
    assert world.calls == [] and not left["left"] and world.statuses()[-1] == ("web", "done")
    assert world.holds()["web"] >= {"kvm3"}


def test_c1_the_true_reason_of_a_refusal_reaches_the_last_line(world):
    """The plan and the run are one calculation, so a dry run gives the same."""
    with Store.open(world.url).write() as connection:
        orders.begin(connection, WEB, orders.SPAWNING, "00000000-0000-0000-0000-000000000001")
    world.leasing().take("kvm1", "evacuate")
    world.switched_off("kvm1", time.time())
    done = world.evacuation(Hosts(world)).restart(("kvm2", "kvm3"))
    foreseen = world.evacuation(Hosts(world), plan_only=True).restart(("kvm2", "kvm3"))
    for result in (done, foreseen):
        assert (
            "1 not. web: Instance web" in result["message"]
            and "is being built, by another run" in result["message"]
        ), result
        assert "it did not start" not in result["message"]
    assert foreseen["plan"] == done["plan"]


def test_c1_a_dry_run_promises_what_the_run_does(world):
    resize(world, "kvm1", arrived=True)
    before = fleets.snapshot(world.url)
    foreseen = world.evacuation(Hosts(world), plan_only=True).restart(("kvm2", "kvm3"))
    assert fleets.snapshot(world.url) == before
    (planned,) = foreseen["plan"]["restarts"]
    runs_again(world)
    assert world.there[planned["host"]] == {"web": "running"}


def test_c1_a_start_that_failed_everywhere_says_why_in_the_last_line(world, monkeypatch):
    monkeypatch.setattr(
        world,
        "start",
        lambda place, given: [
            {"uuid": WEB, "status": "failed", "message": "no such bridge"} for _ in given
        ],
    )
    world.leasing().take("kvm1", "evacuate")
    world.switched_off("kvm1", time.time())
    result = world.evacuation(Hosts(world)).restart(("kvm2", "kvm3"))
    assert (
        "no such bridge" in result["message"] and "web: it did not start." not in result["message"]
    ), result


def test_c1_a_lease_that_is_lost_writes_nothing(world):
    resize(world, "kvm1", arrived=True)
    with pytest.raises(DroverError):
        world.evacuation(Hosts(world)).restart(("kvm2", "kvm3"))
    assert world.statuses() == [("web", "finished")]


def test_c1_a_run_that_is_killed_before_it_has_started_what_was_shut_down(
    prepared_url, monkeypatch
):
    """The next run starts it."""
    world = World(prepared_url)
    world.there["kvm2"] = {"web": "running"}
    world.look()
    with Store.open(prepared_url).write() as connection:
        host_state.change(connection, "kvm1", forced_down=False)
        connection.execute(sa.update(tables.services).values(last_error=None))
        migration_claims.begin(
            connection, WEB, "kvm1", "kvm1", "migration", time.time(), "kvm2", {"restart": True}
        )
    world.there["kvm2"] = {"web": "shutoff"}
    world.look()

    def killed(run):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Evacuation, "_start_again", killed)
        with pytest.raises(Killed):
            world.run()
    assert world.where() == {"web": "shutoff"}
    world.run()
    assert world.where() == {"web": "running"} and world.statuses() == [("web", "failed")]


@pytest.mark.parametrize("given_up", [True, False])
def test_c1_a_part_of_it_is_at_a_living_host_as_its_live_move_was_under_way(
    world, monkeypatch, given_up
):
    """The libvirt of the destination removes the part half a minute after the death of the source.
    A resumed part would be a guest without its memory.
    """
    with Store.open(world.url).write() as connection:
        migration_claims.begin(connection, WEB, "kvm2", "kvm2", "live-migration", time.time())
    world.there["kvm2"] = {"web": "paused"}
    world.look()
    looked, discover = [], Hosts.discover

    def look(hosts, name, limit=None):
        discover(hosts, name, limit)
        looked.append(name)
        if given_up:
            world.there["kvm2"] = {}
        world.look()

    monkeypatch.setattr(Hosts, "discover", look)
    monkeypatch.setattr(evacuation, "LOOK_AGAIN", 0)
    monkeypatch.setattr(evacuation, "INCOMING", 60 if given_up else 0)
    staying = world.run()["left"]
    if given_up:
        assert looked == ["kvm2"] and not staying and world.where() == {"web": "running"}
    else:
        (reason,) = [each["reason"] for each in staying]
        assert "never resume it" in reason and world.there == {
            "kvm2": {"web": "paused"},
            "kvm3": {},
        }


@pytest.mark.parametrize("opened", ["resize", *orders.ENDED_BY_EVACUATION, orders.DELETING])
def test_c1_what_is_lost_with_its_host_can_be_released_whatever_was_open(prepared_url, opened):
    """No other command could end its open operation."""
    world = World(prepared_url, instance("web", path="/local"))
    if opened == "resize":
        resize(world, "kvm1", arrived=True)
    else:
        order(world, opened, "shutoff")
    left = world.run()
    (reason,) = [each["reason"] for each in left["lost"] + left["left"]]
    assert world.where() == {} and (opened != orders.DELETING or WEB in reason)
    with Store.open(world.url).write() as connection:
        assert claims.release(connection, [WEB], certainty.word("somebody"), time.time()) == [WEB]
    assert not fleets.holdings(world.url)
