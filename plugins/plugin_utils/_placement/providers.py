# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource providers with their inventories and traits, written in bulk (N10.1, N10.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from .._common import resource_classes
from .._common.errors import DroverError
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.schema import tables
from . import inventory
from .inventory import InventoryFields, while_drained

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
#: The inventories of a compute node that discovery writes; inventories of other classes belong to
#: the operator.
DISCOVERED_CLASSES = frozenset(resource_classes.DISCOVERED)


def ensure(connection: Connection, names: Mapping[str, str]) -> dict[str, int]:
    """Create the root providers that do not exist.

    :param names: {uuid: name}.
    :returns: {uuid: id}.
    :raises DroverError: the name of a new one is taken.
    """
    table = tables.resource_providers
    query = bulk.select(table.c.uuid, table.c.id)
    ids: dict[str, int] = {
        row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, names)
    }
    new = [uuid for uuid in names if uuid not in ids]
    taken = bulk.among(
        connection,
        bulk.select(table.c.name, table.c.uuid),
        table.c.name,
        [names[uuid] for uuid in new],
    )
    if taken:
        raise DroverError(
            f"There is a resource provider {taken[0].name} ({taken[0].uuid}) already, which is not"
            f" that of the new compute node {taken[0].name}. Rename or delete it with"
            " drover.compute.resource_provider; nothing was recorded."
        )
    bulk.insert(
        connection, table, [{"uuid": uuid, "name": names[uuid], "generation": 0} for uuid in new]
    )
    ids.update({row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, new)})
    return ids


def ids(connection: Connection, uuids: Iterable[str]) -> dict[str, int]:
    """Return the ids of the providers that exist, by their uuids."""
    return bulk.ids_by(connection, tables.resource_providers.c.uuid, uuids, make=False)


def inventories(connection: Connection, provider_ids: Iterable[int]) -> list[Row]:
    """Return the inventories of providers, each with the resource class as ``name``."""
    table, classes = tables.inventories, tables.resource_classes
    query = sa.select(table, classes.c.name).join(classes, classes.c.id == table.c.class_id)
    return bulk.among(connection, query, table.c.provider_id, provider_ids)


def inventories_of_classes(connection: Connection, prefix: str) -> list[Row]:
    """Return the inventories with a resource class that begins with a text, by class, each with the
    class as ``name``.
    """
    table, classes = tables.inventories, tables.resource_classes
    query = sa.select(table, classes.c.name).join(classes, classes.c.id == table.c.class_id)
    return list(
        connection.execute(
            query.where(classes.c.name.startswith(prefix, autoescape=True)).order_by(classes.c.name)
        )
    )


def ratios(connection: Connection, provider_ids: Iterable[int]) -> dict[tuple[int, str], float]:
    """Return the stored allocation ratios by (provider id, class)."""
    return {
        (row.provider_id, row.name): row.allocation_ratio
        for row in inventories(connection, provider_ids)
    }


def is_discovered(trait: str, reported: Collection[str] | None) -> bool:
    """Return True if a trait of a compute node's provider is from discovery, not from an operator.

    :param reported: the traits that the last discovery reported; None if it did not record them.
    """
    if reported is None:
        return not trait.startswith("CUSTOM_")
    return trait == DISABLED_TRAIT or trait in reported


def set_inventories(
    connection: Connection,
    wanted: Mapping[int, Mapping[str, InventoryFields]],
    owned: Collection[str] | None = None,
) -> set[int]:
    """Replace the inventories of providers, and write only the differences. An inventory in use
    stays.

    :param wanted: {provider id: {class: inventory}}.
    :param owned: the only classes of inventories that are removed if they are not wanted; None for
        all.
    :returns: the ids of the changed providers; their generations are one more.
    """
    table = tables.inventories
    classes = bulk.ids_by(
        connection,
        tables.resource_classes.c.name,
        {name for inventories in wanted.values() for name in inventories},
    )
    current: dict[int, dict[int, Row]] = {}
    for row in bulk.among(connection, bulk.select(table), table.c.provider_id, wanted):
        current.setdefault(row.provider_id, {})[row.class_id] = row
    new: list[dict[str, object]] = []
    different: list[dict[str, object]] = []
    surplus: dict[int, Row] = {}
    changed: set[int] = set()
    for provider, inventories in wanted.items():
        rows = current.get(provider, {})
        for name, values in inventories.items():
            present = rows.pop(classes[name], None)
            if present is None:
                new.append({"provider_id": provider, "class_id": classes[name], **values})
                changed.add(provider)
                continue
            kept = while_drained(present, values)
            if any(getattr(present, field) != value for field, value in kept.items()):
                different.append({"id": present.id, **kept})
                changed.add(provider)
        surplus.update({row.id: row for row in rows.values()})
    if surplus and owned is not None:
        table_of_names = tables.resource_classes
        query = sa.select(table_of_names.c.id).where(table_of_names.c.name.in_(owned))
        removable = set(connection.execute(query).scalars())
        surplus = {key: row for key, row in surplus.items() if row.class_id in removable}
    changed |= _remove_unused(connection, surplus)
    inventory.insert(connection, new)
    bulk.update(connection, table, different)
    bump(connection, changed)
    return changed


def _remove_unused(connection: Connection, surplus: Mapping[int, Row]) -> set[int]:
    """Remove inventories (rows by id) that are not in use; return the ids of their providers."""
    if not surplus:
        return set()
    allocations = tables.allocations
    used = {
        (row.provider_id, row.class_id)
        for row in bulk.among(
            connection,
            sa.select(allocations.c.provider_id, allocations.c.class_id).distinct(),
            allocations.c.provider_id,
            {row.provider_id for row in surplus.values()},
        )
    }
    unused = {
        key: row for key, row in surplus.items() if (row.provider_id, row.class_id) not in used
    }
    bulk.delete(connection, tables.inventories, tables.inventories.c.id, unused)
    return {row.provider_id for row in unused.values()}


def set_traits(
    connection: Connection,
    wanted: Mapping[int, Collection[str]],
    owned: Callable[[int, str], bool] | None = None,
) -> set[int]:
    """Replace the traits of providers.

    :param wanted: {provider id: traits}.
    :param owned: returns True if a trait may be removed from a provider; None for all.
    :returns: the ids of the changed providers; their generations are one more.
    """
    column = tables.provider_traits.c.trait_id
    ids = bulk.ids_by(
        connection, tables.traits.c.name, {name for names in wanted.values() for name in names}
    )
    current = links(connection, column, wanted)
    by_id = {provider: {ids[name] for name in names} for provider, names in wanted.items()}
    if owned is not None:
        _keep_fixed_traits(connection, by_id, current, owned)
    return set_links(connection, column, by_id, current)


def traits_of(connection: Connection, uuids: Iterable[str]) -> dict[str, set[str]]:
    """Read the traits of providers, by their uuids."""
    table, providers, names = tables.provider_traits, tables.resource_providers, tables.traits
    query = (
        sa.select(providers.c.uuid, names.c.name)
        .join(table, table.c.provider_id == providers.c.id)
        .join(names, names.c.id == table.c.trait_id)
    )
    return grouped(bulk.among(connection, query, providers.c.uuid, uuids))


def set_aggregates(connection: Connection, wanted: Mapping[int, set[str]]) -> set[int]:
    """Replace the aggregates of providers, and create the aggregates that are new.

    :param wanted: {provider id: uuids of aggregates}.
    :returns: the ids of the changed providers; their generations are one more.
    """
    ids = bulk.ids_by(
        connection,
        tables.placement_aggregates.c.uuid,
        {uuid for uuids in wanted.values() for uuid in uuids},
    )
    column = tables.provider_aggregates.c.aggregate_id
    by_id = {provider: {ids[uuid] for uuid in uuids} for provider, uuids in wanted.items()}
    return set_links(connection, column, by_id, links(connection, column, wanted))


def links(
    connection: Connection, column: sa.Column[int], provider_ids: Iterable[int]
) -> dict[int, set[int]]:
    """Return the values of ``column``, in a table of pairs with provider_id, by provider."""
    provider = column.table.c.provider_id
    return grouped(bulk.among(connection, bulk.select(provider, column), provider, provider_ids))


def grouped(rows: Iterable[Sequence[Any]]) -> dict[Any, set[Any]]:
    """Return the second values of rows by the first ones."""
    groups: dict[Any, set[Any]] = {}
    for row in rows:
        groups.setdefault(row[0], set()).add(row[1])
    return groups


def set_links(
    connection: Connection,
    column: sa.Column[int],
    wanted: Mapping[int, set[int]],
    current: Mapping[int, set[int]],
) -> set[int]:
    """Replace the links of providers.

    :param column: a column of a table of pairs with provider_id.
    :param wanted: {provider id: values of the column}.
    :param current: the result of links().
    :returns: the ids of the changed providers; their generations are one more.
    """
    table = column.table
    new: list[dict[str, int]] = []
    changed: set[int] = set()
    for provider, want in wanted.items():
        have = current.get(provider, set())
        if want == have:
            continue
        changed.add(provider)
        new.extend({"provider_id": provider, column.name: value} for value in sorted(want - have))
        gone = have - want
        if gone:
            connection.execute(
                sa.delete(table).where(table.c.provider_id == provider, column.in_(gone))
            )
    bulk.insert(connection, table, new)
    bump(connection, changed)
    return changed


def _keep_fixed_traits(
    connection: Connection,
    wanted: Mapping[int, set[int]],
    current: Mapping[int, set[int]],
    owned: Callable[[int, str], bool],
) -> None:
    """Add to the wanted traits the current ones (all by id) that may not be removed."""
    surplus = {
        provider: current[provider] - want
        for provider, want in wanted.items()
        if provider in current
    }
    trait_table = tables.traits
    query = bulk.select(trait_table.c.id, trait_table.c.name)
    names = {
        row.id: row.name
        for row in bulk.among(
            connection,
            query,
            trait_table.c.id,
            {trait for traits in surplus.values() for trait in traits},
        )
    }
    for provider, found in surplus.items():
        wanted[provider] |= {trait for trait in found if not owned(provider, names[trait])}


def set_disabled_trait(connection: Connection, provider_ids: Iterable[int], disabled: bool) -> None:
    """Add or remove COMPUTE_STATUS_DISABLED, and leave every other trait as it is."""
    table = tables.provider_traits
    trait = bulk.ids_by(connection, tables.traits.c.name, {DISABLED_TRAIT})[DISABLED_TRAIT]
    query = sa.select(table.c.provider_id).where(table.c.trait_id == trait)
    have = {
        row.provider_id for row in bulk.among(connection, query, table.c.provider_id, provider_ids)
    }
    changed = set(provider_ids) - have if disabled else have
    if disabled:
        bulk.insert(
            connection, table, [{"provider_id": key, "trait_id": trait} for key in sorted(changed)]
        )
    elif changed:
        connection.execute(
            sa.delete(table).where(
                table.c.trait_id == trait, table.c.provider_id.in_(sorted(changed))
            )
        )
    bump(connection, changed)


def bump(connection: Connection, provider_ids: Collection[int]) -> None:
    """Raise the generation of providers by one."""
    table = tables.resource_providers
    if provider_ids:
        connection.execute(
            sa.update(table)
            .where(table.c.id == sa.bindparam("provider"))
            .values(generation=table.c.generation + 1),
            [{"provider": key} for key in sorted(provider_ids)],
        )


def remove(connection: Connection, provider_ids: Collection[int]) -> None:
    """Remove providers without allocations, with their inventories and traits."""
    bulk.delete(connection, tables.resource_providers, tables.resource_providers.c.id, provider_ids)
