# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource providers with their inventories and traits, written in bulk (N10.1, N10.3)."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
# The inventories of a compute node that discovery writes; those of other classes are the operator's.
DISCOVERED_CLASSES = frozenset(("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"))
INVENTORY_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def ensure(connection, names):
    """Make sure that root providers exist.

    :param names: dict provider uuid -> name.
    :returns: dict provider uuid -> provider id.
    :raises DroverError: the name of a new one is taken.
    """
    table = tables.resource_providers
    query = sa.select(table.c.uuid, table.c.id)
    found = {row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, names)}
    new = [uuid for uuid in names if uuid not in found]
    taken = bulk.among(connection, sa.select(table.c.name, table.c.uuid), table.c.name, [names[uuid] for uuid in new])
    if taken:
        raise DroverError(
            f"There is a resource provider {taken[0].name} ({taken[0].uuid}) already, which is not that of the new "
            f"compute node {taken[0].name}. Rename or delete it with drover.compute.resource_provider; nothing was "
            "recorded."
        )
    bulk.insert(connection, table, [{"uuid": uuid, "name": names[uuid], "generation": 0} for uuid in new])
    found.update({row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, new)})
    return found


def ids(connection, uuids):
    """Ids of providers: dict uuid -> id."""
    return bulk.ids_by(connection, tables.resource_providers.c.uuid, uuids, make=False)


def inventories(connection, provider_ids):
    """What providers have: rows of the table of inventories, each with the resource class as name."""
    table, classes = tables.inventories, tables.resource_classes
    query = sa.select(table, classes.c.name).join(classes, classes.c.id == table.c.class_id)
    return bulk.among(connection, query, table.c.provider_id, provider_ids)


def ratios(connection, provider_ids):
    """The allocation ratios that are stored: dict (provider id, class name) -> float."""
    return {(row.provider_id, row.name): row.allocation_ratio for row in inventories(connection, provider_ids)}


def is_discovered(trait, reported):
    """Whether a trait of a compute node's provider is from discovery, not from an operator.

    :param reported: the traits that the last discovery reported; None when it did not note them.
    """
    if reported is None:
        return not trait.startswith("CUSTOM_")
    return trait == DISABLED_TRAIT or trait in reported


def set_inventories(connection, wanted, owned=None):
    """Bring providers to exactly these inventories, writing only what differs.

    An inventory in use is kept (with total 0 it would be lost with the allocations' meaning) until
    nothing uses it.

    :param wanted: dict provider id -> dict class name -> dict of INVENTORY_FIELDS.
    :param owned: names of the only classes that are removed when they are not wanted; None for all.
    :returns: set of provider ids that changed; their generation went up by one.
    """
    table = tables.inventories
    classes = bulk.ids_by(connection, tables.resource_classes.c.name, {name for inventories in wanted.values() for name in inventories})
    current = {}
    for row in bulk.among(connection, sa.select(table), table.c.provider_id, wanted):
        current.setdefault(row.provider_id, {})[row.class_id] = row
    new, different, surplus = [], [], {}
    changed = set()
    for provider, inventories in wanted.items():
        rows = current.get(provider, {})
        for name, values in inventories.items():
            row = rows.pop(classes[name], None)
            if row is None:
                new.append({"provider_id": provider, "class_id": classes[name], **values})
                changed.add(provider)
            elif any(getattr(row, field) != values[field] for field in INVENTORY_FIELDS):
                different.append({"id": row.id, **values})
                changed.add(provider)
        surplus.update({row.id: row for row in rows.values()})
    if surplus and owned is not None:
        table_of_names = tables.resource_classes
        query = sa.select(table_of_names.c.id).where(table_of_names.c.name.in_(owned))
        removable = set(connection.execute(query).scalars())
        surplus = {key: row for key, row in surplus.items() if row.class_id in removable}
    changed |= _remove_unused(connection, surplus)
    bulk.insert(connection, table, _with_use(connection, new))
    bulk.update(connection, table, different)
    bump(connection, changed)
    return changed


def _remove_unused(connection, surplus):
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
    unused = {key: row for key, row in surplus.items() if (row.provider_id, row.class_id) not in used}
    bulk.delete(connection, tables.inventories, tables.inventories.c.id, unused)
    return {row.provider_id for row in unused.values()}


def _with_use(connection, rows):
    """New rows of inventories with what is allocated of them already, as after a heal or an import."""
    table = tables.allocations
    query = sa.select(table.c.provider_id, table.c.class_id, sa.func.sum(table.c.used).label("used")).group_by(
        table.c.provider_id, table.c.class_id
    )
    found = bulk.among(connection, query, table.c.provider_id, {row["provider_id"] for row in rows})
    used = {(row.provider_id, row.class_id): int(row.used) for row in found}
    return [{**row, "used": used.get((row["provider_id"], row["class_id"]), 0)} for row in rows]


def set_traits(connection, wanted, owned=None):
    """Bring providers to exactly these traits.

    :param wanted: dict provider id -> set of trait names.
    :param owned: function of provider id and trait name: whether it may be taken away; None for all.
    :returns: set of provider ids that changed; their generation went up by one.
    """
    column = tables.provider_traits.c.trait_id
    ids = bulk.ids_by(connection, tables.traits.c.name, {name for names in wanted.values() for name in names})
    current = links(connection, column, wanted)
    wanted = {provider: {ids[name] for name in names} for provider, names in wanted.items()}
    if owned is not None:
        _keep(connection, wanted, current, owned)
    return set_links(connection, column, wanted, current)


def links(connection, column, provider_ids):
    """What providers are linked to: dict provider id -> set of the values of ``column``, without empty ones."""
    table, found = column.table, {}
    query = sa.select(table.c.provider_id, column)
    for row in bulk.among(connection, query, table.c.provider_id, provider_ids):
        found.setdefault(row.provider_id, set()).add(row[1])
    return found


def set_links(connection, column, wanted, current):
    """Bring providers to exactly these links.

    :param column: what they are linked to, in a table of pairs with provider_id.
    :param wanted: dict provider id -> set of values of the column.
    :param current: what links() gives of them.
    :returns: set of provider ids that changed; their generation went up by one.
    """
    table, new, changed = column.table, [], set()
    for provider, want in wanted.items():
        have = current.get(provider, set())
        if want == have:
            continue
        changed.add(provider)
        new.extend({"provider_id": provider, column.name: value} for value in sorted(want - have))
        gone = have - want
        if gone:
            connection.execute(sa.delete(table).where(table.c.provider_id == provider, column.in_(gone)))
    bulk.insert(connection, table, new)
    bump(connection, changed)
    return changed


def _keep(connection, wanted, current, owned):
    """Add to the traits that are wanted (both by id) those that are there and not owned."""
    surplus = {provider: current[provider] - want for provider, want in wanted.items() if provider in current}
    known = tables.traits
    query = sa.select(known.c.id, known.c.name)
    names = {row.id: row.name for row in bulk.among(connection, query, known.c.id, set().union(*surplus.values()))}
    for provider, found in surplus.items():
        wanted[provider] |= {trait for trait in found if not owned(provider, names[trait])}


def set_disabled_trait(connection, provider_ids, disabled):
    """Give or take COMPUTE_STATUS_DISABLED, leaving every other trait as it is."""
    table = tables.provider_traits
    trait = bulk.ids_by(connection, tables.traits.c.name, {DISABLED_TRAIT})[DISABLED_TRAIT]
    query = sa.select(table.c.provider_id).where(table.c.trait_id == trait)
    have = {row.provider_id for row in bulk.among(connection, query, table.c.provider_id, provider_ids)}
    changed = set(provider_ids) - have if disabled else have
    if disabled:
        bulk.insert(connection, table, [{"provider_id": key, "trait_id": trait} for key in sorted(changed)])
    elif changed:
        connection.execute(sa.delete(table).where(table.c.trait_id == trait, table.c.provider_id.in_(sorted(changed))))
    bump(connection, changed)


def bump(connection, provider_ids):
    """Raise the generation of providers by one."""
    table = tables.resource_providers
    if provider_ids:
        connection.execute(
            sa.update(table).where(table.c.id == sa.bindparam("provider")).values(generation=table.c.generation + 1),
            [{"provider": key} for key in sorted(provider_ids)],
        )


def remove(connection, provider_ids):
    """Remove providers that nothing is allocated on, with their inventories and traits."""
    bulk.delete(connection, tables.resource_providers, tables.resource_providers.c.id, provider_ids)
