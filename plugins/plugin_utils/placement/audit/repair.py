# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mending what the audit found safe to mend, in the caller's transaction."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations, claims
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa


def apply(connection, mends, now):
    """Write what mends findings. No domain is touched: this changes records only.

    :param mends: findings.Mends of a snapshot read in this same transaction.
    """
    # As discovery does: what runs has its room, over capacity or not.
    allocations.replace(connection, mends.holdings, now, owners=mends.owners)
    places = [{"id": key, "compute_node_id": node, "state": "active"} for key, node in mends.places.values()]
    bulk.update(connection, tables.instances, places)
    _confirm(connection, mends.places)
    if mends.releases:
        proof = certainty.never_begun("Their claims expired, and no hypervisor was told to build them.")
        claims.release(connection, mends.releases, proof, now)
    _recount(connection, mends.recounts)


def _confirm(connection, uuids):
    """An instance whose domain is there has no claim that could expire."""
    table = tables.consumers
    query = sa.select(table.c.id, table.c.uuid).where(table.c.expires_at.is_not(None))
    rows = bulk.among(connection, query, table.c.uuid, uuids)
    bulk.update(connection, table, [{"id": row.id, "expires_at": None} for row in rows])


def _recount(connection, inventory_ids):
    inventories, table = tables.inventories, tables.allocations
    use = (
        sa.select(sa.func.coalesce(sa.func.sum(table.c.used), 0))
        .where(table.c.provider_id == inventories.c.provider_id, table.c.class_id == inventories.c.class_id)
        .scalar_subquery()
    )
    for start in range(0, len(inventory_ids), bulk.NAMED_VALUES):
        some = inventory_ids[start : start + bulk.NAMED_VALUES]
        connection.execute(sa.update(inventories).where(inventories.c.id.in_(some)).values(used=use))
