# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler's reading of the store: aggregates, flavors, columns; with a constant number of
queries."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    aggregates,
    host_columns,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record
from ansible_collections.drover.compute.tests.unit.store.fleets import count_queries, uuid_of

NOW = time.time()


@pytest.fixture
def store(store_url):
    store = Store.open(store_url)
    with store.write() as connection:
        record.record(connection, reports(3), NOW)
    return store


def reports(count, **more):
    nodes = [
        {
            "host": f"kvm{n}",
            "vcpus": 8,
            "memory_mb": 8192,
            "local_gb": 100,
            "host_ip": f"10.0.0.{n}",
            **more,
        }
        for n in range(1, count + 1)
    ]
    nodes[0].update(
        stats={"rack": 1},
        metrics={"load": 2.5},
        num_io_ops=3,
        failed_builds=1,
        hypervisor_version=8000000,
    )
    nodes[0]["supported_instances"] = [["x86_64", "kvm", "hvm"]]
    nodes[0]["cpu_info"] = {"arch": "x86_64"}
    return node_data.reports(nodes, "kvm1", {})


def wanted(**more):
    return host_columns.ColumnQuery(
        columns={*host_columns.ON_WISH, "traits", "node_flavors", "node_images"}, **more
    )


def test_columns_are_those_that_were_reported(store):
    with store.read() as connection:
        states = HostStates(host_columns.read_columns(connection, NOW, 0, wanted()))
    assert states.host == ["kvm1", "kvm2", "kvm3"]
    assert states.num_io_ops.tolist() == [3, 0, 0]
    assert states.failed_builds.tolist() == [1, 0, 0]
    assert states.hypervisor_version.tolist() == [8000000, 0, 0]
    assert states.categorical("stats")[0] == {"rack": 1} and states.categorical("stats")[1] is None
    assert states.categorical("metrics")[0] == {"load": 2.5}
    assert states.categorical("supported_instances")[0] == [["x86_64", "kvm", "hvm"]]
    assert states.categorical("cpu_info")[0]["arch"] == "x86_64"
    assert states.categorical("host_ip")[2] == "10.0.0.3"
    assert "COMPUTE_NODE" in states.categorical("traits")[0]
    for rc, total, reserved, ratio in (
        ("VCPU", 8, 0, 4),
        ("MEMORY_MB", 8192, 0, 1),
        ("DISK_GB", 100, 0, 1),
    ):
        figures = {"total": total, "reserved": reserved, "ratio": ratio, "used": 0}
        figures.update(min_unit=1, max_unit=total, step_size=1)
        for field, value in figures.items():
            assert getattr(states.resources[rc], field).tolist() == [value] * 3, (rc, field)
    assert states.up.all() and states.enabled.all()


def test_figures_stay_when_a_report_does_not_give_them(store):
    with store.write() as connection:
        again = node_data.reports(
            [{"host": "kvm1", "vcpus": 8, "memory_mb": 8192, "local_gb": 100}], "kvm1", {}
        )
        record.record(connection, again, NOW)
    with store.read() as connection:
        states = HostStates(host_columns.read_columns(connection, NOW, 0, wanted()))
    assert (
        states.num_io_ops.tolist() == [3, 0, 0] and states.categorical("host_ip")[0] == "10.0.0.1"
    )


def test_hosts_that_are_not_up_say_why(store):
    table = tables.services
    with store.write() as connection:
        for host, values in {
            "kvm1": {"disabled": True, "disabled_reason": "fan"},
            "kvm2": {"last_error": "no route"},
            "kvm3": {"last_seen_up": NOW - 500},
        }.items():
            connection.execute(sa.update(table).where(table.c.host == host).values(**values))
    with store.read() as connection:
        for down_time, late in (
            (0, None),
            (100, "last seen 500 s ago, more than service_down_time (100 s)"),
        ):
            states = HostStates(host_columns.read_columns(connection, NOW, down_time))
            assert states.up.tolist() == [True, False, late is None]
            assert states.down_reason == [None, "no route", late]
            assert states.enabled.tolist() == [False, True, True]
            assert states.disabled_reason == ["fan", None, None]
    with store.write() as connection:
        connection.execute(sa.update(tables.compute_nodes).values(reported=False))
    with store.read() as connection:
        states = HostStates(host_columns.read_columns(connection, NOW))
    assert states.down_reason == ["no longer reported by its host"] * 3 and not states.up.any()


def place(connection, host, name, state, group=None):
    """Put an instance on a host, without a claim."""
    nodes = tables.compute_nodes
    node = connection.execute(sa.select(nodes.c.id).where(nodes.c.host == host)).scalar_one()
    values = {"vcpus": 1, "memory_mb": 1, "disk_gb": 0, "created_at": NOW, "server_group_id": group}
    connection.execute(
        sa.insert(tables.instances).values(
            uuid=uuid_of(name), name=name, compute_node_id=node, state=state, **values
        )
    )
    return node


def test_builds_and_moves_under_way_are_counted_when_wanted(store):
    with store.write() as connection:
        places = {
            host: place(connection, host, f"new-{host}", "building") for host in ("kvm1", "kvm2")
        }
        place(connection, "kvm2", "old", "active")
        for number, (status, source, destination) in enumerate(
            (
                ("running", "kvm1", "kvm2"),
                ("accepted", "kvm2", "kvm1"),
                ("completed", "kvm1", "kvm2"),
                ("running", "kvm2", None),
            )
        ):
            connection.execute(
                sa.insert(tables.migrations).values(
                    uuid=uuid_of(f"move{number}"),
                    instance_uuid=uuid_of("old"),
                    instance_name="old",
                    source_node_id=places[source],
                    destination_node_id=places.get(destination),
                    source=source,
                    destination=destination or "gone",
                    type="live-migration",
                    status=status,
                    created_at=NOW,
                    updated_at=NOW,
                )
            )

    def io_ops(**more):
        with store.read() as connection:
            columns = host_columns.read_columns(
                connection, NOW, 0, host_columns.ColumnQuery(**more)
            )
        return HostStates(columns).num_io_ops.tolist()

    # kvm1 itself reports 3.
    assert io_ops(columns={"num_io_ops"}) == [3 + 1 + 2, 1 + 3, 0]
    assert io_ops() == [3, 0, 0]
    request = {"name": "x", "vcpus": 1, "memory_mb": 64}
    policy = Policy.from_mapping(
        {"enabled_filters": ["IoOpsFilter"], "max_io_ops_per_host": 4, "weighers": []}
    )
    with store.read() as connection:
        (chosen,) = scheduling.decide(connection, [request], policy, NOW)
    assert (chosen["host"], chosen["alternates"]) == ("kvm3", [])


def test_every_instance_and_group_when_wanted(store):
    with store.write() as connection:
        connection.execute(
            sa.insert(tables.server_groups).values(uuid=uuid_of("g"), name="g", policy="affinity")
        )
        group = connection.execute(sa.select(tables.server_groups.c.id)).scalar_one()
        for host, name, mine in (("kvm1", "a", None), ("kvm2", "b", group), ("kvm3", "c", group)):
            place(connection, host, name, "active", mine)

    def read(**more):
        with store.read() as connection:
            columns = host_columns.read_columns(
                connection, NOW, 0, host_columns.ColumnQuery(**more)
            )
        names = {
            name: columns["host"][columns["instances"][key]]
            for name, (key,) in columns["instance_names"].items()
        }
        return names, set(columns["server_groups"]["g"]["members"])

    everywhere, members = {"a": "kvm1", "b": "kvm2", "c": "kvm3"}, {uuid_of("b"), uuid_of("c")}
    assert read(instances=host_columns.ALL, groups=host_columns.ALL) == (everywhere, members)
    assert read(groups={"g"}) == ({"b": "kvm2", "c": "kvm3"}, members)
    assert read(instances={"a"}) == ({"a": "kvm1"}, set())
    assert read(instances={uuid_of("a").upper()}) == ({"a": "kvm1"}, set())
    assert read() == ({}, set())


def test_the_number_of_queries_does_not_grow_with_the_fleet(store):
    def count():
        with store.read() as connection:
            return count_queries(
                connection, host_columns.read_columns, NOW, 0, wanted(instances={"x"}, groups={"g"})
            )

    before = count()
    with store.write() as connection:
        record.record(connection, reports(60), NOW)
        aggregates.ensure(connection, "all", {"a": "b"}, [f"kvm{n}" for n in range(1, 61)])
    assert count() <= before + 1 < 25


def test_aggregates_keep_keys_that_are_not_named_and_delete_by_null(store):
    with store.write() as connection:
        made, changed = aggregates.ensure(
            connection, "fast", {"ssd": True, "tier": "gold"}, ["kvm1"]
        )
        assert (
            changed
            and made["metadata"] == {"ssd": "True", "tier": "gold"}
            and made["hosts"] == ["kvm1"]
        )
        assert not aggregates.ensure(connection, "fast", {"tier": "gold"}, ["kvm1"])[1]
        aggregate, changed = aggregates.ensure(
            connection, "fast", {"tier": None, "x": 1}, ["kvm2"], ["kvm1"]
        )
        assert (
            changed
            and aggregate["metadata"] == {"ssd": "True", "x": "1"}
            and aggregate["hosts"] == ["kvm2"]
        )
        with pytest.raises(DroverError, match="host kvm9 is not in the store"):
            aggregates.ensure(connection, "fast", None, ["kvm9"])
        with pytest.raises(DroverError, match="Aggregate fast has hosts: kvm2"):
            aggregates.delete(connection, "fast")
        aggregates.ensure(connection, "fast", None, (), ["kvm2"])
        assert aggregates.delete(connection, "fast") and not aggregates.delete(connection, "fast")


def test_a_host_is_in_one_zone(store):
    with store.write() as connection:
        aggregates.ensure(connection, "a", {"availability_zone": "az1"}, ["kvm1"])
        aggregates.ensure(connection, "a2", {"availability_zone": "az1"}, ["kvm1"])
        aggregates.ensure(connection, "b", {"availability_zone": "az2"}, ["kvm2"])
        with pytest.raises(
            DroverError, match="host kvm1 is in the zone az1 already and would be in az2 too"
        ):
            aggregates.ensure(connection, "b", None, ["kvm1"])
        aggregates.ensure(connection, "c", None, ["kvm1"])
        with pytest.raises(DroverError, match="would be in az3 too"):
            aggregates.ensure(connection, "c", {"availability_zone": "az3"})
        for bad in ("", "a:b", "a,b"):
            with pytest.raises(DroverError, match="must be the name of one zone"):
                aggregates.ensure(connection, "d", {"availability_zone": bad})


def test_no_zone_changes_under_instances(store):
    with store.write() as connection:
        aggregates.ensure(connection, "a", {"availability_zone": "az1"}, ["kvm1", "kvm2"])
        node = connection.execute(
            sa.select(tables.compute_nodes.c.id).where(tables.compute_nodes.c.host == "kvm1")
        ).scalar_one()
        connection.execute(
            sa.insert(tables.instances).values(
                uuid="1b4e28ba-2fa1-11d2-883f-0016d3cca427",
                name="vm1",
                compute_node_id=node,
                state="active",
                vcpus=1,
                memory_mb=1,
                disk_gb=0,
                availability_zone="az1",
                created_at=NOW,
            )
        )
        for change in (
            {"metadata": {"availability_zone": "az9"}},
            {"metadata": {"availability_zone": None}},
            {"remove_hosts": ["kvm1"]},
        ):
            with pytest.raises(
                DroverError, match="zone of host kvm1 would change .* under the instance vm1"
            ):
                aggregates.ensure(connection, "a", **change)
        aggregates.ensure(connection, "a", remove_hosts=["kvm2"], metadata={"ssd": "1"})


def test_flavors(store):
    with store.write() as connection:
        made, changed = flavors.ensure(
            connection,
            "m1",
            {"vcpus": 2, "memory_mb": 512, "extra_specs": {"a": "1", "b": "2"}},
            NOW,
        )
        assert changed and made["disk_gb"] == 0
        assert not flavors.ensure(connection, "m1", {"vcpus": 2}, NOW)[1]
        assert flavors.ensure(connection, "m1", {"extra_specs": {"a": None}}, NOW)[0][
            "extra_specs"
        ] == {"b": "2"}
        with pytest.raises(DroverError, match="Flavor m2: memory_mb must be given"):
            flavors.ensure(connection, "m2", {"vcpus": 1}, NOW)
    with store.read() as connection:
        (chosen,) = scheduling.decide(
            connection, [{"name": "x", "flavor": "m1"}], Policy.from_mapping(), NOW
        )
        assert (chosen["flavor"], chosen["resources"]) == ("m1", {"VCPU": 2, "MEMORY_MB": 512})
        with pytest.raises(DroverError, match=r"flavor 'm3' is not in the store \(it has: m1\)"):
            scheduling.decide(
                connection, [{"name": "x", "flavor": "m3"}], Policy.from_mapping(), NOW
            )
    with store.write() as connection:
        assert flavors.delete(connection, "m1") and not flavors.delete(connection, "m1")


def test_the_tables_are_what_the_migrations_make(store):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.read() as connection:
        found = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    assert found == []
