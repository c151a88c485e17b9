# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookups capacity, rolling_plan, rebalance_plan and home_plan, as Ansible calls them, over a real store."""

from __future__ import annotations

import json
import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record
from ansible_collections.drover.compute.tests.unit.lookup.conftest import domain, report
from ansible_collections.drover.compute.tests.unit.lookup.test_lookups import ask, contents, refusal
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import uuid_of


@pytest.fixture
def movable_url(fleet_url):
    """Return the URL of the fleet without the instance that cannot move."""
    found = [domain("web1", memory_mb=256), domain("idle", "paused"), domain("off", "shutoff")]
    with Store.open(fleet_url).write() as connection:
        record.record(
            connection, {"kvm1": report("kvm1", 1024, *found, availability_zone="az1")}, time.time()
        )
        connection.execute(sa.delete(tables.instances).where(tables.instances.c.name == "kept"))
    return fleet_url


def plan(name, *terms, **options):
    """Return one answer, which is plain data, and check that the store is unchanged."""
    before = contents(options["store_url"])
    (found,) = ask(name, *terms, **options)
    assert json.loads(json.dumps(found)) == found
    assert contents(options["store_url"]) == before
    return found


def test_capacity_of_a_request_and_of_a_flavor(fleet_url):
    found = plan("capacity", {"vcpus": 1, "memory_mb": 100}, store_url=fleet_url)
    # Free memory 576, 512, 256.
    assert [(each["host"], each["count"], each["short"]) for each in found["hosts"]] == [
        ("kvm1", 5, "MEMORY_MB"),
        ("kvm2", 5, "MEMORY_MB"),
        ("kvm3", 2, "MEMORY_MB"),
    ]
    assert found["total"] == 12 and found["short"] == "MEMORY_MB"
    # kvm1 has one instance of 256, and kvm3 has exactly this room; and three of 64, which leave 320
    # on kvm2.
    assert found["with_loss"] == {"total": 3, "host": "kvm1", "survives": True}
    with Store.open(fleet_url).write() as connection:
        flavors.ensure(connection, "small", {"vcpus": 1, "memory_mb": 100}, time.time())
    one, other = ask(
        "capacity",
        "small",
        {"flavor": "small", "availability_zone": "az2"},
        store_url=fleet_url,
        loss=False,
    )
    assert (one["name"], one["total"], one["with_loss"]) == ("small", 12, None)
    assert [each["count"] for each in other["hosts"]] == [0, 0, 2] and other["hosts"][0][
        "short"
    ] is None


def test_capacity_when_a_loss_is_not_survived(fleet_url):
    found = [domain("huge", memory_mb=900)]
    with Store.open(fleet_url).write() as connection:
        record.record(connection, {"kvm1": report("kvm1", 1024, *found)}, time.time())
    found = plan("capacity", {"vcpus": 1, "memory_mb": 100}, store_url=fleet_url)
    assert found["with_loss"] == {"total": 0, "host": "kvm1", "survives": False}


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("nope", "nope"),
        ({"vcpus": 1}, "'memory_mb'"),
        (
            {"vcpus": 1, "memory_mb": 1, "num_instances": 2},
            "num_instances of a request for capacity must be 1",
        ),
    ],
)
def test_capacity_refuses_in_a_sentence(fleet_url, term, says):
    assert says in refusal("capacity", term, store_url=fleet_url)


def test_rolling_plan(movable_url):
    found = plan("rolling_plan", store_url=movable_url)
    assert sorted(host for batch in found["batches"] for host in batch) == ["kvm1", "kvm2", "kvm3"]
    assert found["blocked"] == [] and len(found["batches"]) >= found["bound"]
    assert found["lines"][0] == f"3 hosts in {len(found['batches'])} batches."
    one = plan("rolling_plan", ["kvm1", "kvm2"], store_url=movable_url, batch_size=1)
    assert sorted(one["batches"]) == [["kvm1"], ["kvm2"]]
    nothing = plan("rolling_plan", [], store_url=movable_url)
    assert nothing["batches"] == []
    # While kvm1 is down, kvm2 and kvm3 hold its instances; they cannot if one of them is lost too.
    spare = plan("rolling_plan", "kvm1", store_url=movable_url, spare_hosts=1)
    assert (
        spare["batches"] == []
        and "failed too, the other hosts could not take all instances"
        in spare["blocked"][0]["reason"]
    )


def test_plans_say_that_a_host_is_down(movable_url):
    for name in ("rolling_plan", "drain_plan"):
        assert not plan(name, "kvm1", store_url=movable_url)["down"]
    with Store.open(movable_url).write() as connection:
        services.record_unreachable(connection, "kvm1", "no route to host", time.time())
    found = plan("drain_plan", "kvm1", store_url=movable_url)
    assert found["down"] == [{"host": "kvm1", "reason": "no route to host"}]
    assert found["lines"][1].startswith("kvm1 is down: no route to host. Only a host that answers")
    found = plan("rolling_plan", "kvm1", store_url=movable_url)
    assert found["down"] == [{"host": "kvm1", "reason": "no route to host"}]
    assert found["lines"][1:] == [
        "  1. kvm1 (down)",
        "kvm1 is down: no route to host. A rolling maintenance does not take it until it answers.",
    ]


def test_rolling_plan_names_what_is_in_the_way(fleet_url):
    found = plan("rolling_plan", store_url=fleet_url)
    assert [each["host"] for each in found["blocked"]] == ["kvm1"]
    assert "kept cannot move: it has snapshots" in found["blocked"][0]["reason"]
    assert "  kvm1: kept cannot move" in "\n".join(found["lines"])
    assert plan("rolling_plan", store_url=fleet_url, unmovable="shutdown")["blocked"] == []
    assert plan("rolling_plan", store_url=fleet_url, empty=["kvm1"])["blocked"] == []
    assert "kvm9" in refusal("rolling_plan", "kvm9", store_url=fleet_url)
    assert "spare_hosts must be 0 or more" in refusal(
        "rolling_plan", store_url=fleet_url, spare_hosts=-1
    )


def test_rebalance_plan(movable_url):
    found = plan("rebalance_plan", store_url=movable_url)
    assert found["score_after"] < found["score_before"] and found["moves"]
    assert {move["from_host"] for move in found["moves"]} == {"kvm1"}
    assert all(move["gain"] >= 0.0005 for move in found["moves"])
    assert found["lines"][0].startswith(f"Score {found['score_before']:.4f}, ")
    assert found["estimate"][0].startswith("Expected to take about ") and found["estimate"][
        1
    ].endswith("at 110 MiB/s, assumed.")
    assert found["lines"][-3:-1] == found["estimate"]
    assert plan("rebalance_plan", store_url=movable_url, threshold=5)["moves"] == []
    assert len(plan("rebalance_plan", store_url=movable_url, max_moves=1)["moves"]) == 1
    assert "max_migrations must be 1" in refusal(
        "rebalance_plan", store_url=movable_url, max_migrations=0
    )
    assert "takes no terms" in refusal("rebalance_plan", "kvm1", store_url=movable_url)


def test_rebalance_keeps_out_of_a_maintenance(movable_url):
    with Store.open(movable_url).write() as connection:
        host_state.change(connection, "kvm3", "draining", "new kernel")
    found = plan("rebalance_plan", store_url=movable_url)
    assert found["moves"] == [] and "kvm3 is drained" in found["reason"]
    found = plan("rebalance_plan", store_url=movable_url, despite_maintenance=True)
    assert {move["host"] for move in found["moves"]} == {"kvm2"}
    with Store.open(movable_url).write() as connection:
        host_state.change(connection, "kvm3", "restored")
        host_state.change(connection, "kvm3", "disabled", "bad fan")
    # A host that is only disabled is left out, and the others are balanced.
    assert {move["host"] for move in plan("rebalance_plan", store_url=movable_url)["moves"]} == {
        "kvm2"
    }


def test_what_has_moved_cools_down(movable_url):
    def moved(status, at):
        values = {
            "uuid": uuid_of(f"{status}{at}"),
            "instance_uuid": uuid_of("web1"),
            "instance_name": "web1",
            "source": "kvm2",
        }
        values.update(
            destination="kvm1", type="live-migration", status=status, created_at=at, updated_at=at
        )
        with Store.open(movable_url).write() as connection:
            connection.execute(sa.insert(tables.migrations).values(values))

    now = time.time()
    moved("completed", now - 4000)
    moved("failed", now - 10)
    assert plan("rebalance_plan", store_url=movable_url)["cooling"] == []
    moved("completed", now - 1000)
    found = plan("rebalance_plan", store_url=movable_url)
    assert found["cooling"] == ["web1"] and "web1" not in {move["name"] for move in found["moves"]}
    assert "Moved too recently: web1." in found["lines"]
    assert plan("rebalance_plan", store_url=movable_url, cooldown=500)["cooling"] == []


def test_home_plan(movable_url):
    places = {"web1": "kvm3", "idle": "kvm3", "off": "kvm1"}
    homes = [{"uuid": uuid_of(name), "host": host, "node": host} for name, host in places.items()]
    found = plan("home_plan", homes, store_url=movable_url)
    # kvm3 has 256 MiB, and web1 takes all of it; off is at home.
    assert [(move["name"], move["host"], move["live"]) for move in found["moves"]] == [
        ("web1", "kvm3", True)
    ]
    assert [each["name"] for each in found["staying"]] == ["idle"] and "kvm3 has no room" in found[
        "staying"
    ][0]["reason"]
    assert found["lines"][0] == "1 move home."
    gone = [{"uuid": uuid_of("nobody"), "host": "kvm3", "node": "kvm3"}]
    assert plan("home_plan", gone, store_url=movable_url)["moves"] == []
    assert "a mapping with uuid, host and node, not 'kvm1'." in refusal(
        "home_plan", "kvm1", store_url=movable_url
    )
