# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds which room during a move (N9.1 and N9.3).

While a migration is open its uuid holds the source's room and the instance's uuid the destination's.
Where both ends use one sharing provider, such as a pool of disks that both see, the instance keeps what it
has there and nothing is held twice; what it held before and shall hold afterwards is in the details of the
migration, as it is for a resize. An evacuation holds both under the uuid of the instance.

Held in this order: migrations, server groups, instances, then as in claims.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import certainty, resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import limits as migration_limits
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations, provider_trees, server_groups
from ansible_collections.drover.compute.plugins.plugin_utils.placement.claim_destination import ClaimDestinations, Place, class_ids
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, clock, files, migrations_open, orders, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.migrations_open import EVACUATION, RESIZE
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

UNDER_WAY = tables.OPEN_MIGRATION
UNMOVABLE = {
    "building": "is only being built: there is nothing to move yet. Wait for it, or release its claim",
    "missing": "is missing: its host no longer shows its domain. Find out where it is with drover.compute.discover",
}


def begin(connection, instance_uuid, host, node, move_type, now, source_host=None, notes=None, allocations=None):
    """Open a migration: swap the source's room to it and claim the destination, in one transaction.

    :param move_type: live-migration, migration (cold) or evacuation (the source is dead).
    :param source_host: where the instance is to be; the move is refused when it is elsewhere by now.
    :param notes: None, or a dict that is kept in the details: restart (it was shut down for the move and is to run again
        after it), for_host (the host that it makes room for).
    :param allocations: {provider uuid: {class: amount}} that the plan chose at the destination. Where it has no room by now, or the
        instance no longer holds such amounts, the destination's first providers with room are taken.
    :returns: a dict uuid, instance_uuid, name, source, destination, resources, new. With new False the
        same migration was open already.
    :raises DroverError: unknown instance, no room, a migration to elsewhere is open.
    """
    return _begin(connection, instance_uuid, host, node, move_type, now, source_host, notes=notes, given=allocations)


def begin_within(connection, limits, given_up, move, move_type, now, notes=None, waiting=0):
    """As begin(), unless a cap is reached.

    The caller's transaction is one that writes alone, so that nobody counts at the same moment.

    :param limits: records.orders.MigrationLimits.
    :param given_up: see limits.refuse(), as for waiting.
    :param move: uuid, name, from_host, host, node; and maybe allocations.
    :raises limits.Busy: a cap is reached; nothing was written.
    """
    budget = migrations_open.budgets(connection, [move["uuid"]]).get(move["uuid"])
    migration_limits.refuse(limits, move, migrations_open.open_moves(connection), budget, given_up, waiting)
    chosen = move.get("allocations")
    return begin(connection, move["uuid"], move["host"], move.get("node"), move_type, now, move["from_host"], notes, chosen)


def begin_resize(connection, instance_uuid, host, node, wanted, now, source_host=None):
    """Open a resize, on the same host or to another one.

    Both sizes are held until confirm() or revert().

    :param wanted: dict flavor (name or None) and resources (dict class name -> amount); and maybe running
        (whether it ran when the resize began) and sizes (dict old and new, each vcpus, memory_mb and disk_gb of the
        domain), which the details keep for a run that goes on with it.
    :returns: as begin().
    """
    return _begin(connection, instance_uuid, host, node, RESIZE, now, source_host, wanted)


def _begin(connection, instance_uuid, host, node, move_type, now, source_host, wanted=None, notes=None, given=None):
    found = server_groups.of_instance(connection, instance_uuid)
    instance = bulk.hold(connection, tables.instances, "uuid", [instance_uuid]).get(instance_uuid)
    if instance is None or instance.compute_node_id is None:
        raise DroverError(
            f"Instance {instance_uuid} is not on any host the store knows. Run drover.compute.discover.",
            cause="unknown_instance",
        )
    destination = find_node(connection, host, node)
    if instance.compute_node_id == destination.id and move_type != RESIZE:
        raise DroverError(f"Instance {instance.name} is on {host} already; there is nothing to move.")
    source = _node(connection, instance.compute_node_id)
    if source_host is not None and source.host != source_host:
        raise DroverError(f"Instance {instance.name} is on {source.host} by now, not on {source_host}: somebody else moved it. Plan again.")
    running = migrations_open.holding(connection, [instance_uuid]).get(instance_uuid)
    if running is not None and running.status != "done":
        return _already(instance, running, destination, move_type)
    orders.refuse_open([instance])
    if instance.state in UNMOVABLE:
        raise DroverError(f"Instance {instance.name} ({instance_uuid}) {UNMOVABLE[instance.state]}.")
    uuid = bulk.new_uuid()
    details = _swap(connection, instance, source, destination, found, uuid, move_type, now, wanted, given)
    connection.execute(
        sa.insert(tables.migrations).values(
            uuid=uuid,
            instance_uuid=instance_uuid,
            instance_name=instance.name,
            source_node_id=source.id,
            destination_node_id=destination.id,
            source=source.host,
            destination=destination.host,
            type=move_type,
            status="accepted",
            details={**(details or {}), **(notes or {})} or None,
            created_at=now,
            updated_at=now,
        )
    )
    return _described(_migration(connection, uuid), new=True)


def _already(instance, running, destination, move_type):
    if running.status == "finished":
        raise DroverError(
            f"Instance {instance.name} was resized and still holds its old room on {running.source}. Confirm or revert that first."
        )
    same = running.destination_node_id == destination.id and (running.type == RESIZE) == (move_type == RESIZE)
    if same:
        return _described(running, new=False)
    if running.type == RESIZE:
        raise DroverError(
            f"Instance {instance.name} is being resized, from {running.source} to {running.destination}. Run "
            "drover.compute.instance_resize for it again: that ends it."
        )
    raise DroverError(
        f"Instance {instance.name} has an open migration from {running.source} to {running.destination}. "
        "Run the drain again: it finishes or undoes that first."
    )


def _swap(connection, instance, source, destination, found, uuid, move_type, now, wanted, given):
    """Write who holds what while the move is open.

    :returns: the details of the migration, None where all is as simple as it can be.
    """
    owner = {"type": allocations.MIGRATION, "project": instance.project, "user": instance.user}
    columns = {**owner, "type": allocations.INSTANCE}
    keep = {instance.uuid: columns} if move_type == EVACUATION else {instance.uuid: columns, uuid: owner}
    holdings = allocations.Holdings(connection, keep, now)
    old = holdings.held.get(instance.uuid, {})
    resources = wanted["resources"] if wanted else _by_class(connection, old)
    tree = provider_trees.tree(connection, source.uuid)
    # What lies on a provider that is not the source's own, and may be the destination's too.
    shared = {key: amount for key, amount in old.items() if key[0] not in tree}
    places = [Place(destination, given)] if given and _total(given) == resources else []
    places.append(Place(destination))
    destinations = ClaimDestinations(connection, places, {each.name: each for each in found}, shared)
    request = {"name": instance.name, "uuid": instance.uuid, "resources": resources}
    new = destinations.choose(request, places, found[0] if found else None, leaving=source.host).amounts
    both = {key: max(old[key], new[key]) for key in shared if key in new}
    if move_type == EVACUATION:
        amounts = {instance.uuid: {**_added(old, new), **both}}
    else:
        amounts = {instance.uuid: {**new, **both}, uuid: {key: n for key, n in old.items() if key not in both}}
    holdings.write(amounts, limited=True)
    if not both and move_type not in (RESIZE, EVACUATION):
        return None
    details = {"old": {"holds": _portable(connection, old)}, "new": {"holds": _portable(connection, new)}}
    if wanted:
        names = ("flavor", *resource_classes.KEYS.values())
        details["old"].update({name: getattr(instance, name) for name in names})
        sizes = resource_classes.to_sizes(resources)
        details["new"].update({"flavor": wanted.get("flavor"), **sizes})
        details.update({name: wanted[name] for name in ("running", "sizes") if name in wanted})
    return details


def _total(amounts):
    """{provider uuid: {class: amount}} as {class: sum}."""
    sums = {}
    for held in amounts.values():
        for name, amount in held.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def _added(one, other):
    return {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}}


def running(connection, uuid, order, now):
    """Record that a destination is about to be told to start an evacuated instance.

    :param order: the name of the call's order, by which it can be withdrawn there.
    """
    known = (_migration(connection, uuid).details or {}).get("orders") or []
    note(connection, uuid, {"orders": [*known, order]}, now)
    _set_status(connection, uuid, "running", None, now)


def finish(connection, uuid, proof, domain_state, now):
    """The instance is at the destination and gone from the source: the source's room is free.

    :param proof: the certainty.Proof of that.

    Not so after a resize: both are held until confirm() or revert(); nor after an evacuation: until
    clear_source().

    :param domain_state: what libvirt says of the domain at the destination; None for what it was.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if migration.status not in tables.OPEN_MIGRATION:
        return
    sizes = _sizes(migration, "new")
    _hold_instance(connection, migration)
    if migration.type not in (RESIZE, EVACUATION):
        _set_holds(connection, migration, "new", now)
    _place(connection, migration, migration.destination_node_id, sizes)
    _place_domain(connection, migration, migration.source_node_id, migration.destination_node_id, domain_state, now)
    status = {RESIZE: "finished", EVACUATION: "done"}.get(migration.type, "completed")
    _set_status(connection, uuid, status, None, now)


def confirm(connection, uuid, proof, now):
    """Keep the new size of a resize that is finished: what held the old one is free.

    :param proof: the certainty.Proof that it is at its destination with that size.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if _is_closed(migration, "finished", "confirmed"):
        return
    _hold_instance(connection, migration)
    _set_holds(connection, migration, "new", now)
    _set_status(connection, uuid, "confirmed", None, now)


def revert(connection, uuid, proof, domain_state, now):
    """Take a finished resize back: amounts, flavor, sizes and place are the old ones.

    :param proof: the certainty.Proof that it is at its source again with its old size.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if _is_closed(migration, "finished", "reverted"):
        return
    _hold_instance(connection, migration)
    _set_holds(connection, migration, "old", now)
    _place(connection, migration, migration.source_node_id, _sizes(migration, "old"))
    _place_domain(connection, migration, migration.destination_node_id, migration.source_node_id, domain_state, now)
    _set_status(connection, uuid, "reverted", None, now)


def clear_source(connection, uuid, proof, now):
    """The source of an evacuation is back and cleaned up: the instance's part there is free.

    The instance may have moved on since; only what it held at the source goes.

    :param proof: the certainty.Proof that the source does not have it any more.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if _is_closed(migration, "done", "completed"):
        return
    _hold_instance(connection, migration)
    old, new = (_restored(connection, migration.details[which]["holds"]) for which in ("old", "new"))
    moving = [row.uuid for row in _others(connection, migration)]
    holdings = allocations.Holdings(connection, {}, now, drop=[migration.instance_uuid, *moving])
    holdings.write(
        {
            consumer: {key: amount for key, amount in held.items() if key not in old or key in new}
            for consumer, held in holdings.held.items()
            if any(key in old and key not in new for key in held)
        }
    )
    _set_status(connection, uuid, "completed", None, now)


def _others(connection, migration):
    """Migrations of the same instance that hold what it held."""
    table = tables.migrations
    query = sa.select(table.c.uuid).where(table.c.instance_uuid == migration.instance_uuid, table.c.status.in_(tables.HOLDING_MIGRATION))
    return connection.execute(query).all()


def undo(connection, uuid, proof, message, now, status="failed"):
    """The instance is still at the source: it gets its room there back, the destination's is free.

    :param proof: the certainty.Proof that the destination has nothing of it and gets nothing any more.
    :param status: failed, or cancelled where somebody wanted that.
    """
    certainty.require(proof)
    migration = _migration(connection, uuid)
    if migration.status not in tables.OPEN_MIGRATION:
        return
    _hold_instance(connection, migration)
    _set_holds(connection, migration, "old", now)
    _set_status(connection, uuid, status, message, now)


def note_nowhere(connection, uuid, now, nowhere=True):
    """Write down that neither end of a move has the instance, by a look that was just taken; or that it is to be moved again."""
    note(connection, uuid, {"nowhere": clock.now(connection) if nowhere else None}, now)


def end_elsewhere(connection, uuid, proof, message, now):
    """A person moved the instance to a third host: what both ends showed of it is over.

    It gets what it had at the source, which the discovery that found it moves to where it is.

    :param proof: the certainty.Proof that neither end has it and a third host does.
    """
    undo(connection, uuid, proof, message, now)
    migration, domains = _migration(connection, uuid), tables.domains
    for node in {migration.source_node_id, migration.destination_node_id} - {None}:
        connection.execute(sa.delete(domains).where(domains.c.uuid == migration.instance_uuid, domains.c.compute_node_id == node))
        files.write_one(connection, node, migration.instance_uuid, set())


def note(connection, uuid, facts, now):
    """Add facts to the details of a migration, for the run that comes next."""
    migration, table = _migration(connection, uuid), tables.migrations
    details = {**(migration.details or {}), **facts}
    connection.execute(sa.update(table).where(table.c.uuid == uuid).values(details=details, updated_at=now))


def _is_closed(migration, from_status, to_status):
    """Whether a step was taken already.

    :raises DroverError: it cannot be taken.
    """
    if migration.status == to_status:
        return True
    if migration.status != from_status:
        raise DroverError(
            f"Migration {migration.uuid} of instance {migration.instance_name} is {migration.status}, not {from_status}: "
            f"it cannot become {to_status}."
        )
    return False


def _hold_instance(connection, migration):
    bulk.hold(connection, tables.instances, "uuid", [migration.instance_uuid])


def _set_holds(connection, migration, which, now):
    """Let the instance hold what it held before ("old") or shall hold ("new"), and the migration nothing."""
    instance, uuid = migration.instance_uuid, migration.uuid
    details = migration.details or {}
    if which in details:
        amounts = _restored(connection, details[which]["holds"])
    elif which == "old":
        amounts = None
    else:
        allocations.Holdings(connection, {}, now, drop=[uuid]).write({uuid: {}})
        return
    # Its consumer may be gone, and is made again: with the owner that the migration's has.
    owner = {"type": allocations.INSTANCE, "project": None, "user": None}
    keep = {instance: owner} if amounts or amounts is None else {}
    holdings = allocations.Holdings(connection, keep, now, drop=[instance, uuid])
    if amounts is None:
        amounts = holdings.held.get(uuid, {})
    if instance in holdings.new and uuid in holdings.rows:
        row = holdings.rows[uuid]
        bulk.update(connection, tables.consumers, [{"id": holdings.ids[instance], "project": row.project, "user": row.user}])
    holdings.write({instance: amounts, uuid: {}})


def _sizes(migration, which):
    """The columns of a resize's sizes; nothing for other moves."""
    return {name: value for name, value in ((migration.details or {}).get(which) or {}).items() if name != "holds"}


def _place(connection, migration, node_id, columns):
    instances = tables.instances
    connection.execute(
        sa.update(instances).where(instances.c.uuid == migration.instance_uuid).values(compute_node_id=node_id, state="active", **columns)
    )


def _place_domain(connection, migration, from_node, to_node, domain_state, now):
    """What discovery would find at its next visit, so that nobody sees a domain on two hosts until then."""
    domains = tables.domains
    if from_node != to_node:
        connection.execute(sa.delete(domains).where(domains.c.uuid == migration.instance_uuid, domains.c.compute_node_id == to_node))
    connection.execute(
        sa.update(domains)
        .where(domains.c.uuid == migration.instance_uuid, domains.c.compute_node_id == from_node)
        .values(compute_node_id=to_node, state=domain_state or domains.c.state, seen_at=now)
    )
    files.move(connection, migration.instance_uuid, from_node, to_node)


def _by_class(connection, amounts):
    """dict (provider id, class id) -> amount as dict class name -> sum."""
    table, sums = tables.resource_classes, {}
    query = sa.select(table.c.id, table.c.name)
    names = {row.id: row.name for row in bulk.among(connection, query, table.c.id, {key[1] for key in amounts})}
    for (_dummy, class_id), amount in sorted(amounts.items()):
        sums[names[class_id]] = sums.get(names[class_id], 0) + amount
    return sums


def _portable(connection, amounts):
    """dict (provider id, class id) -> amount as dict provider uuid -> dict class name -> amount."""
    providers, classes = tables.resource_providers, tables.resource_classes
    rows = bulk.among(connection, sa.select(providers.c.id, providers.c.uuid), providers.c.id, {key[0] for key in amounts})
    uuids = {row.id: row.uuid for row in rows}
    rows = bulk.among(connection, sa.select(classes.c.id, classes.c.name), classes.c.id, {key[1] for key in amounts})
    names = {row.id: row.name for row in rows}
    portable = {}
    for (provider, class_id), amount in sorted(amounts.items()):
        portable.setdefault(uuids[provider], {})[names[class_id]] = amount
    return portable


def _restored(connection, portable):
    """The reverse of _portable(). Providers that are gone are left out: nothing can be held there."""
    table = tables.resource_providers
    query = sa.select(table.c.uuid, table.c.id)
    ids = {row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, portable)}
    classes = class_ids(connection, {name for amounts in portable.values() for name in amounts})
    return allocations.flatten({ids[uuid]: amounts for uuid, amounts in portable.items() if uuid in ids}, classes)


def _set_status(connection, uuid, status, message, now):
    table = tables.migrations
    connection.execute(sa.update(table).where(table.c.uuid == uuid).values(status=status, message=message, updated_at=now))


def _migration(connection, uuid):
    """A migration, held: what closes it happens once."""
    row = bulk.hold(connection, tables.migrations, "uuid", [uuid]).get(uuid)
    if row is None:
        raise DroverError(f"Migration {uuid} is not in the store.", cause="unknown_migration")
    return row


def _node(connection, node_id):
    table = tables.compute_nodes
    return connection.execute(sa.select(table).where(table.c.id == node_id)).one()


def _described(row, new):
    return {
        "uuid": row.uuid,
        "instance_uuid": row.instance_uuid,
        "name": row.instance_name,
        "source": row.source,
        "destination": row.destination,
        "type": row.type,
        "status": row.status,
        "new": new,
    }
