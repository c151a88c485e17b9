# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances as planners read them, and plans that use these data."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.scheduling import (
    columns_for_moves,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import host_columns
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import migrations_open
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.instances_for_plans import (
    read_host_instances,
    read_instances,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

PROOF = certainty.word("a test")


def discover(url, metadata=None, **more):
    web = domain("web", metadata={"project": "p", "flavor": "small", **(metadata or {})}, **more)
    discovered = fleets.discover(
        url, host("kvm1", web, domain("old")), host("kvm2"), host("kvm3", domain("other"))
    )
    return discovered


def read(url, *arguments, **more):
    with Store.open(url).read() as connection:
        return {each["name"]: each for each in read_instances(connection, *arguments, **more)}


def change(url, table, **values):
    with Store.open(url).write() as connection:
        connection.execute(sa.update(table).values(**values))


def test_one_reader_for_one_host_for_all_and_for_the_others(prepared_url):
    discover(prepared_url)
    assert set(read(prepared_url)) == {"web", "old", "other"}
    assert set(read(prepared_url, ["kvm1"])) == {"web", "old"}
    assert {name: each["host"] for name, each in read(prepared_url, but=["kvm1"]).items()} == {
        "other": "kvm3"
    }
    with Store.open(prepared_url).read() as connection:
        assert [each["name"] for each in read_host_instances(connection, "kvm1")] == ["old", "web"]
        assert len(read_host_instances(connection)) == 3


@pytest.mark.parametrize("many", [1, 40])
def test_it_takes_four_queries_however_many_there_are(prepared_url, many):
    fleets.discover(
        prepared_url, host("kvm1", *(domain(f"vm{number}") for number in range(many)), vcpus=64)
    )
    with Store.open(prepared_url).read() as connection:
        assert len(read_instances(connection)) == many
        assert fleets.count_queries(connection, read_instances) == 4


def test_what_is_read_of_an_instance(prepared_url):
    discover(
        prepared_url,
        {"move": "cold", "priority": "7", "migration": '{"copy_storage": "never"}'},
        vcpus=2,
    )
    with Store.open(prepared_url).write() as connection:
        connection.execute(
            sa.insert(tables.flavors).values(
                uuid=uuid_of("small"),
                name="small",
                vcpus=2,
                memory_mb=64,
                disk_gb=0,
                extra_specs={"trait:HW_FAST": "required", "trait:HW_SLOW": "forbidden"},
                created_at=fleets.NOW,
            )
        )
    web = read(prepared_url)["web"]
    expected = {
        "move_policy": "cold",
        "move_policy_error": None,
        "priority": 7,
        "migration": {"copy_storage": "never"},
        "project": "p",
        "flavor": "small",
        "required_traits": ["HW_FAST"],
        "resources": {"VCPU": 2, "MEMORY_MB": 64, "DISK_GB": 0},
    }
    assert {key: web[key] for key in expected} == expected


def test_what_another_host_showed_last_says_that_it_has_to_be_read(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1", fleets.domain("web")), fleets.host("kvm2"))
    fleets.discover(prepared_url, fleets.host("kvm2", fleets.domain("web")))
    fleets.discover(prepared_url, fleets.host("kvm1"))
    policy = Policy.from_mapping({})
    with Store.open(prepared_url).read() as connection:
        instances = read_host_instances(connection, "kvm1")
        columns = host_columns.read_columns(
            connection, fleets.NOW, 0, columns_for_moves(instances, policy)
        )
    (stays,) = plan_drain(columns, instances, "kvm1", policy)["unmovable"]
    assert (
        "another host did when that was last read; run drover.compute.discover" in stays["reason"]
    )


def test_all_resource_classes_and_none_of_those_that_hold_two_places(prepared_url):
    discover(prepared_url)
    with Store.open(prepared_url).write() as connection:
        consumer = connection.scalar(
            sa.select(tables.consumers.c.id).where(tables.consumers.c.uuid == uuid_of("web"))
        )
        provider = connection.scalar(
            sa.select(tables.allocations.c.provider_id).where(
                tables.allocations.c.consumer_id == consumer
            )
        )
        number = connection.execute(
            sa.insert(tables.resource_classes).values(name="CUSTOM_GOLD")
        ).inserted_primary_key[0]
        connection.execute(
            sa.insert(tables.allocations).values(
                consumer_id=consumer, provider_id=provider, class_id=number, used=3
            )
        )
    assert read(prepared_url)["web"]["resources"]["CUSTOM_GOLD"] == 3
    with Store.open(prepared_url).read() as connection:
        instances = read_host_instances(connection, "kvm1")
        wanted = columns_for_moves(instances, Policy.from_mapping({}))
        columns = host_columns.read_columns(connection, fleets.NOW, 0, wanted)
    assert "CUSTOM_GOLD" in columns["resources"]
    plan = plan_drain(columns, instances, "kvm1", Policy.from_mapping({}))
    assert [move["name"] for move in plan["moves"]] == ["old"]
    assert "CUSTOM_GOLD" in plan["unmovable"][0]["reason"]
    change(prepared_url, tables.instances, state="active")
    with Store.open(prepared_url).write() as connection:
        connection.execute(
            sa.insert(tables.migrations).values(
                uuid=uuid_of("m"),
                instance_uuid=uuid_of("web"),
                instance_name="web",
                source="kvm9",
                destination="kvm1",
                type="evacuation",
                status="done",
                created_at=1.0,
                updated_at=1.0,
            )
        )
    assert read(prepared_url)["web"]["resources"] == {}


def test_the_metadata_is_the_one_place_of_the_policy(prepared_url):
    discover(prepared_url, {"move": "never"})
    assert read(prepared_url)["web"]["move_policy"] == "never"
    assert discover(prepared_url, {"move": "never"})["changed"] is False
    assert discover(prepared_url, {"on_drain": "shutdown"})["changed"]
    assert read(prepared_url)["web"]["move_policy"] == "shutdown"
    found = discover(prepared_url, {"move": "live", "on_drain": "shutdown"})
    assert "Instance web: move live says" in found["policies"][0]
    web = read(prepared_url)["web"]
    assert (web["move_policy"], "move live" in web["move_policy_error"]) == (None, True)
    discover(prepared_url)
    assert (
        read(prepared_url)["web"]["move_policy"],
        read(prepared_url)["web"]["move_policy_error"],
    ) == (None, None)


def test_the_budget_of_a_group_is_seen_and_may_change(prepared_url):
    def ensure(**more):
        with Store.open(prepared_url).write() as connection:
            return server_groups.ensure(connection, "web", "anti-affinity", **more)[1]

    assert ensure(max_moving=2) and not ensure(max_moving=2) and not ensure()
    assert fleets.columns(prepared_url)["server_groups"]["web"]["max_moving"] == 2
    assert ensure(max_moving=0)
    assert fleets.columns(prepared_url)["server_groups"]["web"]["max_moving"] is None
    with pytest.raises(
        DroverError, match=r"max_moving \(0 is no limit\) must be a whole number from 0 "
    ):
        ensure(max_moving=-1)


def test_moves_that_make_room_are_known_by_the_host_they_are_for(prepared_url):
    discover(prepared_url)
    with Store.open(prepared_url).write(together=True) as connection:
        opened = migration_claims.begin(
            connection,
            uuid_of("other"),
            "kvm2",
            None,
            "live-migration",
            fleets.NOW,
            "kvm3",
            {"for_hosts": ["kvm1", "kvm4"]},
        )
    with Store.open(prepared_url).read() as connection:
        assert migrations_open.left_open_for(connection, ["kvm1"]) == ["kvm3"]
        assert migrations_open.left_open_for(connection, ["kvm2", "kvm4"]) == ["kvm3"]
        assert migrations_open.left_open_for(connection, ["kvm2"]) == []
    before = fleets.holdings(prepared_url)
    with Store.open(prepared_url).write(together=True) as connection:
        migration_claims.undo(connection, opened["uuid"], PROOF, "no", fleets.NOW)
    after = fleets.holdings(prepared_url)
    assert before != after and after[uuid_of("other")] == {"kvm3": {"VCPU": 1, "MEMORY_MB": 64}}


def test_safety_02_a_disk_that_others_are_backed_by_is_planned_as_one_that_cannot_be_copied(
    prepared_url,
):
    """A disk on known shared storage is an exception: no file of it is copied, and its clones keep
    it."""

    def disk(path, *behind):
        return {
            "target": "vda",
            "type": "file",
            "source": path,
            "path": path,
            "chain": [{"path": each} for each in behind],
        }

    clones = [domain(f"clone{number}", disks=[disk(f"/c{number}", "/base")]) for number in range(5)]
    template = domain("tmpl", disks=[disk("/base")], state="shutoff")
    other = domain("other", disks=[disk("/x", "/base")])

    def plan(*domains, **more):
        fleets.discover(prepared_url, host("kvm1", *domains, **more), host("kvm2", other, vcpus=16))
        with Store.open(prepared_url).read() as connection:
            instances, policy = read_host_instances(connection, "kvm1"), Policy.from_mapping({})
            columns = host_columns.read_columns(
                connection, fleets.NOW, 0, columns_for_moves(instances, policy)
            )
            found = plan_drain(columns, instances, "kvm1", policy)
        return {each["name"]: each["reason"] for each in found["unmovable"]}

    assert plan(template, *clones) == {
        "tmpl": (
            "one of its disks backs clone0, clone1, clone2 and 2 more on its host and is not known"
            " to be on shared storage, so it cannot be copied away; move what it backs first, or"
            " declare its pool with drover_shared_pools"
        )
    }
    assert (
        plan(template, *clones, pools=[{"name": "p", "path": "/", "shared_id": "declared:p"}]) == {}
    )
    # On another host, the same path may be another file.
    assert "tmpl" not in plan(template)


def test_snapshots_are_planned_to_go_along_where_no_image_of_them_has_to_be_copied(prepared_url):
    disks = [
        {
            "target": "vda",
            "type": "file",
            "device": "disk",
            "source": "/v/x",
            "path": "/v/x",
            "chain": [{"path": "/v/base"}],
        }
    ]
    with_them = {"disks": disks, "snapshots": True}
    guests = [
        domain("external", **with_them, fixed_snapshots=[]),
        domain("internal", **with_them, fixed_snapshots=["in"]),
        domain("older", **with_them),
        domain("none", disks=disks, snapshots=False, fixed_snapshots=[]),
    ]

    def plan(**more):
        fleets.discover(prepared_url, host("kvm1", *guests, **more), host("kvm2", vcpus=16))
        with Store.open(prepared_url).read() as connection:
            instances, policy = read_host_instances(connection, "kvm1"), Policy.from_mapping({})
            columns = host_columns.read_columns(
                connection, fleets.NOW, 0, columns_for_moves(instances, policy)
            )
            found = plan_drain(columns, instances, "kvm1", policy)
        return {each["name"]: each["reason"] for each in found["unmovable"]}

    local = plan()
    assert set(local) == {"external", "internal", "older"}
    assert (
        "its disks are not known to be on shared storage" in local["external"]
        and "drover_shared_pools" in local["external"]
    )
    assert (
        "it has snapshots in its image or with memory (in), with which libvirt moves nothing"
        in local["internal"]
    )
    assert "run drover.compute.discover" in local["older"]
    assert set(plan(pools=[{"name": "p", "path": "/v", "shared_id": "declared:p"}])) == {
        "internal",
        "older",
    }
