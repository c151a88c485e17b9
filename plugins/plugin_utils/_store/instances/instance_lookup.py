# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances by the names and uuids of an operator, and whether a run may change them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypedDict

from ..._common.errors import DroverError
from ..._common.validation import canonical_uuid, which_name
from ..._records.instances import NamedInstance
from ..database import bulk
from ..database.sql import Connection, Row, sa
from ..schema import tables
from . import migrations_open, orders
from .instances import located, state_of


class _Name(TypedDict):
    """The name of an instance, its uuid, or both."""

    name: str | None
    uuid: str | None


def find(
    connection: Connection, wanted: Iterable[Any], unknown: list[Any] | None = None
) -> list[NamedInstance]:
    """Find instances.

    :param wanted: names and uuids (text), and mappings with name and uuid, which must agree.
    :param unknown: collects the names of instances that are not in the store; None to raise for the
        first.
    :returns: the instances in that order, each once.
    :raises DroverError: an instance is unknown, a name is of several, or name and uuid are of
        different instances.
    """
    named = [_parse_name(each) for each in wanted]
    rows = _rows(connection, named)
    by_uuid = {row.uuid: row for row in rows}
    by_name: dict[str, list[Row]] = {}
    for each in rows:
        by_name.setdefault(each.name, []).append(each)
    chosen: dict[str, Row] = {}
    names: set[str] = set()
    for one in named:
        row = _choose(one, by_uuid, by_name)
        if row is None:
            if unknown is None:
                near = _near(connection, one)
                raise DroverError(
                    f"No instance {one['uuid'] or one['name']} is in the store{near}, so nothing"
                    " was done. Correct the name, or run drover.compute.discover if it exists.",
                    cause="unknown_instance",
                )
            unknown.append(one["uuid"] or one["name"])
            continue
        chosen.setdefault(row.uuid, row)
        if one["name"]:
            names.add(row.uuid)
    shown, held = _sightings(connection, chosen), migrations_open.holding(connection, chosen)
    return [
        _describe_instance(row, shown.get(uuid, []), held.get(uuid), uuid in names)
        for uuid, row in chosen.items()
    ]


def known(connection: Connection, uuids: Collection[str]) -> set[str]:
    """Return the uuids that belong to instances of the store."""
    table = tables.instances
    return {
        row.uuid for row in bulk.among(connection, bulk.select(table.c.uuid), table.c.uuid, uuids)
    }


def as_named(instance: NamedInstance) -> dict[str, str]:
    """Reduce an instance to its uuid, and to its name if the operator gave that."""
    return {"uuid": instance["uuid"], **({"name": instance["name"]} if instance["named"] else {})}


def shown_elsewhere(instance: NamedInstance, ends: Collection[str]) -> list[str]:
    """Return the compute nodes that showed an instance when they were last read, without the nodes
    at the ends of its move.
    """
    return [each for each in instance["nodes"] if each.partition("/")[0] not in ends]


def refuse_none(wanted: Collection[Any]) -> None:
    """Raise DroverError if the operator names no instance."""
    if not wanted:
        raise DroverError(
            "Which instances? Set drover_instance to a name or a uuid, drover_instances to a list"
            " of them, or drover_selector to labels such as project=web."
        )


def _parse_name(item: Any) -> _Name:
    name: Any
    uuid: Any
    if isinstance(item, dict):
        name, uuid = item.get("name"), item.get("uuid")
    else:
        name, uuid = (None, str(item)) if _is_uuid(item) else (str(item), None)
    if (uuid and not _is_uuid(uuid)) or not (name or uuid):
        raise DroverError(
            f"{item!r} names no instance: give a name, a uuid, or a mapping with name and uuid."
        )
    return {"name": name or None, "uuid": canonical_uuid(str(uuid)) if uuid else None}


def _is_uuid(text: object) -> bool:
    return len(str(text)) == 36 and canonical_uuid(str(text)) is not None


def _rows(connection: Connection, named: Iterable[_Name]) -> list[Row]:
    instances = tables.instances
    query = located(tables.compute_nodes.c.uri, tables.domains.c.xml)
    matches = bulk.among(
        connection, query, instances.c.uuid, {each["uuid"] for each in named if each["uuid"]}
    )
    matches += bulk.among(
        connection, query, instances.c.name, {each["name"] for each in named if each["name"]}
    )
    return list({row.uuid: row for row in matches}.values())


def _near(connection: Connection, one: Mapping[str, object]) -> str:
    """Return a hint in brackets on a name that no instance has."""
    if one["uuid"]:
        return ""
    if "," in str(one["name"]):
        return " (several are named with drover_instances, and one with drover_instance)"
    return which_name(
        str(one["name"]), connection.execute(sa.select(tables.instances.c.name)).scalars()
    )


def _choose(
    each: _Name, by_uuid: Mapping[str, Row], by_name: Mapping[str, list[Row]]
) -> Row | None:
    name, uuid = each["name"], each["uuid"]
    if uuid is None:
        same = by_name.get(name or "", [])
        if len(same) > 1:
            places = ", ".join(
                f"{row.uuid} on {row.host or 'no host'} ({state_of(row.state, row.domain_state)})"
                for row in same
            )
            raise DroverError(
                f"Several instances are named {name}: {places}. Say which one by its uuid; nothing"
                " was done."
            )
        return same[0] if same else None
    row = by_uuid.get(uuid)
    if name is not None and (
        (row is not None and row.name != name) or (row is None and by_name.get(name))
    ):
        whose = f"is the uuid of {row.name}" if row is not None else "is nobody's in the store"
        raise DroverError(
            f"Name and uuid disagree: {uuid} {whose}, not of {name}. Nothing was done. Correct one"
            " of them, or run drover.compute.discover if it was renamed."
        )
    return row


def _sightings(connection: Connection, uuids: Iterable[str]) -> dict[str, list[str]]:
    nodes, domains = tables.compute_nodes, tables.domains
    query = sa.select(domains.c.uuid, nodes.c.host, nodes.c.hypervisor_hostname).join(
        nodes, nodes.c.id == domains.c.compute_node_id
    )
    nodes_by_uuid: dict[str, list[str]] = {}
    for row in bulk.among(connection, query, domains.c.uuid, uuids):
        nodes_by_uuid.setdefault(row.uuid, []).append(
            row.host
            if row.host == row.hypervisor_hostname
            else f"{row.host}/{row.hypervisor_hostname}"
        )
    return {uuid: sorted(names) for uuid, names in nodes_by_uuid.items()}


def _describe_instance(
    row: Row, nodes: list[str], migration: Row | None, named: bool
) -> NamedInstance:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "host": row.host,
        "node": row.hypervisor_hostname,
        "uri": row.uri,
        "flavor": row.flavor,
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mb,
        "disk_gb": row.disk_gb,
        "availability_zone": row.availability_zone,
        "project": row.project,
        "user": row.user,
        "extra_specs": row.extra_specs,
        "image": row.image,
        "image_name": row.image_name,
        "image_id": row.image_id,
        "image_format": row.image_format,
        "policy": row.policy,
        "task_state": row.task_state,
        "order_uuid": row.order_uuid,
        "xml": row.xml,
        "state": state_of(row.state, row.domain_state),
        "server_group": row.group_name,
        "nodes": nodes,
        "named": named,
        "migration": (
            None
            if migration is None
            else {
                "uuid": migration.uuid,
                "type": migration.type,
                "status": migration.status,
                "source": migration.source,
                "destination": migration.destination,
                "details": migration.details,
            }
        ),
    }


def refuse(
    instance: NamedInstance, doing: str, settled: bool = True, order: str | None = None
) -> None:
    """Raise DroverError if a run must not change an instance.

    :param doing: the consequence, such as "It is not started".
    :param settled: True to refuse also a resize that waits for its confirmation, and an evacuation
        with a source that is not back.
    :param order: the task state of an open order that the run continues; others are refused.
    """
    name, migration = instance["name"], instance["migration"]
    if len(instance["nodes"]) > 1 and (migration is None or migration["status"] == "done"):
        raise DroverError(
            f"Instance {name} ({instance['uuid']}) was seen on {' and '.join(instance['nodes'])} at"
            f" once. {doing}: run drover.compute.discover, which says what to do about it."
        )
    if instance["task_state"] == orders.DELETING and order != orders.DELETING:
        raise DroverError(
            f"Instance {name} is being removed, or its removal was cut off. {doing}: run"
            " drover.compute.instance_delete again, which ends that."
        )
    if instance["task_state"] in orders.DEVICES and order not in (orders.DELETING, *orders.DEVICES):
        does, again = orders.doing(instance["task_state"]), orders.AGAIN[instance["task_state"]]
        raise DroverError(
            f"Instance {name} {does}, or that was cut off. {doing}: run {again} again, which ends"
            " that."
        )
    if instance["task_state"] in orders.MOVING_DISKS and order != orders.MOVING_DISK:
        raise DroverError(
            f"Instance {name} has a disk moved to another storage, or that was cut off. {doing}:"
            f" wait for its end, or run {orders.AGAIN_MOVE} again, which ends that, or gives it up"
            " with drover_abort=true."
        )
    if instance["task_state"] in orders.SNAPSHOTS and order not in (
        orders.DELETING,
        orders.SNAPSHOTTING,
    ):
        raise DroverError(
            f"Instance {name} has a snapshot made, deleted or reverted to, or that was cut off."
            f" {doing}: run drover.compute.instance_snapshot again, which ends that."
        )
    if instance["state"] == "building":
        raise DroverError(
            f"Instance {name} is only being built. {doing}: wait for it, or place it again."
        )
    if instance["host"] is None:
        raise DroverError(
            f"Instance {name} ({instance['uuid']}) is on no host that the store knows. {doing}: run"
            " drover.compute.discover, or give its room back with drover.compute.allocation, state"
            " released."
        )
    if migration is None:
        return
    way = f"from {migration['source']} to {migration['destination']}"
    if migration["status"] in tables.OPEN_MIGRATION:
        again = "what moves it"
        if migration["type"] == migrations_open.EVACUATION:
            raise DroverError(
                f"Instance {name} has an open evacuation {way}. {doing}: run"
                f" drover.compute.evacuate of {migration['source']} again first, or, where that"
                " host answers, drover.compute.undrain: that finds out where the instance is."
            )
        if migration["type"] == migrations_open.RESIZE:
            again = migrations_open.how_to_end(migration["details"], migration["destination"])
        raise DroverError(
            f"Instance {name} has an open {migration['type']} {way}. {doing}: run {again} again"
            " first, which ends that."
        )
    if settled and migration["status"] == "finished":
        raise DroverError(
            f"Instance {name} was resized and waits to be confirmed. {doing}: run"
            " drover.compute.instance_resize with drover_resize=confirm or drover_resize=revert"
            " first."
        )
    if settled:
        raise DroverError(
            f"Instance {name} was evacuated {way}, and {migration['source']} is not back yet."
            f" {doing}: bring that host back, or remove it from the store, first."
        )
