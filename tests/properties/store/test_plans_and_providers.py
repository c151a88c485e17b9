# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans use every class that an instance holds, in nested and sharing providers too: no claim of a
move is refused."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.capacity import plan_capacity
from ansible_collections.drover.compute.plugins.plugin_utils._planner.evacuation import (
    plan_evacuation,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rebalance import (
    plan_rebalance,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.return_home import plan_return
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rolling import plan_rolling
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts.host_columns import ALL
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import evacuations
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.instances_for_plans import (
    read_amounts,
    read_instances,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.providers import provider_arrays
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.properties.store.test_claims_spread import (
    add_provider,
    held,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    NOW,
    domain,
    hold,
    host,
    uuid_of,
)

POLICY = Policy.from_mapping({})
PROOF = certainty.word("a test")


@pytest.fixture(autouse=True)
def at_now(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda connection: NOW)


def write(url, function, *arguments, **more):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments, **more)


def drain(url, name="kvm1", **more):
    with Store.open(url).read() as connection:
        return DrainQuestion(POLICY, MigrationLimits(5), **more).plan(connection, [name])


def carry_out(url, plan, order=1):
    """Open and finish the moves of a plan, one after the other; no claim is refused."""
    for move in plan["moves"][::order]:
        with Store.open(url).write() as connection:
            opened = migration_claims.begin_within(
                connection, MigrationLimits(5), {}, move, "live-migration", NOW
            )
        write(url, migration_claims.finish, opened["uuid"], PROOF, None, NOW)


def where(plan):
    return {move["name"]: move["host"] for move in plan["moves"]}


@pytest.fixture
def gpu_url(prepared_url):
    """Fill a store with VGPUs: kvm1 has 2 below a NUMA node, both taken; kvm2 has 1, taken; kvm3
    none; kvm4 has 1 free below a NUMA node."""
    render = [domain("render"), domain("web")]
    fleets.discover(
        prepared_url,
        host("kvm1", *render, vcpus=4),
        host("kvm2", domain("busy"), vcpus=64, memory_mb=65536),
        host("kvm3", vcpus=64, memory_mb=65536),
        host("kvm4", domain("small"), vcpus=4),
    )

    def fill(connection):
        for name in ("kvm1", "kvm4"):
            add_provider(connection, f"{name}-numa0", {}, parent=name)
            add_provider(connection, f"{name}-numa1", {}, parent=name)
        add_provider(connection, "kvm1-gpu", {"VGPU": 2}, parent="kvm1-numa1")
        add_provider(connection, "kvm4-gpu", {"VGPU": 1}, parent="kvm4-numa0")
        add_provider(connection, "kvm2-gpu", {"VGPU": 1}, parent="kvm2")
        hold(connection, "render", "kvm1-gpu", {"VGPU": 1})
        hold(connection, "busy", "kvm2-gpu", {"VGPU": 1})

    write(prepared_url, fill)
    return prepared_url


def test_a_drain_goes_to_the_one_host_with_a_free_vgpu(gpu_url):
    plan = drain(gpu_url)
    assert plan["status"] == "ok" and where(plan)["render"] == "kvm4"
    carry_out(gpu_url, plan)
    found = held(gpu_url)[uuid_of("render")]
    assert found == {"kvm4": {"VCPU": 1, "MEMORY_MB": 64}, "kvm4-gpu": {"VGPU": 1}}
    back = drain(gpu_url, "kvm4")
    assert where(back)["render"] == "kvm1"


def test_an_instance_for_which_no_vgpu_is_left_says_so(gpu_url):
    write(gpu_url, hold, "web", "kvm1-gpu", {"VGPU": 1})
    plan = drain(gpu_url)
    assert plan["status"] != "ok" and sorted(where(plan).values()) == ["kvm4"]
    (left,) = plan["unmovable"]
    assert "VGPU" in left["reason"]
    carry_out(gpu_url, plan)


def test_one_that_no_host_could_take_is_proven(gpu_url):
    write(
        gpu_url,
        lambda connection: connection.execute(
            sa.update(tables.allocations).where(_of_class("VGPU")).values(used=2)
        ),
    )
    plan = drain(gpu_url)
    assert plan["status"] == "infeasible" and "2 VGPU" in plan["proof"]


def _of_class(name):
    classes = tables.resource_classes
    return (
        tables.allocations.c.class_id
        == sa.select(classes.c.id).where(classes.c.name == name).scalar_subquery()
    )


def test_room_is_made_on_a_card(gpu_url):
    """The one free card is on a host that is closed for moves: another instance gives up its
    card.
    """
    write(
        gpu_url,
        lambda connection: connection.execute(
            sa.update(tables.services).where(tables.services.c.host == "kvm4").values(disabled=True)
        ),
    )
    assert drain(gpu_url)["status"] == "infeasible"
    write(gpu_url, add_provider, "kvm3-gpu", {"VGPU": 1, "CUSTOM_X": 1}, parent="kvm3")
    write(gpu_url, lambda connection: hold(connection, "web", "kvm1-gpu", {"VGPU": 1}))
    plan = drain(gpu_url, extra_moves=2)
    assert len(plan["moves"]) == 1 and len(plan["unmovable"]) == 1
    write(
        gpu_url,
        lambda connection: connection.execute(sa.update(tables.services).values(disabled=False)),
    )
    plan = drain(gpu_url, extra_moves=2)
    assert plan["status"] == "ok" and set(where(plan).values()) == {"kvm3", "kvm4"}
    carry_out(gpu_url, plan)


@pytest.mark.parametrize("order", [1, -1])
def test_the_claim_takes_the_providers_of_the_plan(prepared_url, order):
    """kvm2 has cards of 1 and 2: both instances fit, in any order."""
    fleets.discover(
        prepared_url,
        host("kvm1", domain("one", memory_mb=128), domain("two"), vcpus=4),
        host("kvm2", vcpus=4),
    )

    def fill(connection):
        add_provider(connection, "kvm1-gpu", {"VGPU": 4}, parent="kvm1")
        add_provider(connection, "kvm2-a", {"VGPU": 2}, parent="kvm2")
        add_provider(connection, "kvm2-b", {"VGPU": 1}, parent="kvm2")
        hold(connection, "one", "kvm1-gpu", {"VGPU": 1})
        hold(connection, "two", "kvm1-gpu", {"VGPU": 2})

    write(prepared_url, fill)
    plan = drain(prepared_url)
    assert plan["status"] == "ok"
    carry_out(prepared_url, plan, order)
    found = held(prepared_url)
    assert found[uuid_of("two")]["kvm2-a"] == {"VGPU": 2} and found[uuid_of("one")]["kvm2-b"] == {
        "VGPU": 1
    }


def test_what_was_chosen_and_is_gone_meanwhile_comes_from_another_provider(prepared_url):
    fleets.discover(
        prepared_url, host("kvm1", domain("one"), vcpus=4), host("kvm2", domain("late"), vcpus=4)
    )

    def fill(connection):
        add_provider(connection, "kvm1-gpu", {"VGPU": 4}, parent="kvm1")
        add_provider(connection, "kvm2-a", {"VGPU": 1}, parent="kvm2")
        add_provider(connection, "kvm2-b", {"VGPU": 1}, parent="kvm2")
        hold(connection, "one", "kvm1-gpu", {"VGPU": 1})

    write(prepared_url, fill)
    plan = drain(prepared_url)
    (chosen,) = {
        name for name in ("kvm2-a", "kvm2-b") if uuid_of(name) in plan["moves"][0]["allocations"]
    }
    write(prepared_url, hold, "late", chosen, {"VGPU": 1})
    carry_out(prepared_url, plan)
    assert chosen not in held(prepared_url)[uuid_of("one")]


def test_a_move_keeps_what_it_has_on_the_pool_that_both_see(prepared_url):
    """kvm2 sees the full pool and one more; the disk is not claimed again."""
    fleets.discover(
        prepared_url,
        host("kvm1", domain("web"), local_gb=0),
        host("kvm2", local_gb=0),
        host("kvm3", local_gb=50),
    )

    def fill(connection):
        shares = [provider_arrays.SHARES]
        add_provider(
            connection, "full", {"DISK_GB": 30}, traits=shares, aggregates=["kvm1", "kvm2"]
        )
        add_provider(connection, "other", {"DISK_GB": 5}, traits=shares)
        table, providers = tables.provider_aggregates, tables.resource_providers
        connection.execute(sa.insert(tables.placement_aggregates).values(uuid=uuid_of("second")))
        second = connection.scalar(
            sa.select(tables.placement_aggregates.c.id).where(
                tables.placement_aggregates.c.uuid == uuid_of("second")
            )
        )
        for name in ("other", "kvm2"):
            key = connection.scalar(sa.select(providers.c.id).where(providers.c.name == name))
            connection.execute(sa.insert(table).values(provider_id=key, aggregate_id=second))
        hold(connection, "web", "full", {"DISK_GB": 30})

    write(prepared_url, fill)
    plan = drain(prepared_url)
    assert plan["status"] == "ok"
    carry_out(prepared_url, plan)
    by_provider = held(prepared_url)[uuid_of("web")]
    assert by_provider == (
        {"kvm2": {"VCPU": 1, "MEMORY_MB": 64}, "full": {"DISK_GB": 30}}
        if where(plan)["web"] == "kvm2"
        else by_provider
    )
    assert where(plan)["web"] in ("kvm2", "kvm3")
    write(
        prepared_url,
        lambda connection: connection.execute(
            sa.update(tables.services).where(tables.services.c.host == "kvm3").values(disabled=True)
        ),
    )
    again = drain(prepared_url, where(plan)["web"])
    assert again["status"] == "ok" or where(plan)["web"] == "kvm3"


@pytest.mark.parametrize("seed", range(8))
def test_no_claim_of_a_planned_move_is_refused(prepared_url, seed):
    """Random fleets: hosts have cards of 1 to 4, one or two pools or local disks, and little
    room.
    """
    rng = random.Random(seed)
    names = [f"kvm{number}" for number in range(1, 6)]
    guests = {f"vm{number}": rng.choice(names[: 1 + number % 3]) for number in range(9)}
    fleets.discover(
        prepared_url,
        *(
            host(
                name,
                *(domain(guest) for guest, place in guests.items() if place == name),
                vcpus=6,
                local_gb=rng.choice([0, 0, 8]),
            )
            for name in names
        ),
    )

    def fill(connection):
        cards = {name: [] for name in names}
        for name in names:
            for number in range(rng.randint(1, 3) if name != "kvm1" else 4):
                size = rng.randint(1, 4) if name != "kvm1" else 4
                add_provider(connection, f"{name}-gpu{number}", {"VGPU": size}, parent=name)
                cards[name].append([f"{name}-gpu{number}", size])
        add_provider(
            connection,
            "pool",
            {"DISK_GB": 40},
            traits=[provider_arrays.SHARES],
            aggregates=names[: rng.randint(2, 5)],
        )
        for guest, place in guests.items():
            amount = rng.randint(0, 2)
            card = next((each for each in cards[place] if each[1] >= amount), None)
            if amount and card:
                card[1] -= amount
                hold(connection, guest, card[0], {"VGPU": amount})
            if place in names[:2]:
                hold(connection, guest, "pool", {"DISK_GB": rng.randint(1, 4)})

    write(prepared_url, fill)
    plan = drain(prepared_url, extra_moves=3)
    assert plan["moves"] or plan["unmovable"]
    carry_out(prepared_url, plan)
    assert set(where(plan)) == {
        row
        for row, place in fleets.where(prepared_url).items()
        if row in where(plan) and place == where(plan)[row]
    }
    held(prepared_url)


# The other plans


def fleet(url, instances=None):
    with Store.open(url).read() as connection:
        instances = read_instances(connection) if instances is None else instances
        return scheduling.read_fleet(connection, instances, POLICY, NOW), instances


def test_an_evacuation_goes_to_the_host_with_a_free_vgpu(gpu_url):
    with Store.open(gpu_url).read() as connection:
        instances = [{**each, "xml": "<domain/>"} for each in read_instances(connection, ["kvm1"])]
        columns = scheduling.read_fleet(connection, instances, POLICY, NOW)
        nodes = evacuations.storage(connection)
    moves, stuck = plan_evacuation(columns, instances, "kvm1", POLICY, nodes, {})
    assert {move["name"]: move["host"] for move in moves}["render"] == "kvm4" and not stuck


def test_hosts_whose_instances_need_the_same_card_are_not_down_together(gpu_url):
    columns, instances = fleet(gpu_url)
    batches = plan_rolling(columns, instances, POLICY, ["kvm1", "kvm2"])["batches"]
    assert sorted(map(sorted, batches)) == [["kvm1"], ["kvm2"]]
    web = [each for each in instances if each["name"] != "render"]
    assert plan_rolling(columns, web, POLICY, ["kvm1", "kvm2"])["batches"] == [["kvm1", "kvm2"]]


def test_a_rebalance_moves_to_hosts_with_a_vgpu_only(gpu_url):
    columns, instances = fleet(gpu_url)
    mine = [each for each in instances if each["name"] in ("render", "busy")]
    moves = plan_rebalance(columns, mine, POLICY, threshold=0, margin=0)["moves"]
    assert {move["host"] for move in moves} <= {"kvm1", "kvm4"}
    write(gpu_url, hold, "small", "kvm4-gpu", {"VGPU": 1})
    columns, instances = fleet(gpu_url)
    assert plan_return(columns, instances, POLICY, {uuid_of("render"): ("kvm4", "kvm4")})["staying"]


def test_capacity_counts_nested_classes(gpu_url):
    def count(**more):
        with Store.open(gpu_url).read() as connection:
            (spec,) = scheduling.read_specs(
                connection, [{"name": "x", "vcpus": 1, "memory_mb": 64, "disk_gb": 0, **more}]
            )
            query, instances = (
                scheduling.columns_for_specs([spec], POLICY),
                read_amounts(connection),
            )
            query.groups = query.instances = ALL
            query.classes |= scheduling.classes_of(instances)
            columns = scheduling.read_columns(connection, NOW, 0, query)
        return plan_capacity(columns, spec, POLICY, instances)

    answer = count(resources={"VGPU": 1})
    assert {each["host"]: each["count"] for each in answer["hosts"]} == {
        "kvm1": 1,
        "kvm2": 0,
        "kvm3": 0,
        "kvm4": 1,
    }
    assert (answer["total"], answer["short"]) == (2, "VGPU")
    # A lost instance takes a card on another host: after a loss of kvm1 none is left, the instance
    # of kvm2 takes one of two.
    assert answer["with_loss"] == {"total": 0, "host": "kvm1", "survives": True}
    write(gpu_url, hold, "web", "kvm1-gpu", {"VGPU": 1})
    assert count()["with_loss"] == {"total": 0, "host": "kvm1", "survives": False}
