# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances that somebody names, by name or by uuid, and whether they may be worked on."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, migrations_open, orders, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.instances import located, state_of
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils.validation import canonical_uuid


def find(connection, wanted, unknown=None):
    """The instances that are named.

    :param wanted: a list of names and uuids (text) and of mappings with name and uuid, which must agree.
    :param unknown: a list that takes up those the store does not have; None to raise for the first.
    :returns: a list of dicts in that order, each instance once: uuid, name, host, node, uri, state (of the
        domain, or building or missing), flavor, vcpus, memory_mb, disk_gb, server_group, availability_zone,
        project, user, image, policy, task_state and order_uuid (of an open order), xml (as last seen), nodes (all that showed its domain when they last
        reported), migration (None, or a dict of the one that holds room: uuid, type, status, source,
        destination, details), named (whether its name was given).
    :raises DroverError: unknown, or the name of several, or name and uuid are of different ones.
    """
    named = [_named(each) for each in wanted]
    rows = _rows(connection, named)
    by_uuid = {row.uuid: row for row in rows}
    by_name = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    chosen, names = {}, set()
    for each in named:
        row = _choose(each, by_uuid, by_name)
        if row is None and unknown is None:
            raise DroverError(
                f"No instance {each['uuid'] or each['name']} is in the store, so nothing was done. Correct the name, or "
                "run drover.compute.discover if it exists.",
                cause="unknown_instance",
            )
        if row is None:
            unknown.append(each["uuid"] or each["name"])
            continue
        chosen.setdefault(row.uuid, row)
        if each["name"]:
            names.add(row.uuid)
    shown, held = _sightings(connection, chosen), migrations_open.holding(connection, chosen)
    return [_described(row, shown.get(uuid, []), held.get(uuid), uuid in names) for uuid, row in chosen.items()]


def as_named(instance: dict) -> dict:
    """Reduce a dict of find() to what names the instance: its uuid, and its name if that was given."""
    return {key: instance[key] for key in ("uuid", "name") if key == "uuid" or instance["named"]}


def refuse_none(wanted: list) -> None:
    """Raise DroverError where no instance is named."""
    if not wanted:
        raise DroverError("Which instances? Set drover_instance to a name or a uuid, or drover_instances to a list of them.")


def _named(item):
    if isinstance(item, dict):
        name, uuid = item.get("name"), item.get("uuid")
    else:
        name, uuid = (None, str(item)) if _is_uuid(item) else (str(item), None)
    if (uuid and not _is_uuid(uuid)) or not (name or uuid):
        raise DroverError(f"{item!r} names no instance: give a name, a uuid, or a mapping with name and uuid.")
    return {"name": name or None, "uuid": canonical_uuid(str(uuid)) if uuid else None}


def _is_uuid(text):
    return len(str(text)) == 36 and canonical_uuid(str(text)) is not None


def _rows(connection, named):
    instances = tables.instances
    query = located(tables.compute_nodes.c.uri, tables.domains.c.xml)
    found = bulk.among(connection, query, instances.c.uuid, {each["uuid"] for each in named if each["uuid"]})
    found += bulk.among(connection, query, instances.c.name, {each["name"] for each in named if each["name"]})
    return list({row.uuid: row for row in found}.values())


def _choose(each, by_uuid, by_name):
    name, uuid = each["name"], each["uuid"]
    if uuid is None:
        same = by_name.get(name, [])
        if len(same) > 1:
            places = ", ".join(f"{row.uuid} on {row.host or 'no host'}" for row in same)
            raise DroverError(f"Several instances are named {name}: {places}. Say which one by its uuid; nothing was done.")
        return same[0] if same else None
    row = by_uuid.get(uuid)
    if name is not None and ((row is not None and row.name != name) or (row is None and by_name.get(name))):
        whose = f"is the uuid of {row.name}" if row is not None else "is nobody's in the store"
        raise DroverError(
            f"Name and uuid disagree: {uuid} {whose}, not of {name}. Nothing was done. Correct one of them, or run "
            "drover.compute.discover if it was renamed."
        )
    return row


def _sightings(connection, uuids):
    nodes, domains = tables.compute_nodes, tables.domains
    query = sa.select(domains.c.uuid, nodes.c.host, nodes.c.hypervisor_hostname).join(nodes, nodes.c.id == domains.c.compute_node_id)
    found = {}
    for row in bulk.among(connection, query, domains.c.uuid, uuids):
        found.setdefault(row.uuid, []).append(row.host if row.host == row.hypervisor_hostname else f"{row.host}/{row.hypervisor_hostname}")
    return {uuid: sorted(names) for uuid, names in found.items()}


def _described(row, nodes, migration, named):
    keys = ("uuid", "name", "host", "uri", "flavor", "vcpus", "memory_mb", "disk_gb", "availability_zone")
    return {
        **{key: getattr(row, key) for key in (*keys, "project", "user", "image", "policy", "task_state", "order_uuid", "xml")},
        "node": row.hypervisor_hostname,
        "state": state_of(row),
        "server_group": row.group_name,
        "nodes": nodes,
        "named": named,
        "migration": None
        if migration is None
        else {key: getattr(migration, key) for key in ("uuid", "type", "status", "source", "destination", "details")},
    }


def refuse(instance, doing, settled=True, order=None):
    """Raise DroverError where an instance must not be worked on.

    :param instance: a dict of find().
    :param doing: what is not done, such as "It is not started".
    :param settled: whether a resize that waits to be confirmed, and an evacuation whose source is not back,
        are in the way too.
    :param order: the task state that is gone on with where it is open; others are in the way.
    """
    name, migration = instance["name"], instance["migration"]
    if len(instance["nodes"]) > 1 and (migration is None or migration["status"] == "done"):
        raise DroverError(
            f"Instance {name} ({instance['uuid']}) was seen on {' and '.join(instance['nodes'])} at once. {doing}: run "
            "drover.compute.discover, which says what to do about it."
        )
    if instance["task_state"] == orders.DELETING and order != orders.DELETING:
        raise DroverError(
            f"Instance {name} is being removed, or its removal was cut off. {doing}: run drover.compute.instance_delete again, which ends that."
        )
    if instance["state"] == "building":
        raise DroverError(f"Instance {name} is only being built. {doing}: wait for it, or place it again.")
    if instance["host"] is None:
        raise DroverError(
            f"Instance {name} ({instance['uuid']}) is on no host that the store knows. {doing}: run drover.compute.discover, or give "
            "its room back with drover.compute.allocation, state released."
        )
    if migration is None:
        return
    way = f"from {migration['source']} to {migration['destination']}"
    if migration["status"] in tables.OPEN_MIGRATION:
        again = "what moves it"
        if migration["type"] == migrations_open.RESIZE:
            flavors = [((migration["details"] or {}).get(which) or {}).get("flavor") for which in ("old", "new")]
            again = migrations_open.how_to_end(*flavors, migration["destination"])
        raise DroverError(f"Instance {name} has an open {migration['type']} {way}. {doing}: run {again} again first, which ends that.")
    if settled and migration["status"] == "finished":
        raise DroverError(
            f"Instance {name} was resized and waits to be confirmed. {doing}: run drover.compute.instance_resize with "
            "drover_resize=confirm or drover_resize=revert first."
        )
    if settled:
        raise DroverError(
            f"Instance {name} was evacuated {way}, and {migration['source']} is not back yet. {doing}: bring that host back, or "
            "remove it from the store, first."
        )
