# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of one discovery of any number of hosts, in the caller's transaction."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine

from .._common import certainty, resource_classes, storage_identity
from .._common.errors import DroverError, natural, node_label, said_once
from .._migrations import claims as migration_claims
from .._migrations import policy as move_policy
from .._placement import allocations, provider_trees, providers
from .._placement.inventory import InventoryFields
from .._store.engine import Connection
from .._store.hosts import compute_nodes as node_rows
from .._store.hosts import continuity, services
from .._store.instances import evacuations, files, migrations_open, orders, went_down
from .._store.instances import instances as instance_rows
from . import domain as domain_facts
from . import record_hardware, record_pools, record_sharing
from .domain import DomainReport
from .node import NodeKey, NodeReport, NodeRows, Nodes
from .reconcile import Reported, Stale, reconcile


def record(
    connection: Connection, reports: Mapping[str, Sequence[NodeReport]], now: float
) -> dict[str, Any]:
    """Record hosts: heartbeat, compute nodes, inventories, traits, instances, allocations.

    :param reports: dict host -> list of compute nodes as tracker.node.describe() returns them. The
        list is complete: a node of the host that is not in it is removed, or kept and marked if
        something is allocated on it. A host with an empty list, and without a node left, is removed
        too.
    :returns: a dict of plain types: changed (bool; heartbeats and figures of use do not count),
        nodes, instances (counts), and lists of names for people: added, removed, unreported,
        adopted, moved, missing, went_down (uuid and name of instances that ran when the host went
        down, and are off), cleared (evacuated from here and gone from here: their room is free),
        stale (evacuated from here and still defined here, off), doubled; and sentences: policies
        (policies that cannot be read), unmeasured (disks that count as nothing, because their size
        is not known).
    :raises DroverError: two nodes of one host have one name, or different availability zones.
    """
    wanted = _by_key(reports)
    service_ids, returned = services.heartbeat(connection, {host for host, dummy in wanted}, now)
    before = node_rows.by_host(connection, set(reports))
    rows, changed_nodes = node_rows.write(
        connection, {key: node["columns"] for key, node in wanted.items()}, service_ids, now
    )
    provider_ids = _write_providers(connection, wanted, rows, before, now)
    changed_zones = node_rows.set_zones(connection, _zones(wanted))
    changed_labels = services.set_labels(connection, _labels(wanted))
    gone = {key: row for key, row in before.items() if key not in wanted}
    reported = {
        rows[key].id: {found["columns"]["uuid"]: found for found in node["domains"]}
        for key, node in wanted.items()
    }
    # Their host has reported without them, so their old domains are gone.
    reported.update({row.id: {} for row in gone.values()})
    hosts = {rows[key].id: key[0] for key in wanted} | {row.id: key[0] for key, row in gone.items()}
    changed_devices = record_hardware.write_devices(connection, wanted, rows)
    left, cleared = _clear_evacuated(connection, hosts, reported, now)
    facts = {rows[key].id: node["columns"]["facts"] for key, node in wanted.items()}
    facts_before = {row.id: row.facts or {} for row in before.values()}
    found = _write_instances(
        connection,
        hosts,
        reported,
        facts,
        facts_before,
        provider_ids["ids"],
        provider_ids["disk"],
        left,
        now,
    )
    instances_changed = found.pop("changed")
    removed, unreported = retire(connection, gone)
    forgotten = services.remove_without_nodes(
        connection, {host for host, nodes in reports.items() if not nodes}
    )
    tidied = record_sharing.tidy(connection, before.values())
    return {
        "changed": bool(
            returned
            or changed_nodes
            or provider_ids["changed"]
            or changed_zones
            or changed_labels
            or changed_devices
            or any(row.reported for row in gone.values())
            or removed
            or forgotten
            or tidied
            or cleared
            or instances_changed
        ),
        "nodes": len(wanted),
        "instances": sum(len(domains) for domains in reported.values()),
        "added": sorted(node for host, node in set(wanted) - set(before)),
        "removed": removed,
        "unreported": unreported,
        "cleared": cleared,
        **found,
    }


def _by_key(reports: Mapping[str, Sequence[NodeReport]]) -> dict[NodeKey, NodeReport]:
    wanted = {}
    for host, nodes in reports.items():
        for node in nodes:
            key = (host, node["hypervisor_hostname"])
            if key in wanted:
                raise DroverError(
                    f"Host {host} reports two compute nodes named {key[1]}. A compute node is unique by host and "
                    "hypervisor_hostname: give each its own, and nothing was recorded."
                )
            wanted[key] = node
    return wanted


def withdraw(connection: Connection, host: str, now: float) -> None:
    """Record that a host has nothing left, like record() with an empty list."""
    record(connection, {host: []}, now)


def refuse_second_names(
    connection: Connection, reports: Mapping[str, Sequence[NodeReport]]
) -> None:
    """Refuse a second name of a host, because its room would count twice.

    The other name may be in the store or in this discovery.

    The older name in the store is the right one.

    :raises SecondName: a host has another name than that.
    """
    wanted = _by_key(reports)
    uuids = {
        str(uuid)
        for node in wanted.values()
        if (uuid := (node["columns"]["facts"] or {}).get("host_uuid"))
    }
    known = node_rows.of_machines(connection, uuids)
    own = node_rows.identities_in(
        (host, node["columns"]["facts"] or {}) for (host, _dummy), node in sorted(wanted.items())
    )
    known.update(own)
    order = services.order(connection, known)
    for host in own:
        twins = [
            other
            for other in known
            if other != host and node_rows.same_machine(known[host], known[other])
        ]
        first = sorted([host, *twins], key=lambda name: (order.get(name, math.inf), name))[0]
        if twins and first != host:
            raise SecondName(_second_name(host, sorted(twins), known[host]), answers=True)


class SecondName(DroverError):
    """A host is another host under a second name. It answers, and must not count as dead."""


def _second_name(host: str, twins: Sequence[str], identity: Mapping[str, Sequence[str]]) -> str:
    other = twins[0]
    return (
        f"Host {host} is the same machine as {' and '.join(twins)} ({machine.described(identity['host_uuids'], next(iter(identity['machine_ids']), None))}): "
        f"one machine has one name, or its room counts twice. Nothing of {host} was recorded. Is the address of {host} or of {other} wrong, then "
        f"correct it in the inventory (ansible_host), and run drover.compute.discover. Is {host} the new name of {other}: take {other} out of the "
        f"inventory, and run ansible-playbook drover.compute.host_remove -e drover_host={other} -e drover_new_name={host}. Is it one machine that "
        f"is in the inventory twice: take one of the names out; if that is {other}, run the same command. Are they two machines that were cloned: "
        "give each a host_uuid of its own in libvirtd.conf (virtqemud.conf) and a machine id of its own (systemd-machine-id-setup), and restart libvirt."
    )


def _zones(wanted: Nodes) -> dict[str, str]:
    zones: dict[str, str] = {}
    for (host, _dummy), node in sorted(wanted.items()):
        zone = node["availability_zone"]
        if zone and zones.setdefault(host, zone) != zone:
            raise DroverError(
                f"Host {host} would be in two availability zones, {zones[host]} and {zone}. Its compute nodes share "
                "one: correct availability_zone of its nodes; nothing was recorded."
            )
    return zones


def _labels(wanted: Nodes) -> dict[str, dict[str, str]]:
    labels: dict[str, dict[str, str]] = {}
    for (host, _dummy), node in sorted(wanted.items()):
        if labels.setdefault(host, node["labels"]) != node["labels"]:
            raise DroverError(
                f"Host {host} would have two sets of labels. Its compute nodes share one: correct labels of its nodes; nothing was recorded."
            )
    return labels


def _write_providers(
    connection: Connection, wanted: Nodes, rows: NodeRows, before: NodeRows, now: float
) -> dict[str, Any]:
    # The name of the provider is the name of the node if host and node have the same name; else it
    # has both names.
    names = {rows[key].uuid: node_label(*key) for key in wanted}
    by_uuid = providers.ensure(connection, names)
    ids = {key: by_uuid[rows[key].uuid] for key in wanted}
    shared = record_sharing.write(connection, wanted, before, ids, now)
    nested = record_hardware.write_nested(connection, wanted, rows, ids, before)
    stored = providers.ratios(connection, ids.values())
    inventories: dict[int, dict[str, InventoryFields]] = {}
    for key, node in wanted.items():
        inventories[ids[key]] = {
            name: {
                **values,
                "allocation_ratio": values["allocation_ratio"]
                or stored.get((ids[key], name))
                or resource_classes.DISCOVERED[name].initial_ratio,
            }
            for name, values in node["inventories"].items()
            # The disk of such a node belongs to a pool, which counts once for all its nodes.
            if name != record_sharing.DISK or ids[key] not in shared["disk"]
        }
    changed = providers.set_inventories(connection, inventories, owned=providers.DISCOVERED_CLASSES)
    disabled = services.disabled_hosts(connection, {host for host, dummy in wanted})
    traits = {
        ids[key]: node["traits"] | ({providers.DISABLED_TRAIT} if key[0] in disabled else set())
        for key, node in wanted.items()
    }
    reported = {
        ids[key]: (before[key].facts or {}).get("traits") for key in wanted if key in before
    }
    changed |= providers.set_traits(
        connection,
        traits,
        owned=lambda provider, trait: providers.is_discovered(trait, reported.get(provider)),
    )
    return {
        "ids": {rows[key].id: ids[key] for key in wanted},
        "disk": shared["disk"],
        "changed": bool(changed) or shared["changed"] or nested,
    }


def _clear_evacuated(
    connection: Connection, hosts: Mapping[int, str], reported: Reported, now: float
) -> tuple[Stale, list[str]]:
    """Close evacuations from hosts that are back and no longer have the evacuated instances (N9.4).

    :returns: (set of (uuid, node id) that are still there, sorted names of instances that are
        gone).
    """
    left: set[tuple[str, int]] = set()
    cleared = []
    for each in evacuations.left_behind(connection, set(hosts.values())):
        # Its new host may be in this discovery too, or it may have moved back.
        nodes = [
            node
            for node, domains in reported.items()
            if each["uuid"] in domains and hosts[node] == each["source"] != each["host"]
        ]
        if nodes:
            left.update((each["uuid"], node) for node in nodes)
        else:
            migration_claims.clear_source(
                connection, each["migration"], certainty.is_not_shown(each["source"]), now
            )
            cleared.append(each["name"])
    return left, sorted(cleared)


def end_moved_back(
    connection: Connection,
    evacuated: Mapping[str, Mapping[str, Any]],
    absent: Mapping[str, certainty.Proof],
    now: float,
) -> None:
    """Close evacuations of instances that a person has moved back: only their source shows them.

    A definition that is off at the source may be old: a person may have moved the instance to a
    third host after the last discovery of that host. So such an evacuation is closed only if all
    other hosts were read after the new host was first seen without the instance.

    :param evacuated: entries of left_behind(), by the uuids of the instances, each with the state
        that its source shows.
    :param absent: proofs that their hosts do not have them any more, by the uuids.
    """
    seen = node_rows.sightings(connection, absent)
    for uuid, each in evacuated.items():
        first = each["absent_since"]
        if (uuid in absent) != (first is not None):
            first = now if uuid in absent else None
            migration_claims.note(connection, each["migration"], {"absent_since": first}, now)
        if first is None or set(seen.get(uuid, ())) - {each["source_node"], each["node"]}:
            continue
        if (
            continuity.knows_all(connection)
            if each["state"] != "shutoff"
            else continuity.knows_all(connection, first, [each["source"]])
        ):
            migration_claims.end_moved_back(
                connection,
                each["migration"],
                absent[uuid],
                f"Somebody moved it back to {each['source']}.",
                now,
            )


def _end_moves_elsewhere(
    connection: Connection,
    migrations: Iterable[Any],
    hosts: Mapping[int, str],
    reported: Reported,
    now: float,
) -> bool:
    """Close the moves of instances that neither end had, if a third host shows them.

    :returns: True if such a move was closed.
    """
    ended = False
    for migration in migrations_open.lost_track_of(connection, migrations):
        ends = (migration.source, migration.destination)
        found = {
            hosts[node] for node, domains in reported.items() if migration.instance_uuid in domains
        }
        if found and found.isdisjoint(ends):
            where = " and ".join(sorted(found))
            proof = certainty.is_elsewhere(*ends, where)
            migration_claims.end_elsewhere(
                connection, migration.uuid, proof, f"Somebody moved it to {where}.", now
            )
            ended = True
    return ended


def _write_instances(
    connection: Connection,
    hosts: Mapping[int, str],
    reported: Reported,
    facts: Mapping[int, Mapping[str, Any]],
    facts_before: Mapping[int, Mapping[str, Any]],
    provider_ids: Mapping[int, int],
    disk: Mapping[int, int],
    stale: Stale,
    now: float,
) -> dict[str, Any]:
    uuids = {uuid for domains in reported.values() for uuid in domains}
    known = instance_rows.concerned(connection, uuids, reported)
    migrations = migrations_open.holding(connection, uuids | set(known))
    if _end_moves_elsewhere(connection, migrations.values(), hosts, reported, now):
        migrations = migrations_open.holding(connection, uuids | set(known))
    seen = node_rows.sightings(connection, uuids | set(known))
    others = {node for nodes in seen.values() for node in nodes} - set(reported)
    old = {
        node
        for node, read_at in node_rows.read_at(connection, others).items()
        if abs(now - read_at) > node_rows.ONE_LOOK
    }
    result = reconcile(
        reported, known, seen, set(migrations) | _being_built(reported, known), stale, old
    )
    leaving = [
        uuid
        for uuid, migration in migrations.items()
        if migration.status in migration_claims.UNDER_WAY
    ]
    # An instance with an unconfirmed resize may have gone down like any other.
    waiting = {
        uuid: (known[uuid].compute_node_id, reported[known[uuid].compute_node_id][uuid])
        for uuid, migration in migrations.items()
        if migration.status == "finished"
        and uuid in known
        and uuid in reported.get(known[uuid].compute_node_id, {})
    }
    down = went_down.mark(connection, {**result["here"], **waiting}, facts_before, facts, now)
    for node, domains in reported.items():
        for domain in domains.values():
            _note_local_disks(domain, facts.get(node) or {})
    node_rows.write_domains(connection, reported, now, leaving)
    needs = {
        node: {
            uuid: domain_facts.files(found["columns"], facts.get(node) or {})
            for uuid, found in domains.items()
        }
        for node, domains in reported.items()
    }
    # Only the domain of a resized instance shows its files, so keep them when the domain is gone.
    resized = [uuid for uuid, migration in migrations.items() if migration.status == "finished"]
    files.write(connection, needs, [*leaving, *resized], _attaching(known))
    hardware = record_hardware.Hardware(
        connection, {node: domains.values() for node, domains in reported.items()}
    )
    pools = record_pools.Pools(connection, facts)
    wanted, changed, unmeasured = write_taken(
        connection, known, result["here"], provider_ids, disk, now, hardware, pools
    )
    # Include moves to these nodes of instances that are recorded on another node.
    moves = migrations_open.holding_at(connection, reported)
    kept = _claimed({uuid: row for uuid, row in known.items() if uuid not in wanted}, moves)
    # In a resize, the domain arrives with its old size and gets the new one there.
    both_ends = {
        (node, row.instance_uuid)
        for row in moves
        if row.type == migration_claims.RESIZE
        for node in (row.source_node_id, row.destination_node_id)
    }
    changed |= hardware.write_use(reported, kept, both_ends)
    orders.forget(connection, [known[uuid] for uuid in wanted if uuid in known])
    allocations.confirm(connection, result["here"])
    lost = [known[uuid] for uuid in result["missing"] if known[uuid].state != "missing"]
    instance_rows.set_state(connection, lost, "missing")

    machines = node_rows.machines(
        connection, {node for dummy, nodes in result["doubled"] for node in nodes}
    )
    states = node_rows.domain_states(connection, [uuid for uuid, dummy in result["doubled"]])
    return {
        "changed": bool(changed or lost),
        "adopted": sorted(wanted[uuid]["name"] for uuid in result["adopted"]),
        "moved": sorted(wanted[uuid]["name"] for uuid in result["moved"]),
        "missing": sorted(known[uuid].name for uuid in result["missing"]),
        "went_down": [
            {"uuid": uuid, "name": name}
            for uuid, name in sorted(
                ((uuid, _name(uuid, wanted, known)) for uuid in down),
                key=lambda each: natural(each[1]),
            )
        ],
        "stale": sorted(known[uuid].name if uuid in known else uuid for uuid in result["stale"]),
        "doubled": [
            _doubled(
                uuid,
                [(*machines[node], states.get((uuid, node), "unknown")) for node in nodes],
                reported,
            )
            for uuid, nodes in result["doubled"]
        ],
        "policies": said_once(
            sorted(
                (row["name"], row["policy"]["error"])
                for row in wanted.values()
                if "error" in (row["policy"] or {})
            )
        ),
        "unmeasured": said_once(
            (
                wanted[uuid]["name"],
                _unmeasured(wanted[uuid]["name"], hosts[result["here"][uuid][0]], pool),
            )
            for uuid, pool in unmeasured
        ),
    }


def _name(uuid: str, wanted: Mapping[str, Mapping[str, Any]], known: Mapping[str, Any]) -> str:
    return str(wanted[uuid]["name"] if uuid in wanted else known[uuid].name)


def write_taken(
    connection: Connection,
    known: Mapping[str, Any],
    here: Mapping[str, tuple[int, DomainReport]],
    provider_ids: Mapping[int, int],
    disk: Mapping[int, int],
    now: float,
    hardware: record_hardware.Hardware,
    pools: record_pools.Pools,
) -> tuple[dict[str, dict[str, Any]], bool, list[tuple[str, str | None]]]:
    """Write instances and their allocations, as their hosts show them.

    :param known: dict uuid -> row of the instance.
    :param here: dict uuid -> (node id, domain).
    :param provider_ids: dict node id -> its provider.
    :param disk: dict provider of a node -> the sharing provider that is its disk.
    :param hardware: the hardware of these nodes.
    :param pools: the pools of these nodes.
    :returns: (dict uuid -> columns of the instance, True if anything changed, the (uuid, pool) of
        instances with disks of unknown size there; the pool is None for the instances' storage).
    """
    attaching = _attaching(known)
    held = allocations.read(connection, here)
    shares = _shares(connection, held, here, provider_ids, disk)
    groups = instance_rows.group_ids(connection)
    wanted, claims, owners = {}, {}, {}
    unmeasured: list[tuple[str, str | None]] = []
    for uuid, (node, domain) in here.items():
        row = known.get(uuid)
        resources = dict(domain["resources"])
        has = allocations.total(held.get(uuid, {}))
        on_pools, resources["DISK_GB"], unknown = pools.divide(node, domain, has, uuid in attaching)
        unmeasured += [(uuid, pool) for pool in unknown]
        if resources["DISK_GB"] is None:
            resources["DISK_GB"] = row.disk_gb if row is not None else 0
            unmeasured += [] if resources["DISK_GB"] else [(uuid, None)]
        if uuid in attaching:
            # Keep the claim for a disk that its host does not show yet.
            resources["DISK_GB"] = max(resources["DISK_GB"], has.get("DISK_GB", 0))
        wanted[uuid] = _instance_columns(row, node, domain, resources, groups)
        owners[uuid] = (wanted[uuid]["project"], wanted[uuid]["user"])
        taken = _taken(
            hardware.resources(node, domain, resources),
            provider_ids[node],
            disk,
            held.get(uuid, {}),
            shares,
        )
        devices, shown = hardware.nested(node, domain)
        taken = pools.put(
            node,
            {**{key: amounts for key, amounts in taken.items() if key not in devices}, **shown},
            on_pools,
        )
        if held.get(uuid, {}) != taken:
            claims[uuid] = taken
    changed = instance_rows.write(connection, wanted, known, now)
    allocations.replace(connection, claims, now, owners=owners)
    return wanted, bool(changed or claims), unmeasured


def _unmeasured(name: str, host: str, pool: str | None) -> str:
    """Return the sentence on disks that count as nothing."""
    where, start = "the instances' storage", ""
    if pool:
        # A running pool lists its contents from its start or its last refresh.
        where, start = (
            f"the storage pool {pool}",
            f"start the pool (virsh pool-start {shlex.quote(pool)}), or read it anew if it runs (virsh pool-refresh {shlex.quote(pool)}),",
        )
    return (
        f"Instance {name} on {host}: the size of its disks in {where} is not known, so they count as nothing and others may get their space. "
        f"On {host}{f' {start} and' if start else ''} see that the disks are there, and run drover.compute.discover again."
    )


def _claimed(known: Mapping[str, Any], migrations: Iterable[Any]) -> set[tuple[int, str]]:
    """Return (node id, uuid) of consumers that keep their amounts on nodes that do not show them.

    These are instances that are being built, moved or missing, and their migrations.

    :param known: the instances that no host shows.
    """
    kept = {(row.compute_node_id, uuid) for uuid, row in known.items()}
    for row in migrations:
        kept |= {
            (node, uuid)
            for node in (row.source_node_id, row.destination_node_id)
            for uuid in (row.instance_uuid, row.uuid)
        }
    return kept


def _attaching(known: Mapping[str, Any]) -> set[str]:
    return {
        uuid
        for uuid, row in known.items()
        if row.task_state in (orders.ATTACHING, orders.EXTENDING, *orders.MOVING_DISKS)
    }


def _being_built(reported: Reported, known: Mapping[str, Any]) -> set[str]:
    """Return the instances with a defined and not yet started domain of a build.

    Only the build, or the next run of it, may start it.
    """
    off = {
        uuid
        for domains in reported.values()
        for uuid, domain in domains.items()
        if domain["columns"]["state"] == "shutoff"
    }
    return {uuid for uuid in off if uuid in known and known[uuid].task_state == orders.SPAWNING}


def _shares(
    connection: Connection,
    held: Mapping[str, Mapping[int, Mapping[str, int]]],
    here: Mapping[str, tuple[int, DomainReport]],
    provider_ids: Mapping[int, int],
    disk: Mapping[int, int],
) -> dict[int, Collection[int]]:
    """Return the sharing providers that instances use: dict id -> providers of their nodes."""
    own = set(provider_ids.values())
    shares: dict[int, set[int]] = {}
    for provider, pool in disk.items():
        shares.setdefault(pool, set()).add(provider)
    others = {
        key
        for uuid, places in held.items()
        for key in places
        if key not in own and disk.get(provider_ids[here[uuid][0]]) != key
    }
    return {
        **shares,
        **provider_trees.reachable(connection, own, others),
        **provider_trees.roots(connection, others),
    }


def _taken(
    resources: Mapping[str, int],
    provider: int,
    disk: Mapping[int, int],
    held: Mapping[int, Mapping[str, int]],
    shares: Mapping[int, Collection[int]],
) -> dict[int, dict[str, int]]:
    """Return the amounts that an instance takes, by provider.

    libvirt does not show some amounts, such as addresses and custom classes. They stay as claimed,
    on the node's own providers and on providers that share with it. Amounts that libvirt shows stay
    at their claim too, or else go to the node; a disk goes to the disk provider of the node.
    """
    served = {key: held[key] for key in held if key == provider or provider in shares.get(key, ())}
    # A domain that shows no pins has its claimed pins.
    dedicated = (
        0 if "PCPU" in resources else sum(amounts.get("PCPU", 0) for amounts in served.values())
    )
    if "PCPU" not in resources and dedicated > resources.get("VCPU", 0):
        served = {
            key: {name: n for name, n in amounts.items() if name != "PCPU"}
            for key, amounts in served.items()
        }
    else:
        resources = {**resources, "VCPU": resources.get("VCPU", 0) - dedicated}
    taken = {
        key: {name: amount for name, amount in amounts.items() if name not in resources}
        for key, amounts in served.items()
    }
    for name, amount in resources.items():
        places = {key: amounts[name] for key, amounts in served.items() if name in amounts}
        if sum(places.values()) != amount:
            usual = disk.get(provider, provider) if name == record_sharing.DISK else provider
            places = {next(iter(places), usual): amount}
        for key, part in places.items():
            if part:
                taken.setdefault(key, {})[name] = part
    return {key: amounts for key, amounts in taken.items() if amounts}


def _instance_columns(
    row: Any | None,
    node: int,
    domain: DomainReport,
    resources: Mapping[str, int],
    groups: Mapping[str, int],
) -> dict[str, Any]:
    metadata = domain["metadata"]

    def kept(name: str) -> Any:
        return metadata.get(name) or (getattr(row, name) if row is not None else None)

    return {
        "name": domain["columns"]["name"],
        "compute_node_id": node,
        "state": "active",
        "server_group_id": row.server_group_id
        if row is not None and row.server_group_id
        else groups.get(metadata.get("server_group") or ""),
        **resource_classes.to_sizes(resources),
        "availability_zone": kept("availability_zone"),
        "project": kept("project"),
        "user": kept("user"),
        "flavor": kept("flavor"),
        # The metadata is the only place of the policy: a removed policy is no longer valid.
        "policy": _policy(domain),
        # The metadata is the only place of the labels too.
        "labels": domain["labels"] or None,
    }


def _policy(domain: DomainReport) -> dict[str, Any] | None:
    return move_policy.from_metadata(domain["metadata"], f"Instance {domain['columns']['name']}")


def _doubled(
    uuid: str, shown: Sequence[tuple[str, str, str | None, str]], reported: Reported
) -> dict[str, Any]:
    """Return the entry of a doubled instance.

    :param shown: (host, hypervisor_hostname, host_uuid or None, state of the domain) of each
        compute node that shows it.
    """
    name = next(
        domains[uuid]["columns"]["name"] for domains in reported.values() if uuid in domains
    )
    hosts = {host for host, *dummy in shown}
    host_uuids = {host_uuid for dummy, node, host_uuid, state in shown}
    states = {
        host if len(hosts) == len(shown) else node_label(host, node): state
        for host, node, dummy, state in shown
    }
    return {
        "uuid": uuid,
        "name": name,
        "nodes": sorted(states),
        "states": states,
        "one_machine": len(hosts) > 1 and len(host_uuids) == 1 and None not in host_uuids,
    }


def retire(connection: Connection, gone: NodeRows) -> tuple[list[str], list[str]]:
    """Remove compute nodes that their host no longer reports; mark nodes with allocations.

    :returns: the names of the removed nodes, and of the marked nodes.
    """
    by_uuid = providers.ids(connection, {row.uuid for row in gone.values()})
    trees = provider_trees.trees(connection, by_uuid.values())
    used = allocations.used_providers(connection, {*by_uuid.values()}.union(*trees.values()))
    kept = {
        key: row
        for key, row in gone.items()
        if row.uuid in by_uuid and used & {by_uuid[row.uuid], *trees.get(by_uuid[row.uuid], ())}
    }
    free = {key: row for key, row in gone.items() if key not in kept}
    node_rows.mark_unreported(connection, [row.id for row in kept.values()])
    instance_rows.forget_nodes(connection, [row.id for row in free.values()])
    node_rows.remove(connection, [row.id for row in free.values()])
    roots = [by_uuid[row.uuid] for row in free.values() if row.uuid in by_uuid]
    provider_trees.remove(connection, set().union(*(trees.get(root, ()) for root in roots)))
    providers.remove(connection, roots)
    return sorted(node for host, node in free), sorted(node for host, node in kept)


def record_built(
    connection: Connection, uuid: str, host: str, domain: DomainReport, now: float
) -> bool:
    """Record that the instance of a claim has its domain on a host.

    :returns: True when the store did not know it yet.
    :raises DroverError: the instance has no claim on that host.
    """
    row = instance_rows.concerned(connection, [uuid], []).get(uuid)
    node = instance_rows.place(connection, uuid)
    if row is None or node is None or node.host != host:
        where = node.host if node is not None else "no host"
        raise DroverError(
            f"Instance {domain['columns']['name']} ({uuid}) was built on {host}, but the store has its claim on "
            f"{where}. Run drover.compute.discover, which records what really runs."
        )
    _write_domain(connection, node, domain, now)
    record_hardware.Hardware(connection, {node.id: [domain]}).write_one(node.id, uuid, domain)
    allocations.confirm(connection, [uuid])
    node_rows.clear_failed_builds(connection, node)
    instance_rows.set_policy(connection, row, _policy(domain))
    instance_rows.set_labels(connection, uuid, domain["labels"])
    if row.state == "active":
        return False
    instance_rows.set_state(connection, [row], "active")
    return True


def record_seen(
    connection: Connection, uuid: str, host: str, domain: DomainReport, now: float
) -> None:
    """Record the new report of a host on an instance, if the instance is recorded there."""
    node = instance_rows.place(connection, uuid)
    if node is not None and node.host == host:
        _write_domain(connection, node, domain, now)
        instance_rows.set_labels(connection, uuid, domain["labels"])


def _note_local_disks(domain: DomainReport, node: Mapping[str, Any]) -> None:
    """Note if a domain has local disks.

    :param node: the facts of the node that shows it.
    """
    domain["columns"]["local_disks"] = bool(
        storage_identity.local_disks(storage_identity.all_disks(domain["columns"]["facts"]), node)
    )


def _write_domain(connection: Connection, node: Any, domain: DomainReport, now: float) -> None:
    _note_local_disks(domain, node.facts or {})
    node_rows.write_domain(connection, node.id, domain, now)
    files.write_one(
        connection,
        node.id,
        domain["columns"]["uuid"],
        domain_facts.files(domain["columns"], node.facts or {}),
    )
