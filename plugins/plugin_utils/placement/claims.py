# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims: room written down before anything is built, never more than there is.

Everything here runs inside one write transaction of the caller and is idempotent by the instance's
uuid. Such transactions run together, so each holds what it relies on before it reads it, all in one
order: server groups, instances, consumers, the rows of inventories (see inventory.py), compute nodes. Of two
runs that race for the last room exactly one gets it, and none of them can wait for each other.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import certainty, resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations, provider_trees, server_groups
from ansible_collections.drover.compute.plugins.plugin_utils.placement.claim_destination import ClaimDestinations, Place
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, decisions, files, orders, services, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

BUILDING = "building"
# What a decision that is claimed was for, see decisions.row().
PURPOSE = "place"
# What of a definition, beside its server group, decides where its instance may be.
COMPARED = ("vcpus", "memory_mb", "disk_gb", "availability_zone")
# How long (seconds) a claim is kept for an instance that nobody has seen.
LIFETIME = 3600


def claim(connection, selections, now, lifetime=LIFETIME, actor=None, defined=False):
    """Claim the destination, or else the first alternate with room, of every selection.

    All or none: a selection that fits nowhere fails the whole, and the caller's transaction with it. One that
    the scheduler made, which has its explanation, is written down as a decision.

    :param selections: a list of dicts as the lookup schedule returns them. A selection or an alternate
        may say with ``allocations`` which providers shall give what.
    :param lifetime: seconds until the claim expires when no instance is seen; 0 for never. An instance
        that is still being built and claimed again has its claim renewed.
    :param actor: who asked, in words for people.
    :param defined: the selections are of definitions. A definition is one instance, by its project and name: where another
        run was faster, its instance is the answer, with the uuid that it has.
    :returns: a list of dicts in the same order: uuid, name, host, node, provider, resources, alternates
        (those after the claimed one), new (False when the instance had its room already).
    :raises DroverError: no room (asked, used and capacity per host tried), unknown host, bad data, or a definition that was
        changed since its instance was begun.
    """
    if defined:
        selections = _those_there(connection, selections)
    found = server_groups.hold(connection, [selection.get("server_group") for selection in selections])
    nodes = _nodes(connection, selections)
    rows = [_instance(each, nodes, found, now, defined) for each in selections]
    expires_at = now + lifetime if lifetime else None
    keep = _consumers(selections, expires_at)
    new, made = bulk.add_both(connection, "uuid", (tables.instances, rows), (tables.consumers, allocations.consumer_rows(keep, now)))
    existing = [each["uuid"] for each in selections if each["uuid"] not in new]
    if defined:
        _refuse_changed(connection, [row for row in rows if row["uuid"] not in new])
    fresh = [each for each in selections if each["uuid"] in new]
    keep = {uuid: columns for uuid, columns in keep.items() if uuid in new}
    holdings = allocations.Holdings(connection, keep, now, drop=existing, made=made)
    holdings.renew(existing, expires_at)
    chosen = _choose(connection, fresh, holdings, keep, nodes, found)
    _correct_places(connection, rows, new, chosen)
    where = _existing(connection, existing)
    decided = [each for each in fresh if each.get("explanation")]
    decisions.record(connection, [_decision(each, chosen[each["uuid"]], actor, now) for each in decided])
    results = []
    for selection in selections:
        if selection["uuid"] in new:
            place = chosen[selection["uuid"]]
            results.append(_claimed(selection, place.node, selection.get("alternates", [])[place.number :]))
        else:
            results.append(_unchanged(selection, where.get(selection["uuid"])))
    return results


def _those_there(connection, selections):
    """The selections, each of a definition that is an instance already with the uuid of that."""
    names = [orders.definition_of(each.get("project"), each["name"]) for each in selections]
    there = orders.hold_definitions(connection, names)
    return [{**each, "uuid": there.get(name, each["uuid"])} for name, each in zip(names, selections)]


def _refuse_changed(connection, wanted):
    """Refuse to build what has its claim by another definition: with other amounts, or where it may not be any more.

    :param wanted: rows of instances, as the definitions are now.
    """
    table = tables.instances
    query = sa.select(table).where(table.c.state == BUILDING)
    begun = {row.uuid: row for row in bulk.among(connection, query, table.c.uuid, [each["uuid"] for each in wanted])}
    for new in wanted:
        row = begun.get(new["uuid"])
        if row is None:
            continue
        changed = [
            f"{key} was {_or_none(getattr(row, key))} and is {_or_none(new[key])}" for key in COMPARED if getattr(row, key) != new[key]
        ]
        if new["server_group_id"] != row.server_group_id:
            changed.append("server_group is another one")
        if changed:
            raise DroverError(
                f"Instance {row.name} ({row.uuid}) was begun and is not built yet, and its definition was changed since: {', '.join(changed)}. "
                "Nothing was claimed or built. Either give it the definition that it was begun with, or remove what was begun with "
                "drover.compute.instance_delete; then run drover.compute.place again."
            )


def _or_none(value):
    return "none" if value is None else value


def _consumers(selections, expires_at):
    """The consumers of instances that need room, see allocations.Holdings."""
    return {
        each["uuid"]: {
            "type": allocations.INSTANCE,
            "project": each.get("project"),
            "user": each.get("user"),
            "expires_at": expires_at,
        }
        for each in selections
        if any(each["resources"].values()) or _says_where(each)
    }


def _choose(connection, selections, holdings, keep, nodes, found):
    """Find and write the room of instances that are new: dict uuid -> Place."""
    if not selections:
        return {}
    wanted = [(each, _places(nodes, each)) for each in selections]
    destinations = ClaimDestinations(connection, [place for dummy, places in wanted for place in places], found, holdings.sums(keep))
    chosen = destinations.choose_all(wanted)
    columns = {uuid: {"expires_at": each["expires_at"]} for uuid, each in keep.items()}
    holdings.write({uuid: chosen[uuid].amounts for uuid in keep}, columns, limited=True)
    return chosen


def _decision(selection, place, actor, now):
    refused = f"{selection['host']}, which was picked first, was refused at the claim: this alternate was taken."
    return decisions.row(
        PURPOSE,
        actor,
        (selection["uuid"], selection["name"]),
        now,
        place=(place.node.host, place.node.hypervisor_hostname),
        alternates=selection.get("alternates", [])[place.number :],
        explanation=selection["explanation"],
        message=refused if place.number else None,
    )


def _says_where(selection):
    return any(place.get("allocations") for place in (selection, *selection.get("alternates", [])))


def _correct_places(connection, rows, new, chosen):
    """Instances were written down with their first choice, where they mostly are."""
    bulk.update(
        connection,
        tables.instances,
        [
            {"id": new[row["uuid"]], "compute_node_id": chosen[row["uuid"]].node.id}
            for row in rows
            if row["uuid"] in new and row["compute_node_id"] != chosen[row["uuid"]].node.id
        ],
    )


def reclaim(connection, uuid, alternates, proof, now, lifetime=LIFETIME, actor=None):
    """Give up the room of an instance being built and claim the first alternate with room.

    The node it leaves has a failed build more, which BuildFailureWeigher counts.

    :param proof: the certainty.Proof that nothing of it is at the host that it leaves.
    :returns: as one item of claim().
    :raises DroverError: the instance is not being built, or is moving, or no alternate has room, or an order is open.
    """
    certainty.require(proof)
    found = server_groups.of_instance(connection, uuid)
    instance = bulk.hold(connection, tables.instances, "uuid", [uuid]).get(uuid)
    if instance is None:
        raise _unknown_instance(uuid)
    _refuse_moving(connection, [uuid])
    if instance.state != BUILDING:
        raise DroverError(
            f"Instance {instance.name} ({uuid}) is {instance.state}, not being built: its place is not given up. "
            "Move it with drover.compute.drain instead."
        )
    orders.refuse_open([instance])
    holdings = allocations.Holdings(connection, {}, now, drop=[uuid])
    resources = _sums(allocations.read(connection, [uuid]).get(uuid, {}))
    nodes = _nodes(connection, [{"alternates": alternates}])
    request = {"uuid": uuid, "name": instance.name, "resources": resources}
    places = _places(nodes, {"alternates": alternates})
    group = found[0] if found else None
    destinations = ClaimDestinations(connection, places, {each.name: each for each in found}, holdings.sums([uuid]))
    chosen = destinations.choose(request, places, group)
    expires = {uuid: {"expires_at": now + lifetime if lifetime else None}}
    holdings.write({uuid: chosen.amounts} if uuid in holdings.ids else {}, expires, limited=True)
    bulk.update(connection, tables.instances, [{"id": instance.id, "compute_node_id": chosen.node.id}])
    table = tables.compute_nodes
    connection.execute(sa.update(table).where(table.c.id == instance.compute_node_id).values(failed_builds=table.c.failed_builds + 1))
    left = alternates[chosen.number + 1 :]
    place = (chosen.node.host, chosen.node.hypervisor_hostname)
    given_up = "It could not be built where its room was before: this alternate was taken."
    decided = decisions.row(PURPOSE, actor, (uuid, instance.name), now, place, left, message=given_up)
    decisions.record(connection, [decided])
    return _claimed(request, chosen.node, left)


def _sums(held):
    """What is held of each class, wherever: dict class name -> amount."""
    sums = {}
    for amounts in held.values():
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def release(connection, uuids, proof, now):
    """Give back the room of instances and forget those that were only being built.

    An instance that has a domain keeps its record, as its domain is still somebody's production.

    :param proof: the certainty.Proof that nothing of them is on a hypervisor.
    :returns: the uuids that held something.
    :raises DroverError: one of them has been seen running, or is moving, or an order is open for it; its room cannot
        be released.
    """
    certainty.require(proof)
    table = tables.instances
    rows = bulk.hold(connection, table, "uuid", uuids)
    _refuse_moving(connection, uuids)
    orders.refuse_open(rows.values())
    for row in rows.values():
        if row.state == "active":
            raise DroverError(
                f"Instance {row.name} ({row.uuid}) has a domain on a hypervisor, so its room is in use. "
                "Undefine the domain first and run drover.compute.discover; nothing was released."
            )
    holdings = allocations.Holdings(connection, {}, now, drop=uuids)
    holdings.write({uuid: {} for uuid in holdings.ids})
    bulk.delete(connection, table, table.c.id, [row.id for row in rows.values()])
    return sorted(set(holdings.ids) | set(rows))


def forget(connection, uuids, proof, now):
    """Give back the room of instances whose domains are removed, and forget all that the store has of them.

    :param proof: the certainty.Proof that they are removed.
    :raises DroverError: one of them is moving, or waits for its resize to be confirmed.
    """
    rows = bulk.hold(connection, tables.instances, "uuid", uuids)
    bulk.update(connection, tables.instances, [{"id": row.id, "state": "missing"} for row in rows.values()])
    release(connection, uuids, proof, now)
    bulk.delete(connection, tables.domains, tables.domains.c.uuid, uuids)
    files.forget(connection, uuids)


def release_expired(connection, now):
    """Release the claims whose time is over and of which no hypervisor was told, in the caller's one transaction.

    :returns: what they held, see allocations.expired().
    """
    uuids = [item["uuid"] for item in allocations.expired(connection, now)]
    # Held, then read again: what was released, built or renewed meanwhile stays as it is.
    busy = {
        row.uuid
        for row in bulk.hold(connection, tables.instances, "uuid", uuids).values()
        if row.state == "active" or row.order_uuid is not None
    }
    bulk.hold(connection, tables.consumers, "uuid", uuids)
    found = [item for item in allocations.expired(connection, now) if item["uuid"] in set(uuids) - busy]
    proof = certainty.never_begun("Their claims expired, and no hypervisor was told to build them.")
    release(connection, [item["uuid"] for item in found], proof, now)
    return found


def _refuse_moving(connection, uuids):
    """Raise DroverError when a migration is open: its source's room would be left to nobody."""
    table = tables.migrations
    query = sa.select(table).where(table.c.status.in_(tables.HOLDING_MIGRATION))
    for row in bulk.among(connection, query, table.c.instance_uuid, uuids):
        if row.status == "finished":
            raise DroverError(
                f"Instance {row.instance_name} ({row.instance_uuid}) was resized, and holds the room of its old size on "
                f"{row.source} too. Confirm or revert that first; nothing was released."
            )
        if row.status == "done":
            raise DroverError(
                f"Instance {row.instance_name} ({row.instance_uuid}) was evacuated from {row.source}, where it still "
                f"holds its room until that host is back and cleaned up; nothing was released."
            )
        raise DroverError(
            f"Instance {row.instance_name} ({row.instance_uuid}) has an open migration from {row.source} to "
            f"{row.destination}. Finish or undo that first, by running the drain of {row.source} again; "
            "nothing was released."
        )


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
            *provider_trees.has_more(providers),
        )
        .join(known, known.c.id == nodes.c.service_id)
        .join(providers, providers.c.uuid == nodes.c.uuid)
    )


def _nodes_query(hosts):
    return _node_query().where(bulk.one_of(tables.compute_nodes.c.host, "host", hosts))


def _nodes(connection, selections):
    hosts = set()
    for selection in selections:
        hosts.update(place["host"] for place in [selection, *selection.get("alternates", [])] if place.get("host"))
    nodes = {}
    hosts = sorted(hosts)
    for start in range(0, len(hosts), bulk.NAMED_VALUES):
        some = hosts[start : start + bulk.NAMED_VALUES]
        for row in bulk.run(connection, bulk.numbered("host", some), _nodes_query, len(some)):
            nodes.setdefault(row.host, []).append(row)
    return nodes


def _places(nodes, selection):
    """Where a selection may go, the first choice first, as a list of Place.

    :raises DroverError: one of them is not in the store.
    """
    tries = [selection] if selection.get("host") else []
    tries += selection.get("alternates", [])
    return [Place(_node(nodes, place), place.get("allocations"), number) for number, place in enumerate(tries)]


def _node(nodes, place):
    """The row of a place; a host with one compute node need not name it."""
    host, node = place["host"], place.get("node")
    found = _matching(nodes, place)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(row.hypervisor_hostname for row in found)
        raise DroverError(f"Host {host} has several compute nodes: {names}. Say which one with node.")
    raise DroverError(
        f"Compute node {node or host} of host {host} is not in the store. "
        "Run drover.compute.discover, then schedule again; nothing was claimed.",
        cause="unknown_host",
        host=host,
    )


def _matching(nodes, place):
    return [row for row in nodes.get(place["host"], ()) if place.get("node") is None or row.hypervisor_hostname == place["node"]]


def _existing(connection, uuids):
    """The compute node rows (or None) of instances that have their claim already, by uuid."""
    if not uuids:
        return {}
    instances = tables.instances
    query = sa.select(instances.c.uuid, instances.c.compute_node_id)
    where = {row.uuid: row.compute_node_id for row in bulk.among(connection, query, instances.c.uuid, uuids)}
    nodes = {row.id: row for row in bulk.among(connection, _node_query(), tables.compute_nodes.c.id, where.values())}
    return {uuid: nodes.get(node) for uuid, node in where.items()}


def _instance_row(connection, uuid):
    table = tables.instances
    row = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if row is None:
        raise _unknown_instance(uuid)
    return row


def _unknown_instance(uuid):
    return DroverError(f"Instance {uuid} is not in the store. Run drover.compute.discover if it exists.", cause="unknown_instance")


def _instance(selection, nodes, found, now, defined=False):
    resources = selection["resources"]
    node = _matching(nodes, selection)
    group = found.get(server_groups.name_of(selection.get("server_group")))
    return {
        "uuid": selection["uuid"],
        "name": selection["name"],
        "compute_node_id": node[0].id if len(node) == 1 else None,
        "state": BUILDING,
        "server_group_id": group.id if group is not None else None,
        **resource_classes.to_sizes(resources),
        "availability_zone": selection.get("availability_zone"),
        "project": selection.get("project"),
        "user": selection.get("user"),
        "flavor": selection.get("flavor"),
        "image": selection.get("image"),
        "definition": orders.definition_of(selection.get("project"), selection["name"]) if defined else None,
        "created_at": now,
    }


def _claimed(selection, node, alternates):
    return {
        **_answer(selection, node),
        "alternates": [
            {
                "host": place["host"],
                "node": place.get("node") or place["host"],
                **({"allocations": place["allocations"]} if place.get("allocations") else {}),
            }
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


def require_claim(row, node, host):
    """Make sure that an instance has its claim on a host before anything is built there.

    :param row: of the instance; node: of its compute node, or None.
    :raises DroverError: it has none, or one on another host, or is not being built.
    """
    if node is None or node.host != host:
        where = f"on {node.host}" if node is not None else "nowhere"
        raise DroverError(
            f"Instance {row.name} ({row.uuid}) has its claim {where}, not on {host}: it is not built there. "
            "Build it where drover.compute.allocation claimed it."
        )
    if row.state not in (BUILDING, "active"):
        raise DroverError(
            f"Instance {row.name} ({row.uuid}) is {row.state} on {host}: it was there once, and nothing is built a second time. "
            "Find out where it is with drover.compute.discover."
        )
