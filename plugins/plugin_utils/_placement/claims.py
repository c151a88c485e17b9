# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims: room is allocated before anything is built, never more than there is.

Each function runs inside one write transaction of the caller and is idempotent by the instance's
uuid. Such transactions run at the same time, so each locks rows before it reads them, in one order:
server groups, instances, consumers, inventories (see inventory.py), compute nodes, quotas. If two
runs race for the last room, exactly one gets it, and no two runs wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._common import certainty, resource_classes
from .._common.errors import DroverError
from .._numa.request import HostRequest
from .._records.claims import Alternate, Claim, ClaimedPools, ClaimRequest
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.hosts import looks
from .._store.instances import evacuations, files, instances, orders
from .._store.runs import actions, decisions
from .._store.schema import tables
from . import (
    allocations,
    claim_nodes,
    definition_claims,
    host_room,
    mdevs,
    pools_of_claims,
    quotas,
    server_groups,
)
from .claim_destination import CandidateNode, ClaimDestinations

BUILDING = "building"
#: The purpose of a decision that is claimed, see decisions.row().
PURPOSE = "place"
#: Seconds until a claim expires if no instance is seen.
LIFETIME = 3600
NO_POOLS: ClaimedPools = {}


def claim(
    connection: Connection,
    selections: Sequence[ClaimRequest],
    now: float,
    lifetime: int = LIFETIME,
    actor: str | None = None,
    defined: bool = False,
) -> list[Claim]:
    """Claim the destination, or else the first alternate with room, of every selection.

    All or none: a selection that fits nowhere fails the whole, and the caller's transaction with
    it. A selection with an explanation, so one of the scheduler, is recorded as a decision.

    :param lifetime: seconds until the claim expires if no instance is seen; 0 for never. A claim
        that is made again while its instance is built is renewed.
    :param actor: the requester, for people.
    :param defined: the selections are of definitions. If another run has claimed a definition
        already, its instance is the answer.
    :returns: the claims in the order of the selections.
    :raises DroverError: no room (requested, used and capacity per tried host), a quota, unknown
        host, bad data, or a definition that was changed since its instance was begun.
    """
    if defined:
        selections = definition_claims.with_uuids(connection, selections)
    groups = server_groups.hold(
        connection, [selection.get("server_group") for selection in selections]
    )
    nodes = claim_nodes.read(
        connection,
        [
            place
            for selection in selections
            for place in (selection, *selection.get("alternates", []))
        ],
    )
    rows = [_instance(each, nodes, groups, now, defined) for each in selections]
    expires_at = now + lifetime if lifetime else None
    keep = _consumers(selections, expires_at)
    new, made = bulk.add_both(
        connection,
        "uuid",
        (tables.instances, rows),
        (tables.consumers, allocations.consumer_rows(keep, now)),
    )
    existing = [each["uuid"] for each in selections if each["uuid"] not in new]
    if defined:
        definition_claims.refuse_changed(
            connection, [row for row in rows if row["uuid"] not in new]
        )
    fresh = [each for each in selections if each["uuid"] in new]
    keep = {uuid: columns for uuid, columns in keep.items() if uuid in new}
    holdings = allocations.Holdings(connection, keep, now, drop=existing, made=made)
    holdings.renew(existing, expires_at)
    chosen = _choose(connection, fresh, holdings, keep, nodes, groups)
    _correct_places(connection, rows, new, chosen)
    where = claim_nodes.of_instances(connection, existing)
    decided = [each for each in fresh if each.get("explanation")]
    decisions.record(
        connection, [_decision(each, chosen[each["uuid"]], actor, now) for each in decided]
    )
    notes = [
        {
            "kind": "claim",
            "message": "room claimed",
            "instance": (each["uuid"], each["name"]),
            "host": chosen[each["uuid"]].node.host,
        }
        for each in fresh
    ]
    actions.note_all(connection, notes)
    quotas.refuse(connection, quotas.of_selections(fresh))
    results = []
    for selection in selections:
        if selection["uuid"] in new:
            place = chosen[selection["uuid"]]
            results.append(
                _claimed(selection, place.node, selection.get("alternates", [])[place.number :])
            )
        else:
            results.append(_answer(selection, where.get(selection["uuid"])))
    nodes_of = {uuid: place.node for uuid, place in chosen.items()} | {
        uuid: node for uuid, node in where.items() if node is not None
    }
    hardware = host_room.read(connection, nodes_of, [*_with_hardware(selections), *existing])
    pools = pools_of_claims.read(
        connection, nodes_of, {each["uuid"]: each["resources"] for each in selections}
    )
    return [
        {**each, **hardware.get(each["uuid"], {}), **pools.get(each["uuid"], NO_POOLS)}
        for each in results
    ]


def _consumers(
    selections: Sequence[ClaimRequest], expires_at: float | None
) -> dict[str, dict[str, object]]:
    """Return the consumers of instances that need room, see allocations.Holdings."""
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


def _choose(
    connection: Connection,
    selections: Sequence[ClaimRequest],
    holdings: allocations.Holdings,
    keep: Mapping[str, Mapping[str, object]],
    nodes: claim_nodes.Nodes,
    found: Mapping[str, Row],
) -> dict[str, CandidateNode]:
    """Choose a place with room for each new instance, write its allocations, and return {uuid:
    place}.
    """
    if not selections:
        return {}
    requested = [(each, _places(nodes, [each, *each.get("alternates", [])])) for each in selections]
    every = [place for dummy, places in requested for place in places]
    destinations = ClaimDestinations(
        connection, every, found, holdings.sums(keep), _requests(selections)
    )
    chosen = destinations.choose_all(requested)
    columns = {uuid: {"expires_at": each["expires_at"]} for uuid, each in keep.items()}
    holdings.write({uuid: chosen[uuid].amounts for uuid in keep}, columns, limited=True)
    if destinations.room is not None:
        destinations.room.write()
    _claim_mdevs(connection, chosen)
    return chosen


def _claim_mdevs(connection: Connection, chosen: Mapping[str, CandidateNode]) -> None:
    """Claim mediated devices for the allocations of instances on providers below the providers of
    their nodes.
    """
    nested = [
        uuid
        for uuid, place in chosen.items()
        if any(provider != place.node.provider_id for provider, dummy in place.amounts)
    ]
    if nested:
        mdevs.claim(connection, allocations.read(connection, nested))


def _with_hardware(selections: Sequence[ClaimRequest]) -> list[str]:
    """Return the uuids of the selections that can have cells or devices of their hosts."""
    return [
        each["uuid"]
        for each in selections
        if each.get("host_request")
        or _says_where(each)
        or each["resources"].keys() - resource_classes.DISCOVERED.keys()
    ]


def _requests(selections: Sequence[ClaimRequest]) -> dict[str, HostRequest]:
    """Return the needs of cells and devices of selections, without selections that have none."""
    return {
        each["uuid"]: HostRequest.from_data(each["host_request"], f"Instance {each['name']}")
        for each in selections
        if each.get("host_request")
    }


def _decision(
    selection: ClaimRequest, place: CandidateNode, actor: str | None, now: float
) -> dict[str, object]:
    refused = (
        f"{selection['host']}, which was picked first, was refused at the claim: this alternate was"
        " taken."
    )
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


def _says_where(selection: ClaimRequest) -> bool:
    return any(place.get("allocations") for place in (selection, *selection.get("alternates", [])))


def _correct_places(
    connection: Connection,
    rows: Sequence[Mapping[str, Any]],
    new: Mapping[str, int],
    chosen: Mapping[str, CandidateNode],
) -> None:
    """Correct the nodes of instances that were inserted with their first choice, which most of them
    get.
    """
    bulk.update(
        connection,
        tables.instances,
        [
            {"id": new[row["uuid"]], "compute_node_id": chosen[row["uuid"]].node.id}
            for row in rows
            if row["uuid"] in new and row["compute_node_id"] != chosen[row["uuid"]].node.id
        ],
    )


def reclaim(
    connection: Connection,
    uuid: str,
    alternates: Sequence[Alternate],
    proof: certainty.Proof,
    now: float,
    lifetime: int = LIFETIME,
    actor: str | None = None,
) -> Claim:
    """Give up the room of an instance that is being built and claim the first alternate with room.

    The failed build is counted on the node that it leaves, for BuildFailureWeigher.

    :param proof: nothing of the instance is at the host that it leaves.
    :raises DroverError: the instance is not being built, or is moving, or no alternate has room, or
        an order is open.
    """
    certainty.require(proof)
    groups = server_groups.of_instance(connection, uuid)
    instance = instances.hold(connection, uuid)
    if instance is None:
        raise _unknown_instance(uuid)
    _refuse_moving(connection, [uuid])
    if instance.state != BUILDING:
        raise DroverError(
            f"Instance {instance.name} ({uuid}) is {instance.state}, not being built: its place is"
            " not given up. Move it with drover.compute.drain instead."
        )
    orders.refuse_open([instance])
    holdings = allocations.Holdings(connection, {}, now, drop=[uuid])
    resources = allocations.total(allocations.read(connection, [uuid]).get(uuid, {}))
    places = _places(claim_nodes.read(connection, alternates), alternates)
    group = groups[0] if groups else None
    left_node = instance.compute_node_id
    requests = (
        {uuid: HostRequest.from_data(instance.host_request, f"Instance {instance.name}")}
        if instance.host_request
        else None
    )
    destinations = ClaimDestinations(
        connection, places, {each.name: each for each in groups}, holdings.sums([uuid]), requests
    )
    chosen = destinations.choose(uuid, instance.name, resources, places, group)
    expires = {uuid: {"expires_at": now + lifetime if lifetime else None}}
    holdings.write({uuid: chosen.amounts} if uuid in holdings.ids else {}, expires, limited=True)
    if left_node is not None:
        host_room.leave(connection, left_node, uuid)
    if destinations.room is not None:
        destinations.room.write()
    _claim_mdevs(connection, {uuid: chosen})
    bulk.update(
        connection, tables.instances, [{"id": instance.id, "compute_node_id": chosen.node.id}]
    )
    table = tables.compute_nodes
    connection.execute(
        sa.update(table)
        .where(table.c.id == instance.compute_node_id)
        .values(failed_builds=table.c.failed_builds + 1)
    )
    alternates_left = alternates[chosen.number + 1 :]
    place = (chosen.node.host, chosen.node.hypervisor_hostname)
    why = "It could not be built where its room was before: this alternate was taken."
    decided = decisions.row(
        PURPOSE, actor, (uuid, instance.name), now, place, alternates_left, message=why
    )
    decisions.record(connection, [decided])
    claimed = _claimed(
        {"uuid": uuid, "name": instance.name, "resources": resources, "host": chosen.node.host},
        chosen.node,
        alternates_left,
    )
    node_of = {uuid: chosen.node}
    pools = pools_of_claims.read(connection, node_of, {uuid: resources})
    return {
        **claimed,
        **host_room.read(connection, node_of).get(uuid, {}),
        **pools.get(uuid, NO_POOLS),
    }


def release(
    connection: Connection, uuids: Collection[str], proof: certainty.Proof, now: float
) -> list[str]:
    """Release the room of instances and delete their records.

    :param proof: nothing of them is on a hypervisor.
    :returns: the uuids of the instances that had room or a record.
    :raises DroverError: an instance has a domain on a host that is not known to be off, is moving,
        or has an open order.
    """
    certainty.require(proof)
    table = tables.instances
    rows = bulk.hold(connection, table, "uuid", uuids)
    _refuse_moving(connection, uuids)
    _refuse_in_use(connection, list(rows.values()))
    holdings = allocations.Holdings(connection, {}, now, drop=uuids)
    holdings.write({uuid: {} for uuid in holdings.ids})
    bulk.delete(connection, table, table.c.id, [row.id for row in rows.values()])
    # An active instance was lost with its host, which is off: its domain is forgotten too.
    lost = [row.uuid for row in rows.values() if row.state == "active"]
    bulk.delete(connection, tables.domains, tables.domains.c.uuid, lost)
    files.forget(connection, lost)
    notes = [
        {
            "kind": "release",
            "message": "room released, record deleted",
            "instance": (row.uuid, row.name),
            "host": host,
        }
        for row, host in zip(rows.values(), _hosts(connection, rows.values()))
    ]
    actions.note_all(connection, notes)
    return sorted(set(holdings.ids) | set(rows))


def _refuse_in_use(connection: Connection, rows: Sequence[Row]) -> None:
    """Refuse instances that a host shows or that have an open order, unless their host was seen to
    be off since: they were lost with it.
    """
    doubtful = [row for row in rows if row.state == "active" or row.order_uuid is not None]
    if not doubtful:
        return
    off = {host for host, known in looks.hosts(connection).items() if known.is_off}
    shown = evacuations.shown(connection, [row.uuid for row in doubtful])
    for row, host in zip(doubtful, _hosts(connection, doubtful)):
        if host not in off:
            orders.refuse_open([row])
        elsewhere = [place["host"] for place in shown.get(row.uuid, ()) if place["host"] != host]
        if elsewhere or (host not in off and row.state == "active"):
            where = elsewhere[0] if elsewhere else host or "a hypervisor"
            raise DroverError(
                f"Instance {row.name} ({row.uuid}) has a domain on {where}, so its room is in use."
                " Undefine the domain first and run drover.compute.discover; nothing was released."
                f" If {where} is dead: drover.compute.evacuate -e drover_host={where}, which sees"
                " that it is off, and then this again, for what it has to leave."
            )


def _hosts(connection: Connection, rows: Collection[Row]) -> list[str | None]:
    """Return the hosts of instances."""
    nodes = tables.compute_nodes
    ids = [row.compute_node_id for row in rows]
    host_of = {
        row.id: row.host
        for row in bulk.among(
            connection, bulk.select(nodes.c.id, nodes.c.host), nodes.c.id, set(ids) - {None}
        )
    }
    return [host_of.get(each) for each in ids]


def release_unattended(connection: Connection, uuids: Collection[str], now: float) -> None:
    """Release the room of instances if their runs ended before any hypervisor had the order to
    build them.

    :raises DroverError: see release().
    """
    release(
        connection,
        uuids,
        certainty.never_begun(
            "No order to build it is open, and the run that claimed it has ended."
        ),
        now,
    )


def forget(
    connection: Connection, uuids: Collection[str], proof: certainty.Proof, now: float
) -> None:
    """Release the room of instances after the removal of their domains, and delete all their
    records.

    :param proof: their domains are removed.
    :raises DroverError: an instance is moving, or waits for the confirmation of its resize.
    """
    rows = bulk.hold(connection, tables.instances, "uuid", uuids)
    bulk.update(
        connection, tables.instances, [{"id": row.id, "state": "missing"} for row in rows.values()]
    )
    release(connection, uuids, proof, now)
    bulk.delete(connection, tables.domains, tables.domains.c.uuid, uuids)
    files.forget(connection, uuids)


def _refuse_moving(connection: Connection, uuids: Collection[str]) -> None:
    """Refuse instances with an open migration: the room at its source would never be released."""
    table = tables.migrations
    query = sa.select(table).where(table.c.status.in_(tables.HOLDING_MIGRATION))
    for row in bulk.among(connection, query, table.c.instance_uuid, uuids):
        if row.status == "finished":
            raise DroverError(
                f"Instance {row.instance_name} ({row.instance_uuid}) was resized, and holds the"
                f" room of its old size on {row.source} too. Confirm or revert that first; nothing"
                " was released."
            )
        if row.status == "done":
            raise DroverError(
                f"Instance {row.instance_name} ({row.instance_uuid}) was evacuated from"
                f" {row.source}, where it still holds its room until that host is back and cleaned"
                " up; nothing was released."
            )
        raise DroverError(
            f"Instance {row.instance_name} ({row.instance_uuid}) has an open migration from"
            f" {row.source} to {row.destination}. Finish or undo that first, by running the drain"
            f" of {row.source} again; nothing was released."
        )


def _places(nodes: claim_nodes.Nodes, tries: Sequence[Alternate]) -> list[CandidateNode]:
    return [
        CandidateNode(
            claim_nodes.named(nodes, place), place.get("allocations"), number, place.get("mappings")
        )
        for number, place in enumerate(tries)
    ]


def _unknown_instance(uuid: str) -> DroverError:
    return DroverError(
        f"Instance {uuid} is not in the store. Run drover.compute.discover if it exists.",
        cause="unknown_instance",
    )


def _instance(
    selection: ClaimRequest,
    nodes: claim_nodes.Nodes,
    found: Mapping[str, Row],
    now: float,
    defined: bool,
) -> dict[str, object]:
    """Make the row of an instance that is built."""
    node = claim_nodes.matching(nodes, selection["host"], selection.get("node"))
    sizes = resource_classes.to_sizes(selection["resources"])
    if selection.get("host_request"):
        # Pinned vCPUs do not count as VCPU.
        sizes["vcpus"] = (
            HostRequest.from_data(selection["host_request"], f"Instance {selection['name']}").vcpus
            or sizes["vcpus"]
        )
    group = found.get(server_groups.name_of(selection.get("server_group")) or "")
    return {
        "uuid": selection["uuid"],
        "name": selection["name"],
        "compute_node_id": node[0].id if len(node) == 1 else None,
        "state": BUILDING,
        "server_group_id": group.id if group is not None else None,
        **sizes,
        "availability_zone": selection.get("availability_zone"),
        "project": selection.get("project"),
        "user": selection.get("user"),
        "flavor": selection.get("flavor"),
        "extra_specs": selection.get("extra_specs") or None,
        "image": selection.get("image") or None,
        "image_name": selection.get("image_name"),
        "image_id": selection.get("image_id"),
        "image_format": selection.get("image_format"),
        "host_request": selection.get("host_request"),
        "definition": (
            orders.definition_of(selection.get("project"), selection["name"]) if defined else None
        ),
        "created_at": now,
    }


def _claimed(selection: ClaimRequest, node: Row, alternates: Sequence[Alternate]) -> Claim:
    claimed = _answer(selection, node)
    claimed["new"] = True
    for place in alternates:
        alternate: Alternate = {"host": place["host"], "node": place.get("node") or place["host"]}
        if (alternate["host"], alternate["node"]) == (node.host, node.hypervisor_hostname):
            continue
        if place.get("allocations"):
            alternate["allocations"] = place["allocations"]
        if place.get("mappings"):
            alternate["mappings"] = place["mappings"]
        claimed["alternates"].append(alternate)
    return claimed


def _answer(selection: ClaimRequest, node: Row | None) -> Claim:
    """Return the claim of an instance that had it already."""
    answer: Claim = {
        "uuid": selection["uuid"],
        "name": selection["name"],
        "resources": selection["resources"],
        "host": None,
        "node": None,
        "provider": None,
        "alternates": [],
        "new": False,
    }
    if node is None:
        return answer
    arch = (node.cpu_info or {}).get("arch")
    # The guest has hardware support if the host has it, or else it is emulated.
    kinds = {
        kind for guest_arch, kind, dummy in node.supported_instances or [] if guest_arch == arch
    }
    return {
        **answer,
        "host": node.host,
        "node": node.hypervisor_hostname,
        "provider": node.uuid,
        "uri": node.uri,
        "arch": arch,
        "domain_type": "kvm" if "kvm" in kinds else next(iter(sorted(kinds)), "kvm"),
    }


def require_claim(row: Row, node: Row | None, host: str) -> None:
    """Refuse to build an instance on a host without its claim there.

    :param row: the row of the instance.
    :param node: its compute node.
    :raises DroverError: it has no claim, or one on another host, or is not being built.
    """
    if node is None or node.host != host:
        where = f"on {node.host}" if node is not None else "nowhere"
        raise DroverError(
            f"Instance {row.name} ({row.uuid}) has its claim {where}, not on {host}: it is not"
            " built there. Build it where drover.compute.allocation claimed it."
        )
    if row.state not in (BUILDING, "active"):
        raise DroverError(
            f"Instance {row.name} ({row.uuid}) is {row.state} on {host}: it was there once, and"
            " nothing is built a second time. Find out where it is with drover.compute.discover."
        )
