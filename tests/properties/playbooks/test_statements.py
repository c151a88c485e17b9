# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of statements that a command sends to the database: equal in a large fleet and a small
one."""

from __future__ import annotations

import contextlib
import types
import uuid

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import inventory
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

SMALL, LARGE = 4, 60
SIZE = {"vcpus": 1, "memory_mb": 64}


def nodes(hosts):
    """Return hosts with three instances each, in two zones."""
    return [
        host(
            f"kvm{number}",
            *(
                domain(
                    f"app{number}-{each}", metadata={"server_group": f"group{each}"} if each else {}
                )
                for each in range(3)
            ),
            availability_zone=f"zone{number % 2}",
            traits=["CUSTOM_SSD"] if number % 2 else [],
            labels={"rack": str(number)},
        )
        for number in range(hosts)
    ]


@pytest.fixture(name="fleet_of", scope="module")
def stores(tmp_path_factory):
    """Return a function: number of hosts -> a folder with its store, which the commands here do not
    change."""
    folders = {}
    for hosts in (SMALL, LARGE):
        folders[hosts] = folder = tmp_path_factory.mktemp(f"of{hosts}")
        url = f"sqlite:///{folder / 'store.db'}"
        run("store", store_url=url)
        with Store.open(url).write() as connection:
            for number in (1, 2):
                server_groups.ensure(connection, f"group{number}", "soft-anti-affinity")
            now = clock.now(connection)
        fleets.discover(url, *nodes(hosts), now=now)
        run("flavor", store_url=url, name="small", disk_gb=0, **SIZE)
        run(
            "aggregate",
            store_url=url,
            name="even",
            hosts=[f"kvm{number}" for number in range(0, hosts, 2)],
            metadata={"ssd": "true"},
        )
        run("quota", store_url=url, project="shop", cores=4)
        with Store.open(url).write() as connection:
            for table, row in rows_of_the_past(hosts):
                connection.execute(sa.insert(table), row)
        run("store", store_url=url, state="exported", path=str(folder / "export"))
    return folders.__getitem__


def rows_of_the_past(hosts):
    """Record decisions and moves of the fleet."""
    for number in range(hosts):
        explanation = {"hosts": 3, "filters": []}
        yield (
            tables.decisions,
            {
                "created_at": 1.0,
                "purpose": "place",
                "instance_name": "a",
                "host": f"kvm{number}",
                "alternates": [],
                "explanation": explanation,
            },
        )
        yield (
            tables.migrations,
            {
                "uuid": str(uuid.uuid4()),
                "instance_uuid": fleets.uuid_of("app0-0"),
                "instance_name": "app0-0",
                "source": f"kvm{number}",
                "destination": "kvm0",
                "type": "live-migration",
                "status": "completed",
                "created_at": 1.0,
                "updated_at": 2.0,
            },
        )


def statements(function, *arguments):
    """Return the statements of a call without their values."""
    sent = []

    def note(*details):
        sent.append(" ".join(details[2].split()))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        function(*arguments)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    return sent


def without_blocks(sent):
    """Return the statements except for the ones that write a block of rows of an export."""
    return [each for each in sent if not (each.startswith("INSERT") and "), (" in each)]


def of_a_module(name, /, **given):
    def command(folder, _hosts):
        words = {
            key: value(folder) if isinstance(value, types.FunctionType) else value
            for key, value in given.items()
        }
        run(name, store_url=f"sqlite:///{folder / 'store.db'}", **words)

    return command


def of_the_inventory(instances):
    def command(folder, _hosts):
        with Store.open(f"sqlite:///{folder / 'store.db'}").read() as connection:
            inventory.read(connection, clock.now(connection), 0, ["CUSTOM_*"], instances)

    return command


def discovery(folder, hosts):
    """Record the same hosts again, in a transaction that is rolled back."""
    with (
        contextlib.suppress(Undone),
        Store.open(f"sqlite:///{folder / 'store.db'}").write() as connection,
    ):
        fleets.record.record(
            connection, fleets.node_data.reports(nodes(hosts), "unused", {}), clock.now(connection)
        )
        raise Undone


class Undone(Exception):
    """The end of a transaction without its changes."""


COMMANDS = {
    "hosts": of_a_module("host_info"),
    "one host": of_a_module("host_info", host="kvm1"),
    "hosts of a selector": of_a_module("host_info", selector="rack=1"),
    "instances": of_a_module("instance_info"),
    "one instance": of_a_module("instance_info", name="app1-0"),
    "audit": of_a_module("store_audit_info"),
    "report": of_a_module("report", path=lambda folder: str(folder / "report.html")),
    "metrics": of_a_module("metrics"),
    "capacity": of_a_module("capacity_info"),
    "schedule": of_a_module(
        "schedule_info", requests=[{"name": f"new{number}", **SIZE} for number in range(3)]
    ),
    "drain plan": of_a_module("plan_drain_info", host=["kvm1"]),
    "rolling plan": of_a_module("plan_rolling_info"),
    "rebalance plan": of_a_module("plan_rebalance_info"),
    "home plan": of_a_module(
        "plan_home_info",
        instances=[{"uuid": fleets.uuid_of("app1-0"), "host": "kvm2", "node": "kvm2"}],
    ),
    "allocation candidates": of_a_module("allocation_candidates_info", query="resources=VCPU:1"),
    "resource providers": of_a_module("resource_provider_info"),
    "allocations": of_a_module("allocation_info"),
    "quotas": of_a_module("quota_info"),
    "export": of_a_module("store", state="exported", path=lambda folder: str(folder / "again")),
    "simulation": of_a_module("simulate", changes=[{"lose_hosts": "kvm1"}]),
    "simulation of an export": of_a_module(
        "simulate", changes=[], export=lambda folder: str(folder / "export")
    ),
    "inventory": of_the_inventory(False),
    "inventory with instances": of_the_inventory(True),
    "discovery of all hosts": discovery,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_sends_as_many_statements_to_a_large_store(fleet_of, name):
    sent = {hosts: statements(COMMANDS[name], fleet_of(hosts), hosts) for hosts in (SMALL, LARGE)}
    assert sent[SMALL], "nothing was read"
    if name == "simulation of an export":
        sent = {hosts: without_blocks(each) for hosts, each in sent.items()}
    print(f"{name}: {len(sent[LARGE])}")
    more = [each for each in sent[LARGE] if sent[LARGE].count(each) > sent[SMALL].count(each)]
    assert len(sent[LARGE]) <= len(sent[SMALL]), (
        f"{len(sent[SMALL])} statements became {len(sent[LARGE])}: {sorted(set(more))[:5]}"
    )


def test_an_import_sends_as_many_statements_for_a_large_store(fleet_of, tmp_path):
    sent = {}
    for hosts in (SMALL, LARGE):
        arguments = {
            "state": "imported",
            "path": str(fleet_of(hosts) / "export"),
            "store_url": f"sqlite:///{tmp_path / str(hosts)}.db",
        }
        sent[hosts] = without_blocks(statements(lambda words: run("store", **words), arguments))
    assert sent[SMALL] and len(sent[LARGE]) <= len(sent[SMALL])
