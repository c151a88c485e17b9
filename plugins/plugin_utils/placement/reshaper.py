# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What consumers hold, written as a caller wants it (N10.5): many at once, or with inventories.

All or nothing, within the capacity. Nothing is chosen here.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import validation
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations, providers, selections
from ansible_collections.drover.compute.plugins.plugin_utils.placement import inventory as placement_inventory
from ansible_collections.drover.compute.plugins.plugin_utils.placement.claim_destination import class_ids
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def replace(connection, consumers, now):
    """Make consumers hold exactly this; one that shall hold nothing is removed.

    :param consumers: dict uuid -> dict of allocations (dict provider name or uuid -> dict class name ->
        amount), and maybe project, user, type, consumer_generation (None: it has to be new).
    :returns: a list of dicts sorted by uuid: uuid, generation (None once it is gone), changed.
    :raises DroverError: with the cause no_room, unfit, changed_meanwhile, unknown_class or unknown_provider.
    """
    _check(consumers)
    names = {name for wanted in consumers.values() for name in wanted["allocations"]}
    ids = _providers(connection, names)
    classes = class_ids(
        connection,
        {name for wanted in consumers.values() for each in wanted["allocations"].values() for name in each},
    )
    flat = {
        uuid: allocations.flatten({ids[name]: each for name, each in wanted["allocations"].items()}, classes)
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
    columns = {uuid: {name: value for name, value in columns.items() if consumers[uuid].get(name)} for uuid, columns in keep.items()}
    flat = {uuid: amounts for uuid, amounts in flat.items() if _differs(holdings, uuid, amounts, columns.get(uuid))}
    _check_room(connection, holdings, flat, ids, classes)
    holdings.write(flat, columns, limited=True)
    return [
        {"uuid": uuid, "generation": _generation(holdings, uuid, uuid in flat, keep), "changed": uuid in flat} for uuid in sorted(consumers)
    ]


def reshape(connection, inventories, consumers, now):
    """Change inventories and what consumers hold in one go, as when a host's room moves to a child provider.

    The caller is the only writer. What is held is checked against the union of the old and the new
    inventories, then the new ones have to hold it.

    :param inventories: dict provider name or uuid -> dict generation, inventories (dict class name -> dict
        of total and maybe reserved, min_unit, max_unit, step_size, allocation_ratio).
    :param consumers: as replace() takes them.
    :returns: dict of providers (list of dicts name, generation) and consumers as replace() returns them.
    :raises DroverError: as replace(); a provider's generation is another one; an inventory that is gone is in use.
    """
    ids = _providers(connection, inventories)
    table = tables.resource_providers
    rows = {row.id: row for row in bulk.among(connection, sa.select(table), table.c.id, ids.values())}
    wanted = {}
    for name, each in inventories.items():
        found = rows[ids[name]].generation
        if each.get("generation") != found:
            raise DroverError(
                f"Resource provider {name} changed meanwhile: its generation is {found}, not {each.get('generation')}. "
                "Nothing was written: read it again, then decide again.",
                cause="changed_meanwhile",
                provider=name,
            )
        wanted[ids[name]] = placement_inventory.complete(f"Resource provider {name}", each["inventories"])
    class_ids(connection, {kind for kinds in wanted.values() for kind in kinds})
    before = _inventories(connection, wanted)
    providers.set_inventories(connection, {key: {**before.get(key, {}), **kinds} for key, kinds in wanted.items()})
    written = replace(connection, consumers, now)
    providers.set_inventories(connection, wanted)
    left = _inventories(connection, wanted)
    for name, key in sorted(ids.items()):
        for kind in sorted(set(left.get(key, ())) - set(wanted[key])):
            raise DroverError(
                f"Resource provider {name}: its inventory of {kind} shall go and is in use. Move what is held there in "
                "the same step; nothing was written.",
                cause="in_use",
                provider=name,
                resource_class=kind,
            )
    _check_capacity(connection, ids)
    query = sa.select(table.c.id, table.c.name, table.c.generation)
    generations = {row.id: row for row in bulk.among(connection, query, table.c.id, ids.values())}
    return {
        "providers": [{"name": generations[key].name, "generation": generations[key].generation} for key in sorted(generations)],
        "consumers": written,
        "changed": any(generations[key].generation != rows[key].generation for key in rows) or any(each["changed"] for each in written),
    }


def _check(consumers):
    for uuid, wanted in consumers.items():
        where = f"consumers, {uuid}"
        validation.check_uuid("consumers", uuid)
        if not isinstance(wanted, dict) or not isinstance(wanted.get("allocations"), dict):
            raise DroverError(f"{where}: allocations is missing: a mapping of providers to amounts, {{}} to hold nothing.")
        for provider, amounts in wanted["allocations"].items():
            selections.check_resources(f"{where}, {provider}", amounts)
        selections.check_texts(where, wanted, ("project", "user", "type"))
        generation = wanted.get("consumer_generation")
        if generation is not None:
            validation.check_whole(f"{where}: consumer_generation", generation, None, None)


def _providers(connection, names):
    """The ids of providers by name or uuid."""
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.uuid, table.c.name)
    by_name = {row.name: row.id for row in bulk.among(connection, query, table.c.name, names)}
    by_uuid = {row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, set(names) - set(by_name))}
    found = {**by_uuid, **by_name}
    for name in sorted(set(names) - set(found)):
        raise DroverError(
            f"Resource provider {name} is not in the store. Run drover.compute.discover, or correct the name; nothing was written.",
            cause="unknown_provider",
            provider=name,
        )
    return found


def _check_generations(consumers, holdings):
    for uuid, wanted in consumers.items():
        if "consumer_generation" not in wanted:
            continue
        expected, row = wanted["consumer_generation"], holdings.rows.get(uuid)
        if expected is None and row is not None:
            raise allocations.changed_meanwhile(uuid, f"it was to be new, and has generation {row.generation}")
        if expected is not None and row is None:
            raise allocations.changed_meanwhile(uuid, f"its generation was to be {expected}, and it is not there")
        if expected is not None and row.generation != expected:
            raise allocations.changed_meanwhile(uuid, f"its generation is {row.generation}, not {expected}")


def _differs(holdings, uuid, amounts, columns):
    if uuid in holdings.new or holdings.held.get(uuid, {}) != amounts:
        return uuid in holdings.ids
    row = holdings.rows.get(uuid)
    return row is not None and any(getattr(row, name) != value for name, value in (columns or {}).items())


def _generation(holdings, uuid, changed, keep):
    if uuid not in keep:
        return None
    row = holdings.rows.get(uuid)
    return 1 if row is None else row.generation + bool(changed)


def _check_room(connection, holdings, flat, ids, classes):
    """Refuse what does not fit; who uses no more than before is left alone, however full it is."""
    change = holdings.change(flat)
    if not change:
        return
    held = placement_inventory.hold(connection, {provider for provider, dummy in change}, None)
    by_key = {each.key: each for found in held.values() for each in found.values()}
    provider_names = {key: name for name, key in ids.items()}
    class_names = {key: name for name, key in classes.items()}
    for uuid, amounts in sorted(flat.items()):
        for (provider, class_id), amount in amounts.items():
            found, kind = by_key.get((provider, class_id)), class_names[class_id]
            where = {"consumer": uuid, "provider": provider_names[provider]}
            if found is None:
                raise DroverError(
                    f"No room for {uuid} on {provider_names[provider]}: {kind}: asked {amount}, it has none. Nothing was written.",
                    cause="no_room",
                    **where,
                    resource_class=kind,
                    asked=amount,
                    used=0,
                    capacity=0,
                )
            unfit = found.unfit(kind, amount)
            short = found.shortage(kind, change[provider, class_id])
            if unfit or short:
                raise DroverError(
                    f"No room for {uuid} on {provider_names[provider]}: {short or unfit}. Nothing was written.",
                    cause="no_room" if short else "unfit",
                    **where,
                    **found.data(kind, change[provider, class_id] if short else amount),
                )


def _inventories(connection, provider_ids):
    """What providers have now: dict id -> dict class name -> dict of the fields."""
    found = {}
    for row in providers.inventories(connection, provider_ids):
        fields = {field: getattr(row, field) for field in providers.INVENTORY_FIELDS}
        found.setdefault(row.provider_id, {})[row.name] = fields
    return found


def _check_capacity(connection, ids):
    for name, key in sorted(ids.items()):
        for kind, found in sorted(placement_inventory.hold(connection, {key}, None)[key].items()):
            if found.used > found.capacity:
                raise DroverError(
                    f"Resource provider {name}: its new inventory of {kind} is {found.capacity:g}, and {found.used} of it "
                    "are held. Nothing was written.",
                    cause="no_room",
                    provider=name,
                    **found.data(kind, 0),
                )
