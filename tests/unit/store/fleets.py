# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small fleets in a store for the tests, and functions that read all of a store."""

from __future__ import annotations

import multiprocessing
import queue
import traceback
import uuid

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import host_columns
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances_for_plans,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    checked_facts,
    node,
    node_data,
    record,
)

NOW = 1_800_000_000.0
RACE_SECONDS = 60


def uuid_of(name):
    """Return the same uuid for the same name, in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def domain(name, vcpus=1, memory_mb=64, disk_gb=0, **more):
    """Return a domain as compute_node takes it in a list of nodes."""
    facts = {"uuid": uuid_of(name), "name": name, "state": "running"}
    return {**facts, "vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb, **more}


def host(name, *domains, vcpus=4, memory_mb=4096, local_gb=100, **more):
    """Return a compute node as compute_node takes it in a list of nodes; without
    over-commitment.
    """
    size = {"vcpus": vcpus, "memory_mb": memory_mb, "local_gb": local_gb}
    return {"host": name, "cpu_allocation_ratio": 1.0, "domains": list(domains), **size, **more}


def described(facts, options):
    """Return the compute node of a host with these facts, in the form of the store."""
    where = f"Compute node {facts['hypervisor_hostname']}"
    return node.describe(checked_facts.of_people(facts, where, where), options)


def discover(url, *nodes, now=NOW, **options):
    """Record nodes as one discovery; return its result."""
    with Store.open(url).write() as connection:
        return record.record(connection, node_data.reports(list(nodes), "unused", options), now)


def identify(url, name, **facts):
    """Set facts of the nodes of a host: host_uuid, system_uuid, firmware_uuid, machine_id."""
    table = tables.compute_nodes
    with Store.open(url).write() as connection:
        for row in connection.execute(
            sa.select(table.c.id, table.c.facts).where(table.c.host == name)
        ).all():
            connection.execute(
                sa.update(table)
                .where(table.c.id == row.id)
                .values(facts={**(row.facts or {}), **facts}, host_uuid=facts.get("host_uuid"))
            )


def empty(url):
    """Take everything out of a store, for a test that begins several times."""
    with Store.open(url).write() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(sa.delete(table))


def selection(name, *places, vcpus=1, memory_mb=64, disk_gb=0, **more):
    """Return a selection as the lookup schedule returns it: the first place, and the others as
    alternates."""
    first, *others = [{"host": place, "node": place} for place in places]
    resources = {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb}
    return {
        "name": name,
        "uuid": uuid_of(name),
        **first,
        "alternates": others,
        "resources": resources,
        **more,
    }


def claim(url, *selections, now=NOW):
    """Claim in one transaction; return the claims."""
    with Store.open(url).write(together=True) as connection:
        return claims.claim(connection, list(selections), now)


def build(url):
    """Make all claimed instances active, as a build does."""
    with Store.open(url).write() as connection:
        connection.execute(sa.update(tables.instances).values(state="active"))


def columns(url, now=NOW, service_down_time=0):
    """Return the fleet as a drain gets it, in the order of hosts and nodes, as plain lists and with
    zones."""
    wanted = host_columns.ColumnQuery(instances=host_columns.ALL, groups=host_columns.ALL)
    with Store.open(url).read() as connection:
        all_columns = host_columns.read_columns(connection, now, service_down_time, wanted)
        zones = instances_for_plans.read_zones(connection)
    size = len(all_columns["host"])
    order = sorted(
        range(size), key=lambda row: (all_columns["host"][row], all_columns["node"][row])
    )

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        value = value.tolist() if hasattr(value, "tolist") else value
        return (
            [value[row] for row in order]
            if isinstance(value, list) and len(value) == size
            else value
        )

    instances = {key: order.index(row) for key, row in all_columns.pop("instances").items()}
    kept = {key: all_columns.pop(key) for key in ("instance_names", "server_groups", "aggregates")}
    return {
        **plain(all_columns),
        **kept,
        "instances": instances,
        "zones": [zones.get(all_columns["host"][row], []) for row in order],
    }


def figures(url):
    """Return columns() without the arrays of all providers, for comparisons."""
    return {key: value for key, value in columns(url).items() if key != "provider_arrays"}


def used(url, resource="VCPU"):
    """Return the allocated amounts of one resource: dict host -> amount, without hosts that have
    none."""
    found = columns(url)
    amounts = zip(found["host"], found["resources"][resource]["used"])
    return {name: amount for name, amount in amounts if amount}


def where(url):
    """Return the host of each instance that is on one: dict name -> host."""
    fleet_columns = columns(url)
    return {
        name: fleet_columns["host"][fleet_columns["instances"][key]]
        for name, keys in fleet_columns["instance_names"].items()
        for key in keys
        if key in fleet_columns["instances"]
    }


def failed_destinations(connection, host, since):
    """Return the destinations of the failed moves off a host since a time (seconds since 1970).

    :returns: dict instance uuid -> list of destination hosts.
    """
    table = tables.migrations
    query = sa.select(table.c.instance_uuid, table.c.destination).where(
        table.c.source == host, table.c.status == "failed", table.c.updated_at >= since
    )
    failed = {}
    for row in connection.execute(query):
        failed.setdefault(row.instance_uuid, []).append(row.destination)
    return failed


def holdings(url):
    """Return the allocations of each consumer: dict consumer uuid -> dict host -> dict class ->
    amount; nested providers count too."""
    nodes, by_consumer = tables.compute_nodes, {}
    allocations, providers = tables.allocations, tables.resource_providers
    roots = providers.alias("roots")
    query = (
        sa.select(
            tables.consumers.c.uuid,
            nodes.c.host,
            tables.resource_classes.c.name,
            allocations.c.used,
        )
        .select_from(tables.consumers)
        .outerjoin(allocations, allocations.c.consumer_id == tables.consumers.c.id)
        .outerjoin(providers, providers.c.id == allocations.c.provider_id)
        .outerjoin(roots, roots.c.id == sa.func.coalesce(providers.c.root_id, providers.c.id))
        .outerjoin(nodes, nodes.c.uuid == roots.c.uuid)
        .outerjoin(tables.resource_classes, tables.resource_classes.c.id == allocations.c.class_id)
    )
    with Store.open(url).read() as connection:
        for consumer, name, resource, amount in connection.execute(query):
            rows = by_consumer.setdefault(consumer, {})
            if resource is not None:
                rows.setdefault(name, {})[resource] = amount
    return by_consumer


def hold(connection, name, provider, amounts):
    """Let an instance hold more of a provider: amounts by class."""
    consumers, providers, table = tables.consumers, tables.resource_providers, tables.inventories
    consumer = connection.scalar(sa.select(consumers.c.id).where(consumers.c.uuid == uuid_of(name)))
    key = connection.scalar(sa.select(providers.c.id).where(providers.c.name == provider))
    classes = bulk.ids_by(connection, tables.resource_classes.c.name, amounts)
    for kind, amount in amounts.items():
        values = {"provider_id": key, "class_id": classes[kind], "used": amount}
        connection.execute(sa.insert(tables.allocations).values(consumer_id=consumer, **values))
        mine = sa.and_(table.c.provider_id == key, table.c.class_id == classes[kind])
        connection.execute(sa.update(table).where(mine).values(used=table.c.used + amount))


def snapshot(url):
    """Return every row of every table except the record of actions: dict table -> list of rows. The
    test compares it to prove that nothing changed.

    A refused run is in that record too.
    """
    with Store.open(url).read() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(sa.select(table)).all()))
            for table in tables.EXPORTED
            if table is not tables.actions
        }


def count_queries(connection, function, *arguments):
    """Return the number of statements that a function (connection, *arguments) sends to the
    database."""
    sent = []

    def note(*details):
        sent.append(details[2])

    sa.event.listen(connection, "before_cursor_execute", note)
    function(connection, *arguments)
    sa.event.remove(connection, "before_cursor_execute", note)
    return len(sent)


def generations(url):
    """Return the generation of each provider, by its name."""
    table = tables.resource_providers
    with Store.open(url).read() as connection:
        return {row.name: row.generation for row in connection.execute(sa.select(table))}


def race(*functions):
    """Run functions at the same moment, each in its own process.

    :returns: their results in order; for an exception its text, with the class first.
    """
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(len(functions)), context.Queue()

    def work(number, function):
        barrier.wait(RACE_SECONDS)
        try:
            answer = function()
        except Exception as problem:
            answer = f"{type(problem).__name__}: {problem}"
            if type(problem).__name__ != "DroverError":
                answer += traceback.format_exc()
        answers.put((number, answer))

    workers = [
        context.Process(target=work, args=each, daemon=True) for each in enumerate(functions)
    ]
    for worker in workers:
        worker.start()
    results = {}
    try:
        while len(results) < len(workers):
            number, answer = answers.get(timeout=RACE_SECONDS)
            results[number] = answer
    except queue.Empty:
        results.update(
            {number: "no answer" for number in range(len(workers)) if number not in results}
        )
    for worker in workers:
        worker.join(5)
        worker.kill()
    return [results[number] for number in range(len(workers))]
