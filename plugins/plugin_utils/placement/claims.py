# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims: room written down before anything is built, never more than there is.

Everything here runs inside one write transaction of the caller and is idempotent by the consumer's
uuid. The providers are held first, then read, then written, so that of two runs that race for the
last room exactly one gets it.
"""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations, groups, room
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, services, tables

BUILDING = "building"


def claim(connection, selections, now):
    """Claim the destination, or else the first alternate with room, of every selection.

    All or none: a selection that fits nowhere fails the whole, and the caller's transaction with it.

    :param selections: a list of dicts as the lookup schedule returns them.
    :returns: a list of dicts in the same order: uuid, name, host, node, provider, resources, alternates
        (those after the claimed one), new (False when the instance had its room already).
    :raises DroverError: no room (asked, used and capacity per host tried), unknown host, bad data.
    """
    nodes = _nodes(connection, selections)
    existing = _existing(connection, [selection["uuid"] for selection in selections])
    chooser = Chooser(connection, list(nodes.values()))
    results, rows, held, owners = [], [], {}, {}
    for selection in selections:
        uuid = selection["uuid"]
        if uuid in existing:
            results.append(_unchanged(selection, existing[uuid]))
            continue
        group = groups.find(connection, selection.get("server_group"))
        places = [_place(nodes, place) for place in [selection, *selection.get("alternates", [])]]
        chosen = chooser.choose(selection["name"], uuid, places, selection["resources"], group)
        existing[uuid] = chosen
        held[uuid] = {chosen.provider_id: selection["resources"]}
        owners[uuid] = (selection.get("project"), selection.get("user"))
        rows.append(_instance(selection, chosen, group, now))
        results.append(_claimed(selection, chosen, selection.get("alternates", [])[places.index(chosen) :]))
    allocations.replace(connection, held, now, owners=owners)
    bulk.insert(connection, tables.instances, rows)
    return results


def reclaim(connection, uuid, alternates, now):
    """Give up the room of an instance being built and claim the first alternate with room.

    :returns: as one item of claim().
    :raises DroverError: the instance is not being built, or is moving, or no alternate has room.
    """
    instance = _instance_row(connection, uuid)
    _refuse_moving(connection, [uuid])
    if instance.state != BUILDING:
        raise DroverError(
            f"Instance {instance.name} ({uuid}) is {instance.state}, not being built: its place is not given up. "
            "Move it with drover.compute.drain instead."
        )
    held = allocations.read(connection, [uuid]).get(uuid, {})
    resources = {name: amount for amounts in held.values() for name, amount in amounts.items()}
    nodes = _nodes(connection, [{"alternates": alternates}])
    chooser = Chooser(connection, list(nodes.values()))
    group = groups.by_id(connection, instance.server_group_id)
    places = [_place(nodes, place) for place in alternates]
    chosen = chooser.choose(instance.name, uuid, places, resources, group)
    allocations.replace(connection, {uuid: {chosen.provider_id: resources}}, now)
    bulk.update(connection, tables.instances, [{"id": instance.id, "compute_node_id": chosen.id}])
    request = {"uuid": uuid, "name": instance.name, "resources": resources}
    return _claimed(request, chosen, alternates[places.index(chosen) + 1 :])


def release(connection, uuids, now):
    """Give back the room of instances and forget those that were only being built.

    An instance that has a domain keeps its record, as its domain is still somebody's production.

    :returns: the uuids that held something.
    :raises DroverError: one of them has been seen running, or is moving; its room cannot be released.
    """
    _refuse_moving(connection, uuids)
    table = tables.instances
    rows = bulk.among(connection, sa.select(table), table.c.uuid, uuids)
    for row in rows:
        if row.state == "active":
            raise DroverError(
                f"Instance {row.name} ({row.uuid}) has a domain on a hypervisor, so its room is in use. "
                "Undefine the domain first and run drover.compute.discover; nothing was released."
            )
    held = allocations.read(connection, uuids)
    allocations.replace(connection, {uuid: {} for uuid in held}, now)
    bulk.delete(connection, table, table.c.id, [row.id for row in rows])
    return sorted(set(held) | {row.uuid for row in rows})


def _refuse_moving(connection, uuids):
    """Raise DroverError when a migration is open: its source's room would be left to nobody."""
    table = tables.migrations
    query = sa.select(table).where(table.c.status.in_(tables.OPEN_MIGRATION))
    for row in bulk.among(connection, query, table.c.instance_uuid, uuids):
        raise DroverError(
            f"Instance {row.instance_name} ({row.instance_uuid}) has an open migration from {row.source} to "
            f"{row.destination}. Finish or undo that first, by running the drain of {row.source} again; "
            "nothing was released."
        )


class Chooser:
    """Finds the first place with room, counting what was chosen before in this transaction."""

    def __init__(self, connection, nodes):
        self.connection = connection
        providers = {node.provider_id for node in nodes}
        room.lock(connection, providers)
        self.rooms = room.read(connection, providers)
        self.groups = {}

    def choose(self, name, uuid, places, resources, group=None, leaving=None):
        """The first of ``places`` that is enabled, allowed by the server group and has room.

        :param leaving: the host the instance moves away from, if it moves.
        :raises DroverError: none; with the reason of each.
        """
        refusals = []
        for place in places:
            refusal = self._refusal(uuid, place, resources, group, leaving)
            if refusal is None:
                for resource, amount in resources.items():
                    if amount:
                        self.rooms[place.provider_id][resource].used += amount
                if group is not None:
                    self._members(group)[uuid] = {place.host}
                return place
            refusals.append(f"{place.host}: {refusal}")
        raise DroverError(
            f"No room for {name} ({uuid}) at its destination nor its alternates: {'; '.join(refusals)}. "
            "Nothing was claimed. Somebody else may have been faster: schedule again.",
            refusals=refusals,
        )

    def _refusal(self, uuid, place, resources, group, leaving):
        if place.disabled:
            return f"disabled ({place.disabled_reason or 'no reason given'})"
        if place.forced_down:
            return "forced down"
        rooms = self.rooms[place.provider_id]
        for name, amount in resources.items():
            if not amount:
                continue
            if name not in rooms:
                return f"{name}: asked {amount}, the host has none"
            refusal = rooms[name].refusal(name, amount)
            if refusal:
                return refusal
        if group is not None:
            return groups.refusal(group, self._members(group), uuid, place.host, leaving)
        return None

    def _members(self, group):
        if group.id not in self.groups:
            groups.lock(self.connection, group)
            self.groups[group.id] = groups.members(self.connection, group)
        return self.groups[group.id]


def find_node(connection, host, node=None):
    """The compute node of a host by name, with its provider and the state of its service.

    :raises DroverError: unknown host, unknown node, or several nodes and none named.
    """
    rows = [row for row in _node_rows(connection, [host]) if node is None or row.hypervisor_hostname == node]
    if not rows:
        services.get(connection, host)
        raise DroverError(f"Host {host} has no compute node {node or ''} in the store. Run drover.compute.discover.")
    if len(rows) > 1:
        names = ", ".join(row.hypervisor_hostname for row in rows)
        raise DroverError(f"Host {host} has several compute nodes: {names}. Say which one with node.")
    return rows[0]


def _node_rows(connection, hosts):
    return bulk.among(connection, _node_query(), tables.compute_nodes.c.host, hosts)


def _node_query():
    nodes, known, providers = tables.compute_nodes, tables.services, tables.resource_providers
    return (
        sa.select(
            nodes.c.id,
            nodes.c.uuid,
            nodes.c.host,
            nodes.c.hypervisor_hostname,
            nodes.c.uri,
            nodes.c.supported_instances,
            nodes.c.cpu_info,
            nodes.c.migration_uri,
            nodes.c.migration_address,
            known.c.disabled,
            known.c.disabled_reason,
            known.c.forced_down,
            providers.c.id.label("provider_id"),
        )
        .join(known, known.c.id == nodes.c.service_id)
        .join(providers, providers.c.uuid == nodes.c.uuid)
    )


def _nodes(connection, selections):
    hosts = set()
    for selection in selections:
        hosts.update(place["host"] for place in [selection, *selection.get("alternates", [])] if place.get("host"))
    return {(row.host, row.hypervisor_hostname): row for row in _node_rows(connection, hosts)}


def _place(nodes, place):
    """The row of a place; a host with one compute node need not name it."""
    host, node = place["host"], place.get("node")
    found = [row for (name, dummy), row in nodes.items() if name == host and node in (None, row.hypervisor_hostname)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(row.hypervisor_hostname for row in found)
        raise DroverError(f"Host {host} has several compute nodes: {names}. Say which one with node.")
    raise DroverError(
        f"Compute node {node or host} of host {host} is not in the store. "
        "Run drover.compute.discover, then schedule again; nothing was claimed."
    )


def _existing(connection, uuids):
    """The compute node rows (or None) of instances that have their claim already, by uuid."""
    instances = tables.instances
    query = sa.select(instances.c.uuid, instances.c.compute_node_id)
    where = {row.uuid: row.compute_node_id for row in bulk.among(connection, query, instances.c.uuid, uuids)}
    nodes = {row.id: row for row in bulk.among(connection, _node_query(), tables.compute_nodes.c.id, where.values())}
    return {uuid: nodes.get(node) for uuid, node in where.items()}


def _instance_row(connection, uuid):
    table = tables.instances
    row = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if row is None:
        raise DroverError(f"Instance {uuid} is not in the store. Run drover.compute.discover if it exists.")
    return row


def _instance(selection, node, group, now):
    resources = selection["resources"]
    return {
        "uuid": selection["uuid"],
        "name": selection["name"],
        "compute_node_id": node.id,
        "state": BUILDING,
        "server_group_id": group.id if group is not None else None,
        "vcpus": resources.get("VCPU", 0),
        "memory_mb": resources.get("MEMORY_MB", 0),
        "disk_gb": resources.get("DISK_GB", 0),
        "availability_zone": selection.get("availability_zone"),
        "project": selection.get("project"),
        "user": selection.get("user"),
        "flavor": selection.get("flavor"),
        "image": selection.get("image"),
        "created_at": now,
    }


def _claimed(selection, node, alternates):
    return {
        **_answer(selection, node),
        "alternates": [
            {"host": place["host"], "node": place.get("node") or place["host"]}
            for place in alternates
            if (place["host"], place.get("node") or place["host"]) != (node.host, node.hypervisor_hostname)
        ],
        "new": True,
    }


def _unchanged(selection, node):
    return {**_answer(selection, node), "alternates": [], "new": False}


def _answer(selection, node):
    answer = {"uuid": selection["uuid"], "name": selection["name"], "resources": selection["resources"]}
    if node is None:
        return {**answer, "host": None, "node": None, "provider": None}
    arch = (node.cpu_info or {}).get("arch")
    # What the host runs with hardware support, else what it emulates.
    kinds = {kind for guest_arch, kind, dummy in node.supported_instances or [] if guest_arch == arch}
    return {
        **answer,
        "host": node.host,
        "node": node.hypervisor_hostname,
        "provider": node.uuid,
        "uri": node.uri,
        "arch": arch,
        "domain_type": "kvm" if "kvm" in kinds else next(iter(sorted(kinds)), "kvm"),
    }


def require_claim(connection, uuid, host):
    """Make sure that an instance has its claim on a host before anything is built there.

    :raises DroverError: it has none, or one on another host.
    """
    instance = _instance_row(connection, uuid)
    nodes = tables.compute_nodes
    node = connection.execute(sa.select(nodes.c.host).where(nodes.c.id == instance.compute_node_id)).one_or_none()
    if node is None or node.host != host:
        where = f"on {node.host}" if node is not None else "nowhere"
        raise DroverError(
            f"Instance {instance.name} ({uuid}) has its claim {where}, not on {host}: it is not built there. "
            "Build it where drover.compute.allocation claimed it."
        )
