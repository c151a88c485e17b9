# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consumers and what they hold, replaced in bulk (NOVA_SEMANTICS 10.5). No capacity check here."""

from __future__ import annotations

import collections

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.placement import providers
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables

INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"


def read(connection, consumer_uuids):
    """What consumers hold.

    :returns: dict consumer uuid -> dict provider id -> dict class name -> amount.
    """
    allocations, consumers, classes = tables.allocations, tables.consumers, tables.resource_classes
    query = (
        sa.select(consumers.c.uuid, allocations.c.provider_id, classes.c.name, allocations.c.used)
        .join(consumers, consumers.c.id == allocations.c.consumer_id)
        .join(classes, classes.c.id == allocations.c.class_id)
    )
    held = {}
    for row in bulk.among(connection, query, consumers.c.uuid, consumer_uuids):
        held.setdefault(row.uuid, {}).setdefault(row.provider_id, {})[row.name] = row.used
    return held


def used_providers(connection, provider_ids):
    """Those of the providers that something is allocated on, as a set of ids."""
    table = tables.allocations
    rows = bulk.among(connection, sa.select(table.c.provider_id).distinct(), table.c.provider_id, provider_ids)
    return {row.provider_id for row in rows}


def replace(connection, wanted, now, consumer_type=INSTANCE, owners=None):
    """Make consumers hold exactly this; one that shall hold nothing is removed.

    :param wanted: dict consumer uuid -> dict provider id -> dict class name -> amount.
    :param owners: dict consumer uuid -> (project, user), for consumers that are new.
    """
    table = tables.consumers
    owners = owners or {}
    wanted = {uuid: _without_nothing(held) for uuid, held in wanted.items()}
    rows = {row.uuid: row for row in bulk.among(connection, sa.select(table), table.c.uuid, wanted)}
    change = collections.Counter()
    touched = _drop(connection, [row.id for row in rows.values()], change)
    keep = [uuid for uuid, held in wanted.items() if held]
    new = [uuid for uuid in keep if uuid not in rows]
    bulk.delete(connection, table, table.c.id, [row.id for uuid, row in rows.items() if not wanted[uuid]])
    bulk.insert(
        connection,
        table,
        [
            {
                "uuid": uuid,
                "type": consumer_type,
                "project": owners.get(uuid, (None, None))[0],
                "user": owners.get(uuid, (None, None))[1],
                "generation": 1,
                "created_at": now,
            }
            for uuid in new
        ],
    )
    bulk.update(
        connection,
        table,
        [{"id": rows[uuid].id, "generation": rows[uuid].generation + 1} for uuid in keep if uuid in rows],
    )
    ids = {row.uuid: row.id for row in bulk.among(connection, sa.select(table.c.uuid, table.c.id), table.c.uuid, keep)}
    classes = bulk.ids_by_name(
        connection,
        tables.resource_classes,
        {name for held in wanted.values() for amounts in held.values() for name in amounts},
    )
    new_rows = [
        {"consumer_id": ids[uuid], "provider_id": provider, "class_id": classes[name], "used": amount}
        for uuid in keep
        for provider, amounts in wanted[uuid].items()
        for name, amount in amounts.items()
    ]
    bulk.insert(connection, tables.allocations, new_rows)
    for row in new_rows:
        change[row["provider_id"], row["class_id"]] += row["used"]
    _count(connection, change)
    touched |= {provider for held in wanted.values() for provider in held}
    providers.bump(connection, touched)


def _without_nothing(held):
    """What is held, without amounts of 0: a consumer exists exactly while it has allocations."""
    held = {
        provider: {name: amount for name, amount in amounts.items() if amount} for provider, amounts in held.items()
    }
    return {provider: amounts for provider, amounts in held.items() if amounts}


def _drop(connection, consumer_ids, change):
    table = tables.allocations
    query = sa.select(table.c.provider_id, table.c.class_id, table.c.used, table.c.consumer_id)
    rows = bulk.among(connection, query, table.c.consumer_id, consumer_ids)
    for row in rows:
        change[row.provider_id, row.class_id] -= row.used
    bulk.delete(connection, table, table.c.consumer_id, consumer_ids)
    return {row.provider_id for row in rows}


def _count(connection, change):
    """Bring the use counted beside the inventories along.

    :param change: dict (provider id, class id) -> amount more or less.
    """
    table = tables.inventories
    rows = [
        {"provider": provider, "class": class_id, "amount": amount}
        for (provider, class_id), amount in sorted(change.items())
        if amount
    ]
    if rows:
        connection.execute(
            sa.update(table)
            .where(table.c.provider_id == sa.bindparam("provider"), table.c.class_id == sa.bindparam("class"))
            .values(used=table.c.used + sa.bindparam("amount", type_=sa.BigInteger)),
            rows,
        )
