# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and the report read the fleet once."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    report_data,
    scheduling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import host_columns
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    flavors,
    instances_for_plans,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host

POLICY = Policy.from_mapping({})


@pytest.fixture(name="url")
def fleet(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", domain("a"), domain("b")),
        host("kvm2", domain("c")),
        host("kvm3"),
    )
    with Store.open(prepared_url).write() as connection:
        server_groups.ensure(connection, "apart", "anti-affinity")
        group, table = sa.select(tables.server_groups.c.id).scalar_subquery(), tables.instances
        connection.execute(
            sa.update(table).where(table.c.name.in_(["a", "c"])).values(server_group_id=group)
        )
    return prepared_url


def statements(url, function, *arguments):
    """Return the texts of the columns that a function (connection, *arguments) selects."""
    sent = []
    with Store.open(url).read() as connection:
        sa.event.listen(
            connection,
            "before_cursor_execute",
            lambda *details: sent.append(details[2].partition("FROM")[0]),
        )
        function(connection, *arguments)
    return sent


@pytest.mark.parametrize("read, times", [(scheduling.read_whole_fleet, 1), (report_data.read, 3)])
def test_the_fleet_is_read_once(url, monkeypatch, read, times):
    """The report reads the instances as people see them, the resources of each, and the instances
    that went down with their host."""
    fleets_read, kept = [], host_columns._read_columns
    monkeypatch.setattr(
        host_columns, "_read_columns", lambda *arguments: fleets_read.append(1) or kept(*arguments)
    )
    selected = statements(url, read, POLICY, NOW)
    assert sum("instances.name" in each for each in selected) == times
    assert len(fleets_read) == 1


def test_a_flavor_that_only_an_image_completes_is_counted_by_its_size(url):
    with Store.open(url).write() as connection:
        for name, specs in (("threads", {"hw:cpu_thread_policy": "require"}), ("plain", {})):
            flavors.ensure(
                connection,
                name,
                {"vcpus": 1, "memory_mb": 64, "disk_gb": 1, "extra_specs": specs},
                NOW,
            )
    with Store.open(url).read() as connection:
        rows = report_data.read(connection, POLICY, NOW)["capacity"]["rows"]
    assert [row["name"] for row in rows] == ["plain", "threads"]
    assert rows[0]["total"] == rows[1]["total"] > 0


def test_instances_that_are_known_are_where_they_would_be_read(url):
    def read(wanted):
        with Store.open(url).read() as connection:
            instances = instances_for_plans.read_instances(connection)
            fleet_columns = host_columns.read_columns(
                connection,
                NOW,
                0,
                host_columns.ColumnQuery(
                    instances=instances if wanted is None else wanted, groups=host_columns.ALL
                ),
            )
        for group in fleet_columns["server_groups"].values():
            group["members"].sort()
        return {
            name: fleet_columns[name] for name in ("instances", "instance_names", "server_groups")
        }

    assert read(None) == read(host_columns.ALL)
    assert read(None)["server_groups"]["apart"]["members"] == sorted(map(fleets.uuid_of, "ac"))


def test_a_host_is_found_without_the_fleet(url):
    assert len(statements(url, hosts.states, NOW, 0, "kvm2")) == 1
