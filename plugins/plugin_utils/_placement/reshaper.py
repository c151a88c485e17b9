# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocations as a caller wants them (N10.5): of many consumers at once, or together with
inventories.

All or nothing, within the capacity. This module chooses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from .._common import validation
from .._common.errors import DroverError
from .._common.resource_classes import words_of
from .._store.database import bulk
from .._store.database.sql import Connection
from .._store.schema import tables
from . import allocations, providers, selections
from . import inventory as placement_inventory
from .claim_destination import class_ids
from .inventory import Amounts, InventoryFields, fields_of

#: Consumers in the form that people write: {uuid: {allocations {provider name or uuid: {class:
#: amount}}, and maybe project, user, type, consumer_generation (None: it must be new)}}.
Consumers = Mapping[str, Mapping[str, Any]]


class ConsumerChange(TypedDict):
    """The change of a consumer. generation: None for a removed consumer."""

    uuid: str
    generation: int | None
    changed: bool


def replace(connection: Connection, consumers: Consumers, now: float) -> list[ConsumerChange]:
    """Replace the allocations of consumers; a consumer without any is removed.

    :returns: sorted by uuid.
    :raises DroverError: with the cause no_room, unfit, changed_meanwhile, unknown_class or
        unknown_provider.
    """
    _check_consumers(consumers)
    names = {name for wanted in consumers.values() for name in wanted["allocations"]}
    ids = _providers(connection, names)
    classes = class_ids(
        connection,
        {
            name
            for wanted in consumers.values()
            for each in wanted["allocations"].values()
            for name in each
        },
    )
    flat = {
        uuid: allocations.flatten(
            {ids[name]: each for name, each in wanted["allocations"].items()}, classes
        )
        for uuid, wanted in consumers.items()
    }
    keep = {
        uuid: {
            "type": consumers[uuid].get("type") or allocations.INSTANCE,
            "project": consumers[uuid].get("project"),
            "user": consumers[uuid].get("user"),
        }
        for uuid, amounts in flat.items()
        if amounts
    }
    holdings = allocations.Holdings(connection, keep, now, drop=flat)
    _check_generations(consumers, holdings)
    columns = {
        uuid: {name: value for name, value in columns.items() if consumers[uuid].get(name)}
        for uuid, columns in keep.items()
    }
    flat = {
        uuid: amounts
        for uuid, amounts in flat.items()
        if _differs(holdings, uuid, amounts, columns.get(uuid))
    }
    _check_room(connection, holdings, flat, ids, classes)
    holdings.write(flat, columns, limited=True)
    return [
        {
            "uuid": uuid,
            "generation": _generation(holdings, uuid, uuid in flat, keep),
            "changed": uuid in flat,
        }
        for uuid in sorted(consumers)
    ]


def reshape(
    connection: Connection,
    inventories: Mapping[str, Mapping[str, Any]],
    consumers: Consumers,
    now: float,
) -> dict[str, Any]:
    """Change inventories and allocations together, as when a host's room moves to a child provider.

    The caller is the only writer. The allocations are checked against the old and the new
    inventories together, and then against the new ones.

    :param inventories: {provider name or uuid: {generation, inventories as inventory.complete()
        takes them}}.
    :returns: providers [{name, generation}], consumers as replace() returns them, changed.
    :raises DroverError: see replace(); also if a provider has another generation, or if a removed
        inventory is in use.
    """
    ids = _providers(connection, inventories)
    table = tables.resource_providers
    rows = {
        row.id: row for row in bulk.among(connection, bulk.select(table), table.c.id, ids.values())
    }
    inventories_of: dict[int, dict[str, InventoryFields]] = {}
    for name, change in inventories.items():
        generation = rows[ids[name]].generation
        if change.get("generation") != generation:
            raise DroverError(
                f"Resource provider {name} changed meanwhile: its generation is {generation}, not"
                f" {change.get('generation')}. Nothing was written: read it again, then decide"
                " again.",
                cause="changed_meanwhile",
                provider=name,
            )
        inventories_of[ids[name]] = placement_inventory.complete(
            f"Resource provider {name}", change["inventories"]
        )
    class_ids(connection, {kind for kinds in inventories_of.values() for kind in kinds})
    before = _inventories(connection, inventories_of)
    providers.set_inventories(
        connection, {key: {**before.get(key, {}), **kinds} for key, kinds in inventories_of.items()}
    )
    written = replace(connection, consumers, now)
    providers.set_inventories(connection, inventories_of)
    left = _inventories(connection, inventories_of)
    for name, key in sorted(ids.items()):
        for kind in sorted(set(left.get(key, ())) - set(inventories_of[key])):
            raise DroverError(
                f"Resource provider {name}: its inventory of {kind} is in use and cannot be"
                " removed. Move its allocations in the same step; nothing was written.",
                cause="in_use",
                provider=name,
                resource_class=kind,
            )
    _check_capacity(connection, ids)
    query = bulk.select(table.c.id, table.c.name, table.c.generation)
    generations = {row.id: row for row in bulk.among(connection, query, table.c.id, ids.values())}
    return {
        "providers": [
            {"name": generations[key].name, "generation": generations[key].generation}
            for key in sorted(generations)
        ],
        "consumers": written,
        "changed": (
            any(generations[key].generation != rows[key].generation for key in rows)
            or any(each["changed"] for each in written)
        ),
    }


def _check_consumers(consumers: Consumers) -> None:
    for uuid, consumer in consumers.items():
        where = f"consumers, {uuid}"
        validation.check_uuid("consumers", uuid)
        if not isinstance(consumer, dict) or not isinstance(consumer.get("allocations"), dict):
            raise DroverError(
                f"{where}: allocations is missing: a mapping of providers to amounts, {{}} to hold"
                " nothing."
            )
        for provider, amounts in consumer["allocations"].items():
            selections.check_resources(f"{where}, {provider}", amounts)
        selections.check_texts(where, consumer, ("project", "user", "type"))
        generation = consumer.get("consumer_generation")
        if generation is not None:
            validation.check_whole(f"{where}: consumer_generation", generation, None, None)


def _providers(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Return the ids of providers by their names or uuids, as given."""
    table = tables.resource_providers
    query = bulk.select(table.c.id, table.c.uuid, table.c.name)
    by_name = {row.name: row.id for row in bulk.among(connection, query, table.c.name, names)}
    by_uuid = {
        row.uuid: row.id
        for row in bulk.among(connection, query, table.c.uuid, set(names) - set(by_name))
    }
    ids = {**by_uuid, **by_name}
    for name in sorted(set(names) - set(ids)):
        raise DroverError(
            f"Resource provider {name} is not in the store. Run drover.compute.discover, or correct"
            " the name; nothing was written.",
            cause="unknown_provider",
            provider=name,
        )
    return ids


def _check_generations(consumers: Consumers, holdings: allocations.Holdings) -> None:
    for uuid, consumer in consumers.items():
        if "consumer_generation" not in consumer:
            continue
        expected, row = consumer["consumer_generation"], holdings.rows.get(uuid)
        if expected is None and row is not None:
            raise allocations.changed_meanwhile(
                uuid, f"it was to be new, and has generation {row.generation}"
            )
        if expected is not None and row is None:
            raise allocations.changed_meanwhile(
                uuid, f"its generation was to be {expected}, and it is not there"
            )
        if row is not None and row.generation != expected:
            raise allocations.changed_meanwhile(
                uuid, f"its generation is {row.generation}, not {expected}"
            )


def _differs(
    holdings: allocations.Holdings,
    uuid: str,
    amounts: Amounts,
    columns: Mapping[str, object] | None,
) -> bool:
    if uuid in holdings.new or holdings.held.get(uuid, {}) != amounts:
        return uuid in holdings.ids
    row = holdings.rows.get(uuid)
    return row is not None and any(
        getattr(row, name) != value for name, value in (columns or {}).items()
    )


def _generation(
    holdings: allocations.Holdings, uuid: str, changed: bool, keep: Collection[str]
) -> int | None:
    if uuid not in keep:
        return None
    row = holdings.rows.get(uuid)
    return 1 if row is None else row.generation + bool(changed)


def _check_room(
    connection: Connection,
    holdings: allocations.Holdings,
    flat: Mapping[str, Amounts],
    ids: Mapping[str, int],
    classes: Mapping[str, int],
) -> None:
    """Refuse amounts that do not fit, but never an inventory with no higher use than before."""
    change = holdings.change(flat)
    if not change:
        return
    held = placement_inventory.hold(connection, {provider for provider, dummy in change}, None)
    by_key = {each.key: each for found in held.values() for each in found.values()}
    provider_names = {key: name for name, key in ids.items()}
    class_names = {key: name for name, key in classes.items()}
    for uuid, amounts in sorted(flat.items()):
        for (provider, class_id), amount in amounts.items():
            inventory_row, kind = by_key.get((provider, class_id)), class_names[class_id]
            where = {"consumer": uuid, "provider": provider_names[provider]}
            if inventory_row is None:
                raise DroverError(
                    f"No room for {uuid} on {provider_names[provider]}: {words_of(kind)}: asked"
                    f" {amount}, it has none. Nothing was written.",
                    cause="no_room",
                    **where,
                    resource_class=kind,
                    asked=amount,
                    used=0,
                    capacity=0,
                )
            unfit = inventory_row.unfit(kind, amount)
            short = inventory_row.shortage(kind, change[provider, class_id])
            if unfit or short:
                raise DroverError(
                    f"No room for {uuid} on {provider_names[provider]}: {short or unfit}. Nothing"
                    " was written.",
                    cause="no_room" if short else "unfit",
                    **where,
                    **inventory_row.data(kind, change[provider, class_id] if short else amount),
                )


def _inventories(
    connection: Connection, provider_ids: Collection[int]
) -> dict[int, dict[str, InventoryFields]]:
    """Return the inventories that providers have now, by provider and class."""
    inventories: dict[int, dict[str, InventoryFields]] = {}
    for row in providers.inventories(connection, provider_ids):
        inventories.setdefault(row.provider_id, {})[row.name] = fields_of(row)
    return inventories


def _check_capacity(connection: Connection, ids: Mapping[str, int]) -> None:
    for name, key in sorted(ids.items()):
        for kind, inventory_row in sorted(
            placement_inventory.hold(connection, {key}, None)[key].items()
        ):
            if inventory_row.used > inventory_row.capacity:
                raise DroverError(
                    f"Resource provider {name}: its new inventory of {kind} is"
                    f" {inventory_row.capacity:g}, and {inventory_row.used} of it are held. Nothing"
                    " was written.",
                    cause="no_room",
                    provider=name,
                    **inventory_row.data(kind, 0),
                )
