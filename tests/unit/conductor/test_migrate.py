# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves off one host, with any fault of the run, the hypervisor or the instance during the moves.

The store is a real one. The hypervisor is a small world that answers as the module domain_migration
does, and continues without a caller, as libvirt does.
"""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.migrate import Mover
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.restarting import Restarts
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    orders as migration_orders,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._records.outcomes import MeasuredMove
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    measured_moves,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

NAMES = ("web1", "web2", "web3")
#: The instances are not shut down for their moves.
NO_POWER = Restarts(lambda order: (None, None), lambda order, there, on, timeout: None, 1)


class Killed(BaseException):
    """The end of the run, as by kill -9: it catches nothing and cleans nothing up."""


class World:
    """The real places of the domains, and the results of their moves.

    :param fate: dict name -> the end of its move, by default completed.
    :param rounds: number of calls that a move takes.

    ``limit``: the greatest number of moves at a time; the others wait, as in the module.
    """

    def __init__(self, fate=(), rounds=2):
        self.fate, self.rounds = dict(fate), rounds
        self.place = dict.fromkeys(map(uuid_of, NAMES), "kvm1")
        self.jobs, self.calls, self.most, self.begun = {}, 0, 0, []
        self.killed_at, self.after = None, False
        self.limit, self.starts = None, []
        self.copies, self.seconds = {"memory_mib": 64, "disk_mib": 5}, 1.5

    def __call__(self, start, follow, wait, until):
        """Answer as domain_migration with start, follow, wait and until; the orders come from the
        journal."""
        # The call waits for the end of at least one open move; otherwise there is nothing to wait
        # for.
        assert wait > 0 and 0 <= until < len(start) + len(follow)
        self.calls += 1
        self.starts.append([order["name"] for order in start])
        if self.calls == self.killed_at and not self.after:
            raise Killed
        orders = [*start, *follow]
        assert len({order["uuid"] for order in orders}) == len(orders)
        for order in start:
            # A move without ``begin`` is only settled, and cannot begin afterwards.
            if (
                order["uuid"] not in self.jobs
                and self.place[order["uuid"]] == order["source"]
                and order["begin"]
            ):
                self.jobs[order["uuid"]] = [order, self.rounds]
                self.begun.append(order["name"])
        self.most = max(self.most, len(self.jobs))
        self.pass_time()
        answers = [self.answer(order) for order in orders]
        if self.calls == self.killed_at and self.after:
            raise Killed
        return answers

    def pass_time(self, rounds=1):
        for uuid, (order, left) in list(self.jobs.items())[: self.limit]:
            if left > rounds:
                self.jobs[uuid][1] -= rounds
                continue
            del self.jobs[uuid]
            if self.fate.get(order["name"], "completed") == "completed":
                self.place[uuid] = order["destination"]

    def moves(self, order):
        return order["uuid"] in list(self.jobs)[: self.limit]

    def answer(self, order):
        at_source = self.place[order["uuid"]] == order["source"]
        status = "running"
        if order["uuid"] not in self.jobs:
            status = self.fate.get(order["name"], "failed") if at_source else "completed"
        states = {
            "running": ("running", None),
            "completed": ("absent", "running" if order["live"] else "shutoff"),
            "failed": ("running", "absent"),
            "cancelled": ("running", "absent"),
            "conflict": ("running", "running"),
            "lost": ("absent", "absent"),
        }[status]
        return {
            "uuid": order["uuid"],
            "name": order["name"],
            "destination": order["destination"],
            "status": status,
            "phase": (
                "done" if status != "running" else "migrating" if self.moves(order) else "waiting"
            ),
            "percent": 50 if status == "running" else 100,
            "total_mib": 64,
            "remaining_mib": 32,
            "elapsed_s": self.seconds,
            "copies": self.copies,
            "message": "" if status in ("running", "completed") else f"the world says {status}",
            "storage": "shared",
            "source_state": states[0],
            "destination_state": states[1],
            "leftovers": [],
        }


@pytest.fixture
def fleet_url(prepared_url):
    """Make three hosts; the instances run on kvm1, which is drained."""
    begin_again(prepared_url)
    return prepared_url


def begin_again(url):
    Store.open(url).upgrade()
    fleets.empty(url)
    fleets.discover(url, host("kvm1", *map(domain, NAMES)), host("kvm2"), host("kvm3"))
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm1", "draining", "kernel")


def plan(*names, to="kvm2", live=True):
    return [
        {
            "uuid": uuid_of(name),
            "name": name,
            "from_host": "kvm1",
            "host": to,
            "node": to,
            "live": live,
        }
        for name in names
    ]


def mover(
    url,
    world,
    limit=2,
    lines=None,
    keep=lambda connection: None,
    since=None,
    ahead=True,
    clock=time,
):
    """:param ahead: False for caps that let nothing wait at the hypervisor."""
    world.limit = limit
    caps = MigrationLimits(limit, overall=None if ahead else limit)
    return Mover(
        Store.open(url),
        world,
        (lines if lines is not None else []).append,
        caps,
        keep,
        NO_POWER,
        since=since,
        clock=clock,
    )


def open_moves(url):
    with Store.open(url).read() as connection:
        return {order["name"] for order in migration_orders.pending(connection, "kvm1")}


def agree(url, world):
    """Return True if the store is right: each instance on its host, with its room there and on no
    other host."""
    places = {name: world.place[uuid_of(name)] for name in NAMES}
    taken = {uuid_of(name): {place: {"VCPU": 1, "MEMORY_MB": 64}} for name, place in places.items()}
    return (fleets.where(url), fleets.holdings(url), open_moves(url)) == (places, taken, set())


def statuses(outcomes):
    return {outcome["name"]: outcome["status"] for outcome in outcomes}


@pytest.mark.parametrize(
    "copies, seconds",
    [
        (None, 1.5),
        ("much", 1.5),
        ({"memory_mib": 64}, 1.5),
        ({"memory_mib": "64", "disk_mib": 5}, 1.5),
        ({"memory_mib": -64, "disk_mib": 500}, 1.5),
        ({"memory_mib": 1 << 80, "disk_mib": 5}, 1.5),
        ({"memory_mib": 64, "disk_mib": 5}, None),
        ({"memory_mib": 64, "disk_mib": 5}, -1.5),
        ({"memory_mib": 64, "disk_mib": 5}, float("nan")),
    ],
)
def test_a_measurement_that_makes_no_sense_ends_no_move_and_is_not_kept(fleet_url, copies, seconds):
    world = World()
    world.copies, world.seconds = copies, seconds
    (outcome,) = mover(fleet_url, world).run(plan("web1"))
    assert outcome["status"] == "completed" and open_moves(fleet_url) == set()
    with Store.open(fleet_url).read() as connection:
        assert measured_moves.read(connection) == []


def test_all_moves_in_the_order_of_the_plan(fleet_url):
    world, lines = World(), []
    outcomes = mover(fleet_url, world, lines=lines).run(
        [*plan("web2", "web1"), *plan("web3", to="kvm3")]
    )
    assert statuses(outcomes) == dict.fromkeys(NAMES, "completed")
    assert agree(fleet_url, world)
    assert set(world.place.values()) == {"kvm2", "kvm3"}
    assert world.begun == ["web2", "web1", "web3"]
    assert {
        key: outcomes[0][key]
        for key in ("source", "destination", "storage", "elapsed_s", "message")
    } == {
        "source": "kvm1",
        "destination": "kvm2",
        "storage": "shared",
        "elapsed_s": 1.5,
        "message": "",
    }
    with Store.open(fleet_url).read() as connection:
        assert measured_moves.read(connection)[0] == MeasuredMove("kvm1", "kvm3", True, 64, 5, 1.5)
        assert len(measured_moves.read(connection)) == 3
    assert lines[0] == "web2: kvm1 -> kvm2, live, started [0 of 3]"
    assert sum("started" in line for line in lines) == 3
    assert "web3: kvm1 -> kvm3, running there after 1.5 s [3 of 3]" in lines


class Patient(World):
    """A world that answers when the number of open moves is down to ``until``."""

    def __call__(self, start, follow, wait, until):
        self.until = until
        return super().__call__(start, follow, wait, until)

    def pass_time(self, rounds=1):
        while len(self.jobs) > self.until:
            super().pass_time(rounds)


@pytest.mark.parametrize("limit, handed_over", [(1, [4, 2, 2, 1]), (2, [8, 1]), (3, [9])])
def test_the_hypervisor_has_enough_to_do_and_is_seldom_called(fleet_url, limit, handed_over):
    """Beside the running moves, three times as many wait at the hypervisor. It gets more when twice
    as many are open in total."""
    names = [f"web{number}" for number in range(1, 10)]
    fleets.discover(
        fleet_url, host("kvm1", *map(domain, names), vcpus=9), host("kvm2", vcpus=9), host("kvm3")
    )
    world = Patient()
    world.limit, world.place = limit, dict.fromkeys(map(uuid_of, names), "kvm1")
    outcomes = mover(fleet_url, world, limit).run(plan(*names))
    assert statuses(outcomes) == dict.fromkeys(names, "completed") and world.begun == names
    assert list(map(len, world.starts)) == handed_over


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_as_many_as_the_limit_are_said_to_begin_at_once(fleet_url, limit):
    world, lines = World(), []
    mover(fleet_url, world, limit, lines).run(plan(*NAMES))
    assert world.starts[0] == list(NAMES) and world.most == 3
    assert [line.partition(" [")[0] for line in lines if "started" in line] == [
        f"{name}: kvm1 -> kvm2, live, started" for name in NAMES
    ]
    assert lines.index("web1: kvm1 -> kvm2, live, started [0 of 3]") == 0
    assert agree(fleet_url, world)


@pytest.mark.parametrize("caps", [MigrationLimits(1, 2), MigrationLimits(1, None, 2)])
def test_what_only_waits_takes_nothing_from_other_runs(fleet_url, caps):
    world = World()
    world.limit = 1
    Mover(Store.open(fleet_url), world, [].append, caps, lambda connection: None, NO_POWER).run(
        plan(*NAMES)
    )
    assert world.most == 1
    assert agree(fleet_url, world)


def test_what_waits_is_said_to_have_started_when_it_has(fleet_url):
    world, lines = World(), []
    mover(fleet_url, world, 1, lines).run(plan(*NAMES))
    said = [line.split(" [")[0].split(" after")[0] for line in lines]
    way = "kvm1 -> kvm2"
    assert said == [
        f"{name}: {way}, {word}" for name in NAMES for word in ("live, started", "running there")
    ]


def test_without_the_lease_nothing_more_is_begun(fleet_url):
    world, kept = World(), []

    def keep(connection):
        kept.append(connection)
        if len(kept) > 1:
            raise leases.LeaseLost("kvm1 is being worked on by b@ctrl.")

    with pytest.raises(leases.LeaseLost, match="worked on by b@ctrl"):
        mover(fleet_url, world, limit=1, keep=keep, ahead=False).run(plan(*NAMES))
    assert world.begun == ["web1"], "the second is to wait, but the lease was lost"
    # The next run with the lease finds the store in order.
    world.pass_time(9)
    mover(fleet_url, world).settle("kvm1")
    assert agree(fleet_url, world)


def test_without_the_lease_nothing_is_settled(fleet_url):
    world = World()
    world.killed_at = 1
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan("web1"))

    def keep(connection):
        raise leases.LeaseLost("kvm1 is being worked on by b@ctrl.")

    world.killed_at = None
    with pytest.raises(leases.LeaseLost):
        mover(fleet_url, world, keep=keep).settle("kvm1")
    assert world.begun == []


def test_a_cold_move_keeps_the_instance_shut_off(fleet_url):
    world = World()
    mover(fleet_url, world).run(plan("web1", live=False))
    with Store.open(fleet_url).read() as connection:
        (row,) = instances.listing(connection, name="web1")
    assert (row["host"], row["state"]) == ("kvm2", "shutoff")
    assert agree(fleet_url, world)


def test_nothing_to_do_asks_nobody(fleet_url):
    world = World()
    assert mover(fleet_url, world).settle("kvm1") == []
    assert mover(fleet_url, world).run([]) == []
    assert world.calls == 0


def test_a_failed_move_is_undone_and_the_others_go_on(fleet_url):
    world, lines = World({"web2": "failed"}), []
    outcomes = mover(fleet_url, world, limit=1, lines=lines).run(plan(*NAMES))
    assert statuses(outcomes) == {"web1": "completed", "web2": "failed", "web3": "completed"}
    assert agree(fleet_url, world)
    assert world.place[uuid_of("web2")] == "kvm1"
    assert any(
        line.startswith("web2: kvm1 -> kvm2, failed: the world says failed [2 of 3, 66 %")
        for line in lines
    )
    with Store.open(fleet_url).read() as connection:
        assert fleets.failed_destinations(connection, "kvm1", 0)[uuid_of("web2")]
    # The move may be tried again, to another host.
    world.fate = {}
    assert statuses(mover(fleet_url, world).run(plan("web2", to="kvm3"))) == {"web2": "completed"}
    assert agree(fleet_url, world)


@pytest.mark.parametrize("status", ["conflict", "lost"])
def test_what_nobody_knows_is_left_open_and_told(fleet_url, status):
    world = World({"web1": status})
    outcomes = mover(fleet_url, world).run(plan("web1", "web2"))
    assert statuses(outcomes) == {"web1": status, "web2": "completed"}
    assert (
        outcomes[0]["message"] == f"the world says {status}"
        or outcomes[1]["message"] == f"the world says {status}"
    )
    assert open_moves(fleet_url) == {"web1"}
    # Both rooms are held until the result is known.
    assert sorted(fleets.used(fleet_url).items()) == [("kvm1", 2), ("kvm2", 2)]
    # The next run asks the hypervisor again, and by then the result is known.
    world.fate = {}
    assert statuses(mover(fleet_url, world).settle("kvm1")) == {"web1": "completed"}
    assert open_moves(fleet_url) == set()
    assert fleets.used(fleet_url) == {"kvm1": 1, "kvm2": 2}


def read_a_minute_ago(url):
    fleets.discover(url, host("kvm1", *map(domain, NAMES)), host("kvm2"), now=time.time() - 60)


def test_what_neither_end_has_is_found_by_a_discovery(fleet_url):
    """A person moved it to a third host: its room is held at both ends until a discovery sees that,
    and then only there."""
    read_a_minute_ago(fleet_url)
    world = World({"web1": "lost"})
    mover(fleet_url, world).run(plan("web1"))
    assert sorted(fleets.used(fleet_url).items()) == [("kvm1", 3), ("kvm2", 1)]
    # A report of the source or of the destination does not count as a third host, and no host shows
    # the instance yet.
    fleets.discover(fleet_url, host("kvm1", *map(domain, NAMES[1:])), host("kvm2"))
    assert open_moves(fleet_url) == {"web1"}
    fleets.discover(fleet_url, host("kvm3", domain("web1")))
    assert open_moves(fleet_url) == set()
    assert fleets.where(fleet_url)["web1"] == "kvm3"
    assert fleets.used(fleet_url) == {"kvm1": 2, "kvm3": 1}
    # It moves from there as any other instance does.
    world = World()
    world.place[uuid_of("web1")] = "kvm3"
    moved = [{**move, "from_host": "kvm3"} for move in plan("web1")]
    assert statuses(mover(fleet_url, world).run(moved)) == {"web1": "completed"}


def test_what_was_brought_back_is_not_where_an_old_definition_is(fleet_url):
    """It is at its source again, by hand; an old definition on a third host is not an instance."""
    read_a_minute_ago(fleet_url)
    mover(fleet_url, World({"web1": "lost"})).run(plan("web1"))
    later = time.time() + 60
    fleets.discover(fleet_url, host("kvm1", *map(domain, NAMES)), now=later)
    fleets.discover(fleet_url, host("kvm3", domain("web1")), now=later + 1)
    assert open_moves(fleet_url) == {"web1"}
    assert fleets.used(fleet_url) == {"kvm1": 3, "kvm2": 1}
    # One report of both hosts gives the same.
    fleets.discover(
        fleet_url, host("kvm1", *map(domain, NAMES)), host("kvm3", domain("web1")), now=later + 2
    )
    assert open_moves(fleet_url) == {"web1"}


@pytest.mark.parametrize("begun_again", [True, False])
def test_what_a_third_host_shows_ends_no_move_that_goes_on(fleet_url, begun_again):
    """A definition that a person left behind is not an instance that moved."""
    read_a_minute_ago(fleet_url)
    if begun_again:
        mover(fleet_url, World({"web1": "lost"})).run(plan("web1"))
    world = World()
    world.killed_at = 1
    with pytest.raises(Killed):
        if begun_again:
            mover(fleet_url, world).settle("kvm1")
        else:
            mover(fleet_url, world).run(plan("web1"))
    fleets.discover(fleet_url, host("kvm3", domain("web1")))
    assert open_moves(fleet_url) == {"web1"}
    assert fleets.used(fleet_url)["kvm1"] == 3 and fleets.used(fleet_url)["kvm2"] == 1


def test_a_failure_that_did_not_see_the_source_gives_nothing_back(fleet_url):
    world = World({"web1": "failed"})

    def blind(*arguments):
        return [
            {**answer, "source_state": None} if answer["status"] == "failed" else answer
            for answer in world(*arguments)
        ]

    assert statuses(mover(fleet_url, blind).run(plan("web1"))) == {"web1": "lost"}
    assert open_moves(fleet_url) == {"web1"}


def seeing(world, name, here, there, status="failed"):
    """Return a world with this end and these states for the move of one instance."""

    def answer(*arguments):
        return [
            (
                {**each, "status": status, "source_state": here, "destination_state": there}
                if each["name"] == name
                else each
            )
            for each in world(*arguments)
        ]

    return answer


def test_a_destination_that_does_not_answer_is_left_alone(fleet_url):
    world = World({"web1": "failed"})
    wanted = [*plan("web1", "web2"), *plan("web3", to="kvm3")]
    outcomes = mover(fleet_url, seeing(world, "web1", "running", None), limit=1, ahead=False).run(
        wanted
    )
    assert statuses(outcomes) == {"web1": "failed", "web2": "failed", "web3": "completed"}
    (web2,) = [outcome for outcome in outcomes if outcome["name"] == "web2"]
    assert (
        web2["message"] == "It was not begun, as libvirt on kvm2 does not answer."
        and web2["provider"] is None
    )
    assert world.begun == ["web1", "web3"] and agree(fleet_url, world)


def test_nothing_more_is_begun_at_a_source_that_does_not_answer(fleet_url):
    world = World({"web1": "failed"})
    outcomes = mover(fleet_url, seeing(world, "web1", None, None), limit=1, ahead=False).run(
        plan(*NAMES)
    )
    assert statuses(outcomes) == {"web1": "lost", "web2": "failed", "web3": "failed"}
    assert open_moves(fleet_url) == {"web1"} and world.begun == ["web1"]


@pytest.mark.parametrize(
    ("here", "opened_now", "status"),
    [
        ("running", False, "failed"),
        ("shutoff", True, "failed"),
        ("shutoff", False, "lost"),
        ("absent", True, "lost"),
    ],
)
def test_where_the_destination_was_not_seen(fleet_url, here, opened_now, status):
    world = World({"web1": "failed"})
    (one,) = plan("web1", live=here == "running")
    if not opened_now:
        with Store.open(fleet_url).write() as connection:
            migration_claims.begin_within(
                connection, MigrationLimits(1), set(), one, "migration", time.time(), {}
            )
    with_it = mover(fleet_url, seeing(world, "web1", here, None))
    outcomes = with_it.run([one]) if opened_now else with_it.settle("kvm1")
    assert statuses(outcomes) == {"web1": status}
    assert open_moves(fleet_url) == ({"web1"} if status == "lost" else set())


def test_forced_down_by_hand_is_no_proof_that_a_host_is_off(fleet_url):
    """The evacuation of the host settles that, and ends the moves to it (rule S1)."""
    world = World({"web1": "lost"})
    lost = seeing(world, "web1", "running", None, "lost")
    (outcome,) = mover(fleet_url, lost).run(plan("web1"))
    assert (
        outcome["status"] == "lost"
        and "make sure that it is off and evacuate it" in outcome["message"]
    )
    with Store.open(fleet_url).write() as connection:
        connection.execute(
            sa.update(tables.services)
            .where(tables.services.c.host == "kvm2")
            .values(forced_down=True)
        )
    assert statuses(mover(fleet_url, lost).settle("kvm1")) == {"web1": "lost"}
    assert open_moves(fleet_url) == {"web1"}


def test_a_move_that_cannot_be_opened_is_told_and_the_others_go_on(fleet_url):
    world = World()
    fleets.claim(fleet_url, fleets.selection("big", "kvm3", vcpus=4))
    wanted = [*plan("web1", to="kvm3"), *plan("web2", to="kvm1"), *plan("web3")]
    outcomes = mover(fleet_url, world).run(wanted)
    assert statuses(outcomes) == {"web1": "failed", "web2": "failed", "web3": "completed"}
    messages = {outcome["name"]: outcome["message"] for outcome in outcomes}
    assert "VCPU: asked 1, used 4 of 4" in messages["web1"]
    assert "is on kvm1 already" in messages["web2"]
    assert world.begun == ["web3"]
    assert fleets.used(fleet_url) == {"kvm1": 2, "kvm2": 1, "kvm3": 4}


def test_answers_about_others_are_ignored(fleet_url):
    world = World()

    def talkative(*arguments):
        return [
            *world(*arguments),
            world.answer({**plan("web3")[0], "source": "kvm1", "destination": "kvm2"}),
        ]

    assert statuses(mover(fleet_url, talkative).run(plan("web1"))) == {"web1": "completed"}
    assert agree(fleet_url, world)


@pytest.mark.parametrize(
    "after", [False, True], ids=["before the hypervisor acts", "before its answer arrives"]
)
def test_a_run_killed_at_any_call_is_finished_by_the_next(fleet_url, after):
    moves = [*plan("web1"), *plan("web2", "web3", to="kvm3")]
    number = 0
    while True:
        number += 1
        begin_again(fleet_url)
        world = World({"web2": "failed"}, rounds=3)
        world.killed_at, world.after = number, after
        try:
            mover(fleet_url, world).run(moves)
            break
        except Killed:
            pass
        # libvirt continues without the run; for an odd number far enough to end all moves.
        world.pass_time(1 + 5 * (number % 2))
        still_open = open_moves(fleet_url)
        second = mover(fleet_url, world)
        settled = second.settle("kvm1")
        assert set(statuses(settled)) == still_open, number
        assert agree(fleet_url, world), number
        outcomes = second.run([move for move in moves if world.place[move["uuid"]] == "kvm1"])
        assert agree(fleet_url, world), number
        assert {name: world.place[uuid_of(name)] for name in NAMES} == {
            "web1": "kvm2",
            "web2": "kvm1",
            "web3": "kvm3",
        }, number
        assert set(statuses(outcomes).values()) <= {"completed", "failed"}
    assert number > 4


def test_a_run_killed_while_it_settles_is_settled_by_the_next(fleet_url):
    world = World(rounds=3)
    world.killed_at = 1
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan("web1", "web2"))
    for world.killed_at in (2, 3, 4):
        with pytest.raises(Killed):
            mover(fleet_url, world).settle("kvm1")
        assert open_moves(fleet_url) == {"web1", "web2"}
        world.after = not world.after
    assert statuses(mover(fleet_url, world).settle("kvm1")) == {
        "web1": "completed",
        "web2": "completed",
    }
    assert agree(fleet_url, world)
    # No move was begun twice.
    assert sorted(world.begun) == ["web1", "web2"]


def disabled(connection):
    host_state.change(connection, "kvm2", "disabled", "its disks are exchanged")


def forced_down(connection):
    host_state.change(connection, "kvm2", forced_down=True)


def down(connection):
    services.record_unreachable(connection, "kvm2", "it did not answer", time.time())


@pytest.fixture(params=[disabled, forced_down, down], ids=lambda change: change.__name__)
def close_kvm2(request, fleet_url):
    """Return a function that closes kvm2 as a destination."""

    def close():
        with Store.open(fleet_url).write() as connection:
            request.param(connection)

    return close


def test_safety_15_what_was_never_begun_is_not_begun_to_a_host_that_is_closed_by_now(
    fleet_url, close_kvm2
):
    """The run died before its call of the hypervisor, weeks ago."""
    world = World()
    world.killed_at = 1
    with pytest.raises(Killed):
        mover(fleet_url, world).run([*plan("web1", "web2"), *plan("web3", to="kvm3")])
    assert open_moves(fleet_url) == set(NAMES) and world.begun == []
    close_kvm2()
    outcomes = mover(fleet_url, world).settle("kvm1")
    assert statuses(outcomes) == {"web1": "failed", "web2": "failed", "web3": "completed"}
    assert world.begun == ["web3"] and agree(fleet_url, world)


def test_safety_15_what_has_begun_is_followed_to_a_host_that_is_closed_by_now(
    fleet_url, close_kvm2
):
    world = World(rounds=3)
    world.killed_at, world.after = 1, True
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan("web1"))
    close_kvm2()
    assert statuses(mover(fleet_url, world).settle("kvm1")) == {"web1": "completed"}
    assert world.begun == ["web1"] and agree(fleet_url, world)


def test_safety_15_a_host_that_is_closed_since_the_plan_gets_nothing(fleet_url, close_kvm2):
    """The host is closed at once, or while other moves of the same run are open."""
    moves = [*plan("web1", to="kvm3"), *plan("web2", "web3")]
    close_kvm2()
    world = World()
    outcomes = mover(fleet_url, world).run(moves)
    assert statuses(outcomes) == {"web1": "completed", "web2": "failed", "web3": "failed"}
    assert world.begun == ["web1"] and agree(fleet_url, world)
    assert all(outcome["message"] for outcome in outcomes if outcome["status"] == "failed")


def test_safety_15_an_undrain_begins_nothing(fleet_url):
    """The run ends the moves that an earlier run left open; a host that comes back is not emptied
    by that."""
    world = World()
    world.killed_at = 1
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan("web1"))
    assert statuses(mover(fleet_url, world).settle("kvm1", begin=False)) == {"web1": "failed"}
    assert world.begun == [] and agree(fleet_url, world)


class Undone(World):
    """Return a hypervisor that reports a move as not begun, as the module _domain_migration
    does.
    """

    def answer(self, order):
        answer = super().answer(order)
        return {**answer, "phase": "checking"} if answer["status"] == "failed" else answer


def test_an_undrain_names_no_move_that_never_began(fleet_url):
    """The drain was killed when the store had three moves and the hypervisor had none, or only the
    first."""
    world, lines = Undone(), []
    world.killed_at = 1
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan(*NAMES))
    web1 = uuid_of("web1")
    with Store.open(fleet_url).read() as connection:
        world.jobs[web1] = [
            next(
                order
                for order in migration_orders.pending(connection, "kvm1")
                if order["name"] == "web1"
            ),
            3,
        ]
    outcomes = mover(fleet_url, world, lines=lines).settle("kvm1", begin=False)
    assert statuses(outcomes) == {
        "web1": "completed",
        "web2": "failed",
        "web3": "failed",
    } and agree(fleet_url, world)
    assert lines == [
        "kvm1: an earlier run left 3 migrations open, looking after them",
        "web1: kvm1 -> kvm2, live, started [0 of 1]",
        "web1: kvm1 -> kvm2, running there after 1.5 s [1 of 1]",
        "kvm1: 2 of them had not begun and are left out; their instances stay here",
    ]


def test_settling_concerns_one_host(fleet_url):
    world = World()
    world.killed_at = 1
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan("web1"))
    assert mover(fleet_url, world).settle("kvm2") == []
    assert open_moves(fleet_url) == {"web1"}


def test_a_discovery_between_two_runs_disturbs_nothing(fleet_url):
    world = World()
    world.killed_at, world.after = 2, True
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan(*NAMES))
    world.pass_time(9)
    by_host = {
        place: [domain(name) for name in NAMES if world.place[uuid_of(name)] == place]
        for place in ("kvm1", "kvm2")
    }
    discovered = fleets.discover(
        fleet_url, *(host(place, *domains) for place, domains in by_host.items())
    )
    assert (discovered["missing"], discovered["moved"], discovered["doubled"]) == ([], [], [])
    second = mover(fleet_url, world)
    second.settle("kvm1")
    second.run([move for move in plan(*NAMES) if world.place[move["uuid"]] == "kvm1"])
    assert agree(fleet_url, world)
    assert set(world.place.values()) == {"kvm2"}


def test_what_the_hypervisor_never_mentions_is_lost_in_the_end(fleet_url):
    world, lines = World(rounds=2), []

    def forgetful(*arguments):
        return [answer for answer in world(*arguments) if answer["name"] != "web2"]

    outcomes = mover(fleet_url, forgetful, lines=lines).run(plan("web1", "web2"))
    assert statuses(outcomes) == {"web1": "completed", "web2": "lost"}
    assert "kvm1 has said nothing of it" in outcomes[-1]["message"]
    # The move is open in the store; a later run, with an answer of the hypervisor, settles it.
    assert open_moves(fleet_url) == {"web2"}
    assert statuses(mover(fleet_url, world).settle("kvm1")) == {"web2": "completed"}
    assert agree(fleet_url, world)


def test_an_aborted_move_is_cancelled_and_not_tried_again_by_the_same_run(fleet_url):
    world, lines = World({"web2": "cancelled"}), []
    began = time.time()
    outcomes = mover(fleet_url, world, limit=1, lines=lines, since=began).run(plan(*NAMES))
    assert statuses(outcomes) == {"web1": "completed", "web2": "cancelled", "web3": "completed"}
    assert agree(fleet_url, world)
    assert any(
        line.startswith("web2: kvm1 -> kvm2, cancelled: the world says cancelled [2 of 3, 66 %")
        for line in lines
    )
    with Store.open(fleet_url).read() as connection:
        # The destination has no fault.
        assert fleets.failed_destinations(connection, "kvm1", 0) == {}
    world.fate = {}
    (again,) = mover(fleet_url, world, since=began).run(plan("web2", to="kvm3"))
    assert (again["status"], world.place[uuid_of("web2")]) == ("cancelled", "kvm1")
    assert "Somebody aborted the move of web2" in again["message"]
    # A later run may.
    assert statuses(mover(fleet_url, world, since=time.time()).run(plan("web2", to="kvm3"))) == {
        "web2": "completed"
    }
    assert agree(fleet_url, world)


def test_aborting_what_a_killed_run_left_open(fleet_url):
    world = World(rounds=9)
    world.killed_at, world.after = 2, True
    with pytest.raises(Killed):
        mover(fleet_url, world).run(plan("web1", "web2"))
    with Store.open(fleet_url).read() as connection:
        orders = migration_orders.pending(connection, "kvm1")

    def aborting(start, follow, wait, until):
        assert start == []
        for order in follow:
            if world.jobs.pop(order["uuid"], None):
                world.fate[order["name"]] = "cancelled"
        return [world.answer(order) for order in follow]

    outcomes = mover(fleet_url, aborting).abort(orders)
    assert statuses(outcomes) == {"web1": "cancelled", "web2": "cancelled"}
    assert agree(fleet_url, world)
    assert set(world.place.values()) == {"kvm1"}
