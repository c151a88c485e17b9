# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of migrations that hold over all runs, and instances that are shut down for their move
(rules S7, S8, S10, S11)."""

from __future__ import annotations

import functools

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    migrate as mover_module,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.migrate import Mover
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.restarting import Restarts
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations.limits import (
    LimitReached,
    of_options,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    migrations_open,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.conductor.test_migrate import (
    NO_POWER,
    Killed,
    World,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

PROOF = certainty.word("a test")

HOSTS = ("kvm1", "kvm2", "kvm3", "kvm4")
NAMES = ("web1", "web2", "web3", "other")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(mover_module, "LOOK_AGAIN", 0)


@pytest.fixture
def fleet_url(prepared_url):
    begin_again(prepared_url)
    return prepared_url


def begin_again(url, budget=None):
    """Fill a store with web1, web2, web3 on kvm1, and other on kvm4."""
    fleets.empty(url)
    with Store.open(url).write() as connection:
        server_groups.ensure(connection, "web", "soft-anti-affinity", max_moving=budget)
    web = [domain(name, metadata={"server_group": "web"}) for name in NAMES[:3]]
    fleets.discover(
        url, host("kvm1", *web), host("kvm2"), host("kvm3"), host("kvm4", domain("other"))
    )


def move(name, to="kvm2", source="kvm1", live=True):
    return {
        "uuid": uuid_of(name),
        "name": name,
        "from_host": source,
        "host": to,
        "node": to,
        "live": live,
    }


def begin(url, limits, wanted, given_up=()):
    with Store.open(url).write() as connection:
        return migration_claims.begin_within(
            connection, limits, given_up, wanted, "live-migration", fleets.NOW
        )


def under_way(url):
    with Store.open(url).read() as connection:
        return migrations_open.open_moves(connection)


def end(url, uuid, well):
    with Store.open(url).write(together=True) as connection:
        if well:
            migration_claims.finish(connection, uuid, PROOF, "running", fleets.NOW)
        else:
            migration_claims.undo(connection, uuid, PROOF, "broke", fleets.NOW)


@pytest.mark.parametrize(
    ("limits", "wanted", "says"),
    [
        (
            MigrationLimits(per_source=1),
            move("web2", "kvm3"),
            r"web2 waits: 1 migration from kvm1 is open, 1 at a time",
        ),
        (
            MigrationLimits(per_destination=1),
            move("other", source="kvm4"),
            r"other waits: 1 migration to kvm2 is open",
        ),
        (
            MigrationLimits(overall=1),
            move("other", "kvm3", "kvm4"),
            r"other waits: 1 migration in all is open",
        ),
    ],
    ids=["source", "destination", "overall"],
)
def test_a_cap_counts_what_others_have_open(fleet_url, limits, wanted, says):
    first = begin(fleet_url, limits, move("web1"))
    before = fleets.snapshot(fleet_url)
    with pytest.raises(LimitReached, match=says + ".*web1 from kvm1 to kvm2") as busy:
        begin(fleet_url, limits, wanted)
    assert busy.value.blockers == {first["uuid"]} and fleets.snapshot(fleet_url) == before
    # A second begin of the same move is not new, and an abandoned move does not count.
    assert begin(fleet_url, limits, move("web1"))["new"] is False
    assert begin(fleet_url, limits, wanted, {first["uuid"]})["new"]
    end(fleet_url, first["uuid"], True)


def test_the_budget_of_a_group(fleet_url):
    begin_again(fleet_url, budget=1)
    first = begin(fleet_url, MigrationLimits(), move("web1"))
    with pytest.raises(LimitReached, match="1 migration of server group web is open, 1 at a time"):
        begin(fleet_url, MigrationLimits(), move("web2", "kvm3"), {first["uuid"]})
    assert begin(fleet_url, MigrationLimits(), move("other", "kvm3", "kvm4"))["new"]
    end(fleet_url, first["uuid"], False)
    assert begin(fleet_url, MigrationLimits(), move("web2", "kvm3"))["new"]


def test_no_cap_below_one():
    assert of_options({"max_migrations": 2, "max_migrations_overall": None}) == MigrationLimits(2)
    with pytest.raises(DroverError, match="max_migrations_per_destination must be at least 1"):
        of_options({"max_migrations_per_destination": 0})


def test_two_runs_at_the_same_moment_do_not_both_find_room_for_one_more(fleet_url):
    moves = [move("web1"), move("web2"), move("web3"), move("other", source="kvm4")]
    answers = fleets.race(
        *[
            functools.partial(begin, fleet_url, MigrationLimits(per_destination=2), each)
            for each in moves
        ]
    )
    refused = [answer for answer in answers if isinstance(answer, str)]
    assert len(refused) == 2 and all(answer.startswith("LimitReached: ") for answer in refused), (
        answers
    )
    assert len(under_way(fleet_url)) == 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(NAMES), st.sampled_from(HOSTS)),
        st.tuples(st.just("end"), st.integers(0, 5), st.booleans()),
    ),
    max_size=14,
)
MOST = st.one_of(st.none(), st.integers(1, 3))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, limits=st.builds(MigrationLimits, MOST, MOST, MOST), budget=MOST)
def test_whatever_is_begun_and_ended_no_cap_and_no_budget_is_exceeded(
    prepared_url, steps, limits, budget
):
    begin_again(prepared_url, budget)
    for step in steps:
        rows = under_way(prepared_url)
        if step[0] == "end":
            if rows:
                end(prepared_url, rows[step[1] % len(rows)].uuid, step[2])
            continue
        name, to = step[1:]
        try:
            begin(prepared_url, limits, move(name, to, fleets.where(prepared_url)[name]))
        except LimitReached as busy:
            # The report has a reason: the blocking migration is open, and its limit is full.
            assert busy.blockers and busy.blockers <= {row.uuid for row in rows}
        except DroverError:
            pass
        rows = under_way(prepared_url)
        for most, values in (
            (limits.per_source, [row.source for row in rows]),
            (limits.per_destination, [row.destination for row in rows]),
            (limits.overall, ["all"] * len(rows)),
            (budget, [row.group_name for row in rows if row.group_name]),
        ):
            assert most is None or all(values.count(value) <= most for value in values)


TWO = MigrationLimits(2)


def mover(
    url, world, limits=TWO, lines=None, keep=lambda connection: None, power=NO_POWER, patience=3600
):
    world.limit = limits.per_source
    return Mover(
        Store.open(url),
        world,
        (lines if lines is not None else []).append,
        limits,
        keep,
        power,
        patience,
    )


def statuses(outcomes):
    return {outcome["name"]: outcome["status"] for outcome in outcomes}


def test_it_waits_for_another_run_and_goes_on(fleet_url):
    other, world, lines, calls = (
        begin(fleet_url, MigrationLimits(), move("other", source="kvm4")),
        World(),
        [],
        [],
    )

    def keep(connection):
        calls.append(1)

    def sleep(seconds):
        calls.append("slept")
        if calls.count("slept") == 3:
            end(fleet_url, other["uuid"], True)

    run = mover(fleet_url, world, MigrationLimits(2, 1), lines, keep)
    mover_module.time.sleep, kept = sleep, mover_module.time.sleep
    try:
        outcomes = run.run([move("web1"), move("web2")])
    finally:
        mover_module.time.sleep = kept
    assert statuses(outcomes) == {"web1": "completed", "web2": "completed"} and world.most == 1
    assert calls.count("slept") == 3
    assert lines[0].startswith(
        "web1 waits: 1 migration to kvm2 is open, 1 at a time are allowed: other from kvm4"
    )
    # The message comes once, not every time.
    assert sum("waits" in line for line in lines) == 1


def test_it_does_not_wait_for_ever(fleet_url):
    begin(fleet_url, MigrationLimits(), move("other", source="kvm4"))
    world = World()
    outcomes = mover(fleet_url, world, MigrationLimits(2, 1), patience=0).run(
        [move("web1"), move("web2", "kvm3")]
    )
    assert statuses(outcomes) == {"web1": "failed", "web2": "completed"}
    (failed,) = [each for each in outcomes if each["status"] == "failed"]
    assert "other from kvm4 to kvm2. That has not changed in 0 s" in failed["message"]
    assert "run the drains of their sources again" in failed["message"]
    assert len(under_way(fleet_url)) == 1


def test_a_group_does_not_wait_for_a_member_that_is_lost(fleet_url):
    begin_again(fleet_url, budget=1)
    world = World({"web1": "lost"})
    outcomes = mover(fleet_url, world).run([move("web1"), move("web2")])
    assert statuses(outcomes) == {"web1": "lost", "web2": "failed"}
    assert "Nobody knows what became of them" in outcomes[1]["message"]


class Guests(World):
    """A world with domains that start and stop; all run at first.

    :param dead: (name, host) of a domain that does not start.
    """

    def __init__(self, fate=(), rounds=1, stubborn=(), dead=()):
        super().__init__(fate, rounds)
        self.state = {uuid_of(name): "running" for name in NAMES}
        self.stubborn, self.dead, self.switched = stubborn, dead, []

    def __call__(self, start, follow, wait, until):
        for order in start:
            if (
                order["begin"]
                and not order["live"]
                and self.place[order["uuid"]] == order["source"]
            ):
                assert self.state[order["uuid"]] == "shutoff", "moved cold while it runs"
        answers = super().__call__(start, follow, wait, until)
        for answer in answers:
            if answer["status"] == "failed":
                answer["source_state"] = self.state[answer["uuid"]]
            elif answer["status"] == "completed":
                answer["destination_state"] = self.state[answer["uuid"]]
        return answers

    def look(self, order):
        self.count()
        here = self.place[order["uuid"]] == order["source"]
        state = self.state[order["uuid"]]
        return (state, "absent") if here else ("absent", state)

    def switch(self, order, there, on, timeout):
        self.count()
        where = order["destination"] if there else order["source"]
        assert self.place[order["uuid"]] == where
        self.switched.append((order["name"], where, on))
        if not on and order["name"] in self.stubborn:
            return "it did not shut down."
        if on and (order["name"], where) in self.dead:
            return "no memory."
        self.state[order["uuid"]] = "running" if on else "shutoff"
        return None

    def count(self):
        self.calls += 1
        if self.calls == self.killed_at:
            raise Killed


def cold(url, world, patience=3600, timeout=300, lines=None):
    return mover(
        url,
        world,
        power=Restarts(world.look, world.switch, timeout),
        patience=patience,
        lines=lines,
    )


def state(url, name="web1"):
    with Store.open(url).read() as connection:
        (row,) = instances.listing(connection, name=name)
    return row["host"], row["state"]


def test_an_instance_that_runs_is_shut_down_moved_and_started(fleet_url):
    world, lines = Guests(), []
    outcomes = cold(fleet_url, world, lines=lines).run([move("web1", live=False)])
    assert statuses(outcomes) == {"web1": "completed"} and state(fleet_url) == ("kvm2", "running")
    assert world.switched == [("web1", "kvm1", False), ("web1", "kvm2", True)]
    assert "web1: kvm1 -> kvm2, cold, started, shut down first [0 of 1]" in lines


def test_one_that_somebody_shut_down_stays_off(fleet_url):
    world = Guests()
    world.state[uuid_of("web1")] = "shutoff"
    assert statuses(cold(fleet_url, world).run([move("web1", live=False)])) == {"web1": "completed"}
    assert world.switched == [] and state(fleet_url) == ("kvm2", "shutoff")


def test_one_that_does_not_shut_down_goes_on_where_it_is(fleet_url):
    world = Guests(stubborn=["web1"])
    outcomes = cold(fleet_url, world, timeout=0.01).run([move("web1", live=False), move("web2")])
    assert statuses(outcomes) == {"web1": "failed", "web2": "completed"}
    assert "did not shut down within 0.01 s and goes on running" in outcomes[0]["message"]
    assert state(fleet_url) == ("kvm1", "running") and world.begun == ["web2"]
    assert under_way(fleet_url) == []


def test_one_that_does_not_move_is_started_where_it_was(fleet_url):
    world = Guests({"web1": "failed"})
    assert statuses(cold(fleet_url, world).run([move("web1", live=False)])) == {"web1": "failed"}
    assert world.switched == [("web1", "kvm1", False), ("web1", "kvm1", True)]
    assert state(fleet_url) == ("kvm1", "running") and under_way(fleet_url) == []


@pytest.mark.parametrize(("fate", "where"), [("completed", "kvm2"), ("failed", "kvm1")])
def test_one_that_does_not_start_again_is_told_and_tried_again_by_the_next_run(
    fleet_url, fate, where
):
    world = Guests({"web1": fate}, dead=[("web1", where)])
    outcomes = cold(fleet_url, world).run([move("web1", live=False)])
    assert statuses(outcomes) == {"web1": "conflict"}
    assert f"does not start on {where}: no memory." in outcomes[0]["message"]
    assert len(under_way(fleet_url)) == 1
    world.dead, world.fate = [], {}
    assert statuses(cold(fleet_url, world).settle("kvm1")) == {"web1": "completed"}
    assert state(fleet_url) == ("kvm2", "running") and world.state[uuid_of("web1")] == "running"


def test_safety_what_runs_again_is_not_shut_down_where_nothing_is_to_begin(fleet_url):
    """The run was killed while the instance was off, and a person has started it. Nothing begins;
    the run only ends the open migration."""
    world = Guests()
    world.killed_at = 4
    with pytest.raises(Killed):
        cold(fleet_url, world).run([move("web1", live=False)])
    world.killed_at, world.switched, world.state[uuid_of("web1")] = None, [], "running"
    assert statuses(cold(fleet_url, world).settle("kvm1", begin=False)) == {"web1": "failed"}
    assert (
        world.switched == []
        and world.begun == []
        and state(fleet_url) == ("kvm1", "running")
        and under_way(fleet_url) == []
    )


@pytest.mark.parametrize("fate", ["completed", "failed"])
def test_killed_at_any_step_the_next_run_leaves_it_running(fleet_url, fate):
    number = 0
    while True:
        number += 1
        begin_again(fleet_url)
        world = Guests({"web1": fate})
        world.killed_at = number
        try:
            cold(fleet_url, world).run([move("web1", live=False)])
            break
        except Killed:
            pass
        world.killed_at = None
        cold(fleet_url, world).settle("kvm1")
        assert under_way(fleet_url) == [] and world.state[uuid_of("web1")] == "running", number
        where = world.place[uuid_of("web1")]
        assert state(fleet_url) == (where, "running"), number
        assert fleets.where(fleet_url)["web1"] == where
        held = fleets.holdings(fleet_url)[uuid_of("web1")]
        assert list(held) == [where], number
    assert number > 5


def test_the_intent_is_in_the_store_before_anything_is_shut_down(fleet_url):
    world = Guests()

    def switch(order, there, on, timeout):
        with Store.open(fleet_url).read() as connection:
            table = tables.migrations
            rows = connection.execute(sa.select(table.c.status, table.c.details)).all()
        assert [(row.status, row.details) for row in rows] == [("accepted", {"restart": True})]
        return world.switch(order, there, on, timeout)

    power = Restarts(world.look, switch, 300)
    assert statuses(mover(fleet_url, world, power=power).run([move("web1", live=False)])) == {
        "web1": "completed"
    }
