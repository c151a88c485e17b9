# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that plan, over a real store."""

from __future__ import annotations

import json
import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    aggregates,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record
from ansible_collections.drover.compute.tests.properties.lookups.test_lookups import contents
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.lookup import conftest as lookups
from ansible_collections.drover.compute.tests.unit.lookup.conftest import domain, report
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import uuid_of

# The name is assigned, not only imported: pylint would report an unused import.
fleet_url = lookups.fleet_url


def plan(kind, variables=None, **options):
    """Return one plan, which is plain data, and check that the store is unchanged."""
    before = contents(options["store_url"])
    answer = run(f"plan_{kind}_info", variables, **options)["plan"]
    assert json.loads(json.dumps(answer)) == answer
    assert contents(options["store_url"]) == before
    return answer


@pytest.fixture
def movable_url(fleet_url):
    """Return the URL of the fleet without the instance that cannot move."""
    domains = [domain("web1", memory_mb=256), domain("idle", "paused"), domain("off", "shutoff")]
    with Store.open(fleet_url).write() as connection:
        record.record(
            connection,
            {"kvm1": report("kvm1", 1024, *domains, availability_zone="az1")},
            time.time(),
        )
        connection.execute(sa.delete(tables.instances).where(tables.instances.c.name == "kept"))
    return fleet_url


def test_drain(fleet_url):
    answer = plan("drain", host="kvm1", store_url=fleet_url, max_migrations=1)
    assert [(move["name"], move["live"], move["wave"]) for move in answer["moves"]] == [
        ("web1", True, 1),
        ("idle", True, 2),
        ("off", False, 3),
    ]
    assert {move["from_host"] for move in answer["moves"]} == {"kvm1"}
    assert {move["host"] for move in answer["moves"]} <= {"kvm2", "kvm3"}
    assert [each["name"] for each in answer["unmovable"]] == ["kept"]
    assert answer["lines"][0] == "Drain of kvm1: 3 instances to move in 3 waves, 1 cannot move."


def test_plans_name_the_machines_that_a_run_needs_itself(fleet_url):
    variables = {"drover_controller": "web1"}
    answer = plan("drain", host="kvm1", store_url=fleet_url, variables=variables)
    assert [each["name"] for each in answer["moves"]][-1] == "web1", "its own guest is moved last"
    assert (
        "web1 is the controller and its store: it is moved live and last, and never stopped."
        in answer["lines"]
    )
    answer = plan(
        "rolling", hosts=["kvm3"], store_url=fleet_url, variables={"drover_controller": "kvm3"}
    )
    assert (
        "kvm3 is the controller and its store: it is maintained last, and not rebooted or switched"
        " off by a run from there." in answer["lines"]
    )


def test_drain_says_what_is_copied(fleet_url):
    """Only disks on local storage of the host are copied. The size is the allocation, if it is
    known."""
    local = {
        "device": "disk",
        "type": "file",
        "format": "qcow2",
        "target": "vda",
        "readonly": False,
        "shareable": False,
    }
    paths = {
        "web1": "/var/lib/libvirt/images/web1.qcow2",
        "off": "/srv/vms/off.qcow2",
        "idle": "/var/lib/libvirt/images/idle.qcow2",
    }
    sizes = {"web1": 5 * 1024**3, "off": 7 * 1024**3, "idle": 0}
    disks = {
        name: [
            {
                **local,
                "source": path,
                "path": path,
                "capacity_bytes": 20 * 1024**3,
                "allocation_bytes": sizes[name],
            }
        ]
        for name, path in paths.items()
    }
    disks["off"][0]["shared_id"] = "nfs:filer:/vms/off.qcow2"
    domains = [
        domain("web1", memory_mb=256, disks=disks["web1"]),
        domain("idle", "paused", disks=disks["idle"]),
    ]
    domains.append(domain("off", "shutoff", disks=disks["off"]))
    with Store.open(fleet_url).write() as connection:
        record.record(connection, {"kvm1": report("kvm1", 1024, *domains)}, time.time())
    answer = plan("drain", host="kvm1", store_url=fleet_url)
    copies = {
        move["name"]: (move["copies_mib"], move["copies_disk_mib"]) for move in answer["moves"]
    }
    assert copies == {"web1": (5120 + 256, 5120), "idle": (20480 + 64, 20480), "off": (0, 0)}
    assert any(line.endswith("live, copies 5.25 GiB") for line in answer["lines"])
    assert answer["seconds"] > 5120 / 110


def test_drain_obeys_what_aggregates_say(fleet_url):
    policy = {"enabled_filters": ["AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter"]}
    with Store.open(fleet_url).write() as connection:
        aggregates.ensure(connection, "tenants", {"filter_tenant_id": "p9"}, ["kvm2"])
    answer = plan("drain", host="kvm1", store_url=fleet_url, policy=policy)
    # kvm2 is for another project; kvm3 has 256 MiB, and web1 needs all of it.
    assert {move["name"]: move["host"] for move in answer["moves"]} == {
        "idle": "kvm3",
        "off": "kvm3",
    }
    assert (
        "AggregateMultiTenancyIsolation"
        in {each["name"]: each["reason"] for each in answer["unmovable"]}["web1"]
    )
    with Store.open(fleet_url).write() as connection:
        aggregates.ensure(connection, "few", {"max_instances_per_host": "1"}, ["kvm3"])
    answer = plan("drain", host="kvm1", store_url=fleet_url, policy=policy)
    assert [move["host"] for move in answer["moves"]] == ["kvm3"]


def test_drain_reads_what_its_policy_looks_at(fleet_url):
    """Set figures of hosts that only some host filters and weighers read."""
    with Store.open(fleet_url).write() as connection:
        nodes = tables.compute_nodes
        connection.execute(
            sa.update(nodes).where(nodes.c.host == "kvm3").values(metrics={"load": 1.0})
        )
    answer = plan(
        "drain",
        host="kvm1",
        store_url=fleet_url,
        policy={"enabled_filters": ["MetricsFilter"], "metrics_weight_setting": {"load": -1.0}},
    )
    assert {move["host"] for move in answer["moves"]} == {"kvm3"}


def test_drain_keeps_away_from_what_failed_before(fleet_url):
    excluded = {uuid_of("web1"): ["kvm2"]}
    answer = plan("drain", host="kvm1", store_url=fleet_url, excluded=excluded)
    # kvm3 has 256 MiB, and web1 needs all of it.
    assert {move["name"]: move["host"] for move in answer["moves"]} == {
        "web1": "kvm3",
        "idle": "kvm2",
        "off": "kvm2",
    }


@pytest.mark.parametrize(
    ("host", "options", "says"),
    [
        ("kvm9", {}, "Host kvm9 is not in the store. Known hosts: kvm1, kvm2, kvm3."),
        ("kvm1", {"max_migrations": 0}, "max_migrations must be at least 1"),
    ],
)
def test_drain_refuses_in_a_sentence(fleet_url, host, options, says):
    assert says in failure("plan_drain_info", host=host, store_url=fleet_url, **options)


def test_drain_wants_a_host(fleet_url):
    assert "Which host? Name at least one" in failure(
        "plan_drain_info", host="", store_url=fleet_url
    )


def test_drain_makes_room_with_extra_moves(store_url):
    """big fits on kvm2 only once mid has gone to kvm3; kvm1's own instance is small."""
    reports = {
        "kvm1": report(
            "kvm1",
            1024,
            domain("big", memory_mb=480),
            domain("stops", metadata={"on_drain": "shutdown"}),
        ),
        "kvm2": report("kvm2", 512, domain("mid", memory_mb=200)),
        "kvm3": report("kvm3", 256),
    }
    with Store.open(store_url).write() as connection:
        record.record(connection, reports, time.time())
    answer = plan("drain", host="kvm1", store_url=store_url)
    assert (answer["status"], answer["moves"], answer["unsettled"]) == ("partial", [], [])
    (stuck,) = answer["unmovable"]
    assert (
        stuck["nearest"]["host"] == "kvm2"
        and stuck["way_out"] == "allow 1 more move of others (mid to kvm3)"
    )
    answer = plan("drain", host="kvm1", store_url=store_url, extra_moves=1)
    assert answer["status"] == "ok" and answer["extra_moves"] == 1 and answer["method"]
    assert [
        (each["name"], each["host"], each["extra"], each["for_hosts"], each["stage"])
        for each in answer["moves"]
    ] == [
        ("mid", "kvm3", True, ["kvm1"], 1),
        ("big", "kvm2", False, [], 2),
    ]
    assert answer["moves"][1]["after"] == [uuid_of("mid")]
    assert [each["name"] for each in answer["shutdowns"]] == ["stops"]
    assert "extra_moves must be 0 or more" in failure(
        "plan_drain_info", host="kvm1", store_url=store_url, extra_moves=-1
    )
    message = failure(
        "plan_drain_info", host="kvm1", store_url=store_url, max_migrations_per_destination=0
    )
    assert "max_migrations_per_destination must be at least 1" in message


def test_rolling(movable_url):
    answer = plan("rolling", store_url=movable_url)
    assert sorted(host for batch in answer["batches"] for host in batch) == ["kvm1", "kvm2", "kvm3"]
    assert answer["blocked"] == [] and len(answer["batches"]) >= answer["bound"]
    assert answer["lines"][0] == f"3 hosts in {len(answer['batches'])} batches."
    one = plan("rolling", hosts=["kvm1", "kvm2"], store_url=movable_url, batch_size=1)
    assert sorted(one["batches"]) == [["kvm1"], ["kvm2"]]
    nothing = plan("rolling", hosts=[], store_url=movable_url)
    assert nothing["batches"] == []
    # While kvm1 is down, kvm2 and kvm3 hold its instances; they cannot if one of them is lost too.
    spare = plan("rolling", hosts="kvm1", store_url=movable_url, spare_hosts=1)
    assert (
        spare["batches"] == []
        and "failed too, the other hosts could not take all instances"
        in spare["blocked"][0]["reason"]
    )


def test_plans_say_that_a_host_is_down(movable_url):
    assert not plan("rolling", hosts="kvm1", store_url=movable_url)["down"]
    assert not plan("drain", host="kvm1", store_url=movable_url)["down"]
    with Store.open(movable_url).write() as connection:
        services.record_unreachable(connection, "kvm1", "no route to host", time.time())
    answer = plan("drain", host="kvm1", store_url=movable_url)
    assert answer["down"] == [{"host": "kvm1", "reason": "no route to host"}]
    assert answer["lines"][1].startswith("kvm1 is down: no route to host. Only a host that answers")
    answer = plan("rolling", hosts="kvm1", store_url=movable_url)
    assert answer["down"] == [{"host": "kvm1", "reason": "no route to host"}]
    assert answer["lines"][1:] == [
        "  1. kvm1 (down)",
        "kvm1 is down: no route to host. A rolling maintenance does not take it until it answers.",
    ]


def test_rolling_names_what_is_in_the_way(fleet_url):
    answer = plan("rolling", store_url=fleet_url)
    assert [each["host"] for each in answer["blocked"]] == ["kvm1"]
    assert "kept cannot move: it has snapshots" in answer["blocked"][0]["reason"]
    assert "  kvm1: kept cannot move" in "\n".join(answer["lines"])
    assert plan("rolling", store_url=fleet_url, unmovable="shutdown")["blocked"] == []
    assert plan("rolling", store_url=fleet_url, empty=["kvm1"])["blocked"] == []
    assert "kvm9" in failure("plan_rolling_info", hosts="kvm9", store_url=fleet_url)
    assert "spare_hosts must be 0 or more" in failure(
        "plan_rolling_info", store_url=fleet_url, spare_hosts=-1
    )


def test_rebalance(movable_url):
    answer = plan("rebalance", store_url=movable_url)
    assert answer["score_after"] < answer["score_before"] and answer["moves"]
    assert {move["from_host"] for move in answer["moves"]} == {"kvm1"}
    assert all(move["gain"] >= 0.0005 for move in answer["moves"])
    assert answer["lines"][0].startswith(f"Score {answer['score_before']:.4f}, ")
    assert answer["estimate"][0].startswith("Expected to take about ") and answer["estimate"][
        1
    ].endswith("at 110 MiB/s, assumed.")
    assert answer["lines"][-3:-1] == answer["estimate"]
    assert plan("rebalance", store_url=movable_url, threshold=5)["moves"] == []
    assert len(plan("rebalance", store_url=movable_url, max_moves=1)["moves"]) == 1
    assert "max_migrations must be 1" in failure(
        "plan_rebalance_info", store_url=movable_url, max_migrations=0
    )


def test_rebalance_keeps_out_of_a_maintenance(movable_url):
    with Store.open(movable_url).write() as connection:
        host_state.change(connection, "kvm3", "draining", "new kernel")
    answer = plan("rebalance", store_url=movable_url)
    assert answer["moves"] == [] and "kvm3 is drained" in answer["reason"]
    answer = plan("rebalance", store_url=movable_url, despite_maintenance=True)
    assert {move["host"] for move in answer["moves"]} == {"kvm2"}
    with Store.open(movable_url).write() as connection:
        host_state.change(connection, "kvm3", "restored")
        host_state.change(connection, "kvm3", "disabled", "bad fan")
    # A host that is only disabled is left out, and the others are balanced.
    assert {move["host"] for move in plan("rebalance", store_url=movable_url)["moves"]} == {"kvm2"}


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
    assert plan("rebalance", store_url=movable_url)["cooling"] == []
    moved("completed", now - 1000)
    answer = plan("rebalance", store_url=movable_url)
    assert answer["cooling"] == ["web1"] and "web1" not in {
        move["name"] for move in answer["moves"]
    }
    assert "Moved too recently: web1." in answer["lines"]
    assert plan("rebalance", store_url=movable_url, cooldown=500)["cooling"] == []


def test_home(movable_url):
    places = {"web1": "kvm3", "idle": "kvm3", "off": "kvm1"}
    homes = [{"uuid": uuid_of(name), "host": host, "node": host} for name, host in places.items()]
    answer = plan("home", instances=homes, store_url=movable_url)
    # kvm3 has 256 MiB, and web1 takes all of it; off is at home.
    assert [(move["name"], move["host"], move["live"]) for move in answer["moves"]] == [
        ("web1", "kvm3", True)
    ]
    assert [each["name"] for each in answer["staying"]] == [
        "idle"
    ] and "kvm3 has no room" in answer["staying"][0]["reason"]
    assert answer["lines"][0] == "1 move home."
    gone = [{"uuid": uuid_of("nobody"), "host": "kvm3", "node": "kvm3"}]
    assert plan("home", instances=gone, store_url=movable_url)["moves"] == []
