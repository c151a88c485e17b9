# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What administrators and planners ask about hosts beside the columns of host_columns.py."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.store import aggregates, files, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import RESOURCE_CLASSES
from ansible_collections.drover.compute.plugins.plugin_utils.store.instances import located, state_of
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def read_zones(connection):
    """The availability zones of hosts, from the metadata of their aggregates.

    :returns: dict host -> sorted list of zones.
    """
    zones = {}
    for aggregate in aggregates.listing(connection):
        zone = aggregate["metadata"].get(aggregates.ZONE)
        for host in aggregate["hosts"] if zone else ():
            zones.setdefault(host, set()).update(part.strip() for part in zone.split(","))
    return {host: sorted(names) for host, names in zones.items()}


def read_host_instances(connection, host=None):
    """The instances of one host, or of all, see read_instances()."""
    return read_instances(connection, None if host is None else [host])


def read_instances(connection, hosts=None, but=()):
    """Instances with what a planner needs to know of them, in two queries however many there are, three where some are backed by others.

    :param hosts: those of these hosts only; None for all.
    :param but: not those of these hosts.
    :returns: a list of dicts sorted by name: uuid, name, host, node, state (of the domain, or building or
        missing), vcpus, memory_mb, disk_gb, allocations (dict provider uuid -> dict class -> amount, all classes; empty where
        a resize or an evacuation holds two places), resources (their sums, dict class -> amount), server_group, availability_zone, project, user,
        flavor (its name), extra_specs (of the flavor as it is now), required_traits (of those), image (its
        properties), move_policy (never, cold, live, shutdown or None), move_policy_error (a sentence or None), priority,
        migration (options of its own), task_state (of an open order, or None); and of the domain: persistent, autostart,
        disks, hostdevs, managed_save, snapshots, backs (names of instances of its node that are backed by a disk of it
        which is not known to be shared).
    """
    instances, domains, flavors = tables.instances, tables.domains, tables.flavors
    query = (
        located(flavors.c.extra_specs, domains.c.persistent, domains.c.autostart, domains.c.facts)
        .outerjoin(flavors, flavors.c.name == instances.c.flavor)
        .where(tables.compute_nodes.c.id.is_not(None))
        .order_by(instances.c.name, instances.c.uuid)
    )
    held = _held(connection, hosts, but)
    found = []
    for row in connection.execute(_of_hosts(query, hosts, but)):
        facts, extra_specs = row.facts or {}, row.extra_specs or {}
        found.append(
            {
                "uuid": row.uuid,
                "name": row.name,
                "host": row.host,
                "node": row.hypervisor_hostname,
                "state": state_of(row),
                "vcpus": row.vcpus,
                "memory_mb": row.memory_mb,
                "disk_gb": row.disk_gb,
                "resources": {**dict.fromkeys(RESOURCE_CLASSES, 0), **_sums(held[row.uuid])} if row.uuid in held else {},
                "allocations": held.get(row.uuid, {}),
                "server_group": row.group_name,
                "availability_zone": row.availability_zone,
                "project": row.project,
                "user": row.user,
                "flavor": row.flavor,
                "extra_specs": extra_specs,
                "required_traits": sorted(
                    key.partition(":")[2] for key, value in extra_specs.items() if key.startswith("trait:") and value == "required"
                ),
                "image": row.image,
                **_policy(row.policy or {}),
                "task_state": row.task_state,
                "persistent": bool(row.persistent) if row.persistent is not None else True,
                "autostart": bool(row.autostart),
                "disks": facts.get("disks", []),
                "hostdevs": facts.get("hostdevs", []),
                "managed_save": bool(facts.get("managed_save")),
                "snapshots": bool(facts.get("snapshots")),
            }
        )
    for each, names in zip(found, _backed(connection, found)):
        each["backs"] = names
    return found


def _backed(connection, instances):
    """Of each instance the names of those of its node that are backed by a disk of it which is not known to be shared."""
    behind = {}
    for each in instances:
        for layer in [layer["path"] for disk in each["disks"] for layer in disk.get("chain") or ()]:
            behind.setdefault((each["host"], each["node"], layer), set()).add(each["name"])
    named = [
        {
            disk["path"]: behind[each["host"], each["node"], disk["path"]] - {each["name"]}
            for disk in each["disks"]
            if (each["host"], each["node"], disk.get("path")) in behind
        }
        for each in instances
    ]
    known = files.of_instances(connection, [each["uuid"] for each, disks in zip(instances, named) if disks])
    return [
        sorted({name for path, names in disks.items() if (path, None) in known.get(each["uuid"], ()) for name in names})
        for each, disks in zip(instances, named)
    ]


def _policy(policy):
    """What planners call policy is one word."""
    return {
        "move_policy": policy.get("on_drain") or policy.get("move"),
        "move_policy_error": policy.get("error"),
        "priority": int(policy.get("priority") or 0),
        "migration": policy.get("migration") or {},
    }


def _of_hosts(query, hosts, but):
    column = tables.compute_nodes.c.host
    if hosts is not None:
        query = query.where(column.in_(sorted(hosts)))
    return query.where(column.not_in(sorted(but))) if but else query


def _held(connection, hosts=None, but=(), rare=False):
    """What instances hold, all classes: dict instance uuid -> dict provider uuid -> dict class -> amount.

    Not of those whose resize or evacuation is not closed: they hold two places.

    :param rare: only the classes beside RESOURCE_CLASSES.
    """
    instances, nodes, migrations = tables.instances, tables.compute_nodes, tables.migrations
    consumers, allocations, classes = tables.consumers, tables.allocations, tables.resource_classes
    providers = tables.resource_providers
    twice = sa.select(migrations.c.instance_uuid).where(
        migrations.c.status.in_([each for each in tables.HOLDING_MIGRATION if each not in tables.OPEN_MIGRATION])
    )
    query = (
        sa.select(instances.c.uuid, providers.c.uuid, classes.c.name, allocations.c.used)
        .join(nodes, nodes.c.id == instances.c.compute_node_id)
        .join(consumers, consumers.c.uuid == instances.c.uuid)
        .join(allocations, allocations.c.consumer_id == consumers.c.id)
        .join(providers, providers.c.id == allocations.c.provider_id)
        .join(classes, classes.c.id == allocations.c.class_id)
        .where(instances.c.uuid.not_in(twice))
        .order_by(instances.c.uuid, classes.c.name, providers.c.id)
    )
    if rare:
        query = query.where(classes.c.name.not_in(RESOURCE_CLASSES))
    held = {}
    for uuid, provider, name, amount in connection.execute(_of_hosts(query, hosts, but)):
        held.setdefault(uuid, {}).setdefault(provider, {})[name] = int(amount)
    return held


def _sums(held):
    """{class: amount} of {provider uuid: {class: amount}}."""
    sums = {}
    for amounts in held.values():
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def read_amounts(connection):
    """What every instance needs and where it is, without what libvirt shows of it: of millions.

    :returns: a list of dicts: uuid, name, host, node, state, vcpus, memory_mb, disk_gb, server_group,
        availability_zone, project, flavor; and of those that hold other classes than RESOURCE_CLASSES
        these, as allocations (dict provider uuid -> dict class -> amount) and resources (their sums).
    """
    instances, nodes, groups = tables.instances, tables.compute_nodes, tables.server_groups
    names = ("uuid", "name", "state", "vcpus", "memory_mb", "disk_gb", "availability_zone", "project", "flavor")
    query = sa.select(nodes.c.id, nodes.c.host, nodes.c.hypervisor_hostname)
    place = {row[0]: row[1:] for row in connection.execute(query)}
    group = {row[0]: row[1] for row in connection.execute(sa.select(groups.c.id, groups.c.name))}
    columns = [instances.c[name] for name in names]
    query = sa.select(instances.c.compute_node_id, instances.c.server_group_id, *columns).where(instances.c.compute_node_id.is_not(None))
    held, found = _held(connection, rare=True), []
    for node, group_id, *values in connection.execute(query):
        each = dict(zip(names, values))
        if each["uuid"] in held:
            each["allocations"] = held[each["uuid"]]
            each["resources"] = _sums(each["allocations"])
        each["host"], each["node"] = place[node]
        each["server_group"] = group.get(group_id)
        found.append(each)
    return found


def moved_since(connection, since):
    """The uuids of instances whose last move ended after a time, or has not ended, as a set."""
    table = tables.migrations
    query = sa.select(table.c.instance_uuid).where(
        sa.or_(
            sa.and_(table.c.updated_at > since, table.c.status.not_in(("failed", "cancelled"))),
            table.c.status.in_(tables.HOLDING_MIGRATION),
        )
    )
    return set(connection.execute(query).scalars())
