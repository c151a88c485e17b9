# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One resource provider: it is created, changed, moved or deleted as an operator wants it (N10.1 to
N10.3, N10.6).

The parts of a compute node's provider that discovery owns stay unchanged; see owned_by_discovery().
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._common import capacity_rule
from .._common.errors import DroverError, some
from .._common.validation import did_you_mean, read_uuid
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.schema import tables
from . import classes_and_traits, provider_info, provider_trees, providers, usages
from . import inventory as inventory_values
from .inventory import InventoryFields, fields_of
from .provider_info import ProviderDescription

MAX_NAME = 200
#: The prefixes of standard traits for abilities of a hypervisor; only discovery knows them.
_DISCOVERED_PREFIXES = ("COMPUTE_", "HW_CPU_")


def ensure(
    connection: Connection,
    name: str | None = None,
    uuid: str | None = None,
    parent: str | None = None,
    inventories: Mapping[Any, Any] | None = None,
    traits: Collection[str] | None = None,
    aggregates: Iterable[str] | None = None,
    generation: int | None = None,
) -> tuple[ProviderDescription | None, ProviderDescription, list[str]]:
    """Create a provider or change it; a value of None keeps the stored one.

    :param name: the name of the provider; with the uuid of a provider its new name.
    :param parent: the name or uuid of another provider; an empty text makes it a root.
    :param inventories: all of them, as inventory.complete() takes them; likewise for traits and
        aggregates (uuids).
    :param generation: that the caller has read; another one is refused.
    :returns: the provider before (None if it is new) and after, and warnings.
    :raises DroverError: for each rule that the change would break; the caller's transaction is void
        then.
    """
    if uuid is not None:
        uuid = read_uuid("uuid", uuid)
    if name is not None:
        _check_name(name)
    row = _find_provider(connection, name, uuid)
    where = f"Resource provider {row.name if row is not None else name}"
    _check_generation(where, row, generation)
    change = _ProviderChange(connection, where, inventories, traits, aggregates)
    before = None
    if row is None:
        row = _create_provider(connection, name, uuid)
    else:
        before = _describe_provider(connection, row)
        _lock_provider(connection, row)
        row = _rename(connection, where, row, name)
    node = _compute_node(connection, row)
    warnings: list[str] = []
    if parent is not None:
        _reparent(connection, where, row, parent, node)
    if change.inventories is not None:
        warnings = _set_inventories(connection, where, row, change.inventories, node)
    if change.traits is not None:
        _set_traits(connection, where, row, change.traits, node)
    if change.aggregates is not None:
        providers.set_aggregates(connection, {row.id: change.aggregates})
    return before, _describe_provider(connection, row), warnings


def delete(
    connection: Connection,
    name: str | None = None,
    uuid: str | None = None,
    generation: int | None = None,
) -> ProviderDescription | None:
    """Delete a provider without allocations and children; return it, or None if there was none.

    :raises DroverError: it has allocations or children, belongs to a compute node, or was changed
        by another run.
    """
    if uuid is not None:
        uuid = read_uuid("uuid", uuid)
    row = _find_provider(connection, name, uuid)
    if row is None:
        return None
    where = f"Resource provider {row.name}"
    if name is not None and name != row.name:
        raise DroverError(
            f"{where} has the uuid {row.uuid}, but name is {name}. Correct one of the two."
        )
    _check_generation(where, row, generation)
    _lock_provider(connection, row)
    node = _compute_node(connection, row)
    if node is not None:
        raise DroverError(
            f"{where} is that of the compute node {node.hypervisor_hostname} of host {node.host}."
            " Discovery removes it when the host no longer reports that node; nothing was deleted."
        )
    holders = usages.holders(connection, row.id)
    if holders:
        raise DroverError(
            f"{where} has allocations: {holders}. Release or move them first; nothing was deleted."
        )
    table = tables.resource_providers
    children = (
        connection.execute(sa.select(table.c.name).where(table.c.parent_id == row.id))
        .scalars()
        .all()
    )
    if children:
        raise DroverError(
            f"{where} has children: {some(sorted(children), 5)}. Delete them or give them another"
            " parent first; nothing was deleted."
        )
    before = _describe_provider(connection, row)
    providers.remove(connection, [row.id])
    return before


def owned_by_discovery(node: Row, traits: Iterable[str]) -> set[str]:
    """Return the traits of a compute node's provider that discovery owns and writes again."""
    reported = (node.facts or {}).get("traits")
    return {trait for trait in traits if providers.is_discovered(trait, reported)}


class _ProviderChange:
    """The wanted change, checked before anything is written."""

    def __init__(
        self,
        connection: Connection,
        where: str,
        inventories: Mapping[Any, Any] | None,
        traits: Collection[str] | None,
        aggregates: Iterable[str] | None,
    ) -> None:
        self.inventories: dict[str, InventoryFields] | None = None
        self.traits: set[str] | None = None
        self.aggregates: set[str] | None = None
        if inventories is not None:
            inventories_given = {str(name): values for name, values in inventories.items()}
            classes_and_traits.check_known(
                connection, classes_and_traits.RESOURCE_CLASS, inventories_given, where
            )
            self.inventories = inventory_values.complete(where, inventories_given)
        if traits is not None:
            classes_and_traits.check_known(connection, classes_and_traits.TRAIT, traits, where)
            self.traits = set(traits)
        if aggregates is not None:
            self.aggregates = {read_uuid(f"{where}, aggregates", each) for each in aggregates}


def _check_name(name: str) -> None:
    if not name or name != name.strip() or not name.isprintable():
        raise DroverError(
            f"The name {name[:60]!r} of a resource provider must be text that can be seen, without"
            " spaces around it."
        )
    if len(name) > MAX_NAME:
        raise DroverError(
            f"The name {name[:60]}... of a resource provider has {len(name)} characters; {MAX_NAME}"
            " are the most."
        )


def _find_provider(connection: Connection, name: str | None, uuid: str | None) -> Row | None:
    """Find a provider by name, uuid or both.

    :raises DroverError: name and uuid are of two providers.
    """
    table = tables.resource_providers
    by_uuid = by_name = None
    if uuid is not None:
        by_uuid = connection.execute(sa.select(table).where(table.c.uuid == uuid)).one_or_none()
    if name is not None:
        by_name = connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()
    if uuid is None:
        return by_name
    if by_name is not None and by_name.uuid != uuid:
        known = f"that uuid is of {by_uuid.name}" if by_uuid is not None else "a uuid never changes"
        raise DroverError(
            f"The name {name} is taken by the resource provider {by_name.uuid}, and uuid is {uuid};"
            f" {known}. Choose another name, or leave one of the two out."
        )
    return by_uuid


def _check_generation(where: str, row: Row | None, generation: int | None) -> None:
    if generation is None:
        return
    if row is None:
        raise DroverError(
            f"{where} changed meanwhile: generation {generation} is given, and there is no such"
            " provider. Read it again with drover.compute.resource_provider_info."
        )
    if row.generation != generation:
        raise DroverError(
            f"{where} changed meanwhile: its generation is {row.generation}, not {generation}. Read"
            " it again with drover.compute.resource_provider_info and decide anew; nothing was"
            " changed.",
            generation=row.generation,
        )


def _describe_provider(connection: Connection, row: Row) -> ProviderDescription:
    (found,) = provider_info.listing(connection, uuid=row.uuid)
    return found


def _lock_provider(connection: Connection, row: Row) -> None:
    """Lock a provider and its inventories, so that no claim changes their use until the transaction
    ends.
    """
    for table, column in (
        (tables.resource_providers, tables.resource_providers.c.id),
        (tables.inventories, tables.inventories.c.provider_id),
    ):
        connection.execute(
            sa.select(table.c.id).where(column == row.id).order_by(table.c.id).with_for_update()
        ).all()


def _create_provider(connection: Connection, name: str | None, uuid: str | None) -> Row:
    if name is None:
        raise DroverError(f"There is no resource provider {uuid}. Give a name to make it.")
    table = tables.resource_providers
    uuid = uuid or bulk.new_uuid()
    bulk.insert(connection, table, [{"uuid": uuid, "name": name, "generation": 0}])
    return connection.execute(sa.select(table).where(table.c.uuid == uuid)).one()


def _rename(connection: Connection, where: str, row: Row, name: str | None) -> Row:
    if name is None or name == row.name:
        return row
    node = _compute_node(connection, row)
    if node is not None:
        raise DroverError(
            f"{where} is that of the compute node {node.hypervisor_hostname} of host {node.host},"
            f" whose name it has; it is not renamed to {name}. Is its uuid meant?"
        )
    table = tables.resource_providers
    bulk.update(connection, table, [{"id": row.id, "name": name}])
    return connection.execute(sa.select(table).where(table.c.id == row.id)).one()


def _compute_node(connection: Connection, row: Row) -> Row | None:
    table = tables.compute_nodes
    query = sa.select(table.c.host, table.c.hypervisor_hostname, table.c.facts).where(
        table.c.uuid == row.uuid
    )
    return connection.execute(query).one_or_none()


def _reparent(connection: Connection, where: str, row: Row, given: str, node: Row | None) -> None:
    parent = _parent(connection, where, given) if given else None
    if row.parent_id == (None if parent is None else parent.id):
        return
    # The provider of a compute node is a root: another parent is a new one.
    if node is not None and parent is not None:
        raise DroverError(
            f"{where} is that of the compute node {node.hypervisor_hostname} of host {node.host},"
            f" which is the root of its tree; it cannot be hung under {parent.name}. Hang the other"
            " one under it."
        )
    if parent is not None and parent.id in {row.id, *provider_trees.below(connection, row)}:
        what = "it is that provider itself" if parent.id == row.id else f"{parent.name} is below it"
        raise DroverError(
            f"{where} cannot have the parent {parent.name}: {what}, and a tree has no loops."
        )
    provider_trees.move(connection, row, parent)


def _parent(connection: Connection, where: str, given: str) -> Row:
    table = tables.resource_providers
    for column, value in ((table.c.uuid, given.strip().lower()), (table.c.name, given)):
        found = connection.execute(sa.select(table).where(column == value)).one_or_none()
        if found is not None:
            return found
    near = did_you_mean(given, connection.execute(sa.select(table.c.name)).scalars())
    raise DroverError(
        f"{where}: there is no resource provider {given[:MAX_NAME]} to be its parent{near}. Make"
        " the parent first."
    )


def _set_inventories(
    connection: Connection,
    where: str,
    row: Row,
    wanted: dict[str, InventoryFields],
    node: Row | None,
) -> list[str]:
    """Write inventories; return warnings."""
    stored = {each.name: each for each in providers.inventories(connection, [row.id])}
    if node is not None:
        wanted = _with_discovered(where, stored, wanted, node)
    gone = sorted(set(stored) - set(wanted))
    holders = usages.holders(connection, row.id, gone) if gone else None
    if holders:
        raise DroverError(
            f"{where}: the inventory of {', '.join(gone)} cannot be removed while it is in use:"
            f" {holders}. Release or move those first; nothing was changed."
        )
    warnings = []
    for name, values in sorted(wanted.items()):
        used, old = (stored[name].used, fields_of(stored[name])) if name in stored else (0, None)
        capacity = capacity_rule.capacity(
            values["total"], values["reserved"], values["allocation_ratio"]
        )
        if used > capacity and values != old:
            warnings.append(
                f"{where}: {used} of {name} are in use, more than its new capacity of {capacity:g}."
                " Those who have it keep it; nobody gets more until enough is released or moved."
            )
    providers.set_inventories(connection, {row.id: wanted})
    return warnings


def _with_discovered(
    where: str, stored: Mapping[str, Row], wanted: Mapping[str, InventoryFields], node: Row
) -> dict[str, InventoryFields]:
    """Add the stored inventories that discovery owns to the wanted ones.

    :raises DroverError: one of the stored inventories would change.
    """
    kept = {
        name: fields_of(stored[name]) for name in providers.DISCOVERED_CLASSES if name in stored
    }
    for name in sorted(set(wanted) & providers.DISCOVERED_CLASSES):
        if wanted[name] != kept.get(name):
            raise DroverError(
                f"{where}: discovery owns the inventory of {name} of the compute node"
                f" {node.hypervisor_hostname} and would undo the change. Set the variables"
                f" drover_reserved_host_* and drover_*_allocation_ratio of host {node.host}, run"
                f" drover.compute.discover, and leave {name} out here."
            )
    return {**wanted, **kept}


def _set_traits(
    connection: Connection, where: str, row: Row, wanted: set[str], node: Row | None
) -> None:
    if node is not None:
        stored = set(provider_info.listing(connection, uuid=row.uuid)[0]["traits"])
        for name in sorted(wanted - stored):
            if name.startswith(_DISCOVERED_PREFIXES):
                raise DroverError(
                    f"{where}: discovery owns the trait {name} of the compute node"
                    f" {node.hypervisor_hostname}, which does not have it. Traits of your own begin"
                    " with CUSTOM_."
                )
        wanted = wanted | owned_by_discovery(node, stored)
    providers.set_traits(connection, {row.id: wanted})
