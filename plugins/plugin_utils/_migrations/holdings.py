# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allocations at both ends of a move, and the place of the instance afterwards (N9.1 and N9.3).

While a migration is open, its uuid has the allocations at the source, and the uuid of the instance
has the allocations at the destination. If both ends use one sharing provider, such as a pool of
disks that both see, the instance keeps its allocations there and none are doubled. Its allocations
before and after the move are in the details of the migration then, as for a resize. An evacuation
keeps the allocations at both ends under the uuid of the instance. If the instance moves on before
the dead host is back, the allocations at the dead host stay: they are not part of the size of the
instance, and no other move frees them.

The NUMA cells of an instance are stored by node, so it has the cells of both ends under its own
uuid; in a resize on one node the migration has the old cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from .._common import resource_classes
from .._common.errors import DroverError
from .._numa.request import HostRequest
from .._placement import allocations, host_room, mdevs, provider_trees
from .._placement.claim_destination import CandidateNode, ClaimDestinations, class_ids
from .._placement.inventory import Amounts, InventoryKey
from .._records.claims import Allocations, Resources
from .._records.orders import ResizeTarget
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.hosts import numa
from .._store.instances import files
from .._store.instances.migrations_open import EVACUATION, RESIZE
from .._store.schema import tables
from . import claimed_devices

#: Before or after the move.
Which = Literal["old", "new"]


def swap(
    connection: Connection,
    uuid: str,
    move_type: str,
    instance: Row,
    ends: tuple[Row, Row],
    groups: Sequence[Row],
    now: float,
    target: ResizeTarget | None = None,
    given: Allocations | None = None,
    shown: bool = False,
) -> dict[str, Any]:
    """Write the allocations of a move that is opened.

    :param uuid: the uuid of the migration.
    :param ends: the compute nodes that the instance leaves and goes to.
    :param groups: the server group of the instance, if it has one.
    :param target: the target of a resize.
    :param given: the allocations that the plan chose at the destination.
    :param shown: the destination shows the instance already.
    :returns: the details of the migration; empty if the allocations of the two ends have different
        uuids.
    """
    source, destination = ends
    owner = {"type": allocations.MIGRATION, "project": instance.project, "user": instance.user}
    columns = {**owner, "type": allocations.INSTANCE}
    keep = (
        {instance.uuid: columns}
        if move_type == EVACUATION
        else {instance.uuid: columns, uuid: owner}
    )
    holdings = allocations.Holdings(connection, keep, now)
    old, dead = _apart(connection, instance.uuid, holdings.held.get(instance.uuid, {}))
    resources = (
        target["resources"]
        if target
        else allocations.by_class(old, allocations.class_names(connection, old))
    )
    tree = provider_trees.tree(connection, source.uuid)
    # On a provider that is not in the source's own tree, and may serve the destination too.
    shared = {key: amount for key, amount in old.items() if key[0] not in tree}
    places = (
        [CandidateNode(destination, given)]
        if given and allocations.total(given) == resources
        else []
    )
    places.append(CandidateNode(destination, shown=shown))
    request, made = _host_request(connection, source, destination, instance, target)
    requests = {} if request.is_empty else {instance.uuid: request}
    destinations = ClaimDestinations(
        connection, places, {each.name: each for each in groups}, shared, requests
    )
    group = groups[0] if groups else None
    new = destinations.choose(
        instance.uuid, instance.name, resources, places, group, leaving=source.host
    ).amounts
    both = {key: max(old[key], new[key]) for key in shared if key in new}
    if move_type == EVACUATION:
        amounts = {instance.uuid: {**_added(old, new), **both, **dead}}
    else:
        amounts = {
            instance.uuid: {**new, **both, **dead},
            uuid: {key: n for key, n in old.items() if key not in both},
        }
    holdings.write(amounts, limited=not shown)
    if source.id == destination.id:
        numa.hand_over(connection, source.id, instance.uuid, uuid)
    else:
        # The cells may be of an evacuation from that node that was not cleared up.
        host_room.leave(connection, destination.id, instance.uuid)
    if destinations.room is not None:
        destinations.room.write()
    if made:
        _claim_mdevs(connection, instance, made, new)
    if not both and move_type not in (RESIZE, EVACUATION):
        return {}
    details: dict[str, Any] = {
        "old": {"holds": _portable(connection, old)},
        "new": {"holds": _portable(connection, new)},
    }
    if target:
        names = ("flavor", *resource_classes.KEYS.values())
        details["old"].update({name: getattr(instance, name) for name in names})
        details["new"].update({"flavor": target["flavor"], **resource_classes.to_sizes(resources)})
        if target.get("sizes"):
            # Pinned vCPUs do not count as VCPU.
            details["new"]["vcpus"] = target["sizes"]["new"]["vcpus"]
        details.update(
            {name: target[name] for name in ("running", "sizes", "given") if name in target}
        )
    return details


def _host_request(
    connection: Connection,
    source: Row,
    destination: Row,
    instance: Row,
    target: ResizeTarget | None,
) -> tuple[HostRequest, int]:
    """Return the cells and devices that an instance needs at its destination, and the number of
    mediated devices that it needs there.

    :raises DroverError: that is not known, or it would get other devices than it has.
    """
    pci, made = claimed_devices.requests_of(connection, source.id, instance)
    stays = source.id == destination.id
    if target is None:
        request = host_room.request_of(
            connection, source.id, instance.uuid, instance.vcpus, instance.name
        )
        return replace(request, pci=pci), made
    where = f"Instance {instance.name}"
    request = (
        HostRequest.from_data(target["host_request"], where)
        if target.get("host_request")
        else HostRequest()
    )
    if target["flavor"] != instance.flavor and request.pci != tuple(
        each for each in pci if not claimed_devices.is_port(each)
    ):
        raise DroverError(
            f"{where} cannot be resized to {target['flavor']}: that flavor asks for other PCI"
            " devices than the instance has (pci_passthrough:alias), and a resize changes none."
            " Choose a flavor with the same aliases, or place a new instance.",
            cause="unmovable",
        )
    # An instance that stays on its node keeps its devices.
    return replace(request, pci=() if stays else pci), 0 if stays else made


def _claim_mdevs(connection: Connection, instance: Row, made: int, new: Amounts) -> None:
    """Give an instance mediated devices at its destination, by its allocations there.

    :param made: the number of its mediated devices at its present place.
    :raises DroverError: they are not as many.
    """
    names = allocations.class_names(connection, new)
    by_provider: dict[int, dict[str, int]] = {}
    for (provider, class_id), amount in new.items():
        by_provider.setdefault(provider, {})[names[class_id]] = amount
    claimed = mdevs.claim(connection, {instance.uuid: by_provider}).get(instance.uuid, [])
    if len(claimed) != made:
        raise DroverError(
            f"Instance {instance.name} has {made} mediated devices, and {len(claimed)} are"
            " allocated to it at its destination. Detach those that no claim gave it first, or"
            " leave it there.",
            cause="unmovable",
        )


def _apart(connection: Connection, instance: str, held: Amounts) -> tuple[Amounts, Amounts]:
    """Divide the allocations of an instance: its own ones, and the ones at dead hosts that it was
    evacuated from.
    """
    at_dead: set[InventoryKey] = set()
    table = tables.migrations
    for evacuation in connection.execute(
        sa.select(table).where(table.c.instance_uuid == instance, table.c.status == "done")
    ):
        at_dead |= left_behind(connection, evacuation)
    own = {key: amount for key, amount in held.items() if key not in at_dead}
    return own, {key: amount for key, amount in held.items() if key in at_dead}


def left_behind(connection: Connection, evacuation: Row) -> set[InventoryKey]:
    """Return the inventories of the amounts that an evacuation holds at its dead source alone."""
    old = recorded(connection, evacuation, "old") or {}
    return set(old).difference(recorded(connection, evacuation, "new") or {})


def _added(one: Amounts, other: Amounts) -> Amounts:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}}


def settle(connection: Connection, migration: Row, which: Which, now: float) -> None:
    """Give the instance its allocations before or after the move, and the migration none."""
    instance, uuid = migration.instance_uuid, migration.uuid
    _settle_cells(connection, migration, which)
    amounts = recorded(connection, migration, which)
    if amounts is None and which == "new":
        allocations.Holdings(connection, {}, now, drop=[uuid]).write({uuid: {}})
        return
    # If its consumer is gone, it is made again, with the owner that the migration's has.
    owner = {"type": allocations.INSTANCE, "project": None, "user": None}
    keep = {instance: owner} if amounts or amounts is None else {}
    holdings = allocations.Holdings(connection, keep, now, drop=[instance, uuid])
    if amounts is None:
        amounts = holdings.held.get(uuid, {})
    if instance in holdings.new and uuid in holdings.rows:
        row = holdings.rows[uuid]
        bulk.update(
            connection,
            tables.consumers,
            [{"id": holdings.ids[instance], "project": row.project, "user": row.user}],
        )
    dead = _apart(connection, instance, holdings.held.get(instance, {}))[1]
    holdings.write({instance: {**amounts, **dead}, uuid: {}})


def _settle_cells(connection: Connection, migration: Row, which: Which) -> None:
    """Free the cells and devices of an instance on the node that it leaves or never reached."""
    source, destination, instance = (
        migration.source_node_id,
        migration.destination_node_id,
        migration.instance_uuid,
    )
    node_id = source if which == "new" else destination
    if source != destination:
        if node_id is not None:
            host_room.leave(connection, node_id, instance)
    elif which == "old" and source is not None:
        # The other cells are deleted with the consumer of the migration.
        numa.hand_over(connection, source, migration.uuid, instance)


def leave_dead(connection: Connection, evacuation: Row) -> None:
    """Free the cells and devices that an evacuated instance has on its dead host, unless it is on
    that host again.
    """
    query = sa.select(tables.instances.c.compute_node_id).where(
        tables.instances.c.uuid == evacuation.instance_uuid
    )
    if evacuation.source_node_id not in (None, connection.execute(query).scalar()):
        host_room.leave(connection, evacuation.source_node_id, evacuation.instance_uuid)


def place(
    connection: Connection, migration: Row, which: Which, domain_state: str | None, now: float
) -> None:
    """Record the place of the instance before or after the move, and its size there.

    The record of its domain moves as in the next discovery, so that it is not on two hosts until
    then.

    :param domain_state: None if it is unchanged.
    """
    instances, domains, uuid = tables.instances, tables.domains, migration.instance_uuid
    ends = (migration.source_node_id, migration.destination_node_id)
    old_node, new_node = ends if which == "new" else ends[::-1]
    sizes = {
        name: value
        for name, value in ((migration.details or {}).get(which) or {}).items()
        if name != "holds"
    }
    connection.execute(
        sa.update(instances)
        .where(instances.c.uuid == uuid)
        .values(compute_node_id=new_node, state="active", **sizes)
    )
    if old_node != new_node:
        connection.execute(
            sa.delete(domains).where(domains.c.uuid == uuid, domains.c.compute_node_id == new_node)
        )
    connection.execute(
        sa.update(domains)
        .where(domains.c.uuid == uuid, domains.c.compute_node_id == old_node)
        .values(compute_node_id=new_node, state=domain_state or domains.c.state, seen_at=now)
    )
    files.move(connection, uuid, old_node, new_node)


def note_running(connection: Connection, instance: str) -> None:
    """Record that an instance runs at its place: it was shut down for a change that is over now."""
    instances, domains = tables.instances, tables.domains
    node_id = (
        sa.select(instances.c.compute_node_id).where(instances.c.uuid == instance).scalar_subquery()
    )
    connection.execute(
        sa.update(domains)
        .where(domains.c.uuid == instance, domains.c.compute_node_id == node_id)
        .values(state="running")
    )


def recorded(connection: Connection, migration: Row, which: Which) -> Amounts | None:
    """Read allocations from the details of a migration; None if the details have none.

    Providers that are gone are left out.
    """
    details = migration.details or {}
    if which not in details:
        return None
    portable: Mapping[str, Resources] = details[which]["holds"]
    table = tables.resource_providers
    query = bulk.select(table.c.uuid, table.c.id)
    ids = {row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, portable)}
    classes = class_ids(connection, {name for amounts in portable.values() for name in amounts})
    return allocations.flatten(
        {ids[uuid]: amounts for uuid, amounts in portable.items() if uuid in ids}, classes
    )


def _portable(connection: Connection, amounts: Amounts) -> Allocations:
    """Return allocations by names that stay when ids change, for the details of a migration."""
    providers = tables.resource_providers
    rows = bulk.among(
        connection,
        bulk.select(providers.c.id, providers.c.uuid),
        providers.c.id,
        {key[0] for key in amounts},
    )
    uuids = {row.id: row.uuid for row in rows}
    names = allocations.class_names(connection, amounts)
    portable: Allocations = {}
    for (provider, class_id), amount in sorted(amounts.items()):
        portable.setdefault(uuids[provider], {})[names[class_id]] = amount
    return portable
