# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances for planners, and the zones of hosts."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..._common.resource_classes import POOL_PREFIX
from ..._records.instances import InstanceAmounts, MovePolicy, PlannedInstance
from ..database import bulk, column_reader
from ..database.sql import Connection, Row, Select, sa
from ..hosts import aggregates, devices, numa
from ..hosts.host_columns import RESOURCE_CLASSES
from ..schema import tables
from . import files
from .instances import located, state_of

#: {provider uuid: {resource class: amount}}.
Held = dict[str, dict[str, int]]

#: The columns of an instance that plans read.
_READ = (
    *(
        "uuid",
        "name",
        "state",
        "vcpus",
        "memory_mb",
        "disk_gb",
        "availability_zone",
        "project",
        "user",
        "flavor",
        "extra_specs",
    ),
    *("image", "image_name", "image_id", "image_format", "policy", "task_state", "host_request"),
)
#: Rows that are fetched at a time.
_ROWS = 1000


class _Same(dict[Any, Any]):
    """Gives one text for all that are equal. A driver makes one for each row, which together are a
    fifth of the memory of a large fleet.
    """

    def __missing__(self, text: Any) -> Any:
        self[text] = text
        return text


def read_zones(connection: Connection) -> dict[str, list[str]]:
    """Read the availability zones of hosts, from the metadata of their aggregates.

    :returns: {host: its zones, sorted}.
    """
    zones: dict[str, set[str]] = {}
    for aggregate in aggregates.listing(connection):
        zone = aggregate["metadata"].get(aggregates.ZONE) or ""
        for host in aggregate["hosts"] if zone else ():
            zones.setdefault(host, set()).update(part.strip() for part in zone.split(","))
    return {host: sorted(names) for host, names in zones.items()}


def read_host_instances(connection: Connection, host: str | None = None) -> list[PlannedInstance]:
    """Read the instances of one host, or of all, see read_instances()."""
    return read_instances(connection, None if host is None else [host])


@bulk.without_collection()
def read_instances(
    connection: Connection, hosts: Collection[str] | None = None, but: Collection[str] = ()
) -> list[PlannedInstance]:
    """Read instances for planners, sorted by name, in a fixed number of queries.

    Instances that are alike share their resources, extra_specs and required_traits, which are never
    changed; else all of them take a sixth more memory.

    :param hosts: only their instances; None for all hosts.
    :param but: hosts with instances that are left out.
    """
    instances, nodes, domains, flavors = (
        tables.instances,
        tables.compute_nodes,
        tables.domains,
        tables.flavors,
    )
    query = (
        located()
        .with_only_columns(
            *[instances.c[name] for name in _READ],
            *[nodes.c.id, nodes.c.host, nodes.c.hypervisor_hostname, tables.server_groups.c.name],
            *[domains.c.state, domains.c.persistent, domains.c.autostart, domains.c.facts],
        )
        .where(nodes.c.id.is_not(None))
        .order_by(instances.c.name, instances.c.uuid)
    )
    # The flavors are not joined: JSON would be decoded for each row.
    specs_of = {
        row[0]: row[1] or {}
        for row in connection.execute(sa.select(flavors.c.name, flavors.c.extra_specs))
    }
    of_flavor = {name: (specs, _required_traits(specs)) for name, specs in specs_of.items()}
    none: tuple[dict[str, str], list[str]] = ({}, [])
    amounts: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    amounts_held = _read_allocations(connection, hosts, but)
    planned: list[PlannedInstance] = []
    same = _Same()
    node_of: dict[str, int] = {}
    tied: set[str] = set()
    direct: set[str] = set()
    pci_requests: dict[str, list[dict[str, object]]] = {}
    # Unpacked, because to read each value of a row by its name takes longer than to read it.
    for (
        uuid,
        name,
        state,
        vcpus,
        memory_mb,
        disk_gb,
        zone,
        project,
        user,
        flavor,
        own_specs,
        image,
        image_name,
        image_id,
        image_format,
        policy,
        task_state,
        host_request,
        node_id,
        host,
        node,
        group,
        domain_state,
        persistent,
        autostart,
        facts,
    ) in _rows(connection, _of_hosts(connection, query, hosts, but)):
        facts, policy = facts or {}, policy or MovePolicy()
        extra_specs, required_traits = of_flavor.get(flavor, none)
        if own_specs:
            extra_specs = {**extra_specs, **own_specs}
            required_traits = _required_traits(extra_specs)
        allocations = amounts_held.get(uuid, {})
        sums = tuple(_sums(allocations).items())
        if sums not in amounts:
            amounts[sums] = {**dict.fromkeys(RESOURCE_CLASSES, 0), **dict(sums)} if sums else {}
        resources = amounts[sums]
        node_of[uuid] = node_id
        if numa.is_tied(facts.get("numa")):
            tied.add(uuid)
        if any(nic.get("type") == "direct" for nic in facts.get("interfaces") or ()):
            direct.add(uuid)
        if uuid in direct or facts.get("hostdevs"):
            pci_requests[uuid] = (host_request or {}).get("pci") or []
        planned.append(
            {
                "uuid": uuid,
                "name": name,
                "host": same[host],
                "node": same[node],
                "state": state_of(state, domain_state),
                "vcpus": vcpus,
                "memory_mb": memory_mb,
                "disk_gb": disk_gb,
                "resources": resources,
                "allocations": allocations,
                "server_group": same[group],
                "availability_zone": same[zone],
                "project": same[project],
                "user": same[user],
                "flavor": same[flavor],
                "extra_specs": extra_specs,
                "required_traits": required_traits,
                "required_pool_traits": _pool_traits(extra_specs, resources) if extra_specs else [],
                "image": image,
                "image_name": same[image_name],
                "image_id": same[image_id],
                "image_format": same[image_format],
                "move_policy": policy.get("on_drain") or policy.get("move"),
                "move_policy_error": policy.get("error"),
                "priority": int(policy.get("priority") or 0),
                "migration": policy["migration"] if policy.get("migration") else {},
                "task_state": task_state,
                "persistent": bool(persistent) if persistent is not None else True,
                "autostart": bool(autostart),
                "disks": facts.get("disks", []),
                "running_disks": facts.get("running_disks") or [],
                "hostdevs": list(facts.get("hostdevs") or ()),
                "own_devices": [],
                "pci_requests": [],
                "bindings": facts.get("bindings"),
                "managed_save": bool(facts.get("managed_save")),
                "snapshots": bool(facts.get("snapshots")),
                "fixed_snapshots": facts.get("fixed_snapshots"),
                "backs": [],
            }
        )
    for instance, names in zip(planned, _backed(connection, planned)):
        instance["backs"] = names
    _add_local_disks(connection, [each for each in planned if each["snapshots"]])
    if pci_requests:
        _add_devices(
            connection,
            [each for each in planned if each["uuid"] in pci_requests],
            node_of,
            pci_requests,
            direct,
        )
    in_cells = numa.of_consumers(connection, None if hosts is None else node_of)
    for instance in planned:
        cells = in_cells.get((node_of[instance["uuid"]], instance["uuid"]), [])
        if cells or instance["uuid"] in tied:
            instance["cells"] = cells
    return planned


def _add_devices(
    connection: Connection,
    instances: Sequence[PlannedInstance],
    node_of: Mapping[str, int],
    asked: Mapping[str, list[dict[str, Any]]],
    direct: Collection[str],
) -> None:
    """Complete the devices of instances that may have some of their hosts.

    :param asked: {uuid: the PCI devices in its claim}.
    :param direct: uuids of instances with an interface on a network device of the host.
    """
    pci, mdevs = (
        devices.of_consumers(connection, asked),
        devices.mdevs_of_consumers(connection, asked),
    )
    for instance in instances:
        uuid, key = instance["uuid"], (node_of[instance["uuid"]], instance["uuid"])
        mine, requests = pci.get(key, []), asked[instance["uuid"]]
        if uuid in direct:
            # A virtual function that a domain names by its network interface is not in its XML.
            addresses = {device["address"] for device in instance["hostdevs"]}
            instance["hostdevs"] += [
                {"type": "pci", "address": device["address"]}
                for device in mine
                if device["address"] not in addresses
            ]
        claimed = {
            device["address"]
            for device in mine
            if device["request"] is not None and device["request"] < len(requests)
        }
        claimed |= {device["uuid"] for device in mdevs.get(key, ())}
        instance["own_devices"] = [
            device for device in instance["hostdevs"] if device.get("address") not in claimed
        ]
        instance["pci_requests"] = requests if mine else []


def _backed(connection: Connection, instances: Sequence[PlannedInstance]) -> list[list[str]]:
    """Find for each instance the instances of its node that are backed by a disk of it that is not
    known to be shared.
    """
    behind: dict[tuple[str, str, str | None], set[str]] = {}
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
    names_by_uuid = files.of_instances(
        connection, [each["uuid"] for each, disks in zip(instances, named) if disks]
    )
    return [
        sorted(
            {
                name
                for path, names in disks.items()
                if (path, None) in names_by_uuid.get(each["uuid"], ())
                for name in names
            }
        )
        for each, disks in zip(instances, named)
    ]


def _add_local_disks(connection: Connection, instances: Sequence[PlannedInstance]) -> None:
    """Complete instances with snapshots: whether a disk that they write to is not known to be
    shared.
    """
    names_by_uuid = files.of_instances(connection, [each["uuid"] for each in instances])
    for instance in instances:
        paths = [
            disk.get("path")
            for disk in instance["disks"]
            if disk.get("device", "disk") == "disk" and not disk.get("readonly")
        ]
        instance["local_disks"] = any(
            (path, None) in names_by_uuid.get(instance["uuid"], ()) for path in paths
        )


def _of_hosts(
    connection: Connection, query: Select, hosts: Collection[str] | None, but: Collection[str]
) -> Select:
    column = tables.compute_nodes.c.host
    if hosts is not None:
        query = query.where(bulk.is_among(connection, column, sorted(hosts)))
    return query.where(sa.not_(bulk.is_among(connection, column, sorted(but)))) if but else query


def _read_allocations(
    connection: Connection,
    hosts: Collection[str] | None = None,
    but: Collection[str] = (),
    rare: bool = False,
) -> dict[str, Held]:
    """Read the allocations of instances, without instances that hold two places for an open resize
    or evacuation.

    :param rare: True for only the classes that are not in RESOURCE_CLASSES.
    :returns: {uuid of the instance: allocations}.
    """
    instances, nodes, migrations = tables.instances, tables.compute_nodes, tables.migrations
    consumers, allocations, classes = tables.consumers, tables.allocations, tables.resource_classes
    providers = tables.resource_providers
    twice = sa.select(migrations.c.instance_uuid).where(
        migrations.c.status.in_(
            [each for each in tables.HOLDING_MIGRATION if each not in tables.OPEN_MIGRATION]
        )
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
        # Select by the ids, so that the other allocations are not looked up in any other table.
        query = query.where(
            allocations.c.class_id.in_(
                sa.select(classes.c.id).where(classes.c.name.not_in(RESOURCE_CLASSES))
            )
        )
    amounts: dict[str, Held] = {}
    same = _Same()
    for uuid, provider, name, amount in _rows(connection, _of_hosts(connection, query, hosts, but)):
        amounts.setdefault(uuid, {}).setdefault(same[provider], {})[same[name]] = int(amount)
    return amounts


def _rows(connection: Connection, query: Select) -> Iterator[Row]:
    """Read rows, many at a time, which is faster than one by one."""
    return itertools.chain.from_iterable(connection.execute(query).partitions(_ROWS))


def _required_traits(extra_specs: Mapping[str, str]) -> list[str]:
    return sorted(
        key.partition(":")[2]
        for key, value in extra_specs.items()
        if key.startswith("trait:") and value == "required"
    )


def _pool_traits(extra_specs: Mapping[str, str], resources: Mapping[str, int]) -> list[str]:
    """Return CLASS:TRAIT for each trait that extra specs ask of a storage pool, of pools that an
    instance uses by now.
    """
    pools = {}
    for key in extra_specs:
        group, _colon, name = key.partition(":")
        if group.startswith("resources_") and name in resources and name.startswith(POOL_PREFIX):
            pools[group[len("resources") :]] = name
    return sorted(
        f"{pools[group[len('trait') :]]}:{trait}"
        for (group, _colon, trait), value in (
            (key.partition(":"), value) for key, value in extra_specs.items()
        )
        if value == "required" and group.startswith("trait_") and group[len("trait") :] in pools
    )


def _sums(held: Held) -> dict[str, int]:
    """Sum allocations by resource class."""
    sums: dict[str, int] = {}
    for amounts in held.values():
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


@bulk.without_collection()
def read_amounts(connection: Connection) -> list[InstanceAmounts]:
    """Read the needs and places of all instances, without the facts of their domains and their NUMA
    cells; there may be millions of instances.
    """
    instances, nodes, groups, flavors = (
        tables.instances,
        tables.compute_nodes,
        tables.server_groups,
        tables.flavors,
    )
    names = (
        "uuid",
        "name",
        "state",
        "vcpus",
        "memory_mb",
        "disk_gb",
        "availability_zone",
        "project",
        "user",
        "flavor",
    )
    #: Columns that few instances have; JSON is decoded for each row that has it.
    rare = ("extra_specs", "image", "image_name", "image_id", "image_format")
    query = sa.select(nodes.c.id, nodes.c.host, nodes.c.hypervisor_hostname)
    place = {row[0]: row[1:] for row in connection.execute(query)}
    group = {row[0]: row[1] for row in connection.execute(sa.select(groups.c.id, groups.c.name))}
    of_flavor = {
        row[0]: row[1]
        for row in connection.execute(sa.select(flavors.c.name, flavors.c.extra_specs))
        if row[1]
    }
    columns = [instances.c[name] for name in names]
    query = sa.select(instances.c.compute_node_id, instances.c.server_group_id, *columns).where(
        instances.c.compute_node_id.is_not(None)
    )
    more = sa.select(instances.c.uuid, *[instances.c[name] for name in rare])
    has_more = sa.or_(
        *[sa.cast(instances.c[name], sa.Text).not_in(("null", "{}")) for name in rare]
    )
    own = {
        row[0]: {name: value for name, value in zip(rare, row[1:]) if value}
        for row in connection.execute(more.where(has_more))
    }
    allocations = _read_allocations(connection, rare=True)
    rows: list[InstanceAmounts] = []
    for node, group_id, *values in column_reader.rows(connection, query):
        instance: Any = dict(zip(names, values))
        if instance["uuid"] in allocations:
            instance["allocations"] = allocations[instance["uuid"]]
            instance["resources"] = _sums(instance["allocations"])
        instance["host"], instance["node"] = place[node]
        instance["server_group"] = group.get(group_id)
        if instance["uuid"] in own:
            instance.update(own[instance["uuid"]])
        specs = {**of_flavor.get(instance["flavor"], {}), **instance.get("extra_specs", {})}
        if specs:
            instance["extra_specs"], instance["required_traits"] = specs, _required_traits(specs)
            instance["required_pool_traits"] = _pool_traits(specs, instance.get("resources", {}))
        rows.append(instance)
    return rows


def moved_since(connection: Connection, since: float) -> set[str]:
    """Return the uuids of instances with a last move that ended after a time (seconds since 1970),
    or that has not ended.
    """
    table = tables.migrations
    query = sa.select(table.c.instance_uuid).where(
        sa.or_(
            sa.and_(table.c.updated_at > since, table.c.status.not_in(("failed", "cancelled"))),
            table.c.status.in_(tables.HOLDING_MIGRATION),
        )
    )
    return set(connection.execute(query).scalars())
