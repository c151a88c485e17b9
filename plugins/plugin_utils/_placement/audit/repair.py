# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repair of the findings that are safe to repair, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..._common import certainty
from ..._store.database import bulk
from ..._store.database.sql import Connection, sa
from ..._store.schema import tables
from .. import allocations, claims
from .findings import Mends


def apply(connection: Connection, mends: Mends, now: float) -> None:
    """Write the repairs of findings: records only, no domain is changed.

    :param mends: the repairs of a snapshot that was read in this same transaction.
    """
    # As in discovery, a running instance has its room, over capacity or not.
    allocations.replace(connection, mends.holdings, now, owners=mends.owners)
    places = [
        {"id": key, "compute_node_id": node, "state": "active"}
        for key, node in mends.places.values()
    ]
    bulk.update(connection, tables.instances, places)
    _confirm(connection, mends.places)
    if mends.releases:
        proof = certainty.never_begun(
            "Their claims expired, and no hypervisor got an order to build them."
        )
        claims.release(connection, mends.releases, proof, now)
    _recount(connection, mends.recounts)


def _confirm(connection: Connection, uuids: Iterable[str]) -> None:
    """Remove the expiry from the claims of instances that have a domain now."""
    table = tables.consumers
    query = sa.select(table.c.id, table.c.uuid).where(table.c.expires_at.is_not(None))
    rows = bulk.among(connection, query, table.c.uuid, uuids)
    bulk.update(connection, table, [{"id": row.id, "expires_at": None} for row in rows])


def _recount(connection: Connection, inventory_ids: Sequence[int]) -> None:
    inventories, table = tables.inventories, tables.allocations
    use = (
        sa.select(sa.func.coalesce(sa.func.sum(table.c.used), 0))
        .where(
            table.c.provider_id == inventories.c.provider_id,
            table.c.class_id == inventories.c.class_id,
        )
        .scalar_subquery()
    )
    for start in range(0, len(inventory_ids), bulk.NAMED_VALUES):
        some = inventory_ids[start : start + bulk.NAMED_VALUES]
        connection.execute(
            sa.update(inventories).where(inventories.c.id.in_(some)).values(used=use)
        )
