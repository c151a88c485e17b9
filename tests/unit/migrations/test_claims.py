# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The consumer of the room at each end during a move (N9.1)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    orders as migration_orders,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    migrations_open,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    domain,
    host,
    selection,
    uuid_of,
)

PROOF = certainty.word("a test")

HELD = {"VCPU": 2, "MEMORY_MB": 64, "DISK_GB": 5}


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store with three hosts; web (2 VCPU) runs on kvm1."""
    web = domain("web", vcpus=2, disk_gb=5, metadata={"project": "p", "user": "u"})
    fleets.discover(prepared_url, host("kvm1", web), host("kvm2"), host("kvm3"))
    return prepared_url


def in_store(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def begin(url, name="web", to="kvm2", kind="live-migration"):
    return in_store(url, migration_claims.begin, uuid_of(name), to, None, kind, fleets.NOW)


def test_an_instance_that_somebody_else_moved_is_left_alone(fleet_url):
    finish(fleet_url, begin(fleet_url, to="kvm3"))
    before = fleets.holdings(fleet_url)
    with pytest.raises(DroverError, match="web is on kvm3 by now, not on kvm1"):
        in_store(
            fleet_url,
            migration_claims.begin,
            uuid_of("web"),
            "kvm2",
            None,
            "live-migration",
            fleets.NOW,
            "kvm1",
        )
    assert fleets.holdings(fleet_url) == before


def finish(url, move, state="running"):
    in_store(url, migration_claims.finish, move["uuid"], PROOF, state, fleets.NOW)


def undo(url, move):
    in_store(url, migration_claims.undo, move["uuid"], PROOF, "the network broke", fleets.NOW)


def listing(url):
    with Store.open(url).read() as connection:
        return {row["name"]: row for row in instances.listing(connection)}


def test_begin_swaps_the_room(fleet_url):
    move = begin(fleet_url)
    assert {
        key: move[key] for key in ("name", "source", "destination", "type", "status", "new")
    } == {
        "name": "web",
        "source": "kvm1",
        "destination": "kvm2",
        "type": "live-migration",
        "status": "accepted",
        "new": True,
    }
    assert fleets.holdings(fleet_url) == {
        move["uuid"]: {"kvm1": HELD},
        uuid_of("web"): {"kvm2": HELD},
    }
    # The instance still runs at the source.
    assert fleets.where(fleet_url) == {"web": "kvm1"}


def test_the_source_room_is_held_while_the_move_is_open(fleet_url):
    begin(fleet_url)
    for name in ("kvm1", "kvm2"):
        with pytest.raises(DroverError, match="VCPU: asked 3, used 2 of 4"):
            fleets.claim(fleet_url, selection("big", name, vcpus=3))


@pytest.mark.parametrize("many", [1, 12])
def test_what_a_killed_run_left_open_is_read_in_five_queries(prepared_url, many):
    names = [f"vm{number}" for number in range(many)]
    fleets.discover(
        prepared_url, host("kvm1", *map(domain, names), vcpus=64), host("kvm2", vcpus=64)
    )
    opened = [begin(prepared_url, name)["uuid"] for name in names]
    with Store.open(prepared_url).read() as connection:
        left = migration_orders.pending(connection, "kvm1")
        assert [(each["migration"], each["name"]) for each in left] == list(zip(opened, names))
        assert left == [migration_orders.order(connection, uuid) for uuid in opened]
        assert fleets.count_queries(connection, migration_orders.pending, "kvm1") == 5


def test_finish_leaves_the_destination_only(fleet_url):
    finish(fleet_url, begin(fleet_url), "paused")
    assert fleets.holdings(fleet_url) == {uuid_of("web"): {"kvm2": HELD}}
    row = listing(fleet_url)["web"]
    assert (row["host"], row["state"], row["project"]) == ("kvm2", "paused", "p")
    assert in_store(fleet_url, migrations_open.holding, [uuid_of("web")]) == {}
    # Discovery finds nothing to change.
    web = domain("web", vcpus=2, disk_gb=5, metadata={"project": "p", "user": "u"}, state="paused")
    assert (
        fleets.discover(fleet_url, host("kvm1"), host("kvm2", web), host("kvm3"))["changed"]
        is False
    )


def test_undo_gives_the_source_its_room_back(fleet_url):
    before = fleets.holdings(fleet_url)
    undo(fleet_url, begin(fleet_url))
    assert fleets.holdings(fleet_url) == before
    assert fleets.where(fleet_url) == {"web": "kvm1"}
    with Store.open(fleet_url).read() as connection:
        assert fleets.failed_destinations(connection, "kvm1", fleets.NOW) == {
            uuid_of("web"): ["kvm2"]
        }
        assert fleets.failed_destinations(connection, "kvm1", fleets.NOW + 1) == {}


@pytest.mark.parametrize("end", ["finished", "undone"])
@pytest.mark.parametrize("move_type", ["live-migration", "evacuation"])
def test_an_evacuated_instance_that_moves_on_keeps_the_room_at_the_dead_host(
    fleet_url, move_type, end
):
    """The instance needs room once for itself. The room at the dead host is free only when that
    host is back without it."""
    evacuation = begin(fleet_url, to="kvm2", kind="evacuation")
    finish(fleet_url, evacuation)
    move = begin(fleet_url, to="kvm3", kind=move_type)
    instance = {uuid_of("web"): {"kvm1": HELD, "kvm3": HELD}}
    if move_type == "evacuation":
        assert fleets.holdings(fleet_url) == {
            uuid_of("web"): {"kvm1": HELD, "kvm2": HELD, "kvm3": HELD}
        }
    else:
        assert fleets.holdings(fleet_url) == {**instance, move["uuid"]: {"kvm2": HELD}}
    if end == "finished":
        finish(fleet_url, move)
        hosts = {"kvm1", "kvm3"} | ({"kvm2"} if move_type == "evacuation" else set())
    else:
        undo(fleet_url, move)
        hosts = {"kvm1", "kvm2"}
    assert fleets.holdings(fleet_url) == {uuid_of("web"): dict.fromkeys(hosts, HELD)}
    with Store.open(fleet_url).write() as connection:
        migration_claims.clear_source(connection, evacuation["uuid"], PROOF, fleets.NOW)
    assert fleets.holdings(fleet_url) == {uuid_of("web"): dict.fromkeys(hosts - {"kvm1"}, HELD)}


def test_begin_is_idempotent(fleet_url):
    first = begin(fleet_url)
    before = fleets.snapshot(fleet_url)
    again = begin(fleet_url)
    assert (again["uuid"], again["new"]) == (first["uuid"], False)
    assert fleets.snapshot(fleet_url) == before


def test_a_second_move_to_elsewhere_is_refused(fleet_url):
    begin(fleet_url)
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="open migration from kvm1 to kvm2"):
        begin(fleet_url, to="kvm3")
    assert fleets.snapshot(fleet_url) == before


@pytest.mark.parametrize(
    ("name", "to", "message"),
    [
        ("web", "kvm1", "on kvm1 already"),
        ("web", "nosuch", "Known hosts: kvm1, kvm2, kvm3"),
        ("nosuch", "kvm2", "not on any host"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(fleet_url, name, to, message):
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match=message):
        begin(fleet_url, name, to)
    assert fleets.snapshot(fleet_url) == before


def test_a_destination_without_room_or_switched_off_is_refused(fleet_url):
    fleets.claim(fleet_url, selection("big", "kvm2", vcpus=3))
    in_store(fleet_url, host_state.change, "kvm3", "disabled", "fans")
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="VCPU: asked 2, used 3 of 4"):
        begin(fleet_url)
    with pytest.raises(DroverError, match=r"disabled \(fans\)"):
        begin(fleet_url, to="kvm3")
    assert fleets.snapshot(fleet_url) == before


def test_a_disabled_source_does_not_keep_its_instances(fleet_url):
    in_store(fleet_url, host_state.change, "kvm1", "draining", "fans")
    assert begin(fleet_url)["new"]


@pytest.mark.parametrize("close", [finish, undo])
@pytest.mark.parametrize("again", [finish, undo])
def test_a_closed_migration_stays_as_it_is(fleet_url, close, again):
    move = begin(fleet_url)
    close(fleet_url, move)
    before = fleets.snapshot(fleet_url)
    again(fleet_url, move)
    assert fleets.snapshot(fleet_url) == before


def test_finishing_without_a_state_keeps_the_one_that_was_seen(fleet_url):
    finish(fleet_url, begin(fleet_url), None)
    row = listing(fleet_url)["web"]
    assert (row["host"], row["state"]) == ("kvm2", "running")


def test_there_and_back(fleet_url):
    before = fleets.holdings(fleet_url)
    finish(fleet_url, begin(fleet_url))
    finish(fleet_url, begin(fleet_url, to="kvm1"))
    assert fleets.holdings(fleet_url) == before
    assert fleets.where(fleet_url) == {"web": "kvm1"}


@pytest.mark.parametrize("close", [finish, undo])
def test_a_migration_that_is_not_there(fleet_url, close):
    with pytest.raises(DroverError, match="Migration nosuch is not in the store"):
        close(fleet_url, {"uuid": "nosuch"})


def test_what_has_no_domain_is_not_moved(fleet_url):
    fleets.claim(fleet_url, selection("new", "kvm1"))
    fleets.discover(fleet_url, host("kvm1"))
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="new .*is only being built"):
        begin(fleet_url, "new")
    with pytest.raises(DroverError, match="web .*is missing: its host no longer shows its domain"):
        begin(fleet_url)
    assert fleets.snapshot(fleet_url) == before


# Races


def test_two_processes_move_one_instance_to_different_hosts(fleet_url):
    def work(to):
        try:
            return begin(fleet_url, to=to)["destination"]
        except DroverError as problem:
            return "refused" if "open migration" in str(problem) else str(problem)

    answers = fleets.race(*(lambda to=to: work(to) for to in ("kvm2", "kvm3") * 2))
    won = next(answer for answer in answers if answer != "refused")
    assert sorted(answers) == sorted([won, won, "refused", "refused"])
    assert fleets.used(fleet_url) == {"kvm1": 2, won: 2}


def test_drains_in_opposite_directions_do_not_hang(prepared_url):
    names = [f"web{number}" for number in range(4)]
    for number in (0, 1):
        domains = [domain(name) for name in names[number::2]]
        fleets.discover(prepared_url, host(f"kvm{number}", *domains, vcpus=40))

    def work(number):
        for turn in range(4):
            move = begin(prepared_url, names[number], f"kvm{(number + turn + 1) % 2}")
            (undo if turn % 3 == 2 else finish)(prepared_url, move)
            if turn % 3 == 2:
                finish(
                    prepared_url,
                    begin(prepared_url, names[number], f"kvm{(number + turn + 1) % 2}"),
                )
        return "done"

    assert fleets.race(*(lambda number=number: work(number) for number in range(4))) == ["done"] * 4
    assert fleets.used(prepared_url) == {"kvm0": 2, "kvm1": 2}
    assert fleets.where(prepared_url) == {
        name: f"kvm{number % 2}" for number, name in enumerate(names)
    }


def test_discovery_and_moves_at_the_same_time(prepared_url):
    """In any order, the room of an instance is never lost and never doubled."""
    names = [f"web{number}" for number in range(3)]
    domains = [domain(name) for name in names]
    fleets.discover(prepared_url, host("kvm1", *domains, vcpus=40), host("kvm2", vcpus=40))

    def move(name):
        for _dummy in range(4):
            undo(prepared_url, begin(prepared_url, name))
        return "done"

    def discover():
        for _dummy in range(6):
            fleets.discover(prepared_url, host("kvm1", *domains, vcpus=40))
        return "done"

    works = [lambda name=name: move(name) for name in names]
    assert fleets.race(discover, *works) == ["done"] * 4
    assert fleets.used(prepared_url) == {"kvm1": 3}
    assert set(fleets.holdings(prepared_url)) == set(map(uuid_of, names))
